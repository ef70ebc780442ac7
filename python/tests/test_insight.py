"""Tests of where(), headroom() and brief() from Python."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import xplane_time
from test_package import command_json, flat

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
COMMAND = pathlib.Path(sys.executable).parent / "xplane-time"
TRACE = REPOSITORY / "testdata/jax_cpu_spmd4.xplane.pb"


class Insight(unittest.TestCase):
    def setUp(self):
        self.trace = xplane_time.open(TRACE)

    def check(self, result, want):
        """Compares the result with the JSON of the command."""
        self.assertEqual(result.to_dict(), want)
        tables = [name for name, value in want.items()
                  if isinstance(value, list) and name in result.tables]
        self.assertEqual(tables, list(result.tables))
        for name, table in result.tables.items():
            self.assertEqual(table.columns, getattr(result, name).columns)
            self.assertEqual(len(table), len(want[name]))
            for row, of_command in zip(table, map(flat, want[name])):
                self.assertEqual(row, {key: of_command.get(key) for key in row})

    def test_where_is_that_of_the_command(self):
        for options, arguments in (({}, ()), ({"device": "cpu:1"}, ("--device", "cpu:1"))):
            self.check(self.trace.where(**options), command_json("where", TRACE, *arguments))

    def test_where_has_as_many_gaps_as_are_asked_for(self):
        for count in (0, 1, 5):
            gaps = self.trace.where(device="cpu:1", gaps=count).gaps
            want = command_json("where", TRACE, "--device", "cpu:1", "--gaps", "--top", str(max(count, 1)))["gaps"]
            self.assertEqual(list(gaps["duration_ps"]), [gap["duration_ps"] for gap in want][:count])
            self.assertEqual(list(gaps["host_self_ps"]), [gap["host_self_ps"] for gap in want][:count])

    def test_headroom_is_that_of_the_command(self):
        self.check(self.trace.headroom(), command_json("headroom", TRACE))
        filtered = self.trace.headroom(kernel="all-gather")
        self.check(filtered, command_json("headroom", TRACE, "--kernel", "all-gather"))

    def test_brief_is_that_of_the_command(self):
        for options, arguments in (({}, ()), ({"limit": 1}, ("--limit", "1")),
                                   ({"device": "cpu:2"}, ("--device", "cpu:2"))):
            brief, want = self.trace.brief(**options), command_json("brief", TRACE, *arguments)
            self.assertEqual(brief.to_dict(), want)
            self.assertEqual(brief.findings["what"], [row["what"] for row in want["findings"]])
        self.assertIn("could save", repr(brief))
        self.assertIn("1. ", brief.to_markdown())

    def test_diff_is_that_of_the_command(self):
        sides = [sorted((REPOSITORY / "testdata/diff").glob(f"*_{side}*.gz")) for side in ("base", "head")]
        want = command_json("diff", "--base", *sides[0], "--head", *sides[1], "--per", "run")
        diff = xplane_time.diff(*sides, per="run")
        self.assertEqual(diff.to_dict(), want)
        self.assertEqual(len(diff.rows), len(want["rows"]))
        self.assertAlmostEqual(sum(diff.rows["delta_ps"]), want["total"]["delta_ps"], places=3)
        self.assertIn("changes in the mean span of", repr(diff))
        itself = xplane_time.diff(str(sides[0][0]), sides[0][0])
        self.assertEqual(set(itself.rows["delta_ps"]), {0})
        for call, error, words in (
                (lambda: xplane_time.diff(TRACE, "none.xplane.pb"), xplane_time.MissingInputError,
                 "none.xplane.pb"),
                (lambda: xplane_time.diff(TRACE, TRACE, per="day"), xplane_time.ArgumentError,
                 "step, run or capture"),
                (lambda: xplane_time.diff(TRACE, TRACE, min_effect=5), xplane_time.ArgumentError,
                 "min_effect: must be a share"),
                (lambda: xplane_time.diff(TRACE, []), xplane_time.ArgumentError, "no path"),
                (lambda: xplane_time.diff(TRACE, TRACE, kernel="x"), TypeError, "kernel")):
            with self.assertRaisesRegex(error, words):
                call()

    def test_peaks_are_the_users(self):
        report = self.trace.headroom(peak_flops_per_s=2e12, peak_bytes_per_s=1e11)
        self.assertEqual(set(report.devices["peak_flops_per_s"]), {2e12})
        self.assertEqual(set(report.devices["bytes_source"]), {"user"})

    def test_declared_work(self):
        op = self.trace.headroom().ops["op"][0]
        declared = [{"kernel": op, "flops": 5.0, "bytes": 7.0}]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "work.json"
            path.write_text(json.dumps({"work": declared}))
            want = command_json("headroom", TRACE, "--work", path)
            self.check(self.trace.headroom(work=path), want)
            self.check(self.trace.headroom(work=str(path)), want)
        of_list = self.trace.headroom(work=declared)
        self.assertEqual(of_list.to_dict()["ops"], want["ops"])
        rows = [row for row in of_list.ops if row["op"] == op]
        self.assertEqual({(row["flops"], row["flops_source"], row["bytes"]) for row in rows},
                         {(5, "declared", 7)})
        for work, error, words in (
                ([{"kernel": "none_such", "flops": 1}], xplane_time.NothingFoundError, "none_such"),
                ([{"kernel": op}], xplane_time.ArgumentError, "needs flops, bytes or both"),
                ("none.json", xplane_time.MissingInputError, "none.json")):
            with self.assertRaisesRegex(error, words):
                self.trace.headroom(work=work)

    def test_people_see_what_the_command_shows(self):
        where = self.trace.where()
        self.assertIn("devices, % of the time from first start to last end", repr(where))
        markdown = subprocess.run([COMMAND, "where", TRACE, "--format", "markdown"],
                                  capture_output=True, text=True, check=True).stdout
        self.assertEqual(where.to_markdown(), markdown)
        self.assertEqual(where._repr_markdown_(), markdown)

    def test_unknown_is_none(self):
        self.assertEqual(set(self.trace.where().devices["idle_host_ps"]), {None})
        ops = self.trace.headroom().ops
        self.assertEqual(set(ops["recoverable_ps"]), {None})
        self.assertNotIn(None, ops["reason"])

    def test_what_is_not_there_is_an_error(self):
        for call, error, words in (
                (lambda: self.trace.where(device="tpu"), xplane_time.NothingFoundError, "TPU|tpu"),
                (lambda: self.trace.headroom(kernel="none_such"), xplane_time.NothingFoundError,
                 "no execution matches kernel='none_such'"),
                (lambda: self.trace.headroom(peak_flops_per_s=0), xplane_time.ArgumentError,
                 "peak"),
                (lambda: self.trace.headroom(peak_flops_per_s="x"), xplane_time.ArgumentError,
                 "must be a number"),
                (lambda: self.trace.headroom(peak=1), TypeError, "peak_flops_per_s")):
            with self.assertRaisesRegex(error, words):
                call()

    def test_results_outlive_their_trace(self):
        where = self.trace.where()
        expected = json.dumps(where.to_dict())
        self.trace.close()
        del self.trace
        self.assertEqual(json.dumps(where.to_dict()), expected)


if __name__ == "__main__":
    unittest.main()
