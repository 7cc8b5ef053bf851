"""Figures of the simulated threads."""

import plotly.graph_objects as go

from theme import GREY, LINE_COLORS, SYMBOLS, figure, line, log_axis


def efficiency_of(sweep, n, h, workers):
    """Of the operator's plan, 0 to 1; None where it was not simulated."""
    for run in sweep.json["simulated_threads"]:
        if (run["n"], run["h"], run["workers"]) == (n, h, workers):
            return run["efficiency"]
    return None


def simulated_threads(sweep, n):
    runs = [run for run in sweep.json["simulated_threads"] if run["n"] == n]
    if not runs:
        return None
    plot = go.Figure()
    workers = sorted({run["workers"] for run in runs})
    for h, color, symbol in zip(sorted({run["h"] for run in runs}), LINE_COLORS, SYMBOLS):
        of_heads = sorted((run for run in runs if run["h"] == h), key=lambda run: run["workers"])
        line(plot, f"h {h}", workers, [100 * run["efficiency"] for run in of_heads], color,
             f"h {h}, %{{x}} workers, %{{customdata}} tasks: %{{y:.0f}} %", symbol=symbol,
             customdata=[run["tasks"] for run in of_heads])
        line(plot, f"h {h}, heads only", workers, [100 * run["heads_only_efficiency"] for run in of_heads], color,
             f"h {h}, one task a head, %{{x}} workers: %{{y:.0f}} %", dash="dot", mode="lines", showlegend=False)
    line(plot, "dotted: one task a head", [None], [None], GREY, "", dash="dot", mode="lines")
    most = 100 * max(run["efficiency"] for run in runs)  # more than 100 where noise made the tasks' times differ
    plot.update_layout(xaxis=log_axis("workers", workers),
                       yaxis={"title": {"text": "% of perfect speed-up"}, "range": [0, 1.05 * max(100, most)]})
    return figure(
        f"threads-{n}", f"Efficiency of simulated workers at n {n}, d_k 64: heads alone stop at one worker a "
        "head; beyond, tasks of (head, query block) keep many more busy.", plot)
