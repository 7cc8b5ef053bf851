"""The headless browser that opens the page: the distribution's own Chromium, driven by Playwright."""

import contextlib
import shutil
from pathlib import Path

PROGRAMS = ["chromium", "chromium-browser", "google-chrome"]


def find_chromium():
    """The path of the program, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextlib.contextmanager
def open_browser():
    """A Playwright Browser. Raises FileNotFoundError where there is no Chromium."""
    from playwright.sync_api import sync_playwright

    program = find_chromium()
    if program is None:
        raise FileNotFoundError(f"none of {', '.join(PROGRAMS)} is on the PATH")
    with sync_playwright() as playwright:
        # No sandbox: it cannot be set up by root, as which containers run this, and the page is our own.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def open_page(context, path):
    """The page at path with all of its figures drawn."""
    page = context.new_page()
    page.goto(Path(path).resolve().as_uri())
    page.wait_for_selector("html[data-drawn=all]", state="attached", timeout=60_000)
    return page
