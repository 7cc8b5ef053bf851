"""Makes one self-contained HTML page of what was measured, and its figures as files.

Writes FOLDER/report.html and, where Chromium is installed, FOLDER/figures/NAME.png and NAME.svg.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from browser import find_chromium
from document import Document
from figure_files import write_figure_files
from heads_section import add_heads
from page import make_page
from sweep import Sweep


def parse_arguments():
    parser = argparse.ArgumentParser(prog="report", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--results", help="results.json of a sweep")
    parser.add_argument("--attention", help="what examples/python/attention_maps.py wrote; without --results the page "
                        "has nothing else")
    arguments = parser.parse_args()
    if arguments.results is None and arguments.attention is None:
        parser.error("neither --results nor --attention is given")
    return arguments


def main():
    arguments = parse_arguments()
    attention = arguments.attention and json.loads(Path(arguments.attention).read_text(encoding="utf-8"))
    if arguments.results is None:
        page = Document("headwise: what heads look at")
        add_heads(page, attention)
    else:
        page = make_page(Sweep(arguments.results), attention)

    report = arguments.folder / "report.html"
    part = report.with_suffix(".html.part")
    part.write_text(page.html(), encoding="utf-8")
    os.replace(part, report)
    if find_chromium() is None:
        print("No Chromium here: the figures are in the page only, not in files of their own.", file=sys.stderr)
        return
    write_figure_files(report, arguments.folder / "figures", [figure.name for figure in page.figures])


if __name__ == "__main__":
    main()
