"""usage: python -m peers --headwise LIBRARY --roofs LIBRARY --results FILE --revision TEXT -- OPTION...

Runs a worker for each number of threads, one after another, and brings together what they measured. Started by
scripts/peers.sh, whose options follow the --.
"""

import argparse
import datetime
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import results
from .machine import processor_name, usable_cores
from .options import Selection, parse
from .progress import TimeLeft, expected_cost
from .worker import Config

EXIT_FAILED, EXIT_INTERRUPTED = 1, 130


class WorkerFailed(Exception):
    pass


def answers(config: Config) -> Iterator[dict[str, Any]]:
    processors = config["processors"]
    threads = str(len(processors))
    # For libraries that read it when they are loaded, before they are told otherwise.
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    command = [sys.executable, "-B", "-m", "peers.worker", json.dumps(config)]
    worker = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=lambda: os.sched_setaffinity(0, processors),
    )
    try:
        for line in worker.stdout or ():
            yield json.loads(line)
        if worker.wait() != 0:
            raise WorkerFailed(f"the process that measures with {threads} threads ended with {worker.returncode}")
    finally:
        worker.kill()
        worker.wait()


def one_line(row: results.Row) -> str:
    medians = {name: statistics.median(samples) for name, samples in row["samples"].items()}
    shown = [name for ours in (True, False) if (name := results.fastest(medians, ours))]
    times = ", ".join(f"{name} {results.milliseconds(medians[name])} ms" for name in shown)
    return f"{row['work']}, {results.threads_text(row['threads'])}: {times}"


def measure(selection: Selection, headwise: str, roofs: str):
    """Rows, roofs by threads, and versions."""
    works = {work.name: work for work in selection.works}
    runs = [(threads, work) for threads in selection.threads for work in selection.works]
    left = TimeLeft([expected_cost(work, threads, selection.rounds) for threads, work in runs])
    rows, all_roofs, versions = [], {}, {}
    for threads in selection.threads:
        raw_rows = []
        config = Config(
            processors=usable_cores()[:threads],
            works=list(works),
            peers=selection.peers,
            rounds=selection.rounds,
            headwise=headwise,
            roofs=roofs,
        )
        for answer in answers(config):
            if "row" in answer:
                raw_rows.append(answer["row"])
                print(left.step(), one_line(answer["row"]), file=sys.stderr)
                if problems := results.wrong_text(raw_rows[-1:]):
                    print(problems, file=sys.stderr)
            elif "roofs" in answer:
                all_roofs[threads] = answer["roofs"]
            else:
                versions = answer
        peaks = results.peaks_of(all_roofs[threads])
        rows += [results.finished(raw, works[raw["work"]], peaks) for raw in raw_rows]
    return rows, all_roofs, versions


def context_of(selection: Selection, versions: dict[str, Any], revision: str) -> dict[str, Any]:
    return {
        "processor": processor_name(),
        "cores": len(usable_cores()),
        "system": platform.platform(),
        "python": platform.python_version(),
        "git_revision": revision,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "rounds": selection.rounds,
        **versions,
    }


def interrupt(*_):
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--headwise", required=True)
    parser.add_argument("--roofs", required=True)
    parser.add_argument("--results", required=True, type=Path)
    parser.add_argument("--revision", required=True)
    parser.add_argument("options", nargs="*")
    arguments = parser.parse_args()
    selection = parse(arguments.options)

    signal.signal(signal.SIGTERM, interrupt)
    try:
        rows, roofs, versions = measure(selection, arguments.headwise, arguments.roofs)
        document = results.document(rows, roofs, context_of(selection, versions, arguments.revision))
        results.write_atomically(document, arguments.results)
    except KeyboardInterrupt:
        print(f"Interrupted. {arguments.results} is as it was before.", file=sys.stderr)
        return EXIT_INTERRUPTED
    except WorkerFailed as error:
        print(f"Nothing was written: {error}; its last words are above.", file=sys.stderr)
        return EXIT_FAILED
    wrong = results.wrong_text(rows)
    parts = [results.summary(document), results.table(document), results.peaks_text(document)]
    parts += [results.unavailable_text(rows), wrong, str(arguments.results)]
    print("\n\n".join(part for part in parts if part))
    return EXIT_FAILED if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
