"""Puts a run of the sweep into README.md: a table between its markers, and the headline's figure beside it.

usage: readme.py FOLDER      with results.json and figures/stages.svg, as scripts/sweep.sh leaves them
"""

import shutil
import sys
from pathlib import Path

from page import answer
from sweep import Sweep

ROOT = Path(__file__).parents[2]
FIGURE = Path("docs/stages.svg")
BEGIN, END = "<!-- measured:begin -->\n", "<!-- measured:end -->\n"


def spliced(text, block):
    """text with what stands between the markers replaced by block."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"README.md must have {BEGIN.strip()} and {END.strip()} once each")
    head, rest = text.split(BEGIN)
    return head + BEGIN + block + END + rest.split(END)[1]


def table(sweep):
    lines = ["| target | threads | h | d_k | ms | GFLOP/s | share of peak | naive |", "|---|---|---|---|---|---|---|---|"]
    for row in sweep.find("layer", n=sweep.n, d_model=sweep.d_model, target=sweep.best_target):
        if "speedup_over_naive" not in row:
            continue
        if row["arena_threads"] != sweep.context["threads"][0] and row["h"] != sweep.h:
            continue
        lines.append(f'| {row["target"]} | {row["arena_threads"]} | {row["h"]} | {row["d_k"]} | '
                     f'{row["real_time"]:.1f} | {row["gflops"]:.1f} | {100 * row["peak_share"]:.0f} % | '
                     f'{row["speedup_over_naive"]:.0f}x |')
    return "\n".join(lines)


def measured(sweep):
    context = sweep.context
    peaks = context["fma_peak_gflops"][sweep.best_target]
    peak = ", ".join(f"{gflops:.0f} on {threads}" for threads, gflops in peaks.items())
    return (f"{answer(sweep)}\n\n![Time of each stage over the number of heads]({FIGURE})\n\n"
            f'`./scripts/sweep.sh` of {context["date"][:10]} on {context["processor"]} ({context["hardware_threads"]} '
            f'threads, {context["compiler"]}): the layer in fp32, n {sweep.n}, d_model {sweep.d_model}, medians of '
            f'{context["repetitions"]}. The share is of the FMA peak measured in the same run (GFLOP/s by threads: '
            f"{peak}); naive is the plain loops of `headwise::reference` in float, one thread, `-O3`.\n\n{table(sweep)}\n")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    sweep = Sweep(folder / "results.json")
    if sweep.failures:
        sys.exit(f"readme.py: {folder / 'results.json'} is of a run that failed {len(sweep.failures)} of its checks")
    readme = ROOT / "README.md"
    readme.write_text(spliced(readme.read_text(encoding="utf-8"), measured(sweep)), encoding="utf-8")
    (ROOT / FIGURE).parent.mkdir(exist_ok=True)
    shutil.copyfile(folder / "figures" / FIGURE.name, ROOT / FIGURE)


if __name__ == "__main__":
    main()
