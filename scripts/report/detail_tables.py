"""Tables of all that was measured and checked, folded away on the page."""

from html_pieces import table, verdict
from sweep import STAGES, WORK


def times_table(sweep, kind):
    rows = []
    for row in sweep.find(kind):
        naive = f'{row["speedup_over_naive"]:.0f}×' if "speedup_over_naive" in row else "–"
        rows.append((row["n"], row["d_model"], row["h"], row["d_k"], row["target"], row["arena_threads"],
                     f'{row["real_time"]:.3f}', f'{min(row["times"]):.3f} … {max(row["times"]):.3f}',
                     f'{row["gflops"]:.1f}', f'{100 * row["peak_share"]:.0f} %', naive))
    return table(["n", "d_model", "h", "d_k", "target", "threads", "median, ms", "least … most", "GFLOP/s",
                  "of FMA peak", "over naive"], rows)


def stages_table(sweep):
    heads = list(sweep.stages())
    rows = []
    for target in sweep.targets:
        by_heads = sweep.stages(target)
        for stage in STAGES:
            cells = []
            for h in heads:
                row = by_heads[h][stage]
                share = f' ({100 * row["peak_share"]:.0f} %)' if "peak_share" in row else ""
                cells.append(f'{row["real_time"]:.3f}{share}')
            rows.append((stage.replace("_", " "), target, *cells))
    return table(["stage", "target", *(f"h {h}, ms (of peak)" for h in heads)], rows)


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


def simulation_table(sweep):
    rows = [(run["n"], run["h"], run["workers"], run["tasks"], f'{1e3 * run["seconds"]:.3f}',
             f'{100 * run["efficiency"]:.0f} %', f'{100 * run["serial_seconds"] / run["busy_seconds"]:.0f} %',
             f'{100 * run["heads_only_efficiency"]:.0f} %')
            for run in sweep.json["simulated_threads"]]
    return table(["n", "h", "workers", "tasks", "ms", "efficiency", "of which smaller blocks leave", "one task a head"],
                 rows)
