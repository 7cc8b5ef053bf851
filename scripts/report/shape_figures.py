"""Figures over the shapes: n, d_model and h."""

import math
from collections import Counter

import plotly.graph_objects as go

from sweep import ATTENTION, PROJECTIONS, total
from theme import BLUE, GREY, VERMILLION, category_axis, cells, figure, line, log_axis, log_scale


def measured_often(rows, key):
    """The values of a row's key that more than one shape has, or all where there is no such: those of the grid."""
    counts = Counter(row[key] for row in rows)
    return sorted(value for value, count in counts.items() if count > 1) or sorted(counts)


def over_n_and_heads(sweep, value, color_title, hover):
    """A heat map over (n, h) at the headline's d_model; value gives a cell from (n, h), or None."""
    rows = sweep.find("layer", d_model=sweep.d_model, target=sweep.best_target, arena_threads=1)
    tokens = measured_often(rows, "n")
    heads = measured_often(rows, "h")
    values = [[value(n, h) for h in heads] for n in tokens]
    plot = go.Figure(cells(heads, tokens, values, color_title, "%{z:.2f}", hover))
    plot.update_layout(xaxis=category_axis("h"), yaxis=category_axis("n"))
    return plot


def only(rows):
    return rows[0] if rows else None


def layer_row(sweep, n, h):
    return only(sweep.find("layer", n=n, h=h, d_model=sweep.d_model, target=sweep.best_target, arena_threads=1))


def fused_over_staged(sweep):
    def value(n, h):
        fused = layer_row(sweep, n, h)
        staged = only(sweep.find("staged_layer", n=n, h=h, d_model=sweep.d_model, target=sweep.best_target))
        return staged["real_time"] / fused["real_time"] if staged and fused else None

    plot = over_n_and_heads(sweep, value, "staged / fused", "n %{y}, h %{x}: fused is %{z:.2f}× as fast")
    ratios = [ratio for row in plot.data[0].z for ratio in row if ratio is not None]
    if not ratios:
        return None
    span = max(abs(ratio - 1) for ratio in ratios)
    plot.update_traces(colorscale="RdBu", reversescale=True, zmin=1 - span, zmax=1 + span)
    return figure(
        "fused-over-staged", "How many times as fast the fused layer is as the staged one (red: faster), d_model "
        f"{sweep.d_model}, one thread: it saves the traffic of the stored scores, h n² numbers, and gains little while "
        f"they fit the caches; here {min(ratios):.2f} … {max(ratios):.2f}.", plot, height=360)


def over_naive(sweep):
    def value(n, h):
        row = layer_row(sweep, n, h)
        return row.get("speedup_over_naive") if row else None

    plot = over_n_and_heads(sweep, value, "naive / headwise", "n %{y}, h %{x}: %{z:.1f}× the naive loops")
    return figure(
        "over-naive", f"How many times as fast headwise is as the naive loops, d_model {sweep.d_model}, one thread: "
        "both do the same arithmetic, so what differs is how it fits registers and caches.", plot, height=360)


def attention_over_projection(sweep):
    """Staged times of attention over those of the projections, W_o included."""
    ratios = {}
    for row in sweep.find("staged_layer", h=sweep.h, target=sweep.best_target):
        stages = sweep.stages(n=row["n"], d_model=row["d_model"])[sweep.h]
        ratios[row["n"], row["d_model"]] = (
            total(stages[s] for s in ATTENTION) / total(stages[s] for s in [*PROJECTIONS, "project_o"]))
    if not ratios:
        return None
    tokens, widths = sorted({n for n, _ in ratios}), sorted({d for _, d in ratios})
    values = [[ratios.get((n, d)) for n in tokens] for d in widths]
    shown = [[None if v is None else math.log2(v) for v in row] for row in values]
    text = [["" if v is None else f"{v:.2f}" for v in row] for row in values]
    span = max(1, *(abs(v) for row in shown for v in row if v is not None))
    heat = cells(tokens, widths, shown, "log2 of the ratio", "%{text}",
                 "n %{x}, d_model %{y}: attention takes %{text} of the projections' time", colorscale="RdBu",
                 reversescale=True, zmid=0, zmin=-span, zmax=span, text=text)
    plot = go.Figure(heat)
    balance = [(n, d) for n in tokens for d in widths if n == 2 * d]
    plot.add_scatter(name="n = 2 d_model", x=[str(n) for n, _ in balance], y=[str(d) for _, d in balance],
                     mode="lines", line={"color": "rgba(128, 128, 128, 0.35)", "width": 16}, hoverinfo="skip",
                     showlegend=True)
    plot.update_layout(xaxis=category_axis("n"), yaxis=category_axis("d_model"))
    return figure(
        "attention-over-projection", f"Time of attention over that of the four projections, h {sweep.h}, staged: by "
        "the multiply-adds alone it is 1 on the line n = 2 d_model; the softmax moves the balance to fewer "
        "tokens.", plot)


def weights_memory(sweep):
    checks = sweep.json["memory"]
    if not checks:
        return None
    mebi = 2 ** 20
    heads = [check["h"] for check in checks]
    plot = go.Figure()
    line(plot, "weights, stored", heads, [4 * check["counted"] / mebi for check in checks], VERMILLION,
         "h %{x}: %{y:.1f} MiB of weights written", mode="markers")
    line(plot, "h n² numbers", heads, [4 * check["arithmetic"] / mebi for check in checks], GREY,
         "h n² numbers of 4 bytes, h %{x}: %{y:.1f} MiB", dash="dot", mode="lines")
    line(plot, "fused layer, all of its scratch memory", heads, [check["fused_bytes"] / mebi for check in checks], BLUE,
         "fused, h %{x}: %{y:.2f} MiB", symbol="square")
    largest = 4 * max(check["counted"] for check in checks) / mebi
    smallest = min(4 * check["counted"] for check in checks) / mebi
    plot.update_layout(xaxis=log_axis("h", heads), yaxis=log_scale("MiB", [smallest, largest]))
    return figure(
        "weights-memory", f"Memory over h at n {sweep.n}, d_model {sweep.d_model}: stored weights grow with h, and "
        "every one of them was written; the fused layer holds none and does not grow.", plot)


def growth_over_n(sweep):
    """Where the sweep has five or more n: time over n at the headline's d_model and h."""
    rows = sweep.find("layer", d_model=sweep.d_model, h=sweep.h, target=sweep.best_target, arena_threads=1)
    rows.sort(key=lambda row: row["n"])
    if len(rows) < 5:
        return None
    tokens = [row["n"] for row in rows]
    middle = rows[len(rows) // 2]
    scale = middle["real_time"] / (middle["n"] * (2 * sweep.d_model + middle["n"]))
    plot = go.Figure()
    line(plot, "fused layer", tokens, [row["real_time"] for row in rows], BLUE, "n %{x}: %{y:.3f} ms")
    line(plot, "model: n (2 d_model + n)", tokens, [scale * n * (2 * sweep.d_model + n) for n in tokens], GREY,
         "model, n %{x}: %{y:.3f} ms", dash="dot", mode="lines")
    plot.update_layout(xaxis=log_axis("n", tokens), yaxis=log_scale("ms", [row["real_time"] for row in rows]))
    return figure("growth-over-n", f"Time over n, d_model {sweep.d_model}, h {sweep.h}: linear while the projections "
                  f"rule, quadratic beyond n = 2 d_model = {2 * sweep.d_model}.", plot)
