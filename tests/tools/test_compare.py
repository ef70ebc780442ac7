"""Tests of compare and pick: decisions, exit codes and formats."""
import json
import math
import random
import re
import unittest
import xml.etree.ElementTree

from harness import EndToEndTest, REPOSITORY, csv_rows, environment, run
from xspace import Plane, Ref, gpu, space

try:
    import jsonschema
except ImportError:  # the other tests run without it
    jsonschema = None

FORMATS = ("table", "json", "csv", "markdown", "junit", "benchmark", "bmf")


def trace(times_ps, seed, runs=20, noise=0.005, offset=0.0, model=None, ordinal=0):
    """One capture in which functions run in rounds. `times_ps`: {function: typical time}."""
    rng = random.Random(seed)
    plane = Plane(f"/device:GPU:{ordinal}", id=ordinal + 1)
    if model:
        plane.plane_stat("device_type_string", model)
    stream = plane.line("Stream #1(Kernel)", 5)
    at = 0
    for _ in range(runs):
        for program, (function, typical) in enumerate(times_ps.items()):
            took = round(typical * (1 + offset + noise * rng.gauss(0, 1)))
            stream.event(f"{function}.kd", at, took, hlo_module=Ref(function), hlo_op=Ref("op"),
                         program_id=program + 1)
            at += took + 100_000
    return space(plane)


def benchmark(times_ns, seed, repetitions=10, noise=0.005, context=None):
    rng = random.Random(seed)
    rows = [{"name": name, "run_name": name, "run_type": "iteration", "repetition_index": i,
             "iterations": 1, "real_time": typical * (1 + noise * rng.gauss(0, 1)),
             "cpu_time": typical, "time_unit": "ns"}
            for name, typical in times_ns.items() for i in range(repetitions)]
    return json.dumps({"context": context or {}, "benchmarks": rows})


def energy_result(run_j, seed=0, error=0.003, offset=0.0, sensor="nvml GPU-1 gpu energy_uj", **device):
    """The part of `energy --format json` that decisions read. `run_j`: {function: joules of a run, or None
    if they are unknown}."""
    rng = random.Random(f"energy{seed}")
    place = {"input": 0, "plane": "/device:GPU:0", "ordinal": 0, "host": None}
    rows = []
    for program, (function, typical) in enumerate(run_j.items()):
        row = {**place, "function": function, "program_id": str(program), "runs": 1000,
               "energy_j": None, "energy_j_ci95": None, "per_run_j": None, "status": "unknown",
               "reason": "not_separable"}
        if typical is not None:
            one = round(typical * (1 + offset + error * rng.gauss(0, 1)), 9)
            row |= {"energy_j": 1000 * one, "per_run_j": one, "status": "ok", "reason": None,
                    "energy_j_ci95": [1000 * one * (1 - 1.96 * error), 1000 * one * (1 + 1.96 * error)]}
        rows.append(row)
    return {"schema": "xplane-time.energy.v1", "functions": rows,
            "devices": [{**place, "sensor": sensor, "poor_fit": False, "shared": False, **device}]}


class Decisions(EndToEndTest):
    def side(self, name, times_ps, captures, seed=0, suffix=".xplane.pb", **options):
        """`captures` traces of processes that differ by 0.3 % (standard deviation)."""
        paths = []
        for i in range(captures):
            offset = 0.003 * random.Random(f"{name}{seed}{i}").gauss(0, 1)
            content = trace(times_ps, f"{name}{seed}{i}", offset=offset, **options)
            paths.append(self.write(f"{name}{i}{suffix}", content))
        return paths

    def compare(self, base, head, *options):
        return run("compare", "--base", *base, "--head", *head, *options, cwd=self.at)

    def decision(self, done):
        return json.loads(done.out)


