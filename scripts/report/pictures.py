"""Pictures of the figures. The page shows them until Plotly has drawn the figures over them, which takes seconds on a
slow machine, and wherever scripts do not run.
"""

from urllib.parse import unquote

PAGE_WIDTH = 1440  # of a desktop; figures are there as wide as they get
PHONE_FIGURE_WIDTH = 358  # of a phone of 390

# Stand-ins, found again in the SVG, for the page's colours, which light and dark differ in.
TEXT, LINE = (1, 2, 3), (3, 2, 1)

TO_SVG = """async ([id, text, line, phoneWidth]) => {
  const plot = document.getElementById(`${id}-plot`);
  await Plotly.relayout(plot, colorsOf(plot.layout, { text: `rgb(${text})`, line: `rgb(${line})` }));
  const draw = (width) => Plotly.toImage(plot, { format: 'svg', width, height: plot.layout.height });
  return [await draw(plot.clientWidth), await draw(phoneWidth)];
}"""


def themed(svg):
    """svg in the colours of the page that it stands in."""
    for color, named in ((TEXT, "currentColor"), (LINE, "var(--line)")):
        svg = svg.replace(f"rgb({', '.join(map(str, color))})", named)
    return svg


def take_pictures(page, names):
    """{name: HTML} of the figures of the drawn page, once for a desktop and once for a phone. It leaves the page in
    colours that are not to be seen.
    """
    pictures = {}
    for name in names:
        images = page.evaluate(TO_SVG, [name, list(TEXT), list(LINE), PHONE_FIGURE_WIDTH])
        pictures[name] = "".join(
            f'<div class="picture {kind}">{themed(unquote(image.split(",", 1)[1]))}</div>'
            for kind, image in zip(("wide", "narrow"), images))
    return pictures
