"""The logic of scripts/peers, with clocks that the tests wind: nothing is timed, no library is needed.

usage: test_peers.py
"""

import contextlib
import io
import json
import math
import os
import random
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

from peers import measure, options, progress, results
from peers.work import Attention, Layer, all_works, more_works, quick_works


class WorkTest(unittest.TestCase):
    def test_visible_pairs_are_those_that_the_rule_makes_visible(self):
        for n_q, n_kv in ((1, 1), (1, 7), (5, 5), (3, 8)):
            pairs = sum(j <= i + n_kv - n_q for i in range(n_q) for j in range(n_kv))
            self.assertEqual(Attention(2, 4, n_q, n_kv, 8, causal=True).visible_pairs, 2 * pairs)
            self.assertEqual(Attention(2, 4, n_q, n_kv, 8).visible_pairs, 2 * n_q * n_kv)

    def test_padding_is_no_useful_work(self):
        self.assertEqual(Attention(2, 1, 4, 4, 8, lengths=(4, 2)).visible_pairs, 16 + 4)
        self.assertEqual(Attention(2, 1, 4, 4, 8, lengths=(4, 2), causal=True).visible_pairs, 10 + 3)

    def test_flops_and_bytes(self):
        self.assertEqual(Attention(1, 8, 2, 4, 64).flops, 4 * 8 * 64 * 8)
        self.assertEqual(Attention(3, 32, 1, 100, 128, h_kv=8).bytes_read, 2 * 4 * 3 * 8 * 100 * 128)
        self.assertEqual(Layer(10, 20, 4).flops, 8 * 10 * 400 + 4 * 100 * 20)
        self.assertEqual(Layer(10, 20, 4, b=3).flops, 3 * Layer(10, 20, 4).flops)

    def test_memory_bounds_single_queries_only(self):
        self.assertEqual(Attention(1, 8, 1, 1024, 64).roof, "read")
        self.assertEqual(Attention(1, 8, 2, 1024, 64).roof, "fma")

    def test_names_tell_works_apart(self):
        names = [work.name for work in all_works() + more_works()]
        self.assertEqual(len(names), len(set(names)))
        self.assertLess(0, len(quick_works()))
        self.assertLess({work.name for work in quick_works()}, set(names))


class FakeMachine:
    """A clock that only calls advance, each by its own number of seconds."""

    def __init__(self):
        self.now = 0.0
        self.log = []

    def clock(self):
        return self.now

    def call(self, name, seconds):
        def run():
            self.log.append(name)
            self.now += seconds

        return run

    def interleaved(self, calls, rounds=9):
        pause = self.call("pause", 100)
        return measure.interleaved(calls, rounds, results.library_of, random.Random(1), self.clock, pause)


