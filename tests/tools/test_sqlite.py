"""Tests of -o FILE.sqlite, which has the same result as JSON, in tables."""
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import tempfile
import unittest

from harness import BINARY, EndToEndTest, REPOSITORY, TESTDATA, environment, open_terminal, run
from test_readme import BLOCK, commands
from xspace import Plane, space

VARIANTS = TESTDATA / "jax_cpu_variants.xplane.pb"
DIFF = TESTDATA / "diff"
COMMANDS = (
    ["report", VARIANTS], ["report", VARIANTS, "--samples"], ["planes", VARIANTS, "--stats"],
    ["report", TESTDATA / "jax_cpu_control_flow.xplane.pb", VARIANTS, "--device", "all"],
    ["functions", VARIANTS, "--by-id"], ["functions", VARIANTS, "--samples"], ["kernels", VARIANTS], ["tree", VARIANTS],
    ["where", VARIANTS], ["headroom", VARIANTS, "--peak-flops", "1e12"], ["brief", VARIANTS],
    ["report", VARIANTS, "--compat", "tune-jax"],
    ["energy", TESTDATA / "energy" / "jax_cpu_mixture.xplane.pb", "--power",
     TESTDATA / "energy" / "replayed.power.jsonl"],
    ["compare", VARIANTS, VARIANTS], ["pick", VARIANTS], ["fleet", VARIANTS, TESTDATA / "kineto_training.json"],
    ["diff", "--base", *sorted(DIFF.glob("*base*")), "--head", *sorted(DIFF.glob("*head*"))],
    ["power", "clients"], ["power", "datasets"])


def made(command, folder):
    """Returns the JSON document of a command, and its database."""
    path = pathlib.Path(folder) / "out.sqlite"
    path.unlink(missing_ok=True)
    done = run(*command, "-o", path)
    same = run(*command, "--format", "json")
    assert done.code == same.code and done.code < 64, (command, done.message)
    return same.json, sqlite3.connect(path)


def flat(row):
    """A row of JSON as the cells of a table. Null objects are omitted."""
    cells = {}
    for name, value in row.items():
        if isinstance(value, dict):
            for inner, each in value.items():
                cells.update(flat({f"{name}_{inner}": each}))
        else:
            cells[name] = value
    return cells


def shown(value):
    """A text of JSON as in tables: control characters except line feeds are escaped."""
    short = {"\t": "\\t", "\r": "\\r"}
    escape = lambda found: short.get(found[0], f"\\x{ord(found[0]):02x}")
    return re.sub(r"[\x00-\x09\x0b-\x1f]", escape, value) if isinstance(value, str) else value