class Energies(Decisions):
    RUN_J = {"jit_autotune_fn_1": 0.02, "jit_autotune_fn_2": 0.03}

    def energies(self, name, run_j, captures=1, **more):
        """Energies of captures of processes that differ by 0.3 % (standard deviation)."""
        return [self.write(f"{name}{i}.json", json.dumps(energy_result(
            run_j, f"{name}{i}", offset=0.003 * random.Random(f"{name}{i}").gauss(0, 1), **more)))
            for i in range(captures)]

    def of_energy(self, base, head, *options):
        return self.compare(base, head, "--objective", "energy", *options)

    def test_more_energy_exits_10_in_every_format(self):
        base = self.energies("base", self.RUN_J, 8)
        head = self.energies("head", {**self.RUN_J, "jit_autotune_fn_1": 0.024}, 8)
        done = self.of_energy(base, head)
        self.assertEqual(done.code, 10, done.text)
        self.assertRegex(done.text, r"\Amore energy: 1 of 2 functions, the worst by \+[12]\d")
        self.assertRegex(done.text, r"base mJ +head mJ")
        self.assertNotRegex(done.text, "slow|fast")
        decision = self.of_energy(base, head, "--format", "json").json
        self.assertEqual((decision["outcome"], decision["options"]["objective"]), ("more", "energy"))
        [row, other] = decision["rows"]
        self.assertEqual((row["verdict"], other["verdict"]), ("more", "same"))
        self.assertAlmostEqual(row["head"]["energy_j"], 0.024, delta=0.0005)
        self.assertNotIn("centre_ps", row["head"])
        rows = csv_rows(self.of_energy(base, head, "--format", "csv").text)
        self.assertAlmostEqual(float(rows[0]["base_energy_j"]), 0.02, delta=0.0005)
        suite = xml.etree.ElementTree.fromstring(self.of_energy(base, head, "--format", "junit").out)
        self.assertEqual([each.get("type") for each in suite.iter("failure")], ["more"])
        bmf = json.loads(self.of_energy(base, head, "--format", "bmf").out)
        self.assertEqual(bmf["jit_autotune_fn_1"]["energy"]["value"], row["head"]["energy_j"])
        for command in (("compare", base[0], head[0]), ("pick", base[0])):
            done = run(*command, "--objective", "energy", "--format", "benchmark")
            self.assertEqual((done.code, done.out), (64, b""))
            self.assertIn("supports only times", done.message)

    def test_less_energy_exits_0(self):
        done = self.of_energy(self.energies("base", self.RUN_J, 8),
                              self.energies("head", {**self.RUN_J, "jit_autotune_fn_2": 0.02}, 8))
        self.assertEqual(done.code, 0, done.text)
        self.assertIn("1 with less energy", done.text)

    def test_one_capture_a_side_says_what_it_assumes(self):
        done = self.of_energy(self.energies("base", self.RUN_J),
                              self.energies("head", {**self.RUN_J, "jit_autotune_fn_1": 0.03}))
        self.assertEqual(done.code, 10, done.text)
        self.assertIn("assumed to be 1 % (std)", " ".join(done.text.split()))
        done = self.of_energy(self.energies("base", self.RUN_J), self.energies("head", self.RUN_J))
        self.assertEqual(done.code, 12, done.text)

    def test_an_unknown_energy_is_no_tie_and_a_doubt_no_verdict(self):
        base = self.energies("base", self.RUN_J, 8)
        for name, run_j, more, words in (
                ("unknown", {**self.RUN_J, "jit_autotune_fn_2": None}, {}, "not_separable"),
                ("doubt", self.RUN_J, {"poor_fit": True}, "poor_fit"),
                ("shared", self.RUN_J, {"shared": True}, "shared")):
            with self.subTest(name):
                done = self.of_energy(base, self.energies(name, run_j, 8, **more))
                self.assertEqual(done.code, 11, done.text)
                self.assertIn("unknown or in doubt", done.text)
                self.assertIn(words, done.text)
        for run_j, more in (({**self.RUN_J, "jit_autotune_fn_2": None}, {}),
                            (self.RUN_J, {"poor_fit": True})):
            done = run("pick", *self.energies("pick", run_j, 4, **more), "--objective", "energy",
                       "--format", "json")
            self.assertEqual((done.code, done.json["claim"]), (11, "undecided"))
            self.assertTrue(done.json["doubts"])

    def test_half_a_log_is_noted(self):
        base = self.energies("base", self.RUN_J, 8)
        done = self.of_energy(base, self.energies("half", self.RUN_J, 1, coverage=0.51))
        self.assertIn("GPU:0: the power log covers 51 % of the capture", " ".join(done.text.split()))
        self.assertNotIn("covers", self.of_energy(base, base).text)
        done = run("pick", *self.energies("half", self.RUN_J, 4, coverage=0.51), "--objective", "energy")
        self.assertIn("covers 51 %", " ".join(done.text.split()))

    def test_pick(self):
        done = run("pick", *self.energies("pick", self.RUN_J, 4), "--objective", "energy")
        self.assertEqual(done.code, 0)
        self.assertIn("winner: variant 1\nEvery other variant is proved to take more energy", done.text)
        self.assertRegex(done.text, "typical mJ")
        self.assertNotRegex(done.text, "slow|fast")

    def test_what_is_not_asked_for_is_refused_with_the_way_out(self):
        [energies] = self.energies("one", self.RUN_J)
        trace_path = self.write("one.xplane.pb", trace({"jit_a": 10_000_000}, 1))
        [elsewhere] = self.energies("two", self.RUN_J, sensor="nvml GPU-2 gpu energy_uj")
        for arguments, code, words in (
                (("compare", energies, trace_path), 65, "--objective energy"),
                (("compare", trace_path, energies, "--objective", "energy"), 65, "xplane-time energy TRACE"),
                (("pick", energies), 65, "--objective energy"),
                (("pick", trace_path, "--objective", "energy"), 65, "xplane-time energy TRACE"),
                (("pick", "nope.json", "--objective", "energy"), 66, "nope.json"),
                (("compare", energies, "nope*.json", "--objective", "energy"), 66, "nope*.json"),
                (("compare", energies, elsewhere, "--objective", "energy"), 65, "sensor is nvml GPU-1"),
                (("compare", energies, energies, "--objective", "edp"), 64, "energy")):
            with self.subTest(arguments):
                done = run(*arguments)
                self.assertEqual((done.code, done.out), (code, b""), done.text)
                self.assertIn(words, done.message)
        done = run("compare", energies, elsewhere, "--objective", "energy", "--allow-mismatch")
        self.assertEqual(done.code, 12)
        self.assertIn("note: sensor is", done.text)

    def test_a_file_that_is_cut_or_damaged(self):
        [sound] = self.energies("sound", self.RUN_J)
        text = sound.read_text()
        for name, content, words in (
                ("cut", text[:-20], "truncated or damaged JSON"),
                ("nan", re.sub(r'"energy_j": [0-9.]+', '"energy_j": NaN', text, count=1),
                 "functions[0]"),
                ("negative", text.replace('"energy_j": ', '"energy_j": -', 1), "functions[0]"),
                ("twice", text.replace("jit_autotune_fn_2", "jit_autotune_fn_1")
                 .replace('"program_id": "1"', '"program_id": "0"'), "occurs twice"),
                ("version", text.replace("energy.v1", "energy.v9"), "energy.v9")):
            with self.subTest(name):
                done = self.of_energy([self.write(f"{name}.json", content)], [sound])
                self.assertEqual((done.code, done.out), (65, b""))
                self.assertIn(f"{name}.json: ", done.message)
                self.assertIn(words, done.message)
        # A copy of the energies under another name does not count as a second process.
        copy = self.write("copy.json", text)
        done = self.of_energy([sound, copy], self.energies("other", self.RUN_J))
        self.assertIn("counts once", done.text)


