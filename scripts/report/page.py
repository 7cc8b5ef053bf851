#!/usr/bin/env python3
"""Makes one self-contained HTML page of the sweep's results.json.

usage: report.py RESULTS_JSON REPORT_HTML
"""

import os
import sys
from html import escape

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from sweep_data import STAGES, WORK, Sweep, slope_over_h

# Okabe and Ito's colours, told apart by colour-blind readers, on light and dark alike.
STAGE_COLORS = dict(zip(STAGES, [
    "#999999", "#0072B2", "#56B4E9", "#7FB7BE", "#009E73", "#D55E00", "#CC79A7", "#E69F00"]))
LINE_COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]

STYLE = """
:root { color-scheme: light dark; --text: #1a1a1a; --soft: #595959; --page: #ffffff; --line: #d0d0d0; --good: #00664a;
        --bad: #a82a00; --band: #f3f3f3; }
@media (prefers-color-scheme: dark) {
  :root { --text: #ececec; --soft: #b3b3b3; --page: #16181b; --line: #44484e; --good: #5fd3ac; --bad: #ff9c73;
          --band: #202328; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); margin: 0 auto;
       max-width: 1100px; padding: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.3; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
p.soft, figcaption, caption { color: var(--soft); font-size: 0.9rem; text-align: left; }
.lead { font-size: 1.15rem; } .failed { border: 2px solid var(--bad); padding: 0 1rem; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: bold; }
.scroll { overflow-x: auto; } figure { margin: 1rem 0; }
table { border-collapse: collapse; font-size: 0.88rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.2rem 0.7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child, .words td, .words th { text-align: left; }
tbody tr:nth-child(even) { background: var(--band); } summary { cursor: pointer; margin: 0.5rem 0; }
@media print { .scroll { overflow: visible; } details { display: block; } }
"""

# Figures take the page's colours, now and when the reader's system changes between light and dark.
SCRIPT = """
function colour() {
  const style = getComputedStyle(document.documentElement);
  const text = style.getPropertyValue('--text').trim(), line = style.getPropertyValue('--line').trim();
  for (const figure of document.querySelectorAll('.plotly-graph-div'))
    Plotly.relayout(figure, {'font.color': text, 'xaxis.gridcolor': line, 'yaxis.gridcolor': line,
                             'xaxis.linecolor': line, 'yaxis.linecolor': line, 'yaxis.zerolinecolor': line});
}
colour();
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', colour);
"""


def table(head, rows, words=False):
    """Cells are HTML already."""
    def line(cells, tag):
        return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    kind = ' class="words"' if words else ""
    return f'<div class="scroll"><table{kind}><thead>{line(head, "th")}</thead><tbody>{body}</tbody></table></div>'


def figure_html(figure, caption):
    figure.update_layout(
        template="none", paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", height=420, hovermode="closest",
        margin={"l": 60, "r": 15, "t": 15, "b": 50}, font={"size": 14},
        legend={"orientation": "h", "y": -0.2, "yanchor": "top"})
    figure.update_xaxes(automargin=True)
    figure.update_yaxes(automargin=True)
    html = figure.to_html(full_html=False, include_plotlyjs=False, config={"responsive": True, "displayModeBar": False})
    return f"<figure>{html}<figcaption>{escape(caption)}</figcaption></figure>"


def verdict(good, text):
    return f'<span class="{"good" if good else "bad"}">{escape(text)}</span>'


def machine(sweep):
    context = sweep.context
    rows = [
        ("Processor", f'{context["processor"]}, {context["hardware_threads"]} threads'),
        ("Instruction sets", ", ".join(context["targets"])),
        ("Compiler", context["compiler"]),
        ("headwise", f'{context["headwise_version"]}, revision {context["git_revision"]}'),
        ("Measured", context["date"]),
        ("Repetitions", f'{context["repetitions"]}, interleaved at random; times are medians'),
    ]
    for target, peaks in context["fma_peak_gflops"].items():
        rows.append((f"FMA peak, {target}",
                     ", ".join(f'{gflops:.1f} GFLOP/s on {threads} thread{"" if threads == "1" else "s"}'
                               for threads, gflops in peaks.items())))
    return table(["", ""], [(escape(name), escape(str(value))) for name, value in rows], words=True)


