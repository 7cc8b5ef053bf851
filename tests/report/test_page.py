"""The report's page in headless Chromium: nothing is blank, nothing overflows, hovering and choosing work.

usage: test_page.py FOLDER      with report.html, results.json and attention.json of scripts/sweep.sh
"""

import base64
import json
import sys
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "scripts" / "report"
sys.path.insert(0, str(SCRIPTS))
from browser import open_browser, open_page
from color_vision import contrast, least_difference
from page import make_page
from pictures import LINE, TEXT
from readme import BEGIN, END, measured, spliced
from sweep import Sweep
from theme import LINE_COLORS, STAGE_COLORS

MOST_BYTES = 8e6
LEAST_TEXT_PIXELS = 10
LEAST_CONTRAST = 4.5   # WCAG 2, AA
LEAST_DIFFERENCE = 10  # CIE 76; 2.3 is what an eye just tells apart
WIDTHS = (390, 1440)
SCHEMES = ("light", "dark")

# Counts of a screenshot's colours: {"#rrggbb": pixels}.
COLORS_OF_PNG = """async (png) => {
  const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
  const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext('2d');
  context.drawImage(bitmap, 0, 0);
  const pixels = context.getImageData(0, 0, bitmap.width, bitmap.height).data;
  const counts = {};
  for (let i = 0; i < pixels.length; i += 4) {
    const color = '#' + [...pixels.subarray(i, i + 3)].map((c) => c.toString(16).padStart(2, '0')).join('');
    counts[color] = (counts[color] || 0) + 1;
  }
  return counts;
}"""

# Middles of what a plot shows, the largest first, in pixels of the window.
MARKS = """(plot) => {
  const boxes = [...plot.querySelectorAll('.bars .point path, .scatterlayer .points path, .heatmaplayer image')]
    .map((mark) => mark.getBoundingClientRect());
  boxes.sort((a, b) => b.width * b.height - a.width * a.height);
  // Not quite the middle, which in a map of maps is a gap.
  return boxes.slice(0, 10).map((box) => [box.x + 0.48 * box.width, box.y + 0.48 * box.height]);
}"""

OVERFLOWING = """() => [...document.querySelectorAll('body *')].filter((element) => {
  if (element.closest('.scroll, svg svg, #js-plotly-tester')) return false;
  const box = element.getBoundingClientRect();
  return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
}).map((element) => `${element.tagName} ${element.id} ${element.className}`)"""

TEXT_STYLES = """(selector) => [...document.querySelectorAll(selector)].filter((element) => element.textContent).map(
  (element) => {
    const style = getComputedStyle(element);
    return { svg: element.namespaceURI.endsWith('svg'), size: parseFloat(style.fontSize), color: style.color,
             fill: style.fill, text: element.textContent };
  })"""