class Compare(Decisions):
    TIMES = {"jit_a": 10_000_000, "jit_b": 5_000_000}

    def test_no_regression(self):
        done = self.compare(self.side("base", self.TIMES, 6), self.side("head", self.TIMES, 6))
        self.assertEqual((done.code, done.err), (0, b""), done.text)
        self.assertIn("no regression", done.text)
        self.assertIn("would have been detected", done.text)

    def test_a_regression_exits_10_and_names_it(self):
        slower = {**self.TIMES, "jit_a": 11_000_000}
        done = self.compare(self.side("base", self.TIMES, 6), self.side("head", slower, 6),
                            "--format", "json")
        self.assertEqual(done.code, 10, done.text)
        decision = self.decision(done)
        self.assertEqual((decision["outcome"], decision["exit_code"]), ("slower", 10))
        verdicts = {row["function"]: row["verdict"] for row in decision["rows"]}
        self.assertEqual(verdicts, {"jit_a": "slower", "jit_b": "same"})
        self.assertGreater(decision["rows"][0]["ratio_ci"][0], 1.01)

    def test_faster_exits_0(self):
        done = self.compare(self.side("base", self.TIMES, 6),
                            self.side("head", {**self.TIMES, "jit_a": 9_000_000}, 6))
        self.assertEqual(done.code, 0)
        self.assertIn("1 faster", done.text)

    def test_one_capture_a_side_is_at_most_12_unless_the_offset_is_known(self):
        base, head = self.side("base", self.TIMES, 1), self.side("head", {"jit_a": 20_000_000,
                                                                         "jit_b": 5_000_000}, 1)
        done = run("compare", *base, *head)
        self.assertEqual(done.code, 12)
        self.assertIn("One capture a side", done.text)
        self.assertIn("Record about ten captures a side", " ".join(done.text.split()))
        self.assertRegex(done.text, r"\Ano verdict: 1 capture a side\n")
        for row in run("compare", *base, *head, "--format", "json").json["rows"]:
            self.assertEqual((row["needed_for"], row["needed_captures_least"],
                              row["needed_captures"], row["needed_unknown"]),
                             (None, None, None, "noise_unknown"))
        self.assertRegex(done.text, r"jit_a +too little data +10\.[0-9.]+ +20\.[0-9.]+ +\+")
        self.assertEqual(run("compare", *base, *head, "--offset-std", "1%").code, 10)

    def kernels(self, name, seed, **times_ps):
        plane = Plane("/device:GPU:0", id=1)
        stream, rng, at = plane.line("Stream #1(Kernel)", 5), random.Random(seed), 0
        for _ in range(6):
            for kernel, typical in times_ps.items():
                took = round(typical * (1 + 0.001 * rng.gauss(0, 1)))
                stream.event(kernel, at, took, hlo_module=Ref("jit_f"), hlo_op=Ref(kernel),
                             program_id=1)
                at += took + 1_000
            at += 1_000_000_000
        return self.write(name, space(plane))

    def test_without_a_verdict_kernels_are_compared(self):
        base = self.kernels("b.pb", 1, same=5_000_000, slow=2_000_000, gone=1_000_000)
        head = self.kernels("h.pb", 2, same=5_000_000, slow=4_000_000, fresh=3_000_000)
        result = self.at / "h.json"
        self.run_ok(head, "--samples", "--format", "json", "-o", result)
        for other in (head, result):
            done = run("compare", base, other, "--format", "json")
            self.assertEqual(done.code, 12)
            rows = self.decision(done)["kernels"]
            self.assertEqual([row["kernel"] for row in rows], ["fresh", "slow", "gone", "same"])
            self.assertEqual((rows[0]["base_ps"], rows[2]["head_ps"]), (None, None))
            self.assertAlmostEqual(rows[1]["head_ps"] / rows[1]["base_ps"], 2, delta=0.01)
        text = run("compare", base, head, env=environment(COLUMNS="100")).text
        self.assertIn("kernels, mean time in a run; these changes may be noise", text)
        self.assertRegex(text, r"slow +jit_f +2\.[0-9]+ +4\.[0-9]+ +\+(99|100)")
        self.assertRegex(text, r"fresh +jit_f +- +(2|3)\.[0-9]+ +new")
        self.assertRegex(text, r"gone +jit_f +1\.[0-9]+ +- +gone")
        decided = self.compare(self.side("base", self.TIMES, 6), self.side("head", self.TIMES, 6),
                               "--format", "json")
        self.assertNotIn("kernels", self.decision(decided))

    def test_a_capture_against_itself_is_named(self):
        base = self.side("base", self.TIMES, 1)[0]
        copy = self.write("copy.xplane.pb", base.read_bytes())
        for other, text in ((base, "is compared with itself"), (copy, "is the same capture as")):
            done = run("compare", base, other)
            self.assertEqual(done.code, 12)
            self.assertTrue(done.text.startswith("no verdict: both sides are the same "))
            self.assertIn(text, " ".join(done.text.split()))

    def test_an_interval_that_excludes_zero_is_explained(self):
        base = self.side("base", self.TIMES, 2)
        head = self.side("head", {name: 1.05 * ps for name, ps in self.TIMES.items()}, 2)
        done = self.compare(base, head)
        self.assertEqual(done.code, 12, done.text)
        self.assertIn("An interval that excludes 0 is not yet a proof", done.text)
        self.assertRegex(done.text, r"\Ano verdict: 2 captures a side; jit_[ab] needs .*[0-9]+ a side\n")

    def test_paired_captures_without_a_pair_change_nothing_that_is_known(self):
        one, other = {"jit_a": 10_000_000}, {"jit_b": 10_000_000}
        base = self.side("b1", one, 1) + self.side("b2", other, 1)
        head = self.side("h1", other, 1) + self.side("h2", one, 1)
        done = self.compare(base, head, "--paired")
        self.assertEqual((done.code, done.out), (65, b""))
        self.assertIn("no pair of captures has runs of it on both sides", done.message)
        both = {**one, **other}
        done = self.compare(base + self.side("b3", other, 4), head + self.side("h3", other, 4),
                            "--paired", "--format", "json")
        rows = {row["function"]: row for row in self.decision(done)["rows"]}
        self.assertEqual(set(rows), set(both))
        self.assertEqual((rows["jit_a"]["ratio"], rows["jit_a"]["verdict"]),
                         (None, "too_little_data"))

    def test_a_known_offset_gives_a_number_for_one_capture_a_side(self):
        base, head = (self.side(name, self.TIMES, 1, runs=6, noise=0.1) for name in ("base", "head"))
        for row in run("compare", *base, *head, "--offset-std", "1%", "--format", "json").json["rows"]:
            self.assertGreater(row["needed_captures"], 1)

    def record(self, name, times_ps, captures, noise, seed):
        """`captures` traces of processes that differ by `noise`. More captures do not change the first ones."""
        paths = []
        for i in range(captures):
            rng = random.Random(f"{name} {seed} {i}")
            offset = noise * rng.gauss(0, 1)
            paths.append(self.write(f"{name}{i}.xplane.pb", trace(
                times_ps, f"{name} {seed} {i}", runs=5, noise=0.001, offset=offset)))
        return paths

    def test_following_the_advice_decides(self):
        """Starts with one capture a side, and follows the advice until there is a decision."""
        worlds = [(effect, noise, alpha) for effect, noise in ((0, 0.01), (0.08, 0.01), (0.3, 0.05))
                  for alpha in ("0.1%", "1%")]
        promised = kept = 0
        for effect, noise, alpha in worlds:
            for seed in range(4):
                captures, decided = 1, False
                while not decided:
                    base = self.record("base", self.TIMES, captures, noise, seed)
                    head = self.record("head", {**self.TIMES, "jit_a": 10_000_000 * (1 + effect)},
                                       captures, noise, seed)
                    options = ("--function", "jit_a", "--alpha", alpha)
                    done = self.compare(base, head, *options, "--format", "json")
                    text = " ".join(self.compare(base, head, *options).text.split())
                    [row] = done.json["rows"]
                    decided = done.code in (0, 10)
                    if captures > 1 and firm:
                        promised, kept = promised + 1, kept + decided
                    if decided:
                        self.assertIn(row["verdict"], ("same",) if effect == 0 else ("slower",))
                        break
                    least, firm = row["needed_captures_least"], row["needed_captures"]
                    if captures == 1:
                        self.assertEqual(row["needed_unknown"], "noise_unknown")
                        self.assertIn("Record about ten captures a side", text)
                        captures = 3
                        continue
                    if least is None:  # the change is hardly beyond --min-effect
                        self.assertIn("too close to --min-effect", text)
                        break
                    self.assertGreater(firm or least, captures, text)
                    # The headline, the table, the reasons and the JSON state the same numbers.
                    range_text = (f"at least {least}" if firm is None else
                                  f"{firm}" if least == firm else f"{least} to {firm}")
                    self.assertIn(f"jit_a needs {range_text} a side", text)
                    self.assertIn(f"{range_text} captures a side would", text)
                    cell = range_text.replace(" to ", "-").replace("at least ", "")
                    self.assertRegex(text, f" {cell}{'[+]' if firm is None else ''} ")
                    captures = firm or least
                    self.assertLess(captures, 400)
        self.assertGreater(promised, 10)
        self.assertGreaterEqual(kept / promised, 0.8)

    def test_many_captures_become_fewer_with_larger_effects(self):
        base = self.record("base", self.TIMES, 4, 0.06, 2)
        head = self.record("head", self.TIMES, 4, 0.06, 9)
        needed = []
        for options in ((), ("--min-effect", "5%", "--max-mde", "20%")):
            done = self.compare(base, head, "--function", "jit_a", *options, "--format", "json")
            needed.append(done.json["rows"][0]["needed_captures"])
        self.assertIn("If captures vary less", " ".join(self.compare(base, head).text.split()))
        self.assertLess(needed[1], needed[0] / 2)

    def test_no_message_names_a_threshold_that_would_pass(self):
        """Whatever the captures show: --alpha, --max-mde, --min-effect appear only with the values in use."""
        for noise in (0.004, 0.05, 0.6):
            for count in (1, 2, 3, 6):
                for effect in (0.3, 1, 1.03, 3):
                    base = self.record("base", self.TIMES, count, noise, 1)
                    head = self.record("head", {**self.TIMES, "jit_a": effect * 10_000_000}, count, noise, 1)
                    for out in (self.compare(base, head).text, self.compare(base, head, "--why").text):
                        text = " ".join(out.split())
                        self.assertNotRegex(text, r"--(alpha|max-mde|min-effect|exclude) [0-9]*[.]?[0-9]+%? "
                                                  r"(accepts|or|would)|leaves noisy|larger --")
                        self.assertNotRegex(text, r"e[+][0-9]+ ?%")
                    row = self.compare(base, head, "--format", "json").json["rows"][0]
                    self.assertNotIn("deciding_alpha", row)

    def test_few_captures_state_their_power_and_no_number_of_captures(self):
        base = self.record("base", self.TIMES, 2, 0.3, 1)
        head = self.record("head", {**self.TIMES, "jit_a": 20_000_000}, 2, 0.3, 2)
        text = " ".join(self.compare(base, head, "--function", "jit_a").text.split())
        self.assertRegex(text, r"^no verdict: 2 captures a side In 1 of 1 function")
        self.assertRegex(text, r"jit_a: \S+ % may be due to chance; these captures detect only a slowdown of "
                               r"(more than 10x|[0-9.]+x)\. Record about ten captures a side")
        self.assertNotIn("1000", text)
        self.assertNotIn("needs", text)

    def test_ten_noisy_captures_are_not_told_to_become_ten(self):
        base = self.record("base", self.TIMES, 10, 0.4, 3)
        head = self.record("head", self.TIMES, 10, 0.4, 3)
        options = ("--function", "jit_a")
        done = self.compare(base, head, *options)
        text = " ".join(done.text.split())
        self.assertEqual(done.code, 12, text)
        self.assertNotIn("Record about ten", text)
        [spread] = re.findall(r"The standard deviation between captures of a side is ([0-9.]+) % for the times of "
                              r"jit_a, so more captures of this kind will hardly help[.] Use an idle machine or more "
                              r"steps per capture, or --paired if base and head were recorded alternately[.]", text)
        [row] = self.compare(base, head, *options, "--format", "json").json["rows"]
        self.assertAlmostEqual(float(spread), 100 * row["spread"], delta=0.06)
        text = " ".join(self.compare(base, head, *options, "--paired").text.split())
        self.assertRegex(text, "The standard deviation between the differences of pairs is [0-9.]+ % for the times of "
                               "jit_a, so more captures of this kind will hardly help[.] Use an idle machine or more "
                               "steps per capture[.]")
        self.assertNotIn("or --paired", text)
        text = " ".join(self.compare(base[:9], head, *options).text.split())
        self.assertIn("Record about ten captures a side", text)
        # Alternate recording: the machine drifts, and both captures of a pair are equally slow.
        drift = [random.Random(f"drift{i}").gauss(0, 0.2) for i in range(10)]
        base, head = ([self.write(f"{name}{i}.xplane.pb", trace(
            {**self.TIMES, "jit_a": 10_000_000 * factor}, f"{name}{i}", runs=5, noise=0.001, offset=offset))
            for i, offset in enumerate(drift)] for name, factor in (("base", 1), ("head", 1.1)))
        self.assertEqual(self.compare(base, head, *options).code, 12)
        self.assertEqual(self.compare(base, head, *options, "--paired").code, 10)

    def test_the_only_function_is_faster(self):
        base = self.side("base", self.TIMES, 6)
        head = self.side("head", {**self.TIMES, "jit_a": 1_000_000}, 6)
        done = self.compare(base, head, "--function", "jit_a")
        self.assertEqual(done.code, 0)
        self.assertRegex(done.text, r"\Afaster: jit_a by 9[0-9.]+ % [(]at least (8|9)[0-9.]+ %[)]; no function is "
                                    r"proved slower\n")
        self.assertTrue(self.compare(base, head).text.startswith("no regression: none of 2 functions is slower"))

    def test_detects_fits_into_80_columns(self):
        base, head = (self.side(name, self.TIMES, 6, noise=0.01) for name in ("base", "head"))
        text = self.compare(base, head).text
        self.assertRegex(text, r"\nfunction .* detects %\n")
        self.assertIn("at most its upper end, which proves speed-ups", " ".join(text.split()))

    def test_active_time_of_a_cpu_is_noted(self):
        def cpu(seed):
            plane, rng = Plane("/host:CPU"), random.Random(seed)
            line = plane.line("tf_XLAEigen/1", 1)
            for run_id in range(20):
                line.event("dot.1", 20_000_000 * run_id, round(10_000_000 * (1 + 0.005 * rng.gauss(0, 1))),
                           hlo_op=Ref("dot.1"), hlo_module=Ref("jit_f"), program_id=1, run_id=run_id,
                           device_ordinal=0)
            return space(plane)
        sides = [[self.write(f"{side}{i}.xplane.pb", cpu(f"{side}{i}")) for i in range(5)] for side in ("b", "h")]
        text = " ".join(self.compare(*sides).text.split())
        note = "work may continue on other threads after a thunk ends"
        self.assertEqual(text.count(note), 1, text)
        self.assertIn("--metric span is safer", text)
        self.assertNotIn(note, " ".join(self.compare(*sides, "--metric", "span").text.split()))
        result = self.compare(*sides, "--format", "json").json
        self.assertEqual(sum(note in each for each in result["notes"]), 1)
        self.assertNotIn(note, json.dumps(result["rows"]))
        gpu_text = self.compare(self.side("base", self.TIMES, 2), self.side("head", self.TIMES, 2)).text
        self.assertNotIn("thunk", gpu_text)

    def test_a_folder_of_captures_names_them(self):
        for side in ("base", "head"):
            for i in range(10):
                self.write(f"{side}/{i}/plugins/profile/2026_01_01/h.xplane.pb", trace(self.TIMES, f"{side}{i}"))
        for arguments in (("compare", "--base", "base", "--head", *(f"head/{i}" for i in range(10))),
                          ("compare", "base", "head/0"), ("diff", "base", "head")):
            done = run(*arguments, cwd=self.at)
            self.assertEqual((done.code, done.out), (66, b""))
            self.assertEqual(done.message, "xplane-time: base: is not a capture, but its 10 subfolders are; write "
                                           "--base base/*\n")
        done = run("compare", "--base", *(f"base/{i}" for i in range(10)), "--head", "head", cwd=self.at)
        self.assertIn("write --head head/*\n", done.message)
        done = run("compare", "--base", *(f"base/{i}" for i in range(10)), "--head",
                   *(f"head/{i}" for i in range(10)), cwd=self.at)
        self.assertEqual(done.code, 0, done.message)
        for command in ("pick", "report", "functions", "where", "brief", "events", "fleet"):
            done = run(command, "base", cwd=self.at)
            self.assertEqual(done.code, 66)
            self.assertIn("base: is not a capture, but its 10 subfolders are; write base/*\n", done.message)
        self.write("base/notes.txt", "x")
        self.assertIn("but 10 of its subfolders are; name the captures instead of base",
                      run("pick", "base", cwd=self.at).message)

    def test_a_proved_speed_up_has_no_detectable_slowdown(self):
        base = self.record("base", self.TIMES, 6, 0.1, 1)
        head = self.record("head", {name: ps / 4 for name, ps in self.TIMES.items()}, 6, 0.1, 2)
        done = self.compare(base, head)
        self.assertEqual(done.code, 0, done.text)
        self.assertNotIn("would have been detected", done.text)
        base = self.side("base", self.TIMES, 6)
        done = self.compare(base, self.side("head", {**self.TIMES, "jit_a": 9_000_000}, 6))
        self.assertIn("would have been detected in any of those that are not faster", " ".join(done.text.split()))

    def test_the_metric_of_the_verdict_is_stated(self):
        base, head = self.side("base", self.TIMES, 6), self.side("head", self.TIMES, 6)
        self.assertIn("\nactive time, base: 6 captures, head: 6 captures\n", self.compare(base, head).text)
        self.assertIn("\nspan time, base: 6 captures", self.compare(base, head, "--metric", "span").text)
        why = " ".join(self.compare(base, head, "--why").text.split())
        self.assertIn("mean span of a run, from its first start to its last end", why)
        self.assertIn("the verdict compares the typical active time, and its percentage is the one to quote", why)
        self.assertIn("Time of a run that the verdict compares",
                      " ".join(run("compare", "--help").text.split()))

    def test_notes_of_all_captures_are_one_note(self):
        base, head = self.side("base", self.TIMES, 3), self.side("head", self.TIMES, 3)
        options = ("--exclude-kernel", "no_such_kernel")
        text = " ".join(self.compare(base, head, *options).text.split())
        self.assertEqual(text.count("the pattern of an option matches no name"), 1, text)
        self.assertIn("in all 6 captures: 1 x the pattern of an option matches no name", text)
        notes = self.decision(self.compare(base, head, *options, "--format", "json"))["notes"]
        self.assertEqual(sum("matches no name" in note for note in notes), 1)

    def test_runs_of_a_log_directory_that_are_not_read_are_named(self):
        folder = self.at / "log"
        for i, path in enumerate(self.side("one", self.TIMES, 3)):
            run_folder = folder / "plugins" / "profile" / f"2026_01_0{i + 1}"
            run_folder.mkdir(parents=True)
            path.rename(run_folder / "vm.xplane.pb")
        other = self.side("other", self.TIMES, 1)[0]
        commands = [(name, folder) for name in ("report", "brief", "kernels", "functions", "where", "headroom", "tree",
                                                "fleet")]
        commands += [("compare", folder, other), ("diff", folder, other), ("diff", folder, folder),
                     ("compare", folder, other, "--format", "json"), ("brief", folder, "--format", "json"),
                     ("planes", folder), ("summarize", folder, "-o", self.at / "s.xts")]
        for words in commands:
            done = run(*words)
            text = " ".join((done.text + done.message).split())
            self.assertEqual(text.count(
                "runs of a log directory were not read: 2026_01_01, 2026_01_02; only 2026_01_03, the latest, was read; "
                f"for all runs give {folder}/plugins/profile/*, for another one --run NAME"), 1, (words, text))
        runs = sorted((folder / "plugins" / "profile").glob("*"))
        done = self.compare(runs, runs, "--format", "json")  # the advice, followed
        self.assertEqual(len(done.json["base"]), 3)
        self.assertNotIn("were not read", run("report", folder, "--run", "2026_01_01").text)
        self.assertNotIn("were not read", run("report", runs[0]).text)

    def test_the_time_of_google_benchmark_needs_google_benchmark(self):
        base = self.side("base", self.TIMES, 1)[0]
        done = run("compare", base, base, "--benchmark-time", "cpu")
        self.assertEqual((done.code, done.out), (64, b""))

    def test_cannot_tell(self):
        slower = {name: typical * 1.012 for name, typical in self.TIMES.items()}
        done = self.compare(self.side("base", self.TIMES, 5), self.side("head", slower, 5),
                            "--max-mde", "20%")
        self.assertEqual(done.code, 11, done.text)
        self.assertIn("cannot tell", done.text)

    def test_one_sided_functions_are_listed(self):
        done = self.compare(self.side("base", {**self.TIMES, "jit_gone": 1_000_000}, 4),
                            self.side("head", {**self.TIMES, "jit_new": 1_000_000}, 4))
        self.assertEqual(done.code, 0, done.text)
        for text in ("jit_gone", "only base", "jit_new", "only head"):
            self.assertIn(text, done.text)

    def test_other_devices_are_refused_with_the_way_out(self):
        base = self.side("base", self.TIMES, 3, model="V100")
        head = self.side("head", self.TIMES, 3, model="H100")
        done = self.compare(base, head)
        self.assertEqual((done.code, done.out), (65, b""))
        for text in ("device model", "V100", "H100", "--allow-mismatch"):
            self.assertIn(text, done.message)
        allowed = self.compare(base, head, "--allow-mismatch", "--max-mde", "50%")
        self.assertEqual(allowed.code, 0)
        self.assertIn("V100", allowed.text)

    def test_another_metric_is_refused(self):
        base = self.side("base", {"a": 10_000_000}, 2)
        head = self.write("head.json", benchmark({"a": 10_000}, 1))
        done = self.compare(base, [head])
        self.assertEqual((done.code, done.out), (65, b""))
        self.assertIn("metric", done.message)

    def test_the_same_file_twice_is_no_second_process(self):
        base = self.side("base", self.TIMES, 1)
        done = self.compare(base + base, self.side("head", self.TIMES, 1))
        self.assertEqual(done.code, 12)
        self.assertIn("is given twice and counts once", " ".join(done.text.split()))

    def test_a_note_on_both_sides_is_printed_once(self):
        base, head = self.side("base", self.TIMES, 1)[0], self.side("head", self.TIMES, 1)[0]
        copy = self.write("copy.trace", base.read_bytes())
        note = f"{copy} repeats {base} and counts once: it is not a second process"
        for command in ("compare", "diff"):
            done = run(command, "--base", base, copy, "--head", head, base, copy)
            self.assertEqual(" ".join(done.text.split()).count(note), 1, done.text)
            done = run(command, "--base", base, copy, "--head", head, base, copy, "--format", "json")
            self.assertEqual(done.json["notes"].count(note), 1, done.text)

    def test_google_benchmark_json(self):
        context = {"num_cpus": 8, "library_build_type": "release"}
        base = [self.write(f"b{i}.json", benchmark({"BM_x": 100 + 0.1 * i, "BM_y/64": 5}, i,
                                                   context=context)) for i in range(5)]
        head = [self.write(f"h{i}.json", benchmark({"BM_x": 120 + 0.1 * i, "BM_y/64": 5}, i + 9,
                                                   context=context)) for i in range(5)]
        done = self.compare(base, head, "--format", "csv")
        self.assertEqual(done.code, 10, done.message)
        rows = {row["function"]: row for row in csv_rows(done.text)}
        self.assertEqual(rows["BM_x"]["verdict"], "slower")
        self.assertEqual(rows["BM_x"]["metric"], "real_time")
        self.assertEqual(rows["BM_y/64"]["verdict"], "same")
        debug = self.write("d.json", benchmark({"BM_x": 100}, 3, context={
            **context, "library_build_type": "debug"}))
        mixed = self.compare(base, [debug])
        self.assertEqual(mixed.code, 65)
        self.assertIn("library_build_type", mixed.message)

    def test_our_own_results_say_what_their_traces_say(self):
        base, head = self.side("base", self.TIMES, 4), self.side("head", self.TIMES, 4)
        results = []
        for path in base + head:
            form = ("report",) if len(results) % 2 else ("functions",)
            out = self.at / f"{path.name}.json"
            self.run_ok(*form, path, "--samples", "--format", "json", "-o", out)
            results.append(out)
        from_traces = self.decision(self.compare(base, head, "--format", "json"))
        from_results = self.decision(self.compare(results[:4], results[4:], "--format", "json"))
        self.assertEqual(from_traces["rows"], from_results["rows"])

    def test_results_without_samples_are_refused(self):
        trace_path = self.side("base", self.TIMES, 1)[0]
        out = self.at / "result.json"
        self.run_ok("functions", trace_path, "--format", "json", "-o", out)
        done = run("compare", out, out)
        self.assertEqual((done.code, done.out), (65, b""))
        self.assertIn("--samples", done.message)

    def test_by_id_and_filters(self):
        times = {"jit_autotune_fn_1": 5_000_000, "jit_autotune_fn_2": 6_000_000, "jit_x": 1_000_000}
        base, head = self.side("base", times, 3), self.side("head", times, 3)
        rows = self.decision(self.compare(base, head, "--by-id", "--format", "json"))["rows"]
        self.assertEqual(sorted(row["variant_id"] for row in rows), ["1", "2"])
        rows = self.decision(self.compare(base, head, "--function", "jit_x", "--format",
                                          "json"))["rows"]
        self.assertEqual([row["function"] for row in rows], ["jit_x"])

    def test_usage(self):
        good = self.side("base", self.TIMES, 1)[0]
        for arguments in ((), (good,), (good, good, good), ("--base", good), (good, "--head", good),
                          (good, good, "--min-effect", "5"), (good, good, "--alpha", "x"),
                          (good, good, "--alpha", "0"), (good, good, "--offset-std", "-1%"),
                          (good, good, "--max-mde", "1e-2"), (good, good, "--format", "xml"),
                          ("--base", good, "--head", good, good, "--paired")):
            with self.subTest(arguments):
                done = run("compare", *arguments, cwd=self.at)
                if done.code == 12:  # last case: the same file twice counts as one capture
                    continue
                self.assertEqual((done.code, done.out), (64, b""), done.message)
                self.assertRegex(done.message, r"\Axplane-time: [^\n]+\n\Z")

    def test_a_detectable_slowdown_is_above_the_least_effect(self):
        base, head = self.side("base", self.TIMES, 5), self.side("head", self.TIMES, 5)
        sides = ("--base", *base, "--head", *head)
        for options in (("--min-effect", "10%"), ("--min-effect", "5%"), ("--max-mde", "1%")):
            done = run("compare", *sides, *options, cwd=self.at)
            self.assertEqual(done.code, 64, options)
            self.assertIn("max_mde must be above min_effect", done.message)
        done = run("compare", *sides, "--min-effect", "10%", "--max-mde", "20%", cwd=self.at)
        self.assertEqual(done.code, 0, done.message)

    def test_missing_and_damaged_inputs(self):
        good = self.side("base", self.TIMES, 1)[0]
        cut = self.write("cut.json", '{"benchmarks": [')
        self.assertEqual(run("compare", good, "missing.json", cwd=self.at).code, 66)
        self.assertEqual(run("compare", good, cut, cwd=self.at).code, 65)
        self.assertEqual(run("compare", good, self.write("odd.json", "{}"), cwd=self.at).code, 65)
        for content, what in (('{"benchmarks": []}', "contains no benchmarks; check"),
                              ('{"benchmarks": [{"na', "truncated or damaged JSON (the file ends at byte 20)"),
                              ('{"x": 1}', "give traces, a file of --benchmark_out, or"),
                              ('{"schema": "xplane-time.tune-result.v1"}', "give the output of tune export")):
            done = run("compare", good, self.write("bad.json", content), cwd=self.at)
            self.assertEqual(done.code, 65)
            self.assertIn(what, done.message)
        done = run("compare", good, good, "--function", "zzz", cwd=self.at)
        self.assertEqual(done.code, 65)
        self.assertIn("no function has runs and passes --function;", done.message)

    def test_a_folder_is_one_capture_and_says_so(self):
        for side in ("base", "head"):
            for i in range(3):
                self.write(f"{side}/{i}.xplane.pb", trace(self.TIMES, f"{side}{i}"))
        done = run("compare", "base", "head", cwd=self.at)
        self.assertEqual(done.code, 12, done.message)
        self.assertIn("base: the 3 traces in this folder are read as the hosts of one capture",
                      " ".join(done.text.split()))
        self.assertIn("write base/*", " ".join(done.text.split()))

    def session(self, times_ps, seed, **more):
        rng = random.Random(seed)
        offset = 1 + 0.002 * rng.gauss(0, 1)
        rounds = [{"batch": 1, "round": i, "discarded": i == 3, "notes": {},
                   "samples": [{"id": id, "slot": slot, "status": "ok", "energy_uj": None,
                                "t_ps": round(typical * offset * (1 + 0.003 * rng.gauss(0, 1)))}
                               for slot, (id, typical) in enumerate(times_ps.items())]}
                  for i in range(10)]
        return self.write(f"{seed}.json", json.dumps({
            "schema": "xplane-time.tune.v1", "variants": [], "verdict": None, "rounds": rounds,
            "session": {"device_class": "H100", "workload": "matmul", **more}}))

    def test_tuning_sessions_are_captures(self):
        times = {"va": 10_000_000, "vb": 5_000_000}
        base = [self.session(times, f"base{i}") for i in range(5)]
        done = self.compare(base, [self.session(times, f"head{i}") for i in range(5)])
        self.assertEqual(done.code, 0, done.text)
        slow = [self.session({**times, "vb": 5_500_000}, f"slow{i}") for i in range(5)]
        decision = self.decision(self.compare(base, slow, "--format", "json"))
        self.assertEqual({row["function"]: row["verdict"] for row in decision["rows"]},
                         {"va": "same", "vb": "slower"})
        self.assertEqual(decision["rows"][0]["head"]["samples"], 45)
        other = [self.session(times, f"other{i}", workload="conv") for i in range(5)]
        refused = self.compare(base, other)
        self.assertEqual(refused.code, 65)
        self.assertIn("workload is conv in ", refused.message)