def counted_over_h(sweep, n, d_model, quantity):
    """{h: what the kernels counted as useful}, and whether it, the reference's count and the arithmetic agree."""
    checks = [c for c in sweep.json["counts"]
              if c["subject"] == "layer" and (c["n"], c["d_model"]) == (n, d_model)]
    exact = all(c["reported_useful"][quantity] == c["arithmetic"][quantity]
                and c["counted_by_reference"][quantity] == c["arithmetic_of_counted_rows"][quantity] for c in checks)
    return {c["h"]: c["reported_useful"][quantity] for c in checks}, exact


def claims(sweep, n, d_model):
    """Each claim of the arithmetic with its count and its measured slope over h."""
    arithmetic = {"project_q": "n d_model²", "project_k": "n d_model²", "project_v": "n d_model²",
                  "score": "n² d_model", "exponentials": "h n²", "blend": "n² d_model", "project_o": "n d_model²"}
    rows = []
    for role, formula in (("q", "d_model²"), ("k", "d_model²"), ("v", "d_model²"), ("o", "d_model²")):
        checks = [p for p in sweep.json["parameters"] if p["d_model"] == d_model]
        counts = sorted({p["counted"][role] for p in checks})
        rows.append((f"parameters of W_{role}", formula, " … ".join(f"{c:,}" for c in counts),
                     verdict(all(p["passed"] for p in checks) and len(counts) == 1, "exact" if len(counts) == 1 else
                             "DIFFERS"), "–", "–"))
    for quantity, formula in arithmetic.items():
        counted, exact = counted_over_h(sweep, n, d_model, quantity)
        grows = quantity == "exponentials"
        stage = "softmax" if grows else quantity
        slope = slope_over_h(sweep.find("stage", stage=stage, n=n, d_model=d_model, target=sweep.best_target))
        values = sorted(set(counted.values()))
        shown = f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} … {values[-1]:,}"
        rows.append((f"{quantity.replace('_', ' ')}" + ("" if grows else ", multiply-adds"), formula, shown,
                     verdict(exact, "exact" if exact else "DIFFERS"), "1" if grows else "0",
                     "–" if slope is None else f"{slope[0]:+.3f} [{slope[1]:+.3f}, {slope[2]:+.3f}]"))
    rows.append(("concatenation", "0", "0", verdict(True, "no such step"), "–", "–"))
    return table(["quantity", "arithmetic", "counted", "check", "slope over h, predicted",
                  "of the time, measured [95 %]"], rows)


def times_table(sweep, kind):
    rows = []
    for row in sweep.find(kind):
        spread = f'{min(row["times"]):.3f} … {max(row["times"]):.3f}'
        rows.append((row["n"], row["d_model"], row["h"], row["d_k"], row["target"], row["arena_threads"],
                     f'{row["real_time"]:.3f}', spread, f'{row["gflops"]:.1f}', f'{100 * row["peak_share"]:.0f} %',
                     f'{row["speedup_over_naive"]:.0f}×'))
    return table(["n", "d_model", "h", "d_k", "target", "threads", "time, ms", "least … most", "GFLOP/s",
                  "of FMA peak", "over naive"], rows)