def rgb(css):
    return [int(float(part)) for part in css[css.index("(") + 1:css.index(")")].split(",")[:3]]


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.report = folder / "report.html"
        cls.browser = cls.enterClassContext(open_browser())
        cls.opened = {}

    def view(self, width=1440, scheme="light"):
        """A page for tests that leave it as it is; opening one takes a second or two."""
        if (width, scheme) not in self.opened:
            self.opened[width, scheme] = self.open(width, scheme, keep=True)
        return self.opened[width, scheme]

    def open(self, width=1440, scheme="light", keep=False):
        """The drawn page, whose errors and requests are kept in self.messages and self.requests."""
        context = self.browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
        if not keep:
            self.addCleanup(context.close)
        self.messages, self.requests = [], []
        context.on("console", lambda message: self.messages.append(message.text))
        context.on("weberror", lambda error: self.messages.append(str(error.error)))
        context.on("request", lambda request: self.requests.append(request.url))
        return open_page(context, self.report)

    def plots(self, page):
        plots = page.query_selector_all(".plot")
        self.assertGreater(len(plots), 10)
        return plots

    def test_opens_alone_and_silently(self):
        self.assertLess(self.report.stat().st_size, MOST_BYTES)
        page = self.open()
        self.assertEqual(self.messages, [])
        self.assertEqual([url for url in self.requests if not url.startswith(("file:", "data:", "blob:"))], [])

    def test_loads_without_waiting_for_plotly(self):
        """How long that takes is printed; no test depends on a time."""
        loads = []
        for _ in range(3):
            context = self.browser.new_context(viewport={"width": 1440, "height": 900})
            context.add_init_script("addEventListener('load', () => { window.atLoad = typeof Plotly; });")
            page = context.new_page()
            page.goto(self.report.resolve().as_uri())
            loads.append(page.evaluate("performance.getEntriesByType('navigation')[0].loadEventStart"))
            self.assertEqual(page.evaluate("window.atLoad"), "undefined")
            context.close()  # with Plotly still at work in it
        print(f"loaded after {', '.join(f'{load:.0f}' for load in loads)} ms", file=sys.stderr)

    def assert_drawn(self, plot):
        counts = self.view().evaluate(COLORS_OF_PNG, base64.b64encode(plot.screenshot()).decode())
        background = max(counts, key=counts.get)
        drawn = sum(counts.values()) - counts[background]
        self.assertGreater(drawn / sum(counts.values()), 0.01)
        self.assertGreater(len(counts), 20)

    def test_every_figure_is_drawn(self):
        for scheme in SCHEMES:
            for plot in self.plots(self.view(scheme=scheme)):
                with self.subTest(plot.get_attribute("id"), scheme=scheme):
                    self.assert_drawn(plot)

    def test_pictures_stand_for_the_figures_without_scripts(self):
        for width in WIDTHS:
            context = self.browser.new_context(viewport={"width": width, "height": 900}, java_script_enabled=False)
            self.addCleanup(context.close)
            page = context.new_page()
            page.goto(self.report.resolve().as_uri())
            self.assertEqual(page.query_selector_all(".js-plotly-plot"), [])
            for plot in self.plots(page):
                with self.subTest(plot.get_attribute("id"), width=width):
                    self.assert_drawn(plot)
                    shown = [picture for picture in plot.query_selector_all(".picture") if picture.is_visible()]
                    self.assertEqual(len(shown), 1)
                    self.assertEqual(shown[0].bounding_box(), plot.bounding_box())
                    # The picture was made for this width: it is not scaled, and its text is as large as meant.
                    self.assertEqual(shown[0].query_selector("svg").get_attribute("width"),
                                     f"{plot.bounding_box()['width']:g}")

    def test_pictures_follow_the_color_scheme(self):
        svg = self.report.read_text(encoding="utf-8").split("<svg", 1)[1].split('<script', 1)[0]
        for part in ("fill: currentColor", "stroke: var(--line)"):
            self.assertIn(part, svg)
        for stand_in in (TEXT, LINE):
            self.assertNotIn(", ".join(map(str, stand_in)), svg)

    def test_a_failed_run_says_so_first(self):
        failures = Sweep(folder / "results.json").failures
        first = self.view().query_selector("h1 + *").inner_text()
        self.assertEqual(first.startswith("This run failed"), bool(failures))
        for failure in failures:
            self.assertIn(failure, first)

    def test_figures_have_a_caption(self):
        page = self.view()
        for figure in page.query_selector_all("figure"):
            self.assertGreater(len(figure.query_selector("figcaption").inner_text()), 20)

    def test_hover(self):
        for width in WIDTHS:
            page = self.view(width)
            for plot in self.plots(page):
                with self.subTest(plot.get_attribute("id"), width=width):
                    plot.scroll_into_view_if_needed()
                    self.assertTrue(self.hovers(page, plot))

    @staticmethod
    def hovers(page, plot):
        for x, y in page.evaluate(MARKS, plot):
            page.mouse.move(0, 0)
            page.mouse.move(x, y)
            page.wait_for_timeout(100)  # Plotly answers the mouse at most every 50 ms
            if plot.query_selector(".hoverlayer .hovertext"):
                return True
        return False

    def test_nothing_overflows(self):
        for width in WIDTHS:
            page = self.view(width)
            with self.subTest(width=width):
                self.assertEqual(page.evaluate("document.documentElement.scrollWidth"), width)
                self.assertEqual(page.evaluate(OVERFLOWING), [])

    def test_text_can_be_read(self):
        for width in WIDTHS:
            for scheme in SCHEMES:
                page = self.view(width, scheme)
                background = rgb(page.evaluate("getComputedStyle(document.body).backgroundColor"))
                shown = page.evaluate(TEXT_STYLES, "p, figcaption, td, th, summary, .good, .bad, .plot .xtick text, "
                                      ".plot .ytick text, .plot .legendtext, .plot .xtitle, .plot .ytitle")
                for style in shown:
                    with self.subTest(style["text"][:40], width=width, scheme=scheme):
                        self.assertGreaterEqual(style["size"], LEAST_TEXT_PIXELS)
                        color = rgb(style["fill"] if style["svg"] else style["color"])
                        self.assertGreaterEqual(contrast(color, background), LEAST_CONTRAST)

    def test_figures_follow_the_color_scheme(self):
        page = self.open()
        color = "document.querySelector('.plot').layout.font.color"
        light = page.evaluate(color)
        page.emulate_media(color_scheme="dark")
        page.wait_for_function(f"{color} !== '{light}'")

    def test_choice_of_a_head(self):
        page = self.open()
        first = "JSON.stringify(document.getElementById('maps-0-head-plot').data[0].z)"
        before = page.evaluate(first)
        page.select_option("#maps-0-layer", "0")
        page.select_option("#maps-0-head", "2")
        chosen = page.evaluate(first)
        self.assertNotEqual(chosen, before)
        weights = json.loads((folder / "attention.json").read_text(encoding="utf-8"))["sentences"][0]["weights"]
        self.assertEqual(json.loads(chosen), weights[0][2])

        grid = page.query_selector("#maps-0-grid-plot .heatmaplayer image")
        grid.scroll_into_view_if_needed()
        box = grid.bounding_box()
        page.mouse.click(box["x"] + box["width"] - 5, box["y"] + box["height"] - 5)
        page.wait_for_function("document.getElementById('maps-0-head').value === '11'")
        self.assertEqual(page.input_value("#maps-0-layer"), "5")

    def test_prints(self):
        pdf = self.open().pdf(format="A4")
        self.assertTrue(pdf.startswith(b"%PDF"))
        self.assertGreater(pdf.count(b"/Type /Page\n"), 4)

    def test_figure_files(self):
        for plot in self.plots(self.view()):
            name = plot.get_attribute("id").removesuffix("-plot")
            png = (folder / "figures" / f"{name}.png").read_bytes()
            self.assertTrue(png.startswith(b"\x89PNG") and len(png) > 5000, name)
            self.assertIn("</svg>", (folder / "figures" / f"{name}.svg").read_text(encoding="utf-8"))