class MeasureTest(unittest.TestCase):
    def setUp(self):
        self.machine = FakeMachine()

    def test_samples_are_seconds_a_call(self):
        seconds = {"headwise": 1e-6, "torch SDPA": 0.004, "openvino x": 2.0}
        samples = self.machine.interleaved({name: [self.machine.call(name, s)] for name, s in seconds.items()})
        for name, each in seconds.items():
            self.assertEqual(len(samples[name]), 9)
            for sample in samples[name]:
                self.assertAlmostEqual(sample, each, delta=1e-6 * each)

    def test_every_round_takes_all(self):
        calls = {name: [self.machine.call(name, 1.0)] for name in ("headwise", "torch a", "openvino b")}
        self.machine.interleaved(calls, rounds=4)
        turns, rounds = [], []
        for name in self.machine.log[self.machine.log.index("pause") :]:
            if name == "pause":
                turns.append(None)
            else:
                turns[-1] = name
        for i in range(0, len(turns), 3):
            rounds.append(tuple(turns[i : i + 3]))
            self.assertEqual(sorted(rounds[-1]), sorted(calls))
        self.assertEqual(len(rounds), 4)
        self.assertLess(1, len(set(rounds)), "all in the same order")

    def test_a_sample_is_long_enough(self):
        timed = measure.Timed([self.machine.call("x", 0.0007)], self.machine.clock)
        self.assertGreaterEqual(timed.calls_in_a_sample * 0.0007, measure.SAMPLE_SECONDS)
        instant = measure.Timed([self.machine.call("x", 0)], self.machine.clock)
        self.assertEqual(instant.calls_in_a_sample, measure.MAXIMUM_CALLS)

    def test_copies_take_turns(self):
        timed = measure.Timed([self.machine.call(copy, 0.001) for copy in "abc"], self.machine.clock)
        timed.sample()
        for first, second in zip(self.machine.log, self.machine.log[1:]):
            self.assertEqual(second, {"a": "b", "b": "c", "c": "a"}[first])

    def test_a_way_far_behind_its_own_library_drops_out(self):
        seconds = {"headwise": 0.5, "torch a": 1.0, "torch b": 1.4, "torch c": 1.6, "openvino x": 9.0}
        samples = self.machine.interleaved({name: [self.machine.call(name, s)] for name, s in seconds.items()})
        lengths = {name: len(one) for name, one in samples.items()}
        self.assertEqual(lengths, {**dict.fromkeys(seconds, 9), "torch c": measure.FIRST_ROUNDS})

    def test_settle_waits_for_threads_that_spin(self):
        spinning_until, now = 0.05, [0.0]

        def sleep(seconds):
            now[0] += seconds

        measure.settle(lambda: now[0], lambda: min(now[0], spinning_until), sleep)
        self.assertGreater(now[0], spinning_until)
        now[0] = 0.0
        measure.settle(lambda: now[0], lambda: now[0], sleep)
        self.assertLess(now[0], 1)


def raw_row(work, ours=(1.0, 2.0, 9.0), **peers):
    samples = {name.replace("_", " "): list(one) for name, one in peers.items()}
    if ours:
        samples["headwise"] = list(ours)
    return {"work": work.name, "threads": 2, "samples": samples, "unavailable": {}, "wrong": {}}


class ResultsTest(unittest.TestCase):
    work = Attention(1, 2, 10, 10, 16)
    rates = {"fma": 1000.0, "read": 4000.0}

    def row(self, **peers):
        return results.finished(raw_row(self.work, **peers), self.work, self.rates)

    def test_medians_and_the_best_peer(self):
        row = self.row(torch_SDPA=(3, 5, 4), openvino_x=(3, 3, 9))
        self.assertEqual(row["seconds"], {"headwise": 2, "torch SDPA": 4, "openvino x": 3})
        self.assertEqual(row["best_peer"], "openvino x")
        self.assertEqual(row["speedup_over_best_peer"], 1.5)
        self.assertEqual(row["share_of_peak"], self.work.flops / 2 / 1000)

    def test_our_fastest_way_counts(self):
        raw = raw_row(self.work, ours=None, torch_x=(4, 4, 4))
        raw["samples"] |= {"headwise, padded": [3, 3, 3], "headwise ragged": [2, 2, 2]}
        self.assertEqual(results.finished(raw, self.work, self.rates)["speedup_over_best_peer"], 2)

    def test_a_way_that_dropped_out_has_no_median(self):
        row = self.row(torch_a=(3, 3, 3), torch_b=(1, 1))
        self.assertEqual(row["best_peer"], "torch a")
        self.assertNotIn("torch b", row["seconds"])
        self.assertEqual(row["samples"]["torch b"], [1, 1])

    def test_single_queries_are_held_against_memory(self):
        work = Attention(1, 8, 1, 64, 32)
        row = results.finished(raw_row(work), work, self.rates)
        self.assertEqual(row["share_of_peak"], work.bytes_read / 2 / 4000)

    def test_without_a_peer_or_without_ours_there_is_no_speedup(self):
        self.assertIsNone(self.row()["best_peer"])
        self.assertIsNone(self.row()["speedup_over_best_peer"])
        row = self.row(ours=None, torch_x=(1, 1, 1))
        self.assertEqual((row["headwise_seconds"], row["speedup_over_best_peer"], row["share_of_peak"]), (None,) * 3)

    def document(self):
        rows = [self.row(torch_x=(4, 4, 4)), self.row(torch_x=(1, 1, 1)), self.row()]
        roofs = {2: {"fma_samples": [1000, 5, 900, 3000], "read_samples": [4000]}}
        return results.document(rows, roofs, {"processor": "p"})

    def test_document(self):
        document = self.document()
        self.assertAlmostEqual(document["geometric_mean"], math.sqrt(2 * 0.5))
        self.assertEqual(document["worst"], document["rows"][1])
        self.assertEqual(document["peaks"], {"2": {"fma_flops_per_second": 1000, "read_bytes_per_second": 4000}})
        self.assertEqual(json.loads(json.dumps(document)), document)

    def test_losses_are_told(self):
        self.assertIn(
            "2 rows); it is the slower one in 1 of them; its worst is 0.50 times, beside torch x",
            results.summary(self.document()),
        )
        self.assertIn(" 0.50 ", results.table(self.document()))
        self.assertEqual(len(results.table(self.document()).splitlines()), 4)

    def test_nothing_compared(self):
        document = results.document([self.row()], {}, {})
        self.assertEqual((document["geometric_mean"], document["worst"]), (None, None))
        self.assertEqual(results.summary(document), "Nothing was compared.")

    def test_wrong_and_unavailable_are_told(self):
        row = self.row()
        row["wrong"] = {"torch x": "output[0] is 1 instead of 2"}
        row["unavailable"] = {"openvino y": "no such operator\ntrace"}
        self.assertIn("WRONG: torch x in attention b1 h2 n10 d16, 2 threads: output[0]", results.wrong_text([row]))
        self.assertEqual(
            results.unavailable_text([row, row]),
            "Not run: openvino y, in attention b1 h2 n10 d16 and 1 more: no such operator",
        )

    def test_a_failed_write_leaves_the_old_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "results.json"
            results.write_atomically({"a": 1}, path)
            with self.assertRaises(ValueError):
                results.write_atomically({"a": math.nan}, path)
            self.assertEqual(json.loads(path.read_text()), {"a": 1})
            self.assertEqual(os.listdir(folder), ["results.json"])


