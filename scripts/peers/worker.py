"""Measures with one number of threads, in a process of its own: libraries make their threads once.

usage: python -m peers.worker CONFIG   (JSON, see Config; started by peers.__main__, bound to the processors already)

Writes a JSON object a line to standard output: {"versions"}, {"row"} for each work, {"roofs"}.
"""

import json
import os
import random
import signal
import sys
from typing import Any, TypedDict

from .implementation import Implementation
from .measure import interleaved
from .problem import Problem, problem_of, wrong
from .results import OURS, library_of
from .work import all_works, more_works


class Config(TypedDict):
    processors: list[int]  # as many as threads, each of a core of its own
    works: list[str]
    peers: list[str]
    rounds: int
    headwise: str  # paths of the libraries
    roofs: str


def load_libraries(config: Config):
    """headwise and the peers, of which only those that are wanted are imported."""
    threads = len(config["processors"])
    peers: list[Any] = []
    # First: it brings a oneTBB of its own, which headwise then shares, as a process has only one.
    if "openvino" in config["peers"]:
        from .with_openvino import OpenVino

        peers.append(OpenVino(threads))
    if "torch" in config["peers"]:
        from .with_torch import Torch

        peers.append(Torch(threads))
    if "onnxruntime" in config["peers"]:
        from .with_onnxruntime import OnnxRuntime

        peers.append(OnnxRuntime(threads))
    from .with_headwise import Headwise

    return Headwise(config["headwise"]), peers


def checked(libraries, problem: Problem, row) -> dict[str, Implementation]:
    """The implementations that give the right numbers. Others are named in row["wrong"] and row["unavailable"]."""
    right = {}
    for library in libraries:
        for name, make in library.offers(problem).items():
            try:
                implementation = make()
                difference = wrong(problem, implementation.outputs(implementation.calls[0]()))
            except Exception as error:  # of whatever kind the library throws
                # What a peer cannot do is no fault; what ours cannot do is one.
                fault = "wrong" if library.name == OURS else "unavailable"
                row[fault][name] = f"{type(error).__name__}: {error}"[:300]
                continue
            if difference:
                row["wrong"][name] = difference
            else:
                right[name] = implementation
    return right


def measure(libraries, work, threads: int, rounds: int, rng: random.Random):
    row = {"work": work.name, "threads": threads, "unavailable": {}, "wrong": {}}
    right = checked(libraries, problem_of(work), row)
    row["samples"] = interleaved({name: one.calls for name, one in right.items()}, rounds, library_of, rng)
    return row


def main() -> None:
    config: Config = json.loads(sys.argv[1])
    # Whatever a library prints goes elsewhere.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(**what):
        print(json.dumps(what), file=answers, flush=True)

    headwise, peers = load_libraries(config)
    from .roofs import Roofs

    threads = len(config["processors"])
    roofs = Roofs(config["roofs"], headwise.target, threads)
    versions = {library.name: library.version for library in (headwise, *peers)}
    answer(versions=versions, target=headwise.target)
    rng = random.Random(1)
    for work in all_works() + more_works():
        if work.name in config["works"]:
            roofs.sample()
            answer(row=measure((headwise, *peers), work, threads, config["rounds"], rng))
    answer(roofs={"fma_samples": roofs.fma_samples, "read_samples": roofs.read_samples})


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    main()