class Pick(Decisions):
    def variants(self, *typical_us):
        return {f"jit_autotune_fn_{i}": int(us * 1e6) for i, us in enumerate(typical_us)}

    def pick(self, *arguments):
        return run("pick", *arguments, cwd=self.at)

    def test_winner(self):
        path = self.write("t.xplane.pb", trace(self.variants(12, 10, 11), 1))
        done = self.pick(path, "--format", "json")
        self.assertEqual((done.code, done.err), (0, b""))
        decision = self.decision(done)
        self.assertEqual((decision["claim"], decision["pick"]), ("winner", "1"))
        self.assertTrue(decision["in_rounds"])
        self.assertEqual([row["variant_id"] for row in decision["variants"]], ["1", "2", "0"])

    def test_tie(self):
        path = self.write("t.xplane.pb", trace(self.variants(10, 12, 10), 2, runs=300,
                                               noise=0.002))
        done = self.pick(path, "--format", "json")
        decision = self.decision(done)
        self.assertEqual((done.code, decision["claim"], decision["tied"]), (0, "tie", ["0", "2"]))

    def test_undecided_and_too_little(self):
        noisy = self.write("n.xplane.pb", trace(self.variants(10, 10.05), 3, runs=8, noise=0.03))
        done = self.pick(noisy)
        self.assertEqual(done.code, 11, done.text)
        self.assertIn("undecided", done.text)
        few = self.write("f.xplane.pb", trace(self.variants(10, 10.05), 3, runs=2))
        done = self.pick(few)
        self.assertEqual(done.code, 12)
        self.assertRegex(done.text, r"\n(0|1) +leads ")
        self.assertNotIn("picked", done.text)

    def test_following_the_advice_of_an_undecided_pick_decides(self):
        equal = stated = followed = decided = 0
        for times, noise in (((10, 10.05), 0.01), ((10, 10.3), 0.03), ((10, 10, 10.1), 0.01), ((10, 10.3), 0.02)):
            for seed in range(12):
                path = self.write("n.xplane.pb", trace(self.variants(*times), seed, runs=8, noise=noise))
                done = self.pick(path)
                if done.code == 0:
                    continue
                self.assertEqual(done.code, 11, done.text)
                text = " ".join(done.text.split())
                self.assertNotRegex(text, r"--delta [0-9.]+ ?%")
                decision = self.decision(self.pick(path, "--format", "json"))
                least, rounds = decision["needed_units_least"], decision["needed_units"]
                if decision["may_be_equal"]:
                    equal += 1
                    self.assertEqual((least, rounds, decision["needed_unit"]), (None, None, None))
                    self.assertIn("may be equal", text)
                    self.assertIn("prove a tie within --delta (0.5 %)", text)
                    self.assertNotRegex(text, "[0-9]+ rounds")
                    continue
                if least is None:
                    continue
                stated += 1
                self.assertEqual(decision["needed_unit"], "round")
                if rounds is None:
                    self.assertIn(f"At least {least} rounds in total are needed", text)
                    continue
                self.assertRegex(text, f"{rounds} rounds in total would settle it")
                self.write("n.xplane.pb", trace(self.variants(*times), f"more{seed}", runs=rounds, noise=noise))
                followed += 1
                decided += self.pick(path).code == 0
        self.assertGreater(equal, 3)
        self.assertGreater(stated, 3)
        self.assertGreaterEqual(decided, 0.8 * followed)

    def test_typical_times_with_another_ratio_are_explained(self):
        """Rounds that vary a lot: the typical times and the ratios within rounds differ, and a note states both."""
        noted = 0
        for seed in range(8):
            plane, at, rng = Plane("/device:GPU:0", id=1), 0, random.Random(seed)
            stream = plane.line("Stream #1(Kernel)", 5)
            for _ in range(9):
                for i in range(2):
                    took = round(10_000_000 * math.exp(rng.choice((0, 1)) + 0.2 * rng.gauss(0, 1)))
                    stream.event("k", at, took, hlo_module=Ref(f"jit_autotune_fn_{i}"), hlo_op=Ref("k"),
                                 program_id=i + 1)
                    at += 200_000_000
            path = self.write("m.xplane.pb", space(plane))
            text = " ".join(self.pick(path).text.split())
            self.assertIn("slower %: robust mean of the ratios to the pick within each round", text)
            rows = self.decision(self.pick(path, "--format", "json"))["variants"]
            typical, ratio = rows[1]["centre_ps"] / rows[0]["centre_ps"], rows[1]["ratio"]
            differ = abs(math.log(typical / ratio)) > math.log(1.005) + 0.1 * abs(math.log(ratio))
            found = re.findall(r"variant [01]: the typical times differ by (\S+) %, but runs of the same round by "
                               r"(\S+) %; the verdict uses the latter, in which drift cancels", text)
            self.assertEqual(len(found), differ, text)
            if differ:
                noted += 1
                for shown, exact in zip(found[0], (typical, ratio)):
                    self.assertAlmostEqual(float(shown), 100 * (exact - 1), delta=0.06)
        self.assertGreater(noted, 3)
        steady = self.pick(self.write("s.xplane.pb", trace(self.variants(12, 10, 15), 4)))
        self.assertNotIn("the typical times differ", steady.text)

    def test_a_function_that_is_no_variant_names_the_pattern(self):
        done = run("pick", self.write("t.xplane.pb", trace({"jit_f": 10_000_000}, 4)))
        self.assertEqual(done.code, 65)
        for words in ("'^jit_(?:autotune_fn|tune_jax_fn)_([0-9]+)'", "capture group"):
            self.assertIn(words, done.message)
        path = self.write("u.xplane.pb", trace({"jit_f7": 10_000_000, "jit_f8": 20_000_000}, 4))
        self.assertEqual(run("pick", path, "--id-pattern", "jit_f([0-9]+)").code, 0)

    def test_what_one_round_may_lose_is_unknown(self):
        one = self.write("f.xplane.pb", trace(self.variants(10, 10.05), 3, runs=1))
        done = self.pick(one)
        self.assertEqual(done.code, 12, done.text)
        self.assertIn("The possible loss of this choice is unknown.", done.text)
        self.assertIsNone(self.decision(self.pick(one, "--format", "json")).get("regret"))

    def test_single_runs_prove_nothing(self):
        rows = [{"name": f"jit_autotune_fn_{i}", "run_type": "iteration", "real_time": time,
                 "cpu_time": time, "time_unit": "ns"} for i, time in enumerate((10, 100))]
        path = self.write("b.json", json.dumps({"context": {}, "benchmarks": rows}))
        done = self.pick(path, "--format", "json")
        self.assertEqual(done.code, 12, done.text)
        for row in self.decision(done)["variants"]:
            self.assertIn(row["status"], ("leads", "open"))
            self.assertIsNone(row["p_best"])
            self.assertIn(row["ratio_ci"], (None, [1, 1]))

    def test_a_space_of_something_else(self):
        path = self.write("t.xplane.pb", trace(self.variants(12, 10), 4))
        foreign = self.write("s.json", json.dumps({"variants": [{"id": "x"}, {"id": "y"}]}))
        done = self.pick(path, "--space", foreign)
        self.assertEqual((done.code, done.out), (65, b""))
        for text in ("lacks all variants that ran (0, 1)", "--id-pattern"):
            self.assertIn(text, done.message)
        partly = self.write("s.json", json.dumps({"variants": [{"id": "1"}, {"id": "y"}]}))
        self.assertIn("lacks 1 of the 2 variants that ran: 0",
                      " ".join(self.pick(path, "--space", partly).text.split()))

    def test_space_names_parameters_and_missing_variants(self):
        path = self.write("t.xplane.pb", trace(self.variants(12, 10), 4))
        known = {"variants": [{"id": "0", "params": {"block": 64, "kind": "a"}},
                              {"id": 1, "params": {"block": 128, "kind": "b"}},
                              {"id": "9", "params": {"block": 256, "kind": "c"}}]}
        space_path = self.write("space.json", json.dumps(known))
        done = self.pick(path, "--space", space_path, "--format", "json")
        rows = {row["variant_id"]: row for row in self.decision(done)["variants"]}
        self.assertEqual(rows["1"]["params"], {"block": 128, "kind": "b"})
        self.assertEqual(rows["9"]["status"], "no_samples")
        self.assertIn("block=128", self.pick(path, "--space", space_path).text)
        own = '{"schema": "xplane-time.space.v1", "parameters": [], "variants": %s, %s}'
        for bad, what in (
                ("{", "not JSON"), ("{}", 'not a search space; expected "schema"'),
                ('{"variants": [{}]}', "$.variants[0]: requires an id or params"),
                ('{"variants": [{"id": "1"}, {"id": 1}]}', 'the id "1" occurs twice'),
                ('{"variants": [5]}', "$.variants[0]: must be an object"),
                (own % ('[{"id": "1"}]', '"nope": 1'), 'unknown field "nope"'),
                (own % ('[{"id": "1"}]', '"constraints": ["a <"]'), "$.constraints[0]")):
            done = self.pick(path, "--space", self.write("bad.json", bad))
            self.assertEqual((done.code, done.out), (65, b""), bad)
            self.assertIn("bad.json", done.message)
            self.assertIn(what, done.message)
        self.assertEqual(self.pick(path, "--space", "none.json").code, 66)

    def test_a_space_of_tune_names_parameters(self):
        times = {"jit_v8dca5e87d246d22d": 10_000_000, "jit_other": 12_000_000}
        path = self.write("t.xplane.pb", trace(times, 4))
        space_path = self.write("space.json", json.dumps({
            "schema": "xplane-time.space.v1", "parameters": [
                {"name": "a", "type": "string", "values": ["x", "y"]},
                {"name": "b", "type": "int", "values": [3]}]}))
        done = self.pick(path, "--space", space_path, "--id-pattern", "^jit_(.*)", "--format",
                         "json")
        rows = {row["variant_id"]: row for row in self.decision(done)["variants"]}
        self.assertEqual(rows["v8dca5e87d246d22d"]["params"], {"a": "x", "b": 3})

    def test_a_pattern_that_merges_programs_is_told(self):
        path = self.write("t.xplane.pb", trace({"jit_a_1": 10_000_000, "jit_b_1": 12_000_000,
                                                "jit_a_2": 11_000_000}, 4))
        done = self.pick(path, "--id-pattern", "_([0-9]+)$")
        self.assertIn("variant 1 consists of 2 functions (jit_a_1, jit_b_1)",
                      " ".join(done.text.split()))

    def test_every_variant_failed(self):
        path = self.write("t.xplane.pb", trace(self.variants(12, 10), 5, runs=3))
        done = self.pick(path, "--skip-runs", "3")
        self.assertEqual(done.code, 20)
        self.assertIn("no variant has a usable run", done.text)

    def test_no_variants_is_a_bad_input(self):
        path = self.write("t.xplane.pb", trace({"jit_a": 1_000_000}, 6))
        done = self.pick(path)
        self.assertEqual((done.code, done.out), (65, b""))
        self.assertIn("--id-pattern", done.message)

    def test_several_devices_take_the_slowest(self):
        rng = random.Random(7)
        planes = []
        for ordinal, slow in ((0, 1.0), (1, 1.1)):
            plane = Plane(f"/device:GPU:{ordinal}", id=ordinal + 1)
            stream = plane.line("Stream #1(Kernel)", 5)
            for run_index in range(12):
                for variant, typical in enumerate((10e6, 12e6)):
                    took = round(typical * slow * (1 + 0.002 * rng.gauss(0, 1)))
                    stream.event("k", (2 * run_index + variant) * 50_000_000, took,
                                 hlo_module=Ref(f"jit_autotune_fn_{variant}"), hlo_op=Ref("op"),
                                 program_id=variant + 1)
            planes.append(plane)
        path = self.write("t.xplane.pb", space(*planes))
        decision = self.decision(self.pick(path, "--format", "json"))
        self.assertEqual((decision["claim"], decision["pick"]), ("winner", "0"))
        self.assertAlmostEqual(decision["variants"][0]["centre_ps"], 11e6, delta=0.1e6)