def stages_figure(sweep, n, d_model):
    figure = go.Figure()
    for stage in STAGES:
        rows = sweep.find("stage", stage=stage, n=n, d_model=d_model, target=sweep.best_target)
        figure.add_bar(name=stage.replace("_", " "), x=[f'h {row["h"]}' for row in rows],
                       y=[row["real_time"] for row in rows], marker_color=STAGE_COLORS[stage],
                       hovertemplate="%{fullData.name}, %{x}: %{y:.3f} ms<extra></extra>")
    fused = sweep.find("layer", n=n, d_model=d_model, target=sweep.best_target, arena_threads=1)
    figure.add_scatter(name="fused layer", x=[f'h {row["h"]}' for row in fused], y=[row["real_time"] for row in fused],
                       mode="markers", marker={"symbol": "diamond", "size": 12, "color": "#F0E442",
                                               "line": {"width": 2, "color": "#333333"}},
                       hovertemplate="fused, %{x}: %{y:.3f} ms<extra></extra>")
    figure.update_layout(barmode="stack", yaxis_title="ms")
    return figure_html(figure, f"Time of each stage on one thread, n {n}, d_model {d_model}, {sweep.best_target}. By "
                               "the arithmetic the products stay level and the softmax grows with the number of heads. "
                               "The diamond is the layer as it runs, its stages fused.")


def stages_table(sweep, n, d_model):
    heads = sorted({row["h"] for row in sweep.find("staged_layer", n=n, d_model=d_model)})
    rows = []
    for target in sweep.context["targets"]:
        for stage in [*STAGES, None]:
            found = {row["h"]: row for row in (
                sweep.find("staged_layer", n=n, d_model=d_model, target=target) if stage is None else
                sweep.find("stage", stage=stage, n=n, d_model=d_model, target=target))}
            if found:
                share = [f'{found[h]["real_time"]:.3f}' + (f' ({100 * found[h]["peak_share"]:.0f} %)'
                                                           if "peak_share" in found[h] else "") for h in heads]
                rows.append(((stage or "sum of the stages").replace("_", " "), target, *share))
    return table(["stage", "target", *(f"h {h}, ms (of peak)" for h in heads)], rows)


def share_figure(sweep, kind):
    figure = go.Figure()
    threads = sweep.context["threads"][0]
    n = max(row["n"] for row in sweep.find(kind))
    series = sorted({(row["target"], row["d_model"]) for row in sweep.find(kind, n=n, arena_threads=threads)})
    for i, (target, d_model) in enumerate(series):
        rows = sorted(sweep.find(kind, n=n, d_model=d_model, target=target, arena_threads=threads),
                      key=lambda row: row["h"])
        figure.add_scatter(name=f"{target}, d_model {d_model}", x=[row["h"] for row in rows],
                           y=[100 * row["peak_share"] for row in rows], mode="lines+markers",
                           line={"color": LINE_COLORS[i % len(LINE_COLORS)],
                                 "dash": ["solid", "dash", "dot"][sweep.context["targets"].index(target) % 3]},
                           hovertemplate="%{fullData.name}, h %{x}: %{y:.0f} %<extra></extra>")
    heads = sorted({row["h"] for row in sweep.find(kind, n=n)})
    figure.update_xaxes(type="log", title="h", tickvals=heads, ticktext=[str(h) for h in heads])
    figure.update_yaxes(title="% of FMA peak", rangemode="tozero")
    return figure_html(figure, f"Share of the FMA peak measured in the same run, {kind} at n {n} on {threads} "
                               f"thread{'s' if threads != 1 else ''}. Exponentials count as nothing here: where heads "
                               "are many and narrow, they are what is missing.")


def padding_table(sweep):
    rows = []
    for check in sweep.json["counts"]:
        useful, issued = check["reported_useful"], check["reported_issued"]
        cells = [f"{100 * (issued[w] - useful[w]) / useful[w]:.1f} %" if useful[w] else "–" for w in WORK]
        rows.append((check["subject"], check["n"], check["d_model"], check["h"], check["target"], *cells))
    return table(["call", "n", "d_model", "h", "target", *(w.replace("_", " ") for w in WORK)], rows)


