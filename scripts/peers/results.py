"""From samples to rows, the table and results.json."""

import json
import math
import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .work import Work

Row = dict[str, Any]
Rates = Mapping[str, float]  # by roof: FLOP/s and bytes/s

OURS = "headwise"


def library_of(implementation: str) -> str:
    return implementation.replace(",", " ").split()[0]


def fastest(seconds: Mapping[str, float], ours: bool) -> str | None:
    names = [name for name in seconds if (library_of(name) == OURS) == ours]
    return min(names, key=lambda name: seconds[name], default=None)


def finished(raw: Row, work: Work, rates: Rates) -> Row:
    """A row of results.json. Where a library has several ways, its fastest counts, ours too; those that dropped out
    early have samples and no median. What no peer can do has no best peer; where ours is wrong there is neither a share
    nor a speed-up."""
    rounds = max(map(len, raw["samples"].values()), default=0)
    seconds = {name: statistics.median(one) for name, one in raw["samples"].items() if len(one) == rounds}
    ours, peer = fastest(seconds, ours=True), fastest(seconds, ours=False)
    return {
        "work": raw["work"],
        "threads": raw["threads"],
        "seconds": seconds,
        "headwise_seconds": seconds[ours] if ours else None,
        "best_peer": peer,
        "speedup_over_best_peer": seconds[peer] / seconds[ours] if ours and peer else None,
        "roof": work.roof,
        "share_of_peak": work.useful / seconds[ours] / rates[work.roof] if ours else None,
        "samples": raw["samples"],
        "unavailable": raw["unavailable"],
        "wrong": raw["wrong"],
    }


def peaks_of(roofs: Mapping[str, Sequence[float]]) -> Rates:
    """The upper decile of the samples: of two threads, one was seen to be held up in more than half of them."""

    def upper_decile(samples: Sequence[float]) -> float:
        return sorted(samples)[int(0.9 * (len(samples) - 1))]

    return {"fma": upper_decile(roofs["fma_samples"]), "read": upper_decile(roofs["read_samples"])}


def compared(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["speedup_over_best_peer"] is not None]


def geometric_mean(rows: Sequence[Row]) -> float | None:
    logs = [math.log(row["speedup_over_best_peer"]) for row in compared(rows)]
    return math.exp(statistics.fmean(logs)) if logs else None


def worst(rows: Sequence[Row]) -> Row | None:
    return min(compared(rows), key=lambda row: row["speedup_over_best_peer"], default=None)


def document(rows: Sequence[Row], roofs: Mapping[int, Mapping[str, Sequence[float]]], context: Row) -> Row:
    return {
        "geometric_mean": geometric_mean(rows),
        "worst": worst(rows),
        "peaks": {
            str(threads): {"fma_flops_per_second": peaks_of(one)["fma"], "read_bytes_per_second": peaks_of(one)["read"]}
            for threads, one in roofs.items()
        },
        "context": context,
        "rows": list(rows),
    }


def write_atomically(results: Row, path: Path) -> None:
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def threads_text(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


def summary(results: Row) -> str:
    rows = compared(results["rows"])
    if not rows:
        return "Nothing was compared."
    losses = sum(row["speedup_over_best_peer"] < 1 for row in rows)
    least = results["worst"]
    return (
        f"headwise is {results['geometric_mean']:.2f} times as fast as the best peer (geometric mean of {len(rows)} "
        f"rows); it is the slower one in {losses} of them; its worst is {least['speedup_over_best_peer']:.2f} times, "
        f"beside {least['best_peer']}: {least['work']}, {threads_text(least['threads'])}."
    )


def milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1000 * seconds:.3f}"


def table(results: Row) -> str:
    lines = [("work", "threads", "headwise/ms", "best peer/ms", "speed-up", "of peak", "best peer")]
    for row in results["rows"]:
        peer, speedup, share = row["best_peer"], row["speedup_over_best_peer"], row["share_of_peak"]
        lines.append(
            (
                row["work"],
                str(row["threads"]),
                milliseconds(row["headwise_seconds"]),
                milliseconds(row["seconds"][peer] if peer else None),
                "-" if speedup is None else f"{speedup:.2f}",
                "-" if share is None else f"{100 * share:.0f} %" + (" read" if row["roof"] == "read" else ""),
                peer or "-",
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines)]
    # The first and the last column are words.
    last = len(widths) - 1
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i in (0, last) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    )


def peaks_text(results: Row) -> str:
    return "\n".join(
        f"Peaks, {threads_text(int(threads))}: {peaks['fma_flops_per_second'] / 1e9:.1f} GFLOP/s of multiply-adds, "
        f"{peaks['read_bytes_per_second'] / 1e9:.1f} GB/s read from memory."
        for threads, peaks in results["peaks"].items()
    )


def wrong_text(rows: Sequence[Row]) -> str:
    """A line for each implementation that gave wrong numbers; empty if none did."""
    return "\n".join(
        f"WRONG: {name} in {row['work']}, {threads_text(row['threads'])}: {difference}"
        for row in rows
        for name, difference in row["wrong"].items()
    )


def unavailable_text(rows: Sequence[Row]) -> str:
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for name, reason in row["unavailable"].items():
            reasons.setdefault((name, reason.splitlines()[0]), []).append(row["work"])
    return "\n".join(
        f"Not run: {name}, in {works[0]}" + (f" and {len(works) - 1} more" if len(works) > 1 else "") + f": {reason}"
        for (name, reason), works in reasons.items()
    )