class Formats(Decisions):
    def commands(self):
        times = {"jit_autotune_fn_0": 10_000_000, "jit_autotune_fn_1": 12_000_000,
                 "jit_|<evil>&\x1b[31m": 1_000_000}
        base, head = self.side("base", times, 3), self.side("head", times, 3)
        yield ("compare", "--base", *base, "--head", *head)
        yield ("pick", *base)

    def test_every_format_is_well_formed(self):
        for command in self.commands():
            for form in FORMATS:
                with self.subTest(command=command[0], format=form):
                    done = run(*command, "--format", form, cwd=self.at)
                    self.assertIn(done.code, (0, 12), done.message)
                    self.check(form, done.text)

    def check(self, form, text):
        shown = {char for char in text if char != "\n" and (ord(char) < 32 or ord(char) == 127)}
        self.assertEqual(shown, set())
        if form in ("json", "benchmark", "bmf"):
            self.assertTrue(json.loads(text))
        elif form == "junit":
            suite = xml.etree.ElementTree.fromstring(text)
            self.assertEqual(int(suite.get("tests")), len(suite.findall(".//testcase")))
        elif form == "csv":
            rows = csv_rows(text)
            self.assertEqual({len(row) for row in rows}, {len(rows[0])})
        elif form == "table":
            self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])

    def test_output_files_and_suffixes(self):
        for command in self.commands():
            for name, start in (("out.json", "{"), ("out.csv", ""), ("out.md", "###"),
                                ("out.xml", "<?xml")):
                out = self.at / name
                done = run(*command, "-o", out, cwd=self.at)
                self.assertEqual(done.out, b"")
                self.assertTrue(out.read_text().startswith(start))
            self.assertEqual(run(*command, "-o", "absent/x", cwd=self.at).code, 73)

    @unittest.skipIf(jsonschema is None, "jsonschema is not installed")
    def test_json_keeps_its_schema(self):
        for command in self.commands():
            schema = json.loads(self.run_ok(command[0], "--json-schema").text)
            done = run(*command, "--format", "json", cwd=self.at)
            jsonschema.Draft202012Validator(schema).validate(json.loads(done.text))
        stored = REPOSITORY / "src" / "output" / "schemas" / "compare.v1.json"
        self.assertEqual(self.run_ok("compare", "--json-schema").text.strip(),
                         stored.read_text().strip())

    def test_same_input_same_bytes(self):
        for command in self.commands():
            one, two = (run(*command, "--format", "json", "--threads", n, cwd=self.at)
                        for n in ("1", "3"))
            self.assertEqual(one.out, two.out)

    def test_help_fits_and_shows_examples(self):
        for command in ("compare", "pick"):
            text = self.run_ok(command, "--help").text
            self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])
            self.assertIn("\nExamples:\n  xplane-time", text)


if __name__ == "__main__":
    unittest.main()
