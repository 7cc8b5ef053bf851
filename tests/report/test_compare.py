"""scripts/compare.sh on two made-up runs of which all is known.

usage: test_compare.py      (needs what compare.sh installs)
"""

import json
import re
import statistics
import subprocess
import tempfile
import unittest
from pathlib import Path

COMPARE = Path(__file__).parents[2] / "scripts" / "compare.sh"


def entries(name, times, kind):
    common = {"name": name, "run_name": name, "kind": kind, "repetitions": len(times), "threads": 1,
              "time_unit": "ms", "iterations": 1}
    repetitions = [{**common, "run_type": "iteration", "repetition_index": i, "real_time": time, "cpu_time": time}
                   for i, time in enumerate(times)]
    median = statistics.median(times)
    return [*repetitions, {**common, "name": f"{name}_median", "run_type": "aggregate", "aggregate_name": "median",
                           "aggregate_unit": "time", "real_time": median, "cpu_time": median}]


class CompareTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.times = [10 + 0.1 * i for i in range(9)]

    def file(self, name, benchmarks):
        path = self.folder / name
        path.write_text(json.dumps({"context": {}, "benchmarks": benchmarks}), encoding="utf-8")
        return path

    def compare(self, *arguments):
        return subprocess.run([COMPARE, *map(str, arguments)], capture_output=True, text=True, timeout=300)

    def test_change_and_chance(self):
        old = self.file("old.json", entries("layer/same", self.times, "layer")
                        + entries("layer/slower", self.times, "layer") + entries("stage/score", self.times, "stage"))
        new = self.file("new.json", entries("layer/same", self.times[::-1], "layer")
                        + entries("layer/slower", [2 * time for time in self.times], "layer"))
        compared = self.compare("--kind", "layer", old, new)
        self.assertEqual(compared.returncode, 0, compared.stderr)
        rows = re.findall(r"^(\S+) +([-+]?\d+\.\d+)", compared.stdout, re.MULTILINE)
        found = {name: float(value) for name, value in rows}
        self.assertEqual(found["layer/same_median"], 0)
        self.assertGreater(found["layer/same_pvalue"], 0.9)
        self.assertEqual(found["layer/slower_median"], 1)
        self.assertLess(found["layer/slower_pvalue"], 0.01)
        self.assertNotIn("stage/score", compared.stdout)

    def test_nothing_in_common(self):
        old = self.file("old.json", entries("layer/a", self.times, "layer"))
        new = self.file("new.json", entries("layer/b", self.times, "layer"))
        compared = self.compare(old, new)
        self.assertEqual(compared.returncode, 1)
        self.assertIn("no benchmark in common", compared.stderr)

    def test_wrong_arguments(self):
        self.assertEqual(self.compare("one.json").returncode, 2)
        self.assertEqual(self.compare("--kind", "a b", COMPARE, COMPARE).returncode, 2)


if __name__ == "__main__":
    unittest.main()
