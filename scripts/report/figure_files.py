"""Every figure of the page as a PNG and an SVG file."""

import base64
from urllib.parse import unquote

WIDTH = 1000
PNG_SCALE = 2

# On white, in dark text: files go into documents.
TO_IMAGE = """([id, format, width, scale]) => {
  const plot = document.getElementById(`${id}-plot`);
  const layout = { ...plot.layout, width, paper_bgcolor: '#ffffff', plot_bgcolor: '#ffffff' };
  return Plotly.toImage({ data: plot.data, layout }, { format, width, height: plot.layout.height, scale });
}"""


def write_figure_files(page, folder, names):
    """Writes folder/NAME.png and NAME.svg of the figures of the drawn page."""
    folder.mkdir(exist_ok=True)
    for name in names:
        png = page.evaluate(TO_IMAGE, [name, "png", WIDTH, PNG_SCALE])
        (folder / f"{name}.png").write_bytes(base64.b64decode(png.split(",", 1)[1]))
        svg = page.evaluate(TO_IMAGE, [name, "svg", WIDTH, 1])
        (folder / f"{name}.svg").write_text(unquote(svg.split(",", 1)[1]), encoding="utf-8")
