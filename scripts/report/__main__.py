"""Makes one self-contained HTML page of what was measured, and its figures as files.

Writes FOLDER/report.html and, where Chromium is installed, FOLDER/figures/NAME.png and NAME.svg.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from browser import find_chromium, open_browser, open_page
from document import Document
from figure_files import write_figure_files
from heads_section import add_heads
from page import make_page
from pictures import PAGE_WIDTH, take_pictures
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


def replace(path, text):
    """Whoever reads the file sees the old one or the new one."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def main():
    arguments = parse_arguments()
    attention = arguments.attention and json.loads(Path(arguments.attention).read_text(encoding="utf-8"))
    if arguments.results is None:
        page = Document("headwise: what heads look at")
        add_heads(page, attention)
    else:
        page = make_page(Sweep(arguments.results), attention)

    report = arguments.folder / "report.html"
    replace(report, page.html())
    if find_chromium() is None:
        print("No Chromium here: the figures are in the page only, not in files of their own, and without scripts the "
              "page does not show them.", file=sys.stderr)
        return
    names = [figure.name for figure in page.figures]
    with open_browser() as browser:
        drawn = open_page(browser.new_context(color_scheme="light", viewport={"width": PAGE_WIDTH, "height": 900}),
                          report)
        write_figure_files(drawn, arguments.folder / "figures", names)
        pictures = take_pictures(drawn, names)
    replace(report, page.html(pictures))


if __name__ == "__main__":
    main()
