"""What all figures share."""

import math
from dataclasses import dataclass

import plotly.graph_objects as go
import plotly.io

# Text, lines and background are the page's business (page.js), which knows light from dark.
plotly.io.templates.default = None

# Okabe and Ito's colours: told apart by colour-blind readers, and seen on light and dark.
BLUE, SKY, GREEN, ORANGE, VERMILLION, PURPLE, GREY = (
    "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7", "#999999")
LINE_COLORS = [BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY]
STAGE_COLORS = {
    "transpose": GREY, "project_q": BLUE, "project_k": "#3F8FC4", "project_v": SKY, "score": GREEN,
    "softmax": VERMILLION, "blend": "#66C2A5", "project_o": PURPLE}
SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x"]
SEQUENTIAL = "Cividis"

TEXT_SIZE = 13
HEIGHT = 430


@dataclass
class Figure:
    """A figure of the page, and a pair of files of that name."""
    name: str
    caption: str  # one line: what to see
    plot: go.Figure


def figure(name, caption, plot, height=HEIGHT):
    plot.update_layout(
        height=height, hovermode="closest", margin={"l": 10, "r": 15, "t": 10, "b": 10}, font={"size": TEXT_SIZE},
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)",
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": TEXT_SIZE}})
    plot.update_xaxes(automargin=True, showline=True)
    plot.update_yaxes(automargin=True, showline=True, title_standoff=8)
    return Figure(name, caption, plot)


def log_axis(title, values):
    """An axis of powers that shows the values themselves."""
    return {"type": "log", "title": {"text": title}, "tickvals": list(values), "ticktext": [str(v) for v in values]}


def log_scale(title, values):
    """An axis of powers with marks at 1, 2, 5 and their tenfolds around the values."""
    low, high = min(values), max(values)
    marks = [digit * 10.0 ** power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
             for digit in (1, 2, 5)]
    shown = [mark for mark in marks if low / 2 <= mark <= high * 2]
    if len(shown) > 9:
        shown = [mark for mark in shown if f"{mark:.0e}".startswith("1")]
    return log_axis(title, [float(f"{mark:g}") if mark < 1 else round(mark) for mark in shown])


def line(plot, name, x, y, color, hover, **more):
    """A curve with marks; hover is a format of x and y."""
    style = {"color": color, "dash": more.pop("dash", "solid"), "width": 2}
    plot.add_scatter(name=name, x=x, y=y, mode=more.pop("mode", "lines+markers"), line=style,
                     marker={"symbol": more.pop("symbol", "circle"), "size": 8, "color": color},
                     hovertemplate=hover + "<extra></extra>", **more)


def cells(columns, rows, values, color_title, texttemplate, hover, **more):
    """A heat map with its numbers in the cells. values[row][column], None where nothing was measured."""
    return go.Heatmap(
        x=[str(c) for c in columns], y=[str(r) for r in rows], z=values, texttemplate=texttemplate,
        hovertemplate=hover + "<extra></extra>", hoverongaps=False, xgap=2, ygap=2, textfont={"size": TEXT_SIZE},
        colorscale=more.pop("colorscale", SEQUENTIAL),
        colorbar={"title": {"text": color_title, "side": "right"}, "thickness": 12, "outlinewidth": 0}, **more)


def category_axis(title):
    return {"type": "category", "title": {"text": title}, "showgrid": False}
