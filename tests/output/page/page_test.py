#!/usr/bin/env python3
"""Tests of the report page in headless Chromium; skipped where there is none, or no d3.

    apt-get install chromium node-d3
    python3 tests/output/page/page_test.py [-v] [PageTest.test_..]

Where a Python package that carries axe-core is there (axe-core-python), its rules are checked,
too. KEEP=DIR keeps the pages and a screenshot of each, light and dark.
"""
import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import browser
import make_page

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = HERE.parents[1] / "tools"
sys.path.insert(0, str(TOOLS))
from xspace import Plane, Unsigned, space  # noqa: E402: of the tests of the program

FIXTURES = HERE / "fixtures"
HOSTILE = "</script><img src=x onerror=\"document.title='owned'\">"
CANVAS = "document.querySelector('canvas')"
TWO_FRAMES = "new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))"


def fixture(name):
    return json.loads((FIXTURES / f"{name}.json").read_text())


def kernel(**fields):
    row = fixture("report")["kernels"][0]
    return {**row, **fields}


def report(**fields):
    return {**fixture("report"), **fields}


def hostile_report():
    base = fixture("report")
    functions = [{**row, "function": HOSTILE} for row in base["functions"][:2]]
    samples = [{**row, "function": HOSTILE} for row in base["samples"][:4]]
    return report(kernels=[kernel(kernel=HOSTILE, function="\u202eevil " + HOSTILE)],
                  functions=functions, samples=samples)


def recoverable_headroom():
    base = fixture("headroom")
    for i, row in enumerate(base["ops"][:8]):
        row.update(recoverable_ps=row["total_ps"] / 2, reason=None, flops_share=0.4,
                   bound=["memory", "compute", "neither", None][i % 4])
    return base


def unknown_where():
    """One device without any known time, one of whose idle time the cause is known in part."""
    base = fixture("where")
    parts = [key for key in base["devices"][0] if key.endswith("_ps")]
    base["devices"][1].update({key: None for key in parts})
    known = base["devices"][2]
    known.update(idle_host_ps=1000, idle_launch_ps=0, idle_unknown_ps=known["idle_ps"] - 1000)
    return base


def timeline_events(lanes=3, count=4000):
    """Sorted (start, duration, name) of each lane, in ticks; each twentieth is long."""
    chance = random.Random(7)
    result = []
    for _ in range(lanes):
        at, events = 0, []
        for i in range(count):
            duration = chance.randrange(5000, 9000) if i % 20 == 0 else chance.randrange(1, 90)
            events.append((at, duration, chance.randrange(9)))
            at += duration + chance.randrange(0, 400)
        result.append(events)
    return result