class Sqlite(EndToEndTest):
    def check_cell(self, cells, name, value):
        if value is None:  # the cells of an unknown group or interval have other names
            of_group = [cells[name]] if name in cells else [
                cell for column, cell in cells.items() if column.startswith(f"{name}_")]
            self.assertLessEqual(set(of_group), {None})
        elif f"{name}_lo" in cells:
            self.assertEqual([cells[f"{name}_lo"], cells[f"{name}_hi"]], value)
        elif isinstance(value, list) and cells[name] not in (None, "; ".join(map(str, value))):
            self.assertEqual(json.loads(cells[name]), value)
        elif isinstance(value, list):
            self.assertEqual(cells[name] or "", "; ".join(value))
        else:
            self.assertEqual(cells[name], shown(value))

    def check_same(self, document, database):
        tables = {name for name, in database.execute("SELECT name FROM sqlite_master")}
        rest = {name: value for name, value in document.items() if name not in tables}
        schema, text = database.execute("SELECT schema, json FROM document").fetchone()
        self.assertEqual(schema, document["schema"])
        self.assertEqual(json.loads(text), rest)
        for name in tables - {"document"}:
            found = database.execute(f'SELECT * FROM "{name}" ORDER BY rowid')
            columns = [each[0] for each in found.description]
            rows = found.fetchall()
            self.assertEqual(len(rows), len(document[name]), name)
            for expected, row in zip(document[name], rows):
                cells = dict(zip(columns, row))
                objects = {field for field, value in expected.items()
                           if isinstance(value, dict) and field in cells}
                for field in objects:
                    self.assertEqual(json.loads(cells[field]), expected[field])
                rest = {key: value for key, value in expected.items() if key not in objects}
                for field, value in flat(rest).items():
                    with self.subTest(table=name, field=field):
                        self.check_cell(cells, field, value)
                known = [column for column, cell in cells.items() if cell is not None]
                self.assertGreaterEqual(len(flat(rest)) + len(objects), len(known) / 2)
        return tables

    def test_every_table_and_member_is_that_of_json(self):
        with tempfile.TemporaryDirectory() as folder:
            for command in COMMANDS:
                with self.subTest(command=" ".join(map(str, command))):
                    tables = self.check_same(*made(command, folder))
                    self.assertGreater(len(tables), 1)

    def test_parameters_may_differ_from_variant_to_variant(self):
        spaces = ([("1", {"n": 1}), ("2", {"n": 2})], [("0", {"n": 1}), ("1", {"n": 2, "m": 2})],
                  [("0", {"BLOCK": 1, "block": "007", "c\0d": None, "\u202e": 1.5})],
                  [("0", {f"p{i}": i for i in range(2100)})])
        with tempfile.TemporaryDirectory() as folder:
            for variants in spaces:
                space = pathlib.Path(folder) / "space.json"
                space.write_text(json.dumps(
                    {"variants": [{"id": id, "params": params} for id, params in variants]}))
                tables = self.check_same(*made(["pick", VARIANTS, "--space", space], folder))
                self.assertIn("variants", tables)

    def test_sums_by_kernel_are_those_of_the_report(self):
        with tempfile.TemporaryDirectory() as folder:
            document, database = made(["report", VARIANTS], folder)
            sums = {}
            for row in document["kernels"]:
                sums[row["kernel"]] = sums.get(row["kernel"], 0) + row["total_ps"]
            found = dict(database.execute("SELECT kernel, SUM(total_ps) FROM kernels GROUP BY 1"))
            self.assertEqual(found, sums)

    def test_any_names(self):
        names = ['"; DROP TABLE kernels; --', "a'b", "line\nend", "\u202e", "k\0ernel", "", "\U0001f600",
                 b"\xff\xfe", "x" * 100_000]
        plane = Plane("/device:GPU:0")
        line = plane.line("Stream #1")
        for i, name in enumerate(names):
            line.event(name, 1_000_000 * i, 1000 + i)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "names.xplane.pb"
            path.write_bytes(space(plane))
            document, database = made(["kernels", path], folder)
            self.check_same(document, database)
            count, = database.execute("SELECT COUNT(DISTINCT kernel) FROM kernels").fetchone()
            self.assertEqual(count, len(names))

    def test_ten_thousand_devices(self):
        planes = []
        for i in range(10_000):
            plane = Plane(f"/device:GPU:{i}")
            plane.line("Stream #1").event("k", 0, 1000 + i)
            planes.append(plane)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "many.xplane.pb"
            path.write_bytes(space(*planes))
            self.assertEqual(run("report", path, "-o", f"{folder}/many.sqlite").code, 0)
            database = sqlite3.connect(f"{folder}/many.sqlite")
            found = database.execute("SELECT COUNT(*), SUM(busy_ps) FROM devices").fetchone()
            self.assertEqual(found, (10_000, sum(1000 + i for i in range(10_000))))

    def test_not_for_a_terminal(self):
        main, other = open_terminal()
        done = subprocess.run([BINARY, VARIANTS, "--format", "sqlite"], stdout=other,
                              stderr=subprocess.PIPE, env=environment(), timeout=30)
        os.close(other)
        os.close(main)
        self.assertEqual(done.returncode, 64)
        self.assertIn(b"-o FILE.sqlite", done.stderr)

    def test_events_stream_and_have_none(self):
        done = run("events", VARIANTS, "-o", "events.sqlite")
        self.assertEqual(done.code, 64)
        self.assertIn(".sqlite", done.message)


# The functions of the sqlite3 shell that the page needs.
SHELL = """#!/usr/bin/env python3
import sqlite3, sys
header = sys.argv[1] == "-header"
path, sql = sys.argv[1 + header:]
found = sqlite3.connect(path).execute(sql)
if header:
    print("|".join(each[0] for each in found.description))
for row in found:
    print("|".join("" if cell is None else str(cell) for cell in row))
"""


class Page(EndToEndTest):
    def test_questions_have_the_answers_that_the_page_shows(self):
        page = (REPOSITORY / "docs" / "sqlite.md").read_text()
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(TESTDATA, f"{folder}/testdata")
            shell = pathlib.Path(folder) / "bin" / "sqlite3"
            shell.parent.mkdir()
            shell.write_text(SHELL)
            shell.chmod(0o755)
            path = os.pathsep.join([str(shell.parent), str(BINARY.parent), os.environ["PATH"]])
            pairs = [pair for block in BLOCK.findall(page) for pair in commands(block)]
            self.assertGreater(len(pairs), 6)
            for command, output in pairs:
                done = subprocess.run(["bash", "-c", command], cwd=folder, timeout=30,
                                      env=environment(PATH=path), stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT)
                with self.subTest(command=command):
                    self.assertEqual(done.stdout.decode(), output)
                    self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
