"""What the report reads out of results.json."""

import json
import math
import random
import statistics

PROJECTIONS = ["project_q", "project_k", "project_v"]
ATTENTION = ["score", "softmax", "blend"]
STAGES = ["transpose", *PROJECTIONS, *ATTENTION, "project_o"]
WORK = [*PROJECTIONS, "score", "exponentials", "blend", "project_o"]

# Slopes over h are fitted where a head is at least this wide; what narrower ones cost has figures of its own.
NARROW_D_K = 32


class Sweep:
    """One run. A row is what one benchmark measured: its median entry, and the times of its repetitions in ms."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.json = json.load(file)
        self.context = self.json["context"]
        self.failures = self.json["failures"]
        self.n = self.context["headline"]["n"]
        self.d_model = self.context["headline"]["d_model"]
        self.h = self.context["headline"]["h"]
        times = {}
        for entry in self.json["benchmarks"]:
            if entry["run_type"] == "iteration":
                times.setdefault(entry["run_name"], {})[entry["repetition_index"]] = entry["real_time"]
        self.rows = [
            {**entry, "times": [time for _, time in sorted(times[entry["run_name"]].items())]}
            for entry in self.json["benchmarks"]
            if entry.get("aggregate_name") == "median"
        ]

    def find(self, kind, **wanted):
        """Rows of a kind whose fields have the wanted values, by h."""
        found = [
            row for row in self.rows
            if row["kind"] == kind and all(row.get(key) == value for key, value in wanted.items())
        ]
        return sorted(found, key=lambda row: row.get("h", 0))

    @property
    def targets(self):
        return self.context["targets"]

    @property
    def best_target(self):
        return self.targets[-1]

    def fma_peak(self, target):
        """GFLOP/s on one thread."""
        return self.context["fma_peak_gflops"][target]["1"]

    def exp_peak(self, target):
        """Thousand millions of exponentials a second, on one thread."""
        return self.context["exp_peak_gigaexponentials"][target]

    def stages(self, target=None, n=None, d_model=None):
        """{h: {stage: row}} of the staged layer, at the headline's sizes unless told otherwise."""
        rows = self.find("stage", target=target or self.best_target, n=n or self.n, d_model=d_model or self.d_model)
        by_heads = {}
        for row in rows:
            by_heads.setdefault(row["h"], {})[row["stage"]] = row
        return by_heads

    def is_narrow(self, h):
        return self.d_model / h < NARROW_D_K


def total(rows):
    """The sum of the medians of rows."""
    return sum(row["real_time"] for row in rows)


def summed_times(rows):
    """The sums of each repetition's times; the stages of one repetition come from the same passes over the layer."""
    return [sum(times) for times in zip(*(row["times"] for row in rows))]


def interval(statistic, samples, seed=1, resamples=1000):
    """statistic(samples), and the 95 % interval of what it gives where every sample is drawn anew, with replacement.
    A sample is the repetitions of one benchmark.
    """
    draw = random.Random(seed)
    resampled = sorted(
        statistic([draw.choices(sample, k=len(sample)) for sample in samples]) for _ in range(resamples))
    outside = round(0.025 * resamples)
    return statistic(samples), resampled[outside], resampled[-1 - outside]


def slope_over_h(times_of_h):
    """{h: times} to the slope of log time over log h, by least squares on the medians, and its 95 % interval.
    None where there are fewer than two h.
    """
    if len(times_of_h) < 2 or any(min(times) <= 0 for times in times_of_h.values()):
        return None
    x = [math.log(h) for h in times_of_h]
    middle = statistics.fmean(x)
    spread = sum((value - middle) ** 2 for value in x)

    def fit(samples):
        return sum((value - middle) * math.log(statistics.median(times)) for value, times in zip(x, samples)) / spread

    return interval(fit, list(times_of_h.values()))


def ratio_of_medians(above, below):
    """The ratio of two benchmarks' medians, and its 95 % interval."""
    return interval(lambda samples: statistics.median(samples[0]) / statistics.median(samples[1]), [above, below])
