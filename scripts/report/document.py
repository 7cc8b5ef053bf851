"""A self-contained HTML page with figures."""

import json
from html import escape
from pathlib import Path

from plotly.offline import get_plotlyjs

HERE = Path(__file__).parent


def json_script(name, text):
    escaped = text.replace("<", "\\u003c")  # so that no text inside can end the element
    return f'<script type="application/json" id="{name}">{escaped}</script>'


class Document:
    """Collects HTML and the figures in it."""

    def __init__(self, title):
        self.title = title
        self.parts = []
        self.figures = []

    def add(self, *html):
        self.parts += html

    def section(self, title, text=""):
        self.add(f"<h2>{escape(title)}</h2>", f"<p>{text}</p>" if text else "")

    def show(self, *figures):
        """Side by side where there is room; figures that could not be made are None."""
        shown = [figure for figure in figures if figure is not None]
        self.figures += shown
        html = "".join(self.figure_html(figure) for figure in shown)
        self.add(f'<div class="pair">{html}</div>' if len(shown) > 1 else html)

    def embed(self, name, data):
        """Data that page.js reads."""
        self.add(json_script(name, json.dumps(data)))

    @staticmethod
    def figure_html(figure):
        return (f'<figure id="{figure.name}"><div class="plot" id="{figure.name}-plot" '
                f'style="height:{figure.plot.layout.height}px"></div>'
                f'{json_script(f"{figure.name}-plot-data", figure.plot.to_json())}'
                f"<figcaption>{escape(figure.caption)}</figcaption></figure>")

    def html(self):
        style = (HERE / "page.css").read_text(encoding="utf-8")
        script = (HERE / "page.js").read_text(encoding="utf-8")
        return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(self.title)}</title>'
                '<meta name="viewport" content="width=device-width, initial-scale=1">'
                f"<style>{style}</style></head><body>{''.join(self.parts)}"
                f"<script>{get_plotlyjs()}</script><script>{script}</script></body></html>\n")
