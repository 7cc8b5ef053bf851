"""The command line of scripts/peers.sh. Needs nothing that is not in Python, so that a wrong option is told first.

usage: python -m peers.options OPTION...   exits with 2 where an option is wrong
"""

import argparse
import re
from dataclasses import dataclass

from .machine import usable_cores
from .work import Work, all_works, more_works, quick_works

PEERS = ("torch", "onnxruntime", "openvino")
ROUNDS, QUICK_ROUNDS = 15, 9

DESCRIPTION = """\
Times headwise beside PyTorch, ONNX Runtime and OpenVINO on this machine: the same numbers in, the outputs checked
against numpy in double, all timed in turns. Prints a table and writes build/peers/results.json, which is left as it was
if the run is interrupted. Installs what is missing (packages with apt, as root or through sudo; the libraries into
build/peers/venv, 1.5 GB) and builds headwise into build/shared first.
"""
EPILOG = """\
A run takes 12 to 20 minutes on two idle cores, the quick one 3, the one with other shapes 5; installing and building
not counted.
Exit status: 0 measured, 1 the build failed or an implementation gave wrong numbers, 2 wrong option or something is
missing that cannot be installed.
"""


@dataclass
class Selection:
    works: list[Work]
    threads: list[int]
    peers: list[str]
    rounds: int


def threads_list(text: str, cores: int) -> list[int]:
    threads = []
    for part in text.split(","):
        if part != "all" and not (part.isdecimal() and 1 <= int(part) <= cores):
            raise argparse.ArgumentTypeError(f"'{part}' is neither all nor 1 to {cores}, the cores it may run on")
        threads.append(cores if part == "all" else int(part))
    return sorted(set(threads))


def peers_list(text: str) -> list[str]:
    for part in text.split(","):
        if part not in PEERS:
            raise argparse.ArgumentTypeError(f"'{part}' is none of {', '.join(PEERS)}")
    return [peer for peer in PEERS if peer in text.split(",")]


def regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"'{text}' is no regular expression: {error}") from error


def parse(arguments: list[str] | None = None) -> Selection:
    cores = len(usable_cores())
    parser = argparse.ArgumentParser(
        prog="scripts/peers.sh",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    shapes = parser.add_mutually_exclusive_group()
    shapes.add_argument("--quick", action="store_true", help="without the large shapes, and with fewer rounds")
    shapes.add_argument(
        "--more",
        action="store_true",
        help="other shapes instead: few tokens, other widths, queries that are not the keys, batches of layers",
    )
    parser.add_argument("--only", metavar="REGEX", type=regex, help="the rows whose name matches, such as 'decode|d8 '")
    parser.add_argument(
        "--threads",
        metavar="LIST",
        type=lambda text: threads_list(text, cores),
        default=f"1,{cores}",
        help="numbers of threads, or all (default 1,all)",
    )
    parser.add_argument(
        "--peers",
        metavar="LIST",
        type=peers_list,
        default=",".join(PEERS),
        help="which to compare with (default %(default)s)",
    )
    options = parser.parse_args(arguments)
    works = quick_works() if options.quick else more_works() if options.more else all_works()
    if options.only:
        names = "\n  ".join(work.name for work in works)
        works = [work for work in works if options.only.search(work.name)]
        if not works:
            parser.error(f"--only {options.only.pattern} matches none of\n  {names}")
    return Selection(works, options.threads, options.peers, QUICK_ROUNDS if options.quick else ROUNDS)


if __name__ == "__main__":
    parse()
