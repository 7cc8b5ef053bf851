"""Figures of the layer stage by stage: over h, over d_k, and against the machine's roofs."""

import plotly.graph_objects as go

from sweep import ATTENTION, NARROW_D_K, PROJECTIONS, STAGES, total
from theme import (BLUE, GREEN, GREY, LINE_COLORS, ORANGE, PURPLE, STAGE_COLORS, SYMBOLS, VERMILLION, figure, line,
                   log_axis, log_scale)

FLOAT_BYTES = 4
CACHE_LINE_BYTES = 64


def stage_name(stage):
    return stage.replace("_", " ")


def stages(sweep):
    """The headline: the time of each stage, stacked, over h."""
    by_heads = sweep.stages()
    heads = list(by_heads)
    plot = go.Figure()
    for stage in STAGES:
        plot.add_bar(name=stage_name(stage), x=[str(h) for h in heads],
                     y=[by_heads[h][stage]["real_time"] for h in heads], marker_color=STAGE_COLORS[stage],
                     hovertemplate="%{fullData.name}, h %{x}: %{y:.3f} ms<extra></extra>")
    fused = sweep.find("layer", n=sweep.n, d_model=sweep.d_model, target=sweep.best_target, arena_threads=1)
    plot.add_scatter(name="fused layer", x=[str(row["h"]) for row in fused], y=[row["real_time"] for row in fused],
                     mode="markers", marker={"symbol": "diamond", "size": 11, "color": "#F0E442",
                                             "line": {"width": 2, "color": "#333333"}},
                     hovertemplate="fused, h %{x}: %{y:.3f} ms<extra></extra>")
    plot.update_layout(barmode="stack", yaxis_title="ms", xaxis={"type": "category", "title": {"text": "h"}})
    return figure(
        "stages", f"Time of each stage over h at n {sweep.n}, d_model {sweep.d_model} ({sweep.best_target}, one "
        f"thread): while heads are no narrower than d_k {NARROW_D_K} the products stay level and the softmax is the "
        "wedge that rises; narrower ones make scoring and blending slower too. The diamond is the layer as it runs, "
        "its stages fused.", plot, height=520)


def stages_normalised(sweep):
    """The same by kind of work, as multiples of the time with one head."""
    by_heads = sweep.stages()
    if 1 not in by_heads:
        return None
    heads = list(by_heads)
    plot = go.Figure()
    kinds = [("projections Q, K, V", PROJECTIONS, BLUE), ("scoring + blending", ["score", "blend"], GREEN),
             ("softmax", ["softmax"], VERMILLION), ("output projection", ["project_o"], PURPLE)]
    largest = max(heads)
    for (name, parts, color), symbol in zip(kinds, SYMBOLS):
        times = {h: total(by_heads[h][stage] for stage in parts) for h in heads}
        largest = max(largest, *(times[h] / times[1] for h in heads))
        line(plot, name, heads, [times[h] / times[1] for h in heads], color, f"{name}, h %{{x}}: %{{y:.2f}}×",
             symbol=symbol)
    for name, power in (("predicted: exponentials, slope 1", 1), ("predicted: products, slope 0", 0)):
        line(plot, name, heads, [h ** power for h in heads], GREY, f"{name}: %{{y}}×", dash="dot", mode="lines")
    plot.update_layout(xaxis=log_axis("h", heads), yaxis=log_scale("time, h 1 = 1", [1, largest]))
    return figure("stages-normalised", "The same as multiples of the time with one head: the softmax follows the "
                  "dotted slope of 1, the products the level line until heads are narrower than "
                  f"d_k {NARROW_D_K}.", plot)


def exponential_share(sweep):
    """Share of attention's time that goes to the softmax over d_k, beside what the two roofs alone predict."""
    plot = go.Figure()
    widths = set()
    for target, color, symbol in zip(sweep.targets, LINE_COLORS, SYMBOLS):
        by_heads = sweep.stages(target)
        share = {sweep.d_model // h: 100 * total([rows["softmax"]]) / total(rows[stage] for stage in ATTENTION)
                 for h, rows in by_heads.items()}
        widths |= set(share)
        line(plot, target, list(share), list(share.values()), color, f"{target}, d_k %{{x}}: %{{y:.1f}} %",
             symbol=symbol)
        # An exponential comes with 2 d_k multiply-adds, which are 4 d_k floating-point operations.
        model = [100 / (1 + 4 * d_k * sweep.exp_peak(target) / sweep.fma_peak(target)) for d_k in share]
        line(plot, f"{target}, model", list(share), model, color, f"{target}, model, d_k %{{x}}: %{{y:.1f}} %",
             dash="dot", mode="lines")
    plot.update_layout(xaxis=log_axis("d_k", sorted(widths)),
                       yaxis={"title": {"text": "% of the attention's time"}, "rangemode": "tozero"})
    return figure(
        "exponential-share", "Share of the softmax in scoring + softmax + blending, staged: it rises as d_k falls. "
        "Dotted: both at their peaks. Below the dots the products miss theirs, above them the stored scores have left "
        "the cache.", plot)


