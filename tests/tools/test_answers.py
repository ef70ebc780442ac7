"""Compares results on real traces with answers that were computed independently of this tool."""
import json
import math
import unittest

from harness import (EndToEndTest, REPOSITORY, SHARED_TRACES, TESTDATA, in_parallel, run)

ALL = ("--device", "all", "--format", "json")
VARIANTS = [("--reader", reader, "--threads", threads)
            for reader in ("wire", "protobuf") for threads in ("1", "4")]


def matches(got, want):
    if isinstance(want, float) and isinstance(got, (int, float)):
        return math.isclose(got, want, rel_tol=1e-9, abs_tol=1e-6)
    return got == want


def row_key(row, names):
    """The key of a row. Answers for GPU and TPU traces have no ordinal, because a plane is a device."""
    return tuple(row.get(name) for name in names)


class Answers(EndToEndTest):
    folder = TESTDATA

    def answers(self):
        found = sorted((self.folder / "answers").glob("*.json"))
        self.assertTrue(found, f"no answers in {self.folder}")
        return [json.loads(path.read_text()) for path in found]

    def got(self, want, *options):
        done = run(self.folder / want["trace"], *ALL, *options)
        self.assertEqual((done.code, done.err), (0, b""), want["trace"])
        return done

    def compare_rows(self, what, got_rows, want_rows, key_names):
        """Checks that the rows are exactly `want_rows`, and equal in every field of the answer."""
        names = [name for name in key_names if not want_rows or name in want_rows[0]]
        got = {row_key(row, names): row for row in got_rows}
        self.assertEqual(len(got), len(got_rows), f"{what}: rows are not unique by {names}")
        want = {row_key(row, names): row for row in want_rows}
        self.assertEqual(sorted(map(str, got)), sorted(map(str, want)), what)
        for key, row in want.items():
            for name, value in row.items():
                self.compare_value(f"{what} {key} {name}", name, got[key], value)

    def compare_value(self, what, name, got_row, want):
        if name in ("envelope_ps", "profile_span_ps"):  # the result of an earlier tool, not a column
            return
        got = got_row[name]
        if isinstance(want, dict):
            self.assertIsNotNone(got, what)
            for part, value in want.items():
                self.assertTrue(matches(got[part], value), f"{what}.{part}: {got[part]} != {value}")
        else:
            self.assertTrue(matches(got, want), f"{what}: {got} != {want}")

    def compare_report(self, want, report):
        name, base = want["trace"], 1000 * (want.get("base_ns") or 0)
        self.assertEqual(report["capture"]["events"], want["events"], name)
        self.assertEqual(report["capture"]["planes"], want["planes"], name)
        self.compare_rows(f"{name} functions", report["functions"], want["functions"],
                          ("plane", "ordinal", "function", "program_id"))
        shift = 1000 * report["capture"]["base_ns"] - base  # first_ps is absolute in the answers
        devices = [{**row, "first_ps": row["first_ps"] + shift, "last_ps": row["last_ps"] + shift}
                   for row in report["devices"] if row["executions"]]
        self.compare_rows(f"{name} devices", devices, want["devices"], ("plane", "ordinal"))
        self.compare_kernels(name, report["kernels"], want["kernels"])

    def compare_kernels(self, name, got, want):
        self.compare_rows(f"{name} kernels", got, want,
                          ("plane", "ordinal", "kernel", "function", "program_id"))

    def test_answers_hold_with_every_reader_and_thread_count(self):
        for want in self.answers():
            outputs = in_parallel(lambda options: self.got(want, *options), VARIANTS)
            with self.subTest(trace=want["trace"]):
                self.compare_report(want, outputs[0].json)
            for options, done in zip(VARIANTS, outputs):
                with self.subTest(trace=want["trace"], options=options):
                    self.assertEqual(done.out, outputs[0].out)

    def test_every_command_is_the_same_with_every_reader_and_thread_count(self):
        commands = [("report",), ("planes", "--stats"), ("functions", "--samples"),
                    ("functions", "--by-id"), ("kernels",), ("tree",), ("events",)]
        for path in [self.folder / want["trace"] for want in self.answers()]:
            for command in commands:
                work = [(*command, path, *ALL, *options) for options in (VARIANTS[0], VARIANTS[3])]
                first, other = in_parallel(lambda arguments: run(*arguments), work)
                with self.subTest(trace=path.name, command=command):
                    self.assertIn(first.code, (0, 65))  # 65: the trace has no such data
                    self.assertEqual(first, other)


@unittest.skipUnless((SHARED_TRACES / "answers").is_dir(),
                     f"no accelerator traces in {SHARED_TRACES.relative_to(REPOSITORY.parent)}")
class AcceleratorAnswers(Answers):
    folder = SHARED_TRACES

    def compare_kernels(self, name, got, want):
        """These answers contain only the kernels that take most of the time."""
        names = ("plane", "kernel", "function", "program_id")
        wanted = {row_key(row, names) for row in want}
        self.assertGreaterEqual(len(got), len(want), name)
        self.compare_rows(f"{name} kernels", [row for row in got if row_key(row, names) in wanted],
                          want, names)

    def test_damage_in_a_real_trace_is_an_error_with_its_place(self):
        damaged = sorted(self.folder.glob("corrupt*.pb"))
        self.assertTrue(damaged)
        for path in damaged:
            done = run(path, *ALL)
            self.assertEqual((done.code, done.out), (65, b""), path.name)
            self.assertRegex(done.message, r"byte \d+")


if __name__ == "__main__":
    unittest.main()
