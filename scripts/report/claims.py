"""The claims of the cost arithmetic: what it says, what was counted, what was measured."""

from html import escape

from html_pieces import table, verdict
from sweep import PROJECTIONS, ratio_of_medians, slope_over_h, summed_times

# What is this far from the predicted slope or ratio is called close, even where its interval does not hold that.
CLOSE_SLOPE, CLOSE_RATIO = 0.05, 0.1

NOT_TIMED = "–"


def measured_verdict(value, low, high, predicted, close):
    """What is to be said of a measured value and its interval beside the predicted one."""
    if low <= predicted <= high:
        return verdict(True, "agrees")
    off = f"off by {value - predicted:+.3f}"
    is_close = abs(value - predicted) <= close
    return verdict(is_close, f"close, {off}" if is_close else off)


def counted(values):
    """One number, or the least and the greatest of several."""
    values = sorted(set(values))
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} … {values[-1]:,}"


class Claims:
    """Rows of the table, at the headline's sizes on one thread of the best target."""

    def __init__(self, sweep):
        self.sweep = sweep
        self.rows = []
        self.stages = {h: rows for h, rows in sweep.stages().items() if not sweep.is_narrow(h)}
        self.counts = [c for c in sweep.json["counts"]
                       if c["subject"] == "layer" and (c["n"], c["d_model"]) == (sweep.n, sweep.d_model)]

    def add(self, claim, arithmetic, count, exact, measured=NOT_TIMED, agrees=""):
        check = verdict(True, "exact") if exact else verdict(False, "COUNT DIFFERS")
        self.rows.append((escape(claim), escape(arithmetic), count, check, measured, agrees))

    def slope(self, stages, predicted):
        """The measured slope over h of some stages together, and what is to be said of it."""
        found = slope_over_h({h: summed_times([rows[stage] for stage in stages]) for h, rows in self.stages.items()})
        if found is None:
            return NOT_TIMED, ""
        slope, low, high = found
        return (f"slope {slope:+.3f} [{low:+.3f}, {high:+.3f}], predicted {predicted}",
                measured_verdict(slope, low, high, predicted, CLOSE_SLOPE))

    def parameters(self):
        checks = [p for p in self.sweep.json["parameters"] if p["d_model"] == self.sweep.d_model]
        exact = all(p["passed"] for p in checks)

        def sums(roles):
            return [sum(p["counted"][role] for role in roles) for p in checks]

        self.add("Parameters of a role", "h · d_model · d_k = d_model²", counted(
            p["counted"][role] for p in checks for role in "qkvo"), exact)
        self.add("Parameters of Q, K and V", "3 d_model²", counted(sums("qkv")), exact)
        self.add("Parameters with W_o", "4 d_model²", counted(sums("qkvo")), exact)

    def work(self, claim, arithmetic, quantities, stages, predicted):
        exact = all(c["reported_useful"][q] == c["arithmetic"][q]
                    and c["counted_by_reference"][q] == c["arithmetic_of_counted_rows"][q]
                    for c in self.counts for q in quantities)
        numbers = counted(sum(c["reported_useful"][q] for q in quantities) for c in self.counts)
        self.add(claim, arithmetic, numbers, exact, *self.slope(stages, predicted))

    def weights_memory(self):
        checks = self.sweep.json["memory"]
        if not checks:
            return
        mebi = 2 ** 20
        fused = [check["fused_bytes"] / mebi for check in checks]
        level = fused[-1] <= (1 + CLOSE_RATIO) * fused[0]
        self.add("Weights, if asked for", "h n² numbers", counted(check["counted"] for check in checks),
                 all(check["passed"] for check in checks),
                 f"{4 * checks[0]['counted'] / mebi:.3g} … {4 * checks[-1]['counted'] / mebi:.3g} MiB stored; fused "
                 f"{min(fused):.2g} … {max(fused):.2g} MiB",
                 verdict(level, "grows; fused does not" if level else "FUSED GROWS TOO"))

    def causal_halving(self):
        sweep = self.sweep
        causal = sweep.find("causal_operator", n=sweep.n, d_model=sweep.d_model, h=sweep.h)
        checks = [c for c in sweep.json["counts"] if c["subject"] == "causal operator" and c["h"] == sweep.h]
        if not causal or not checks:
            return
        whole = sweep.find("operator", n=sweep.n, d_model=sweep.d_model, h=sweep.h, target=causal[0]["target"],
                           arena_threads=causal[0]["arena_threads"])[0]
        ratio, low, high = ratio_of_medians(causal[0]["times"], whole["times"])
        predicted = (sweep.n + 1) / (2 * sweep.n)
        self.add("Causal: half of the pairs", "h · n (n + 1) / 2 exponentials",
                 counted(c["reported_useful"]["exponentials"] for c in checks), all(c["passed"] for c in checks),
                 f"{ratio:.3f} [{low:.3f}, {high:.3f}] of the time, h {sweep.h}, predicted {predicted:.3f}",
                 measured_verdict(ratio, low, high, predicted, CLOSE_RATIO))

    def balance(self):
        """Attention costs what its projections cost at n = 2 d_model; the softmax comes on top."""
        sweep = self.sweep
        h = sweep.h
        stages = self.stages.get(h)
        if stages is None or sweep.n != 2 * sweep.d_model:
            return
        ratio, low, high = ratio_of_medians(summed_times([stages["score"], stages["blend"]]),
                                            summed_times([stages[s] for s in [*PROJECTIONS, "project_o"]]))
        work = [c["reported_useful"] for c in self.counts if c["h"] == h][0]
        attention = work["score"] + work["blend"]
        projections = sum(work[q] for q in [*PROJECTIONS, "project_o"])
        self.add("Attention = projections at n = 2 d_model", "2 n² d_model = 4 n d_model²",
                 f"{attention:,} and {projections:,}", attention == projections,
                 f"scoring + blending take {ratio:.3f} [{low:.3f}, {high:.3f}] of the projections' time, h {h}, "
                 "predicted 1", measured_verdict(ratio, low, high, 1, CLOSE_RATIO))


def claims_table(sweep):
    claims = Claims(sweep)
    claims.parameters()
    claims.work("Projections Q, K, V, multiply-adds", "3 n d_model²", PROJECTIONS, PROJECTIONS, 0)
    claims.work("Scoring + blending, multiply-adds", "2 n² d_model", ["score", "blend"], ["score", "blend"], 0)
    claims.work("Output projection, multiply-adds", "n d_model²", ["project_o"], ["project_o"], 0)
    claims.rows.append(("Concatenation", "0", "0", verdict(True, "no such step"), NOT_TIMED, ""))
    claims.work("Exponentials", "h n²", ["exponentials"], ["softmax"], 1)
    claims.weights_memory()
    claims.causal_halving()
    claims.balance()
    return table(["claim", "arithmetic", "counted over all h", "count", "measured [95 % interval]", "measurement"],
                 claims.rows, words=True)
