"""What the report computes from results.json: medians, slopes, intervals. Nothing but the standard library."""

import json
import statistics
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "report"))
from sweep import Sweep, interval, ratio_of_medians, slope_over_h, summed_times


def entries(name, times, **fields):
    """Google Benchmark's entries of one benchmark, in the order in which random interleaving may end them."""
    common = {"run_name": name, "kind": "stage", "target": "avx2", "n": 16, "d_model": 8, **fields}
    repetitions = [{**common, "run_type": "iteration", "repetition_index": i, "real_time": time}
                   for i, time in enumerate(times)]
    median = {**common, "run_type": "aggregate", "aggregate_name": "median", "real_time": statistics.median(times)}
    return [*reversed(repetitions), median]


def read(benchmarks):
    context = {"headline": {"n": 16, "d_model": 8, "h": 2}, "targets": ["sse2", "avx2"]}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"context": context, "failures": [], "benchmarks": benchmarks}, file)
        file.flush()
        return Sweep(file.name)


class SweepTest(unittest.TestCase):
    def test_rows_have_their_repetitions_in_order(self):
        sweep = read(entries("a", [3.0, 1.0, 2.0], stage="score", h=2))
        self.assertEqual([row["times"] for row in sweep.find("stage", stage="score")], [[3.0, 1.0, 2.0]])
        self.assertEqual(sweep.rows[0]["real_time"], 2.0)

    def test_stages_are_by_heads(self):
        sweep = read(entries("b", [5.0], stage="score", h=4) + entries("a", [4.0], stage="score", h=2)
                     + entries("c", [9.0], stage="score", h=2, target="sse2"))
        self.assertEqual(list(sweep.stages()), [2, 4])
        self.assertEqual(sweep.stages()[2]["score"]["real_time"], 4.0)
        self.assertEqual(sweep.stages("sse2")[2]["score"]["real_time"], 9.0)

    def test_repetitions_are_summed_one_by_one(self):
        self.assertEqual(summed_times([{"times": [1, 2, 3]}, {"times": [10, 20, 30]}]), [11, 22, 33])


class SlopeTest(unittest.TestCase):
    def test_of_a_power(self):
        for power in (0, 1, 2):
            slope, low, high = slope_over_h({h: [3.0 * h ** power] * 5 for h in (1, 2, 4, 8)})
            for value in (slope, low, high):
                self.assertAlmostEqual(value, power)

    def test_interval_grows_with_noise_and_holds_the_slope(self):
        def noisy(noise):
            return slope_over_h({h: [h * (1 + noise * sign) for sign in (-1, -0.5, 0, 0.5, 1)] for h in (1, 2, 4)})

        slope, low, high = noisy(0.2)
        self.assertLess(low, 1)
        self.assertGreater(high, 1)
        self.assertAlmostEqual(slope, 1)
        _, narrow_low, narrow_high = noisy(0.02)
        self.assertLess(narrow_high - narrow_low, high - low)

    def test_of_too_little(self):
        self.assertIsNone(slope_over_h({4: [1.0, 2.0]}))
        self.assertIsNone(slope_over_h({1: [1.0], 2: [0.0]}))

    def test_ratio_of_medians(self):
        ratio, low, high = ratio_of_medians([1.0, 1.0, 9.0], [2.0, 2.0, 2.0])
        self.assertEqual(ratio, 0.5)
        self.assertLessEqual(low, ratio)
        self.assertGreater(high, ratio)

    def test_the_same_numbers_give_the_same_interval(self):
        samples = [[1.0, 2.0, 4.0, 8.0]]
        self.assertEqual(interval(lambda s: statistics.median(s[0]), samples),
                         interval(lambda s: statistics.median(s[0]), samples))


if __name__ == "__main__":
    unittest.main()