def errors_table(sweep):
    rows = []
    for check in sweep.json["verification"]:
        error = "NaN" if check["max_error"] is None else f'{check["max_error"]:.2e}'
        rows.append((check["subject"], check["n"], check["d_model"], check["h"], check["target"],
                     f'{check["rows"]} of {check["n"]}', error, f'{check["plain_fp32_error"]:.2e}',
                     f'{check["limit"]:.2e}', verdict(check["passed"], "passed" if check["passed"] else "FAILED")))
    return table(["call", "n", "d_model", "h", "target", "rows compared", "maximum error", "plain fp32's", "allowed",
                  ""], rows)


def details(title, html):
    return f"<details><summary>{escape(title)}</summary>{html}</details>"


def top(sweep):
    parts = ["<h1>What heads cost</h1>"]
    if sweep.failures:
        items = "".join(f"<li>{escape(failure)}</li>" for failure in sweep.failures)
        parts.append(f'<div class="failed"><p class="bad">This run failed {len(sweep.failures)} of its checks. What '
                     f"follows cannot be relied on.</p><ul>{items}</ul></div>")
    parts.append(f'<p class="lead">{escape(sweep.json["headline"])}</p>')
    real = sweep.json["real_layer"]
    if real["run"]:
        parts.append(f'<p>A real layer (layer 3 of all-MiniLM-L6-v2): '
                     f'{verdict(real["passed"], "verified" if real["passed"] else "FAILED")}</p>')
        parts.append(details("Its result", "<pre>" + escape("\n".join(real["output"])) + "</pre>"))
    return "".join(parts)


def page(sweep):
    parts = [top(sweep), machine(sweep)]
    sizes = sweep.staged_sizes()
    if sizes:
        n, d_model = sizes
        parts += [f"<h2>The claims</h2><p class=soft>At n {n}, d_model {d_model}, d_k = d_model / h, one thread, "
                  f"{sweep.best_target}. Counted for every h: one number where h changes nothing. A slope of 0 is a "
                  "time that does not depend on h, 1 one that grows with it. Concatenation is no step: each head "
                  "writes its rows of one panel.</p>",
                  claims(sweep, n, d_model), "<h2>Stage by stage</h2>", stages_figure(sweep, n, d_model),
                  stages_table(sweep, n, d_model)]
    for kind, title in (("layer", "The layer"), ("operator", "The operator")):
        parts += [f"<h2>{title}</h2>", share_figure(sweep, kind), details("All times", times_table(sweep, kind))]
    naive = sorted({(row["d_model"], row["n"]) for row in sweep.find("naive_layer")})
    parts += [
        "<h2>Verified and counted</h2>",
        details("Errors against the reference in double", errors_table(sweep)),
        details("Padding: what kernels issued beyond the useful work", padding_table(sweep)),
        "<h2>Method</h2><p>GFLOP/s count a multiply-add as two operations and an exponential as none. The naive loops "
        "are the reference computed in fp32 on one thread, built by the same compiler for the baseline instruction "
        "set; they are slow, so they were measured at ", escape(", ".join(f"n {n} for d_model {d}" for d, n in naive)),
        " and their GFLOP/s there are used for every n. The stages were timed by passes over the whole layer on one "
        "thread, one stage after the other, with the scores of all heads in memory. Intervals of slopes come from "
        "drawing the repetitions anew a thousand times; they hold this run's noise, not another machine's. "
        "All numbers are in results.json beside this page.</p>"]
    parts += [f"<p class=soft>Left out: {escape(what)}.</p>" for what in sweep.context["left_out"]]
    return "".join(parts)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = sys.argv[1:]
    sweep = Sweep(source)
    html = ('<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>headwise: what heads cost</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<style>{STYLE}</style><script>{get_plotlyjs()}</script></head><body>{page(sweep)}"
            f"<script>{SCRIPT}</script></body></html>\n")
    with open(target + ".part", "w", encoding="utf-8") as file:
        file.write(html)
    os.replace(target + ".part", target)


if __name__ == "__main__":
    main()
