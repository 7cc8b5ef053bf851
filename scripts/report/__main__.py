"""Makes one self-contained HTML page of the sweep's results.json, and its figures as files.

usage: report RESULTS_JSON FOLDER

Writes FOLDER/report.html and, where Chromium is installed, FOLDER/figures/NAME.png and NAME.svg.
"""

import os
import sys
from pathlib import Path

from browser import find_chromium
from figure_files import write_figure_files
from page import make_page
from sweep import Sweep


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, folder = sys.argv[1:]
    page = make_page(Sweep(source))
    report = Path(folder) / "report.html"
    part = report.with_suffix(".html.part")
    part.write_text(page.html(), encoding="utf-8")
    os.replace(part, report)
    if find_chromium() is None:
        print("No Chromium here: the figures are in the page only, not in files of their own.", file=sys.stderr)
        return
    write_figure_files(report, Path(folder) / "figures", [figure.name for figure in page.figures])


if __name__ == "__main__":
    main()
