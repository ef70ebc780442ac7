"""Tests pages of docs: builds traces from their drawings, and checks the statements about them."""
import json
import os
import re
import subprocess
import unittest

import drawing
from harness import (BINARY, EndToEndTest, REPOSITORY, SHARED_TRACES, environment, run,
                     testdata_traces)
from test_readme import commands
from xspace import Plane, gpu, space

DOCS = REPOSITORY / "docs"
DEFINITIONS = (DOCS / "definitions.md").read_text()
COLUMNS = (DOCS / "columns.md").read_text()
DRAWN = {page.name: text for page in DOCS.glob("*.md") if "\n```drawing\n" in (text := page.read_text())}
BLOCK = re.compile(r"^```(drawing|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PS_OF_US = 1e-6


def section(page, title):
    """The text from a heading to the next heading of the same level."""
    return page.split(f"\n## {title}\n")[1].split("\n## ")[0]


def table_rows(text):
    """Cells of the rows of Markdown tables, without headers and rules."""
    tables = re.findall(r"(?:^\|.*\n)+", text + "\n", re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")]
            for table in tables for line in table.splitlines()[2:]]


class Drawings(unittest.TestCase):
    def test_columns_are_microseconds(self):
        parsed = drawing.parse("us          0    5    10\n"
                               "stream 16   [k0#1-[g.k1)\n"
                               "stream 16     [in)\n"
                               "active      [=====)[==)   = 6, 3\n")
        events = [(one.name, one.function, one.number, one.start, one.end)
                  for one in parsed.lanes["stream 16"]]
        self.assertEqual(events, [("k0", "jit_f", 1, 0, 6), ("in", "jit_f", None, 2, 5),
                                  ("k1", "jit_g", None, 6, 11)])
        self.assertEqual(parsed.measures["active"].values, [6, 3])
        self.assertEqual([(one.start, one.end) for one in parsed.measures["active"].drawn],
                         [(0, 6), (7, 10)])

    def test_what_is_drawn_wrong_is_refused(self):
        for text in ("stream 1  [k)\n", "us  0   5\nstream 1 [k)", "us  0\n [k)\n",
                     "us      0\nengine  [k)\n"):
            with self.assertRaises(ValueError):
                drawing.trace(drawing.parse(text))


def covered(events):
    """The columns that are inside at least one event."""
    return {column for one in events for column in range(one.start, one.end)}


def executions(lanes):
    """The events of all lanes that count as executions."""
    count = "device clock" if "device clock" in lanes else "XLA Ops"
    return [one for label, events in lanes.items() for one in events
            if re.search(rf"stream |thread |{count}", label)]


class Page(EndToEndTest):
    def outcome(self, command):
        env = environment(PATH=f"{BINARY.parent}{os.pathsep}{os.environ.get('PATH', '')}",
                          NO_COLOR="1")
        done = subprocess.run(["bash", "-c", command], cwd=self.at, env=env, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.stdout.decode()

    def draw(self, text):
        parsed = drawing.parse(text)
        self.write("drawing.xplane.pb", drawing.trace(parsed))
        return parsed

    def measured(self, label):
        """The results of the tool for a row of a drawing, in microseconds, one per run or kernel."""
        if label.startswith("self "):
            kernels = self.run_json("kernels", "drawing.xplane.pb")["kernels"]
            return [row["self_ps"] * PS_OF_US for row in kernels if row["kernel"] == label[5:]]
        if label == "combined":
            [row] = self.run_json("functions", "drawing.xplane.pb")["combined"]
            return [row["active_ps"]["min"] * PS_OF_US, row["active_ps"]["max"] * PS_OF_US]
        samples = self.run_json("functions", "drawing.xplane.pb", "--samples")["samples"]
        if label == "gap":
            return [(row["span_ps"] - row["active_ps"]) * PS_OF_US for row in samples]
        return [row[f"{label}_ps"] * PS_OF_US for row in samples]

    def check(self, label, measure, lanes):
        """Checks the numbers of the drawing against the tool, and the lengths of its intervals."""
        self.assertEqual(measure.values, [round(value, 6) for value in self.measured(label)])
        if not measure.drawn:
            return
        self.assertEqual(sum(one.end - one.start for one in measure.drawn), sum(measure.values))
        if label == "active":
            self.assertEqual(covered(measure.drawn), covered(executions(lanes)))

    def test_drawings_and_commands(self):
        self.assertLessEqual({"definitions.md", "runs.md", "migrating.md"}, DRAWN.keys())
        for page, page_text in DRAWN.items():
            counted = {"drawing": 0, "console": 0, "measure": 0}
            for kind, text in BLOCK.findall(page_text):
                counted[kind] += 1
                if kind == "drawing":
                    parsed = self.draw(text)
                    for label, measure in parsed.measures.items():
                        with self.subTest(label, page=page, drawing=text):
                            self.check(label, measure, parsed.lanes)
                        counted["measure"] += 1
                else:
                    for command, output in commands(text):
                        with self.subTest(command, page=page):
                            self.assertEqual(self.outcome(command), output)
            self.assertTrue(all(counted.values()), (page, counted))

    def test_statistics(self):
        text = section(DEFINITIONS, "Statistics")
        self.draw(BLOCK.search(text)[2])
        [row] = self.run_json("functions", "drawing.xplane.pb")["functions"]
        told = 0
        for fields, _, _, values in table_rows(text):
            names = re.findall(r"`(\w+)`", fields)
            got = [row["active_ps"][name] for name in names]
            got = got[0] if isinstance(got[0], list) else got
            for name, value, want in zip(names * 2, got, values.split(", "), strict=False):
                scale = 1 if name == "n" else PS_OF_US
                self.assertAlmostEqual(value * scale, float(want), 3, name)
                told += 1
        self.assertEqual(told, len(row["active_ps"]) + 1)  # the interval has two ends

    def test_trimming(self):
        self.draw(BLOCK.search(section(DEFINITIONS, "Statistics"))[2])
        rows = table_rows(section(DEFINITIONS, "Trimming"))
        for policy, _, n, mean in rows:
            [row] = self.run_json("functions", "drawing.xplane.pb", "--trim",
                                  policy.strip("`"))["functions"]
            self.assertEqual(row["active_ps"]["n"], int(n), policy)
            self.assertEqual(row["dropped_samples"], 7 - int(n), policy)
            self.assertAlmostEqual(row["active_ps"]["mean"] * PS_OF_US, float(mean), 3, policy)
        self.assertEqual(len(rows), 5)


def impossible_duration():
    """Forty kernels of a stream, one of which has a duration that covers the others."""
    device = Plane("/device:GPU:0")
    stream = device.line("Stream #1")
    for i in range(40):
        stream.event("k.kd", i * 100_000_000, 3_400_000_000_000 if i == 20 else 90_000_000)
    return space(device)


def launches():
    """Two launches of one kernel, with occupancies that the profiler estimated."""
    events = [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10 * i, "dur": 5,
               "args": {"device": 0, "stream": 7, "grid": [i + 1, 1, 1], "block": [64, 1, 1],
                        "registers per thread": 40, "shared memory": 0, "est. achieved occupancy %": 31}}
              for i in range(2)]
    return json.dumps({"schemaVersion": 1, "traceEvents": events})


def occupancy():
    device = Plane("/device:GPU:0")
    device.line("Stream #1").event(
        "k", 0, 10, kernel_details="regs:8 static_shared:0 dynamic_shared:0 grid:1,1,1 block:32,1,1 occ_pct:50")
    return space(device)


class Columns(EndToEndTest):
    """The glossary contains exactly the headers of all tables."""

    # In the order of the glossary.
    TABLES = ("devices", "functions", "kernels", "samples", "tree")

    def glossary(self):
        parts = re.split(r"^`.*\n(?:.*\n)??\n(?=\| column)", COLUMNS.split("\n## Names\n")[0],
                         flags=re.MULTILINE)[1:]
        return {name: {column for row in table_rows(part) for column in row[0].split(", ")}
                for name, part in zip(self.TABLES, parts, strict=True)}

    def headers(self, *arguments):
        """Returns (title, headers without units) of each table."""
        done = run(*arguments, "--format", "markdown")
        self.assertIn(done.code, (0, 65), done.message)  # 65: the trace has no function for a tree
        text = done.text
        for title, head in re.findall(r"^### (.*)\n\n\| (.*) \|\n\| -", text, re.MULTILINE):
            yield title, [re.sub(r" (ps|ns|us|ms|s)$", "", cell) for cell in head.split(" | ")]

    def test_glossary(self):
        traces = [*testdata_traces(), self.write("gpu.xplane.pb", space(gpu(0), gpu(1))),
                  self.write("impossible.xplane.pb", impossible_duration()),
                  self.write("launches.json", launches()),
                  self.write("occupancy.xplane.pb", occupancy())]
        traces += [path for path in sorted(SHARED_TRACES.glob("*.xplane.pb"))
                   if not path.name.startswith("corrupt")]
        seen = {name: set() for name in self.TABLES}
        for path in traces:
            for arguments in ((), ("functions",), ("functions", "--by-id"), ("kernels",), ("kernels", "--wide"),
                              ("functions", "--samples"), ("tree",), ("tree", "--by", "scope"),
                              ("tree", "--by", "source")):
                command = (arguments[0], path, *arguments[1:]) if arguments else (path,)
                for title, headers in self.headers(*command):
                    name = re.match(r"\w*", title)[0].replace("variants", "functions")
                    name = "tree" if arguments[:1] == ("tree",) else name
                    seen[name].update(headers)
        glossary = self.glossary()
        for name in self.TABLES:
            with self.subTest(name):
                self.assertEqual(seen[name] - glossary[name], set())
                if SHARED_TRACES.exists():  # none of these has two clocks
                    self.assertEqual(glossary[name] - seen[name] - {"clock"}, set())


if __name__ == "__main__":
    unittest.main()