class OptionsTest(unittest.TestCase):
    def error(self, *arguments):
        told = io.StringIO()
        with contextlib.redirect_stderr(told), self.assertRaises(SystemExit) as stopped:
            options.parse(list(arguments))
        self.assertEqual(stopped.exception.code, 2)
        return told.getvalue()

    def test_selection(self):
        selection = options.parse(["--quick", "--only", "^layer n16 .*weights$", "--threads", "1", "--peers", "torch"])
        self.assertEqual([work.name for work in selection.works], ["layer n16 d_model384 h12 with weights"])
        self.assertEqual((selection.threads, selection.peers), ([1], ["torch"]))
        self.assertGreaterEqual(selection.rounds, 9)
        self.assertEqual(options.parse([]).works, all_works())
        self.assertEqual(options.parse(["--more"]).works, more_works())
        self.assertIn(1, options.parse([]).threads)

    def test_wrong_options_are_explained(self):
        self.assertIn("'0' is neither all nor 1 to", self.error("--threads", "0"))
        self.assertIn("'jax' is none of torch, onnxruntime, openvino", self.error("--peers", "torch,jax"))
        self.assertIn("no regular expression", self.error("--only", "("))
        self.assertIn("matches none of", self.error("--only", "no such row"))
        self.assertIn("--fast", self.error("--fast"))
        self.assertIn("not allowed with", self.error("--quick", "--more"))

    def test_threads_are_sorted_and_few(self):
        self.assertEqual(options.threads_list("all,1,4", 4), [1, 4])


class ProgressTest(unittest.TestCase):
    def test_time_left_goes_by_cost(self):
        now = [100.0]
        left = progress.TimeLeft([1, 3, 2], lambda: now[0])
        now[0] = 110
        self.assertEqual(left.step(), "[1/3, about 50 s left]")
        now[0] = 140
        self.assertEqual(left.step(), "[2/3, about 20 s left]")


if __name__ == "__main__":
    unittest.main()
