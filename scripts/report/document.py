"""A self-contained HTML page with figures."""

import json
from html import escape
from pathlib import Path

from plotly.offline import get_plotlyjs

from theme import Figure

HERE = Path(__file__).parent


def json_script(name, text):
    escaped = text.replace("<", "\\u003c")  # so that no text inside can end the element
    return f'<script type="application/json" id="{name}">{escaped}</script>'


class Document:
    """Collects HTML and figures."""

    def __init__(self, title):
        self.title = title
        self.parts = []

    @property
    def figures(self):
        return [part for part in self.parts if isinstance(part, Figure)]

    def add(self, *html):
        self.parts += html

    def section(self, title, text=""):
        self.add(f"<h2>{escape(title)}</h2>", f"<p>{text}</p>" if text else "")

    def show(self, *figures):
        """Side by side where there is room; figures that could not be made are None."""
        shown = [figure for figure in figures if figure is not None]
        self.add(*(['<div class="pair">', *shown, "</div>"] if len(shown) > 1 else shown))

    def embed(self, name, data):
        """Data that page.js reads."""
        self.add(json_script(name, json.dumps(data)))

    @staticmethod
    def figure_html(figure, picture):
        return (f'<figure id="{figure.name}"><div class="plot" id="{figure.name}-plot" '
                f'style="height:{figure.plot.layout.height}px">{picture}</div>'
                f'{json_script(f"{figure.name}-plot-data", figure.plot.to_json())}'
                f"<figcaption>{escape(figure.caption)}</figcaption></figure>")

    def html(self, pictures=None):
        """pictures: what take_pictures gives; without them the figures are blank until Plotly has drawn them."""
        style = (HERE / "page.css").read_text(encoding="utf-8")
        script = (HERE / "page.js").read_text(encoding="utf-8")
        body = "".join(self.figure_html(part, (pictures or {}).get(part.name, "")) if isinstance(part, Figure) else part
                       for part in self.parts)
        return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(self.title)}</title>'
                '<meta name="viewport" content="width=device-width, initial-scale=1">'
                f"<style>{style}</style></head><body>{body}"
                # As a text, which page.js runs when the page has been shown: a browser takes long to read it.
                f'<script type="text/plain" id="plotly">{get_plotlyjs()}</script><script>{script}</script>'
                "</body></html>\n")
