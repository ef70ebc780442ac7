"""pick() and compare(): the decisions of the command, on the same captures."""
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

import xplane_time
from xplane_time import fleet
from test_package import REPOSITORY, VARIANTS

COMMAND = pathlib.Path(sys.executable).parent / "xplane-time"
SIDES = [sorted((REPOSITORY / "testdata/diff").glob(f"*_{side}*.gz")) for side in ("base", "head")]


def of_command(*arguments):
    """The JSON of the command, whatever its exit code is, which the JSON has too."""
    done = subprocess.run([COMMAND, *map(str, arguments), "--format", "json"], capture_output=True)
    found = json.loads(done.stdout)
    assert found["exit_code"] == done.returncode, (found["exit_code"], done)
    return found


def cells(row, prefix=""):
    """A row of the JSON with the columns of a table, without parameters."""
    found = {}
    for key, value in row.items():
        if re.search("(^|_)ci(_|$)", key):
            found[f"{prefix}{key}_lo"], found[f"{prefix}{key}_hi"] = value or (None, None)
        elif isinstance(value, dict) and key != "params":
            found |= cells(value, f"{key}_")
        elif key != "params":
            found[prefix + key] = value
    return found


class Decisions(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = pathlib.Path(folder.name)

    def benchmarks(self, name, times, *, rounds=8, noise=0.0, seed=1):
        """A file of Google Benchmark: {function: microseconds}."""
        draw = random.Random(seed)
        path = self.at / name
        path.write_text(json.dumps({"benchmarks": [
            {"name": each, "real_time": time * draw.lognormvariate(0, noise), "time_unit": "us",
             "cpu_time": 2 * time} for _ in range(rounds) for each, time in times.items()]}))
        return path

    def sides(self, factor, captures, noise):
        return [[self.benchmarks(f"{side}{factor}{noise}{i}.json", {"f": 10 * of, "g": 5},
                                 noise=noise, seed=f"{side}{i}") for i in range(captures)]
                for side, of in (("base", 1), ("head", factor))]

    def check(self, report, want, table):
        self.assertEqual(report.to_dict(), want)
        for name in ("exit_code", "explanation", "reasons", "notes"):
            self.assertEqual(getattr(report, name), want[name])
        rows = getattr(report, table)
        self.assertEqual(len(rows), len(want[table]))
        for row, wanted in zip(rows, want[table]):
            self.assertEqual({key: value for key, value in row.items() if key != "params"},
                             cells(wanted))
        self.assertIn(report.explanation.split(":")[0], repr(report))
        self.assertEqual(list(report.tables[table].columns), list(rows.columns))


class Pick(Decisions):
    def test_it_is_that_of_the_command(self):
        for options, arguments in (
                ({}, ()), ({"delta": 0.5}, ("--delta", "50%")), ({"metric": "span"}, ("--metric", "span")),
                ({"function": "_[012]$", "alpha": 0.2, "skip_runs": 1, "seed": 7},
                 ("--function", "_[012]$", "--alpha", "20%", "--skip-runs", "1", "--seed", "7"))):
            with self.subTest(options):
                choice = xplane_time.pick(VARIANTS, **options)
                want = of_command("pick", VARIANTS, *arguments)
                self.check(choice, want, "variants")
                self.assertEqual((choice.claim, choice.pick, choice.regret, choice.tied, choice.doubts),
                                 tuple(want[key] for key in ("claim", "pick", "regret", "tied", "doubts")))
                self.assertEqual(choice.is_decided, want["exit_code"] == 0)
                self.assertIsNone(choice.params)

    def test_captures_are_given_as_a_list_and_a_repeated_one_counts_once(self):
        choice = xplane_time.pick([VARIANTS, str(VARIANTS)])
        self.check(choice, of_command("pick", VARIANTS, VARIANTS), "variants")
        self.assertTrue(any("given twice" in note for note in choice.notes), choice.notes)

    def test_every_claim_is_data(self):
        equal = {"a": 10, "b": 10.0001, "c": 20}
        for times, claim, noise in (({"a": 10, "b": 20}, "winner", 0.00001), (equal, "tie", 0.00001),
                                    ({"a": 10, "b": 10.2}, "undecided", 0.01),
                                    ({"a": 10, "b": 10.3}, "undecided", 0.02)):
            captures = [self.benchmarks(f"{claim}{i}.json", times, rounds=4, seed=i, noise=noise)
                        for i in range(4)]
            choice = xplane_time.pick(captures, id_pattern="(.)")
            self.assertEqual((choice.claim, choice.pick), (claim, "a"))
            self.assertEqual(choice.tied, ["a", "b"] if claim == "tie" else [])
            self.assertEqual(choice.is_decided, claim != "undecided")
            # A number of captures is known only if the difference is certain to exist.
            self.assertEqual(choice.may_be_equal, noise == 0.02)
            if noise == 0.01:
                self.assertEqual((choice.needed_least[1], choice.needed[1]), ("capture", "capture"))
                self.assertLess(choice.needed_least[0], choice.needed[0])
            else:
                self.assertIsNone(choice.needed_least)
                self.assertIsNone(choice.needed)
            if not choice.is_decided:
                self.assertEqual(choice.exit_code, 11)
                self.assertGreater(choice.regret, 0.005)
                accepted = xplane_time.pick(captures, id_pattern="(.)", delta=choice.regret * 1.001)
                self.assertEqual(accepted.claim, "pick")
        bad = self.benchmarks("bad.json", {"a": 10, "b": -1})
        choice = xplane_time.pick(bad, id_pattern="(.)")
        self.assertEqual((choice.claim, choice.exit_code, choice.pick, choice.regret),
                         ("undecided", 11, None, None))
        self.assertIn("variant b", choice.doubts[0])

    def test_parameters_of_a_space(self):
        variants = [{"id": "0", "params": {"block": 64, "name": "a b"}}, {"id": "1", "params": {}},
                    {"id": "9", "params": {"block": 1}}]
        path = self.at / "space.json"
        path.write_text(json.dumps({"variants": variants}))
        captures = self.benchmarks("b.json", {"0": 10, "1": 20})
        want = of_command("pick", captures, "--id-pattern", "(.)", "--space", path)
        for space in (path, variants, {"variants": variants}):
            choice = xplane_time.pick(captures, id_pattern="(.)", space=space)
            self.check(choice, want, "variants")
            self.assertEqual(choice.params, {"block": 64, "name": "a b"})
            self.assertEqual(choice.variants["params"],
                             ['block=64 name="a b"', None, "block=1"])
            self.assertEqual(choice.variants["status"], ["picked", "slower", "no_samples"])

    def test_errors(self):
        for call, error, words in (
                (lambda: xplane_time.pick([]), xplane_time.ArgumentError, "no path"),
                (lambda: xplane_time.pick(self.at / "none.pb"), xplane_time.MissingInputError, "none.pb"),
                (lambda: xplane_time.pick(VARIANTS, delta=-1), xplane_time.ArgumentError, "delta"),
                (lambda: xplane_time.pick(VARIANTS, alpha="1%"), xplane_time.ArgumentError,
                 "alpha: must be a number, not '1%'"),
                (lambda: xplane_time.pick(VARIANTS, objective="speed"), xplane_time.ArgumentError,
                 "time.*energy"),
                (lambda: xplane_time.pick(VARIANTS, objective="energy"), xplane_time.NothingFoundError,
                 "no energies"),
                (lambda: xplane_time.pick(VARIANTS, space=[{"params": 3}]), xplane_time.ArgumentError,
                 "space"),
                (lambda: xplane_time.pick(VARIANTS, space="none.json"), xplane_time.MissingInputError,
                 "none.json"),
                (lambda: xplane_time.pick(VARIANTS, id_pattern="none(.)"),
                 xplane_time.NothingFoundError, "no function is a variant"),
                (lambda: xplane_time.pick(VARIANTS, top=1), TypeError, "top")):
            with self.assertRaisesRegex(error, words):
                call()


class PickRuns(unittest.TestCase):
    """Of time_variants, which needs jax; here without it."""

    def pick(self, runs):
        return xplane_time.results.PickReport(
            xplane_time._core.pick_runs(runs, "active", "device", {"delta": 0.005, "alpha": 0.01}))

    def rounds(self, times, count=8):
        """`times`: {(variant, device): picoseconds}."""
        step = 10_000_000
        return [(variant, device, (i * 10 + at) * step, time + i)
                for i in range(count)
                for at, ((variant, device), time) in enumerate(times.items())]

    def test_the_slowest_device_decides(self):
        # By the mean, b is faster; its slowest device is slower.
        times = {("a", "0"): 1_000_000, ("a", "1"): 1_000_000, ("b", "0"): 100_000, ("b", "1"): 1_500_000}
        runs = [(variant, device, start - int(device) * 10_000_000, time)
                for variant, device, start, time in self.rounds(times)]
        choice = self.pick(runs)
        self.assertEqual((choice.claim, choice.pick), ("winner", "a"))
        self.assertEqual(choice.variants["units"], [8, 8])

    def test_a_run_that_does_not_count_keeps_its_place(self):
        runs = self.rounds({("a", ""): 1_000_000, ("b", ""): 1_100_000})
        runs[2] = (*runs[2][:3], None)
        choice = self.pick(runs)
        self.assertEqual((choice.claim, choice.pick), ("winner", "a"))
        row = choice.variants[0]
        self.assertEqual((row["samples"], row["left_out"], row["units"]), (7, 1, 7))
        self.assertTrue(choice.to_dict()["in_rounds"])

    def test_without_a_run_that_counts_there_is_no_pick(self):
        choice = self.pick([(variant, "", i, None) for i in range(9) for variant in "ab"])
        self.assertEqual((choice.is_decided, choice.pick), (False, None))


class Compare(Decisions):
    def test_it_is_that_of_the_command(self):
        sides = ("--base", *SIDES[0], "--head", *SIDES[1])
        for options, arguments in (
                ({}, ()), ({"metric": "span", "min_effect": 0.02}, ("--metric", "span", "--min-effect", "2%")),
                ({"offset_std": 0.01, "max_mde": 0.5, "alpha": 0.05},
                 ("--offset-std", "1%", "--max-mde", "50%", "--alpha", "5%"))):
            with self.subTest(options):
                want = of_command("compare", *sides, *arguments)
                report = xplane_time.compare(*SIDES, **options)
                self.check(report, want, "rows")
                self.assertEqual(report.outcome, want["outcome"])

    def test_every_outcome_is_data(self):
        for factor, captures, noise, outcome, code in (
                (1, 6, 0.0005, "no_regression", 0), (1.1, 6, 0.0005, "slower", 10),
                (1.015, 5, 0.02, "cannot_tell", 11), (1, 2, 0.01, "too_little_data", 12)):
            with self.subTest(outcome):
                base, head = self.sides(factor, captures, noise)
                options = {"max_mde": 0.5} if code == 11 else {}
                report = xplane_time.compare(base, head, **options)
                self.assertEqual((report.outcome, report.exit_code), (outcome, code))
                self.check(report, of_command("compare", "--base", *base, "--head", *head,
                                              *(["--max-mde", "50%"] if options else [])), "rows")
                self.assertTrue(report.explanation)
                if code == 10:
                    row = report.rows[0]
                    self.assertEqual((row["function"], row["verdict"]), ("f", "slower"))
                    self.assertLess(row["ratio_ci_lo"], row["ratio"])
                    self.assertGreater(row["ratio_ci_lo"], 1.05)
                    self.assertLess(row["p_value"], 0.001)
                    self.assertEqual(row["base_captures"], 6)

    def test_options(self):
        base, head = self.sides(1, 2, 0.0)
        rows = xplane_time.compare(base, head, benchmark_time="cpu").rows
        self.assertEqual([round(centre) for centre in rows["base_centre_ps"]], [20_000_000, 10_000_000])
        rows = xplane_time.compare(VARIANTS, VARIANTS, by_id=True).rows
        self.assertIn("0", rows["variant_id"])
        report = xplane_time.compare([*base, base[0]], head)
        self.assertTrue(any("given twice" in note for note in report.notes), report.notes)
        for options, words in (({"benchmark_time": "user"}, "real.*cpu"), ({"min_effect": 5}, "0.05 is 5 %"),
                               ({"max_mde": float("nan")}, "max_mde"), ({"offset_std": -1}, "offset_std"),
                               ({"id_pattern": "(.)"}, "by_id"), ({"paired": 1}, "paired: must be bool")):
            with self.assertRaisesRegex(xplane_time.ArgumentError, words):
                xplane_time.compare(base, head, **options)
        with self.assertRaisesRegex(xplane_time.ArgumentError, "benchmark"):
            xplane_time.compare(VARIANTS, VARIANTS, benchmark_time="cpu")
        with self.assertRaisesRegex(xplane_time.MissingInputError, "none"):
            xplane_time.compare(base, ["none.json"])
        with self.assertRaisesRegex(TypeError, "why"):
            xplane_time.compare(base, head, why=True)

    def test_fleets_are_compared_by_the_same_function(self):
        self.assertIsInstance(fleet.compare(*(side[0] for side in self.sides(1, 1, 0.0))),
                              xplane_time.CompareReport)

    def test_help_has_every_option(self):
        for function, options in ((xplane_time.pick, xplane_time.PickOptions),
                                  (xplane_time.compare, xplane_time.CompareOptions)):
            for name in options.__annotations__:
                self.assertIn(f"    {name}: ", function.__doc__)
        self.assertIn("wrong claim (default 0.01)", xplane_time.pick.__doc__)
        self.assertIn("(default 0.001)", xplane_time.compare.__doc__)


if __name__ == "__main__":
    unittest.main()