def narrow_heads(sweep):
    """Share of the FMA peak that scoring and blending keep over d_k."""
    plot = go.Figure()
    widths = set()
    colors = iter(LINE_COLORS)
    for target in sweep.targets:
        by_heads = sweep.stages(target)
        for stage, dash in (("score", "solid"), ("blend", "dash")):
            share = {sweep.d_model // h: 100 * rows[stage]["peak_share"] for h, rows in by_heads.items()}
            widths |= set(share)
            line(plot, f"{stage}, {target}", list(share), list(share.values()), next(colors),
                 f"{stage}, {target}, d_k %{{x}}: %{{y:.0f}} %", dash=dash,
                 symbol="circle" if stage == "score" else "square")
    line_width = CACHE_LINE_BYTES // FLOAT_BYTES
    highest = max(max(trace.y) for trace in plot.data)
    line(plot, f"d_k {line_width}: a row is one cache line", [line_width] * 2, [0, highest], GREY, "%{fullData.name}",
         dash="dot", mode="lines")
    plot.update_layout(xaxis=log_axis("d_k", sorted(widths)),
                       yaxis={"title": {"text": "% of FMA peak"}, "rangemode": "tozero"})
    return figure(
        "narrow-heads", f"Share of the FMA peak that scoring and blending reach: left of the line, d_k "
        f"{line_width}, heads share cache lines, and a register tile is loaded and stored for few products. No lane "
        "idles for it: lanes hold tokens.", plot)


# The least bytes that a stage of the staged layer moves: what it reads and writes once.
def stage_bytes(stage, n, d_model, h):
    tokens, scores = n * d_model, h * n * n
    numbers = {"score": 2 * tokens + scores, "softmax": 2 * scores, "blend": scores + 2 * tokens}
    return FLOAT_BYTES * numbers.get(stage, 2 * tokens + d_model * d_model)


def roof_plot(sweep, stages_shown, operations, unit, operation, roof, roof_name):
    """operations: the field of a row that has its rate, in thousand millions of `operation` a second."""
    plot = go.Figure()
    n, d_model, bandwidth = sweep.n, sweep.d_model, sweep.context["memory_read_gigabytes"]
    intensities, rates = [], []
    for stage, symbol in zip(stages_shown, SYMBOLS):
        points = []
        for h, rows in sweep.stages().items():
            row = rows[stage]
            count = row[operations] * row["real_time"] * 1e6
            points.append((count / stage_bytes(stage, n, d_model, h), row[operations], h))
        intensities += [point[0] for point in points]
        rates += [point[1] for point in points]
        line(plot, stage_name(stage), [p[0] for p in points], [p[1] for p in points], STAGE_COLORS[stage],
             f"{stage_name(stage)}, h %{{customdata}}: %{{y:.1f}} {unit} at %{{x:.2f}} {operation}/byte",
             mode="markers", symbol=symbol, customdata=[p[2] for p in points])
    low, high = min(intensities) / 4, max(max(intensities), roof / bandwidth) * 4
    line(plot, f"memory roof, {bandwidth:.1f} GB/s", [low, roof / bandwidth], [low * bandwidth, roof], GREY,
         "%{fullData.name}", dash="dash", mode="lines")
    line(plot, f"{roof_name}, {roof:.1f} {unit}", [roof / bandwidth, high], [roof, roof], ORANGE, "%{fullData.name}",
         mode="lines")
    plot.update_layout(
        xaxis=log_scale(f"{operation} a byte of compulsory traffic", [low, high]),
        yaxis=log_scale(unit, [low * bandwidth, roof, *rates]))
    return plot


def roofline(sweep):
    products = [*PROJECTIONS, "score", "blend", "project_o"]
    plot = roof_plot(sweep, products, "gflops", "GFLOP/s", "FLOP", sweep.fma_peak(sweep.best_target), "FMA roof")
    return figure(
        "roofline", f"The products under their roofs ({sweep.best_target}, one thread), a point a stage and h: "
        "projections stay where they are whatever h; storing the scores of more heads pushes scoring and blending "
        "left, to where memory, or a cache above it, is the roof. The fused layer stores none.", plot)


def exponential_roofline(sweep):
    plot = roof_plot(sweep, ["softmax"], "gigaexponentials", "Gexp/s", "exp", sweep.exp_peak(sweep.best_target),
                     "exponential roof")
    return figure(
        "roofline-exponentials", "The softmax under its roofs: an exponential for every 8 bytes read and written, "
        "whatever h, so all stand in one column; where the scores fit a cache they rise above the memory roof.", plot)