def bins_of(events, width):
    columns = {key: [] for key in ("index", "first", "span", "idle", "more", "name")}
    groups, before = {}, 0
    for event in events:
        groups.setdefault(event[0] // width, []).append(event)
    for index, group in sorted(groups.items()):
        grain = width // 64 if len(group) > 1 else 1
        first = group[0][0]
        span = max(start + duration for start, duration, _ in group) - first
        idle = span - sum(duration for _, duration, _ in group)
        values = (index - before, (first - index * width) // grain, -(-span // grain),
                  -(-idle // grain), len(group) - 1, max(group, key=lambda e: e[1])[2])
        before = index
        for key, value in zip(columns, values):
            columns[key].append(value)
    return {"width": width, "grain": width // 64, **columns}


def timeline_document(lanes, least):
    result = []
    for number, events in enumerate(lanes):
        listed = [event for event in events if event[1] >= least]
        starts = [event[0] for event in listed]
        lane = {"device": "GPU:0", "name": f"stream {number}", "of": "executions", "count": len(events), "events": {
            "least": least, "start": [b - a for a, b in zip([0] + starts, starts)],
            "duration": [event[1] for event in listed], "name": [event[2] for event in listed]}}
        if least:
            lane["bins"] = bins_of(events, 2048)
        result.append(lane)
    end = max(start + duration for events in lanes for start, duration, _ in events)
    return {"schema": "xplane-time.timeline", "timeline": {
        "tick_ps": 1000, "rounded": False, "start": 0, "end": end, "lanes": result,
        "lanes_left_out": 0,
        "names": [f"fusion_{i}" if i else HOSTILE for i in range(9)]}}


def host_timeline():
    """Three levels of a thread."""
    document = timeline_document(LANES, 0)
    for level, lane in enumerate(document["timeline"]["lanes"]):
        lane.update(device="CPU", name="python", of="host", **({"level": level} if level else {}))
    document["timeline"]["events_left_out"] = 5
    return document


def many_devices():
    device = fixture("report")["devices"][0]
    return report(devices=[{**device, "ordinal": i, "plane": f"/device:GPU:{i}"}
                           for i in range(10_000)], functions=[], combined=[], samples=[],
                  kernels=[])


def many_samples():
    """900 runs of one function."""
    base, chance = fixture("report"), random.Random(3)
    samples = [{**base["samples"][-1], "run": i, "active_ps": 10**8 + chance.randrange(8 * 10**7)}
               for i in range(900)]
    return report(samples=samples)


def power():
    """One sensor; of a part of its time nothing is known."""
    mean = [50 + i % 7 for i in range(90)]
    mean[30:40] = [None] * 10
    series = {"source": "rapl", "device": "package-0", "domain": "package", "begin_ns": 7 * 10**12,
              "column_ns": 8_000_000, "mean_w": mean,
              "min_w": [w and w - 3 for w in mean], "max_w": [w and w + 5 for w in mean]}
    window = {"name": "step", "begin_ns": 7 * 10**12 + 10**8, "end_ns": 7 * 10**12 + 3 * 10**8}
    return {"schema": "xplane-time.power.v1", "series": [series], "windows": [window]}


HASHES = ("v00000000000000aa", "v00000000000000bb", "v00000000000000cc")


def tuning(ids=("a", "b", "c")):
    """Three variants, of which one is dropped; and how the race went."""
    stages = [{"runs": 3 * 2**i, "rounds": 2**i, "pick": ids[0], "variants": [
        {"id": each, "ratio": None if each == ids[0] else 1 + 0.01 * ids.index(each),
         "ratio_ci": None if each == ids[0] else [1 + 0.01 * ids.index(each) - 0.1 / 2**i,
                                               1 + 0.01 * ids.index(each) + 0.1 / 2**i]}
        for each in ids]} for i in range(6)]
    rows = [{"id": each, "params": {"block": 16 * (1 + ids.index(each))},
             "ratio": 1 + 0.01 * ids.index(each), "ratio_ci": None, "eliminated":
             {"by": ids[0], "round": 8, "reason": "slower"} if each == ids[2] else None} for each in ids]
    return ({"schema": "xplane-time.tune-result.v1", "pick": ids[0], "claim": "pick", "delta": 0.005,
             "runs": 96, "variants": rows}, {"race": stages})


def edges():
    """One event, and times at the ends of int64."""
    device = fixture("report")["devices"][0]
    most = 2**63 - 1
    result = report(devices=[{**device, "first_ps": -2**63, "last_ps": most, "busy_ps": most}],
                    kernels=[kernel(total_ps=most, self_ps=most), kernel(total_ps=0, self_ps=0)],
                    functions=[], combined=[], samples=[])
    return {**result, **timeline_document([[(0, 1, 0)], []], 0), "schema": result["schema"]}


LANES = timeline_events()
DOCUMENTS = {
    **{path.stem: fixture(path.stem) for path in sorted(FIXTURES.glob("*.json"))},
    "hostile": hostile_report(),
    "recoverable": recoverable_headroom(),
    "unknown": unknown_where(),
    "timeline": timeline_document(LANES, 5000),
    "timeline_all": timeline_document(LANES, 0),
    "timeline_host": host_timeline(),
    "samples": many_samples(),
    "many": many_devices(),
    "edges": edges(),
    "power": power(),
    "race": tuning()[0],
    "race_of_hashes": tuning(HASHES)[0],
    "empty": report(devices=[], functions=[], combined=[], kernels=[], samples=[]),
}


def axe_source():
    for package in ("axe_core_python", "axe_playwright_python"):
        spec = importlib.util.find_spec(package)
        path = spec and pathlib.Path(spec.origin).parent / "axe.min.js"
        if path and path.exists():
            return path.read_text()
    return None


# Texts that stand out too little from what is behind them, as [text, ratio].
LOW_CONTRAST = """(() => {
  const rgb = (text) => { const c = d3.rgb(text); return c; };
  const light = (c) => { const f = (v) => (v /= 255) <= 0.03928 ? v / 12.92
    : ((v + 0.055) / 1.055) ** 2.4; return 0.2126 * f(c.r) + 0.7152 * f(c.g) + 0.0722 * f(c.b); };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05); };
  const behind = (e) => { for (; e; e = e.parentElement) {
    const c = rgb(getComputedStyle(e).backgroundColor); if (c.opacity > 0.99) return c; }
    return rgb('white'); };
  const bad = [];
  for (const e of document.querySelectorAll('body *')) {
    if (!e.getClientRects().length || ['SCRIPT', 'STYLE', 'title'].includes(e.tagName)) continue;
    const own = Array.from(e.childNodes).some((n) => n.nodeType === 3 && n.data.trim());
    if (!own) continue;
    const svg = e instanceof SVGElement;
    const ink = rgb(svg ? getComputedStyle(e).fill : getComputedStyle(e).color);
    let ground = behind(e);
    const on = svg && /on-([a-z-]+)/.exec(e.getAttribute('class') || '');
    if (on && on[1] !== 'unknown') {
      ground = rgb(getComputedStyle(document.querySelector('figure rect.fill-' + on[1])).fill);
    }
    const got = ratio(ink, ground);
    if (got < 4.5) bad.push([e.textContent.slice(0, 40), got]);
  }
  return bad;
})()"""

# Machado, Oliveira and Fernandes 2009, full severity, of linear light.
SIGHTS = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}
# Pairs of fills that are side by side in a figure and closer than 12 in Lab.
CLOSE_COLOURS = """(matrix) => {
  const style = getComputedStyle(document.documentElement);
  const linear = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const coded = (v) => 255 * (v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055);
  const seen = (name) => {
    const c = d3.rgb(style.getPropertyValue('--' + name).trim());
    const from = [c.r, c.g, c.b].map(linear);
    const to = matrix.map((row) => coded(Math.min(1, Math.max(0,
      row[0] * from[0] + row[1] * from[1] + row[2] * from[2]))));
    return d3.lab(d3.rgb(...to));
  };
  const groups = [['blue', 'vermilion', 'green', 'purple', 'orange', 'sky', 'pale'],
                  ['more', 'less', 'total'].map((n, i) => ['vermilion', 'blue', 'grey'][i]),
                  d3.range(7).map((i) => 'name-' + i)];
  const close = [];
  for (const names of groups) {
    d3.cross(names, names, (a, b) => {
      if (names.indexOf(a) >= names.indexOf(b)) return;
      const p = seen(a), q = seen(b);
      const far = Math.hypot(p.l - q.l, p.a - q.a, p.b - q.b);
      if (far < 12) close.push([a, b, Math.round(far)]);
    });
  }
  return close;
}"""

# Colours of shapes and of lines that stand out too little from the ground, by the style sheet: a
# shape has an outline, a line has not.
LOW_COLOURS = """(() => {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => d3.rgb(style.getPropertyValue('--' + name).trim());
  const ground = of('ground');
  const over = (c) => d3.rgb(...['r', 'g', 'b'].map((k) =>
    c[k] * c.opacity + ground[k] * (1 - c.opacity)));
  const light = (c) => { const f = (v) => (v /= 255) <= 0.03928 ? v / 12.92
    : ((v + 0.055) / 1.055) ** 2.4; return 0.2126 * f(c.r) + 0.7152 * f(c.g) + 0.0722 * f(c.b); };
  const ratio = (c) => { const [x, y] = [light(over(c)), light(ground)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05); };
  const fills = ['blue', 'vermilion', 'green', 'purple', 'orange', 'sky', 'grey', 'pale']
    .concat(d3.range(7).map((i) => 'name-' + i));
  return fills.filter((name) => Math.max(ratio(of(name)), ratio(of('outline'))) < 3)
    .concat(['blue', 'vermilion', 'grey', 'ink', 'soft', 'accent']
      .filter((name) => ratio(of(name)) < 3));
})()"""

# Figures without words for whoever does not see them.
WORDLESS = """Array.from(document.querySelectorAll('figure'), (figure) => {
  const picture = figure.querySelector(':scope > svg, canvas');
  return [figure.dataset.figure, picture.getAttribute('role'),
          picture.getAttribute('aria-label') || '', figure.querySelector('figcaption')];
}).filter(([, role, label, caption]) => !role || label.length < 20 || !caption)"""

UNNAMED = """Array.from(document.querySelectorAll('button, input, canvas, figure > svg, [role]'))
  .filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() ||
                   (e.labels && e.labels.length) || ['status'].includes(e.getAttribute('role'))))
  .map((e) => e.outerHTML.slice(0, 80))"""


@unittest.skipUnless(browser.find_chromium(), "no Chromium: apt-get install chromium")
@unittest.skipUnless(any(path.exists() for path in make_page.D3), "no d3: apt-get install node-d3")
class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kept = os.environ.get("KEEP")
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.kept or cls.folder.name)
        cls.root.mkdir(parents=True, exist_ok=True)
        for name, document in DOCUMENTS.items():
            drawn = json.dumps({"race": tuning()[1], "race_of_hashes": tuning(HASHES)[1]}.get(name, {}))
            text = make_page.page([json.dumps(document)], f"xplane-time {name}", drawn)
            (cls.root / f"{name}.html").write_text(text)
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        cls.folder.cleanup()

    def open(self, name, **options):
        page = self.browser.open(self.root / f"{name}.html", **options)
        self.addCleanup(page.close)  # again is no harm
        return page

    def assertClean(self, page):
        page.evaluate("1")
        self.assertEqual(page.problems, [])
        self.assertEqual(page.requests, [])

    def marks(self, page, figure, selector, attribute):
        return page.evaluate(
            f"Array.from(document.querySelectorAll('[data-figure={figure}] {selector}'), "
            f"(mark) => mark.getAttribute('{attribute}'))")

    # Each kind of page.

    def test_every_page_opens_without_an_error_or_a_request(self):
        for name in DOCUMENTS:
            page = self.open(name)
            for dark in (False, True):
                with self.subTest(page=name, dark=dark):
                    page.prefer(dark)
                    self.assertClean(page)
                    self.assertEqual(page.evaluate(LOW_CONTRAST), [])
                    self.assertEqual(page.evaluate(LOW_COLOURS), [])
                    self.assertEqual(page.evaluate(UNNAMED), [])
                    self.assertEqual(page.evaluate(WORDLESS), [])
                    if self.kept:
                        page.evaluate(TWO_FRAMES)
                        page.screenshot(self.root / f"{name}{'_dark' if dark else ''}.png")
            with self.subTest("a phone scrolls tables, not the page", page=name):
                page.resize(360, 740)
                page.evaluate(TWO_FRAMES)
                self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 360)
                self.assertClean(page)
                if self.kept:
                    page.screenshot(self.root / f"{name}_phone.png")
            page.close()

    def test_whoever_tabs_sees_where_they_are(self):
        page = self.open("pick")
        seen = set()
        for _ in range(8):
            page.key("Tab")
            place, style, width = page.evaluate(
                "(() => { const e = document.activeElement, s = getComputedStyle(e); "
                "return [e.outerHTML.slice(0, 60), s.outlineStyle, parseFloat(s.outlineWidth)]; })()")
            if not place.startswith("<body"):
                self.assertNotEqual(style, "none", place)
                self.assertGreaterEqual(width, 2, place)
                seen.add(place)
        self.assertGreaterEqual(len(seen), 2)

    def test_axe(self):
        source = axe_source()
        if source is None:
            self.skipTest("no axe-core: pip install axe-core-python")
        for name in ("hostile", "unknown", "compare", "pick", "timeline", "power", "race"):
            with self.subTest(page=name):
                page = self.open(name, dark=name == "unknown")
                page.evaluate(source + ";1")
                broken = page.evaluate(
                    "axe.run().then((r) => r.violations.map((v) => "
                    "[v.id, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 120))]))")
                self.assertEqual(broken, [])

    def test_size(self):
        sizes = [path.stat().st_size for path in (
            make_page.PAGE / "page.js", make_page.PAGE / "page.css",
            next(path for path in make_page.D3 if path.exists()))]
        self.assertLessEqual(sum(sizes), 400_000)

    def test_figures_of_each_kind(self):
        expected = {
            "report": ["report-devices", "report-functions", "report-kernels"],
            "where": ["where-devices", "where-functions", "where-steps"],
            "headroom": ["headroom-answered", "headroom-roofline"],
            "recoverable": ["headroom-answered", "headroom-roofline", "headroom-recoverable"],
            "power": ["power-series"], "race": ["tune-race"],
            "diff": ["diff-waterfall"], "compare": ["compare-intervals", "diff-waterfall"],
            "pick": ["pick-intervals"], "tree": ["tree-icicle"], "empty": [], "timeline": ["timeline"],
        }
        for name, figures in expected.items():
            with self.subTest(page=name):
                page = self.open(name)
                found = page.evaluate("Array.from(document.querySelectorAll('figure'), "
                                      "(figure) => figure.dataset.figure)")
                self.assertEqual(found, figures)
                self.assertEqual(page.evaluate("document.querySelectorAll('main > .note').length"),
                                 0)

    def test_prints(self):
        self.assertTrue(self.open("pick", dark=True).pdf().startswith(b"%PDF"))

    def test_a_hostile_name_stays_text(self):
        page = self.open("hostile")
        self.assertEqual(page.evaluate("document.querySelectorAll('img').length"), 0)
        self.assertEqual(page.evaluate("document.title"), "xplane-time hostile")
        self.assertIn(HOSTILE[:20], page.evaluate(
            "document.querySelector('[data-figure=report-kernels]').textContent"))
        self.assertClean(page)

    def test_the_colours_differ_for_people_who_see_fewer(self):
        page = self.open("where")
        for dark in (False, True):
            page.prefer(dark)
            for name, matrix in SIGHTS.items():
                close = page.evaluate(f"({CLOSE_COLOURS})({json.dumps(matrix)})")
                self.assertEqual(close, [], f"{name}, dark: {dark}")

    def test_the_button_changes_light_and_dark(self):
        page = self.open("pick", dark=True)
        ground = "getComputedStyle(document.body).backgroundColor"
        dark = page.evaluate(ground)
        page.evaluate("document.querySelector('.theme').click()")
        self.assertNotEqual(page.evaluate(ground), dark)
        self.assertEqual(page.evaluate("document.querySelector('.theme').textContent"), "Dark")

    # Figures say what the JSON says.

    def test_report_figures_equal_the_json(self):
        page = self.open("report")
        result = fixture("report")
        functions = sorted(result["functions"],
                           key=lambda row: -row["active_ps"]["mean"] * row["active_ps"]["n"])
        medians = [float(v) for v in self.marks(page, "report-functions", "path.mark",
                                                "data-value")]
        self.assertEqual(medians, [row["active_ps"]["median"] for row in functions])
        lows = [float(v) for v in self.marks(page, "report-functions", "rect.mark", "data-low")]
        self.assertEqual(lows, [row["active_ps"]["median_ci95"][0] for row in functions])
        samples = self.marks(page, "report-functions", "circle.mark", "data-value")
        self.assertEqual(sorted(map(int, samples)),
                         sorted(row["active_ps"] for row in result["samples"]))
        bars = [int(v) for v in self.marks(page, "report-kernels", "rect.mark", "data-value")]
        self.assertEqual(bars, sorted((row["self_ps"] for row in result["kernels"]),
                                      reverse=True)[:20])
        device = result["devices"][0]
        parts = [int(v) for v in self.marks(page, "report-devices", "rect.mark", "data-value")]
        self.assertEqual(parts, [device["busy_ps"],
                                 device["last_ps"] - device["first_ps"] - device["busy_ps"]])

    def test_many_runs_are_a_histogram_that_counts_them_all(self):
        page = self.open("samples")
        counts = self.marks(page, "report-functions", "rect.histogram", "data-count")
        self.assertEqual(sum(map(int, counts)), 900)
        self.assertEqual(self.marks(page, "report-functions", "circle", "data-run"), [])

    def test_results_of_two_kinds_on_one_page(self):
        path = self.root / "both.html"
        texts = [json.dumps(fixture(name)) for name in ("report", "where")]
        path.write_text(make_page.page(texts, "both"))
        page = self.browser.open(path)
        self.addCleanup(page.close)
        found = page.evaluate("Array.from(document.querySelectorAll('figure, section'), "
                              "(e) => e.dataset.figure || e.dataset.document + e.dataset.table)")
        self.assertEqual(found[:3], ["0devices", "0functions", "report-functions"])
        at = found.index("where-devices")
        self.assertEqual(found[at - 1], "1devices")
        self.assertClean(page)

    def test_parts_of_where_add_up_to_the_spans(self):
        page = self.open("where")
        result = fixture("where")
        for figure, rows in (("where-devices", result["devices"]),
                             ("where-functions", result["functions"]),
                             ("where-steps", result["steps"])):
            total = sum(int(v) for v in self.marks(page, figure, "rect.mark", "data-value"))
            self.assertEqual(total, sum(row["span_ps"] for row in rows), figure)

    def test_what_is_unknown_is_hatched_and_said(self):
        page = self.open("unknown")
        fills = page.evaluate(
            "Array.from(document.querySelectorAll('[data-figure=where-devices] rect.mark'), "
            "(mark) => [mark.dataset.part || null, mark.dataset.value || null, "
            "getComputedStyle(mark).fill.startsWith('url')])")
        self.assertIn([None, None, True], fills)
        self.assertIn(["idle_host_ps", "1000", False], fills)
        self.assertTrue(all(hatched for part, _, hatched in fills if part == "idle_unknown_ps"))
        text = page.evaluate("document.querySelector('[data-figure=where-devices]').textContent")
        self.assertIn("unknown", text)

    def test_headroom_figures_equal_the_json(self):
        page = self.open("recoverable")
        ops = [row for row in DOCUMENTS["recoverable"]["ops"] if row["flops"] and row["bytes"]]
        dots = self.marks(page, "headroom-roofline", "circle", "data-intensity")
        self.assertEqual(sorted(map(float, dots)),
                         sorted(row["flops"] / row["bytes"] for row in ops))
        bars = self.marks(page, "headroom-recoverable", "rect.mark", "data-value")
        self.assertEqual(list(map(float, bars)), sorted(
            (row["recoverable_ps"] for row in DOCUMENTS["recoverable"]["ops"]
             if row["recoverable_ps"]), reverse=True))

    def test_a_waterfall_leads_from_base_to_head(self):
        page = self.open("diff")
        total = fixture("diff")["total"]
        values = list(map(float, self.marks(page, "diff-waterfall", "rect.mark", "data-value")))
        self.assertEqual((values[0], values[-1]), (total["base_ps"], total["head_ps"]))
        self.assertAlmostEqual(values[0] + sum(values[1:-1]), values[-1], places=3)

    def test_intervals_equal_the_json(self):
        for name, rows in (("compare", "rows"), ("pick", "variants")):
            page = self.open(name)
            expected = [row for row in fixture(name)[rows] if row["ratio_ci"]]
            figure = f"{name}-intervals"
            for side, attribute in enumerate(("data-low", "data-high")):
                got = self.marks(page, figure, "line.mark", attribute)
                self.assertEqual(list(map(float, got)), [row["ratio_ci"][side] for row in expected])
            self.assertIn(fixture(name)["explanation"], page.evaluate(
                f"document.querySelector('[data-figure={figure}] svg').getAttribute('aria-label')"))

    def test_an_icicle_has_the_own_times_and_opens(self):
        page = self.open("tree")
        total = sum(row["self_ps"] or 0 for row in fixture("tree")["tree"])
        values = [float(v) for v in self.marks(page, "tree-icicle", "rect.mark", "data-value")]
        self.assertEqual(values[0], total)
        page.evaluate("document.querySelector('figure > svg').focus()")
        page.key("ArrowDown", 2)
        page.key("Enter")
        wide = page.evaluate("document.querySelectorAll('figure rect.mark')[1].width.baseVal.value"
                             " / document.querySelector('figure > svg').clientWidth")
        self.assertGreater(wide, 0.98)
        self.assertClean(page)

    def test_pointer_and_keys_say_a_mark(self):
        page = self.open("pick")
        box = page.evaluate(
            "(() => { const mark = document.querySelectorAll('[data-figure] path.mark')[3]; "
            "mark.scrollIntoView({block: 'center'}); const b = mark.getBoundingClientRect(); "
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()")
        page.move(*box)
        self.assertIn("jit_autotune_fn_3", page.evaluate("document.querySelector('.tip').innerText"))
        page.evaluate("document.querySelector('figure > svg').focus()")
        page.key("End")
        self.assertIn("jit_autotune_fn_7", page.evaluate("document.querySelector('.tip').innerText"))
        page.key("Escape")
        self.assertTrue(page.evaluate("document.querySelector('.tip').hidden"))

    def test_power_over_time_has_its_gap_and_equals_the_json(self):
        page = self.open("power")
        series, = DOCUMENTS["power"]["series"]
        values = list(map(float, self.marks(page, "power-series", "rect.bin", "data-value")))
        self.assertEqual(values, [w for w in series["mean_w"] if w is not None])
        gaps = page.evaluate("Array.from(document.querySelectorAll('.gap'), "
                             "(gap) => [gap.x.baseVal.value, gap.width.baseVal.value])")
        self.assertEqual(len(gaps), 1)
        bins = page.evaluate("Array.from(document.querySelectorAll('.bin'), "
                             "(bin) => bin.x.baseVal.value)")
        self.assertAlmostEqual(gaps[0][0] + gaps[0][1], bins[30], delta=0.1)
        self.assertIn("unknown for 11.1 % of the time", page.evaluate(
            "document.querySelector('figcaption').textContent"))
        self.assertEqual(page.evaluate("document.querySelectorAll('svg .band').length"), 1)

    def test_a_race_shows_estimates_until_a_variant_is_dropped(self):
        page = self.open("race")
        shown = {}
        for variant, value in zip(self.marks(page, "tune-race", "circle", "data-variant"),
                                  self.marks(page, "tune-race", "circle", "data-value")):
            shown.setdefault(variant, []).append(float(value))
        self.assertEqual(shown, {"a": [1] * 6, "b": [1.01] * 6, "c": [1.02] * 4})
        text = page.evaluate("document.querySelector('figure').textContent")
        self.assertIn("✕ c", text)
        self.assertIn("1 of 3 variants dropped", text)

    def test_a_race_names_variants_by_their_parameters(self):
        page = self.open("race_of_hashes")
        text = page.evaluate("document.querySelector('figure').textContent")
        for name in ("block=16 after 96 runs", "block=32", "✕ block=48"):
            self.assertIn(name, text)
        for variant in HASHES:
            self.assertNotIn(variant, text)

    def test_headroom_says_what_has_no_answer(self):
        page = self.open("recoverable")
        result = DOCUMENTS["recoverable"]
        values = map(int, self.marks(page, "headroom-answered", "rect.mark", "data-value"))
        self.assertEqual(sum(values), sum(row["total_ps"] for row in result["ops"]))
        self.assertIn("no roof", page.evaluate(
            "document.querySelector('[data-figure=headroom-answered] .finding').textContent"))

    # The timeline.

    def search(self, page, text):
        page.evaluate(f"(() => {{ const input = document.querySelector('.timeline input'); "
                      f"input.value = {json.dumps(text)}; "
                      "input.dispatchEvent(new Event('input')); input.focus(); })()")

    def test_search_finds_single_events_whose_times_equal_the_json(self):
        for name, least in (("timeline_all", 0), ("timeline", 5000)):
            with self.subTest(page=name):
                page = self.open(name)
                self.search(page, "fusion_3")
                wanted = sorted((start, lane, duration) for lane, events in enumerate(LANES)
                                for start, duration, kind in events
                                if kind == 3 and duration >= least)
                seen = 0
                for _ in range(12):
                    page.key("Enter")
                    lines = page.evaluate("document.querySelector('.tip').innerText").split("\n")
                    if lines[0] != "fusion_3":  # a bin of several
                        continue
                    start = int(lines[2].split(", ")[1].removesuffix(" ps")) // 1000
                    duration = int(lines[3].split(", ")[1].removesuffix(" ps")) // 1000
                    lane = int(lines[1].rpartition(" ")[2])
                    self.assertIn((start, duration, 3), LANES[lane])
                    if least == 0:
                        self.assertEqual((start, lane, duration), wanted[seen])
                    seen += 1
                self.assertGreater(seen, 5 if least == 0 else 0)
                self.assertClean(page)

    def test_keys_zoom_pan_and_go_from_event_to_event(self):
        page = self.open("timeline_all")
        end = DOCUMENTS["timeline"]["timeline"]["end"]
        page.evaluate(f"{CANVAS}.focus()")
        view = f"[Number({CANVAS}.dataset.from), Number({CANVAS}.dataset.to)]"
        self.assertEqual(page.evaluate(view), [0, end])
        for _ in range(9):
            page.key("+")
        page.evaluate(TWO_FRAMES)
        zoomed = page.evaluate(view)
        self.assertAlmostEqual(zoomed[1] - zoomed[0], end / 512, delta=2)
        page.key("ArrowRight")
        page.evaluate(TWO_FRAMES)
        self.assertGreater(page.evaluate(view)[0], zoomed[0])
        page.key("PageDown")
        starts = []
        for _ in range(4):
            lines = page.evaluate("document.querySelector('.tip').innerText").split("\n")
            starts.append(int(lines[2].split(", ")[1].removesuffix(" ps")) // 1000)
            page.key(".")
        all_starts = [start for start, _, _ in LANES[0]]
        first = all_starts.index(starts[0])
        self.assertEqual(starts, all_starts[first:first + 4])
        page.key("0")
        page.evaluate(TWO_FRAMES)
        self.assertEqual(page.evaluate(view), [0, end])

    def test_levels_of_a_host_thread(self):
        page = self.open("timeline_host")
        self.assertIn("5 host events in deeper levels not drawn.",
                      page.evaluate("document.querySelector('.timeline figcaption').textContent"))
        page.evaluate(f"{CANVAS}.focus()")
        for label in ("CPU python", "CPU python, level 2", "CPU python, level 3"):
            page.key("PageDown")
            page.evaluate(TWO_FRAMES)
            self.assertEqual(page.evaluate("document.querySelector('.tip').innerText").split("\n")[1], label)
        self.assertClean(page)

    def test_hover_at_full_zoom_and_the_sum_of_bins(self):
        page = self.open("timeline")
        box = page.evaluate(f"(() => {{ const b = {CANVAS}.getBoundingClientRect(); "
                            "return [b.x + 200, b.y + 26 + 11]; })()")
        page.move(*box)
        self.assertRegex(page.evaluate("document.querySelector('.tip').innerText"), r"\d+ events")
        self.assertLess(float(page.evaluate(f"{CANVAS}.dataset.ms")), 50)

    def test_ctrl_and_wheel_zoom(self):
        page = self.open("timeline")
        box = page.evaluate(f"(() => {{ const b = {CANVAS}.getBoundingClientRect(); "
                            "return [b.x + 400, b.y + 40]; })()")
        before = page.evaluate(f"Number({CANVAS}.dataset.to)")
        page.call("Input.dispatchMouseEvent", type="mouseWheel", x=box[0], y=box[1], deltaX=0,
                  deltaY=-300, modifiers=2)
        page.wait(f"Number({CANVAS}.dataset.to) < {before}")


TESTDATA = HERE.parents[2] / "testdata"
BINARY = os.environ.get("XPLANE_TIME") and pathlib.Path(os.environ["XPLANE_TIME"]).resolve()
VARIANTS, SIDES = TESTDATA / "jax_cpu_variants.xplane.pb", TESTDATA / "diff"
SIDES_OF = ["--base", *sorted(SIDES.glob("*base*")), "--head", *sorted(SIDES.glob("*head*"))]
# Commands, and the least figures of their pages.
COMMANDS = (
    (["report", VARIANTS], 3), (["report", VARIANTS, "--samples"], 3), (["where", VARIANTS], 3),
    (["headroom", VARIANTS, "--peak-flops", "1e12", "--peak-bandwidth", "1e11"], 1),
    (["diff", *SIDES_OF], 1), (["compare", *SIDES_OF], 1), (["pick", VARIANTS], 1),
    (["functions", VARIANTS], 1), (["kernels", VARIANTS], 1), (["tree", VARIANTS], 1),
    (["brief", VARIANTS], 0), (["planes", VARIANTS], 0),
    (["energy", TESTDATA / "energy" / "jax_cpu_mixture.xplane.pb", "--power",
      TESTDATA / "energy" / "replayed.power.jsonl"], 3),
    (["power", "replay", TESTDATA / "energy" / "replayed.power.jsonl"], 1))


LETTERS = "".join(f"{i:03}" for i in range(60))  # of a name, 180
LONG = "long_" + LETTERS
ALIKE = [LETTERS[:90] + middle + LETTERS[90:] for middle in ("left", "right")]
PROGRAM = 12345678901234567890


def many_kernels():
    """1000 kernels; of some the times differ beyond what a cell, or a double, shows."""
    plane = Plane("/device:GPU:0")
    line = plane.line("Stream #1", timestamp_ns=0)
    names = [f"k{i}" for i in range(996)] + [HOSTILE, LONG, *ALIKE]
    at = 0
    for i, name in enumerate(names):
        duration = 2**53 + [2, 1, 3][i] if i < 3 else 1_062_500 * (i + 1)
        line.event(name, at, duration, hlo_module="jit_f", program_id=Unsigned(PROGRAM + i % 2))
        at += duration + 1000
    return space(plane)


@unittest.skipUnless(browser.find_chromium(), "no Chromium: apt-get install chromium")
@unittest.skipUnless(BINARY, "XPLANE_TIME is not set")
class ProgramsPages(unittest.TestCase):
    """What the program itself writes."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        (cls.root / "many.xplane.pb").write_bytes(many_kernels())
        cls.many = ["kernels", cls.root / "many.xplane.pb"]
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        cls.folder.cleanup()

    def run_program(self, *command):
        return subprocess.run([BINARY, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def open(self, command, **options):
        path = self.root / "page.html"
        self.run_program(*command, "-o", path)
        page = self.browser.open(path, **options)
        self.addCleanup(page.close)
        return page

    def kernels(self, command):
        return json.loads(self.run_program(*command, "--format", "json").stdout)["kernels"]

    def markdown(self, command):
        """The rows of its only table."""
        text = self.run_program(*command, "--format", "markdown").stdout.decode()
        rows = [line.strip("|").split(" | ") for line in text.splitlines() if line[:1] == "|"]
        return [[cell.strip().strip("`") for cell in row] for row in rows[2:]]

    def place(self, page, header):
        return page.evaluate(
            "Array.from(document.querySelectorAll('th'), (th) => th.textContent)"
            f".findIndex((text) => text.startsWith({json.dumps(header)}))")

    def column(self, page, header):
        """Of a cell that is shortened, what is shown."""
        return page.evaluate(
            "Array.from(document.querySelectorAll('tbody tr'), (tr) => { "
            f"const cell = tr.cells[{self.place(page, header)}]; "
            "return (cell.querySelector('.short') || cell).textContent; })")

    def sort(self, page, header):
        page.evaluate(
            f"document.querySelectorAll('th')[{self.place(page, header)}]"
            ".querySelector('button').click()")

    def grow(self, page, which):
        page.evaluate(f"document.querySelectorAll('.growth button')[{which}].click()")

    def test_every_page_opens_has_its_figures_and_sorts(self):
        for command, figures in COMMANDS:
            with self.subTest(command=" ".join(map(str, command[:2]))):
                page = self.open(command)
                page.evaluate(TWO_FRAMES)
                self.assertEqual((page.problems, page.requests), ([], []))
                self.assertGreaterEqual(page.evaluate(
                    "document.querySelectorAll('figure').length"), figures)
                self.assertEqual(page.evaluate(LOW_CONTRAST), [])
                self.assertEqual(page.evaluate(UNNAMED), [])
                self.check_sorting(page)
                page.close()

    def test_events_of_the_timeline_are_those_of_the_trace(self):
        """Each that the keyboard comes to has the start and duration that the JSON has."""
        def json_of(command, name):
            text = subprocess.run([BINARY, *command, VARIANTS, "--format", "json"], check=True,
                                  stdout=subprocess.PIPE).stdout
            return json.loads(text)[name]
        known = {
            "steps": {(s["start_ps"], s["span_ps"]) for s in json_of(["where"], "steps")},
            "runs": {(r["start_ps"], r["span_ps"])
                     for r in json_of(["functions", "--samples"], "samples")},
            "": {(e["start_ps"], e["duration_ps"]) for e in
                 json_of(["events", "--device", "cpu"], "events")}}
        with tempfile.TemporaryDirectory() as folder, browser.Browser() as chromium:
            path = pathlib.Path(folder) / "page.html"
            subprocess.run([BINARY, VARIANTS, "-o", path], check=True)
            page = chromium.open(path)
            page.evaluate(f"{CANVAS}.focus()")
            lanes = set()
            for _ in range(5):
                page.key("PageDown")
                for _ in range(20):
                    lines = page.evaluate("document.querySelector('.tip').innerText").split("\n")
                    if "events" not in lines[0]:
                        of = lines[1].rpartition(" ")[2]
                        times = tuple(int(line.split(", ")[1].removesuffix(" ps"))
                                      for line in lines[2:4])
                        self.assertIn(times, known[of if of in known else ""])
                        lanes.add(lines[1])
                    page.key("+")
                    page.key(".")
            self.assertGreater(len(lanes), 2)
            page.close()

    def check_sorting(self, page):
        """Every table by its first column of numbers, downwards."""
        for numbers in page.evaluate("""Array.from(document.querySelectorAll('section'), (s) => {
          const head = s.querySelector('th.number');
          if (!head || s.querySelectorAll('tbody tr').length < 2) return [];
          head.querySelector('button').click();
          return Array.from(s.querySelectorAll('tbody tr'),
                            (tr) => parseFloat(tr.cells[head.cellIndex].textContent));
        })"""):
            known = [number for number in numbers if number is not None]
            self.assertIn(known, (sorted(known), sorted(known, reverse=True)))

    def test_a_click_sorts_by_exact_times_and_the_next_turns_them_round(self):
        page = self.open(["kernels", VARIANTS])
        state = "Array.from(document.querySelectorAll('[aria-sort]'), (th) => th.ariaSort)"
        times = {}
        for row in self.kernels(["kernels", VARIANTS]):
            times.setdefault(row["kernel"], set()).add(row["max_ps"])
        self.sort(page, "max")
        self.assertEqual(page.evaluate(state), ["descending"])
        names = self.column(page, "kernel")
        self.assertIn(max(t for of in times.values() for t in of), times[names[0]])
        self.sort(page, "max")
        self.assertEqual(page.evaluate(state), ["ascending"])
        self.assertIn(min(t for of in times.values() for t in of),
                      times[self.column(page, "kernel")[0]])
        self.sort(page, "kernel")
        self.assertEqual(page.evaluate(state), ["ascending"])

    def test_the_keyboard_sorts(self):
        page = self.open(["pick", VARIANTS])
        place = self.place(page, "slower")
        page.evaluate(f"document.querySelectorAll('th')[{place}].querySelector('button').focus()")
        page.key("Enter")
        self.assertEqual(self.column(page, "variant")[0], "7")

    def test_times_beyond_doubles_sort_and_show_exactly(self):
        page = self.open(self.many)
        self.sort(page, "total")
        self.assertEqual(self.column(page, "kernel")[:3], ["k2", "k0", "k1"])
        self.assertEqual(len(set(self.column(page, "total")[:3])), 1)
        title = page.evaluate(
            "(() => { const cell = document.querySelector('tbody tr').cells"
            f"[{self.place(page, 'total')}]; "
            "cell.dispatchEvent(new MouseEvent('mouseover', {bubbles: true})); "
            "return cell.title; })()")
        self.assertEqual(title, f"{2**53 + 3} ps")

    def test_a_filter_finds(self):
        page = self.open(["kernels", VARIANTS])
        page.evaluate("document.querySelector('section input').focus()")
        page.call("Input.insertText", text="WRAPPED_tanh")
        page.wait("document.querySelector('section output').textContent.includes('found')")
        expected = [row[0] for row in self.markdown(["kernels", VARIANTS])
                    if "wrapped_tanh" in row[0]]
        self.assertEqual(self.column(page, "kernel"), expected)
        self.assertEqual(page.evaluate("document.querySelector('section output').value"),
                         f"{len(expected)} of 72 rows, {len(expected)} found")

    def test_a_long_table_grows_to_all_rows_as_they_are_elsewhere(self):
        page = self.open(self.many)
        self.assertEqual(len(self.column(page, "kernel")), 200)
        self.assertEqual(page.evaluate("getComputedStyle(document.querySelector('.cut')).display"),
                         "none")
        self.grow(page, 0)
        self.assertEqual(len(self.column(page, "kernel")), 400)
        self.grow(page, 1)
        rows = self.markdown(self.many)
        self.assertEqual(len(rows), 1000)
        for place, header in enumerate(("kernel", "count", "total", "mean")):
            wanted = [row[place] for row in rows]
            shown = self.column(page, header)
            self.assertEqual([a for a, b in zip(shown, wanted) if "…" not in a],
                             [b for a, b in zip(shown, wanted) if "…" not in a])

    def test_a_long_name_gives_way_in_its_middle_and_is_whole_when_chosen(self):
        page = self.open(self.many)
        page.evaluate("document.querySelector('section input').focus()")
        page.call("Input.insertText", text=LETTERS[:12])
        page.wait("document.querySelectorAll('tbody tr').length === 3")
        shown = self.column(page, "kernel")
        self.assertEqual(len(set(shown)), 3)
        for name, part in ((LONG, LONG[:20]), (ALIKE[0], "left"), (ALIKE[1], "right")):
            short, = [each for each in shown if part in each]
            self.assertTrue(len(short) < 100 and short.endswith(name[-20:]), short)
        long = f"document.querySelector('.long[aria-label=\"{LONG}\"]')"
        page.evaluate(f"{long}.focus()")
        self.assertEqual(page.evaluate("document.querySelector('.tip').innerText"), LONG)
        page.key("Enter")
        self.assertEqual(page.evaluate(f"{long}.innerText"), LONG)
        self.assertEqual(page.evaluate(f"{long}.ariaExpanded"), "true")

    def harness(self, *command):
        """What a command with the harness that runs nothing prints."""
        space = {"schema": "xplane-time.space.v1", "name": "fake",
                 "variants": [{"id": f"v{cost}", "params": {"cost": cost}}
                              for cost in (100, 130, 160)]}
        (self.root / "space.json").write_text(json.dumps(space))
        done = subprocess.run(
            [BINARY, *command[:1], "space.json", *command[1:], "--quiet", "--", sys.executable,
             TOOLS / "fake_harness.py", "harness.log"],
            cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def figure(self, page, name):
        self.assertEqual((page.problems, page.requests), ([], []))
        return page.evaluate(f"document.querySelector('[data-figure={name}]').textContent")

    def test_gaps_of_power_are_hatched_beside_what_ran(self):
        log = (TESTDATA / "energy/replayed.power.jsonl").read_text().splitlines(keepends=True)
        first = json.loads(log[0])["t"]
        (self.root / "gap.jsonl").write_text("".join(
            line for line in log if not 2e9 < json.loads(line)["t"] - first < 2.6e9))
        for command, figure in (
                (["energy", TESTDATA / "energy/jax_cpu_mixture.xplane.pb", "--power"],
                 "energy-timeline"), (["power", "replay"], "power-series")):
            page = self.open([*command, self.root / "gap.jsonl"])
            widths = page.evaluate(
                f"Array.from(document.querySelectorAll('[data-figure={figure}] .gap'), "
                "(gap) => Number(gap.getAttribute('width')))")
            wide = [width for width in widths if 50 < width < 150]  # 0.6 of 6 s
            self.assertEqual(len(wide), 1, (figure, widths))
            page.close()

    def test_figures_are_of_all_steps_and_runs_where_lists_are_cut(self):
        plane, count = Plane("/device:GPU:0"), 10_500
        line = plane.line("Stream #1", timestamp_ns=0)
        for i in range(count):
            duration = 10_000_000 + i % 100 + (5_000_000 if i == 77 else 0)
            line.event("k", 20_000_000 * i, duration, hlo_module="jit_f", program_id=Unsigned(1))
        (self.root / "steps.xplane.pb").write_bytes(space(plane))
        page = self.open(["where", self.root / "steps.xplane.pb"])
        text = self.figure(page, "where-steps")
        # From the end of step 76 at 10.000 us to its own end at 35.000 us.
        self.assertIn("10,500 steps; the longest is GPU:0, step 77, 25.000 us.", text)
        marks = page.evaluate(
            "Array.from(document.querySelectorAll('[data-figure=where-steps] .mark'), "
            "(mark) => mark.getAttribute('x'))")
        self.assertEqual(len(set(marks)), 300)  # columns: 35 steps each
        self.assertEqual(len(marks), 600)  # each with its compute and its idle time
        words = "10,000 of 10,500 steps, the longest; all are in --format json"
        self.assertIn(f"The page's data has {words}.", page.evaluate("document.body.innerText"))
        page.close()
        page = self.open(["where", "--steps", self.root / "steps.xplane.pb"])
        self.assertIn(words, page.evaluate("document.querySelector('[data-table=steps]').innerText"))
        self.assertIn("of 10,000 rows", page.evaluate("document.querySelector('[data-table=steps] .count').innerText"))
        page.close()
        page = self.open(["report", "--samples", self.root / "steps.xplane.pb"])
        self.assertIn("10,500 runs", self.figure(page, "report-functions"))
        drawn = page.evaluate("d3.sum(document.querySelectorAll('.histogram'), (e) => e.dataset.count)")
        self.assertEqual(drawn, 3500)  # each third
        page.close()

    def test_events_that_take_no_time_are_seen(self):
        for count, words in ((1, "GPU:0: no time was recorded."), (3, "GPU:0: 100.0 % idle")):
            plane = Plane("/device:GPU:0")
            line = plane.line("Stream #1", timestamp_ns=0)
            for i in range(count):
                line.event(f"k{i}", 1000 * i, 0)
            (self.root / "zero.xplane.pb").write_bytes(space(plane))
            page = self.open([self.root / "zero.xplane.pb"])
            self.assertIn(words, self.figure(page, "report-devices"))
            coloured = page.evaluate(f"""(() => {{
              const {{width, height}} = {CANVAS}, context = {CANVAS}.getContext('2d');
              const row = context.getImageData(0, height - 14, width, 1).data;
              return d3.range(width).filter((x) => d3.deviation(row.slice(4 * x, 4 * x + 3)) > 15); }})()""")
            apart = [at for at, before in zip(coloured, [-2, *coloured]) if at - before > 1]
            self.assertEqual(len(apart), count, coloured)
            page.close()

    def test_names_that_differ_in_their_middle_are_told_apart(self):
        plane = Plane("/device:GPU:0")
        line = plane.line("Stream #1", timestamp_ns=0)
        for i, name in enumerate(ALIKE):
            line.event(name, 1_000_000 * i, 1_000_000 - i)
        (self.root / "alike.xplane.pb").write_bytes(space(plane))
        page = self.open([self.root / "alike.xplane.pb"])
        for selector in (".timeline .legend span", "[data-figure=report-kernels] .name"):
            shown = page.evaluate(f"Array.from(document.querySelectorAll('{selector}'), "
                                  "(e) => e.firstChild.textContent)")
            self.assertEqual(len(set(shown)), 2, shown)

    def test_a_narrow_page_has_its_verdicts(self):
        page = self.open(["compare", *SIDES_OF], width=400)
        words = page.evaluate("Array.from(document.querySelectorAll('[data-figure=compare-intervals] "
                              "svg .value'), (e) => [e.textContent, e.getBoundingClientRect().left])")
        self.assertIn("too little data", [text for text, _ in words])
        self.assertTrue(all(left >= 0 for _, left in words), words)

    def test_wide_tables_fit_the_paper(self):
        page = self.open(["kernels", VARIANTS, "--wide"])
        page.call("Emulation.setEmulatedMedia", media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        self.assertLess(page.evaluate("document.querySelector('table').style.width = 'min-content',"
                                      "document.querySelector('table').offsetWidth"), 1035)

    def test_the_race_of_a_tuning(self):
        self.harness("tune", "--store", "tune.db")
        page = self.open(["tune", "show", "1", "--store", self.root / "tune.db"])
        text = self.figure(page, "tune-race")
        for variant in ("v100", "✕ v130", "✕ v160"):
            self.assertIn(variant, text)
        self.assertEqual(self.column(page, "variant")[0], "v100")

    def test_the_settings_of_a_grid(self):
        (self.root / "page.html").write_bytes(
            self.harness("grid", "--samples", "12", "-o", "grid", "--format", "html"))
        page = self.browser.open(self.root / "page.html")
        self.addCleanup(page.close)
        self.assertIn("v100 has the lowest median", self.figure(page, "grid-settings"))
        self.assertEqual(len(self.column(page, "setting")), 3)

    def test_paper_gets_every_row_and_no_controls(self):
        page = self.open(self.many)
        page.call("Emulation.setEmulatedMedia", media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(len(self.column(page, "kernel")), 1000)
        self.assertEqual(page.evaluate("Array.from(document.querySelectorAll('.controls, .theme'))"
                                       ".filter((e) => e.getClientRects().length).length"), 0)
        self.assertEqual(page.evaluate(
            f"document.querySelector('.long[aria-label=\"{LONG}\"]').innerText"), LONG)
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        self.assertEqual(len(self.column(page, "kernel")), 200)

    def test_nothing_is_lost_without_scripts(self):
        page = self.open(["kernels", VARIANTS], script=False)
        self.assertEqual(self.column(page, "kernel"),
                         [row[0] for row in self.markdown(["kernels", VARIANTS])])
        self.assertEqual(page.evaluate("document.querySelectorAll('button, figure').length"), 0)

    def test_data_that_cannot_be_opened_leaves_the_tables(self):
        self.open(["kernels", VARIANTS])
        text = (self.root / "page.html").read_text()
        start = text.index(' id="data">') + len(' id="data">')
        broken = self.root / "broken.html"
        broken.write_text(text[:start] + "AAAA" + text[text.index("</script>", start):])
        page = self.browser.open(broken)
        self.addCleanup(page.close)
        self.assertIn("cannot be opened",
                      page.evaluate("document.querySelector('main > .note').textContent"))
        self.sort(page, "max")
        self.assertEqual(len(self.column(page, "kernel")), 72)

    def test_a_hostile_name_stays_text(self):
        page = self.open(self.many)
        self.grow(page, 1)
        self.assertIn(HOSTILE, self.column(page, "kernel"))
        self.assertEqual(page.evaluate("document.querySelectorAll('img').length"), 0)
        self.assertEqual(page.problems, [])


if __name__ == "__main__":
    unittest.main()
