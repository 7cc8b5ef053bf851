"""What scripts/report.py reads out of results.json."""

import json
import math
import random
import statistics

STAGES = ["transpose", "project_q", "project_k", "project_v", "score", "softmax", "blend", "project_o"]
WORK = ["project_q", "project_k", "project_v", "score", "exponentials", "blend", "project_o"]


class Sweep:
    """One run. A row is what one benchmark measured: its median entry, and the times of its repetitions in ms."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.json = json.load(file)
        self.context = self.json["context"]
        self.failures = self.json["failures"]
        times = {}
        for entry in self.json["benchmarks"]:
            if entry["run_type"] == "iteration":
                times.setdefault(entry["run_name"], []).append(entry["real_time"])
        self.rows = [
            {**entry, "times": times[entry["run_name"]]}
            for entry in self.json["benchmarks"]
            if entry.get("aggregate_name") == "median"
        ]

    def find(self, kind, **wanted):
        """Rows of a kind whose fields have the wanted values."""
        return [
            row for row in self.rows
            if row["kind"] == kind and all(row.get(key) == value for key, value in wanted.items())
        ]

    @property
    def best_target(self):
        return self.context["targets"][-1]

    def staged_sizes(self):
        """The (n, d_model) whose stages are shown: 1024 and 512 where they were measured, else the largest."""
        sizes = {(row["n"], row["d_model"]) for row in self.find("staged_layer", target=self.best_target)}
        if (1024, 512) in sizes:
            return 1024, 512
        return max(sizes, key=lambda size: size[0] * size[1], default=None)


def slope_over_h(rows, seed=1, resamples=1000):
    """The slope of log time over log h by least squares on the medians, and its 95 % interval: the repetitions of each
    h are drawn anew, with replacement, and the slope is fitted to the medians of what was drawn. None where there are
    fewer than two h.
    """
    rows = [row for row in rows if min(row["times"]) > 0]
    if len({row["h"] for row in rows}) < 2:
        return None
    x = [math.log(row["h"]) for row in rows]
    middle = statistics.fmean(x)
    spread = sum((value - middle) ** 2 for value in x)

    def fit(times):
        return sum((value - middle) * math.log(statistics.median(t)) for value, t in zip(x, times)) / spread

    draw = random.Random(seed)
    resampled = sorted(
        fit([draw.choices(row["times"], k=len(row["times"])) for row in rows]) for _ in range(resamples)
    )
    outside = round(0.025 * resamples)
    return fit([row["times"] for row in rows]), resampled[outside], resampled[-1 - outside]