class ContentTest(unittest.TestCase):
    def page(self, change=lambda results: None):
        sweep = Sweep(folder / "results.json")
        sweep.json["failures"].clear()
        change(sweep.json)
        return make_page(sweep).html()

    def test_a_failure_is_the_first_thing_said(self):
        def fail(results):
            results["failures"].append("layer at <n 8>: counts of work differ")

        body = self.page(fail).split("<body>")[1]
        self.assertIn("This run failed 1 of its checks", body[:200])
        self.assertIn("&lt;n 8&gt;", body)
        self.assertNotIn("This run failed", self.page())

    def test_a_difference_in_a_count_is_shown(self):
        def miscount(results):
            for check in results["counts"]:
                check["reported_useful"]["score"] += 1

        self.assertIn("COUNT DIFFERS", self.page(miscount))
        self.assertNotIn("COUNT DIFFERS", self.page())


class ReadmeTest(unittest.TestCase):
    def test_only_what_is_between_the_markers_changes(self):
        self.assertEqual(spliced(f"a\n{BEGIN}old\n{END}b\n", "new\n"), f"a\n{BEGIN}new\n{END}b\n")
        for text in ("a\n", f"{BEGIN}old\n{END}{BEGIN}old\n{END}"):
            with self.assertRaises(ValueError):
                spliced(text, "new\n")

    def test_block_tells_machine_and_date(self):
        sweep = Sweep(folder / "results.json")
        block = measured(sweep)
        for part in (sweep.context["processor"], sweep.context["date"][:10], "docs/stages.svg", "| GFLOP/s |"):
            self.assertIn(part, block)


class ColorTest(unittest.TestCase):
    """For eyes of any kind: neighbours of a stack, and lines of a plot, are told apart."""

    def test_stages(self):
        stages = list(STAGE_COLORS)
        for a, b in zip(stages, stages[1:]):
            with self.subTest(f"{a}, {b}"):
                self.assertGreater(least_difference(STAGE_COLORS[a], STAGE_COLORS[b]), LEAST_DIFFERENCE)

    def test_lines(self):
        for i, a in enumerate(LINE_COLORS):
            for b in LINE_COLORS[:i]:
                with self.subTest(f"{a}, {b}"):
                    self.assertGreater(least_difference(a, b), LEAST_DIFFERENCE)


if __name__ == "__main__":
    folder = Path(sys.argv.pop())
    unittest.main()
