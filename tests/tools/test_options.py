"""Tests of options that change numbers. They work or are refused, results contain them, and results with
different options are not compared."""
import json
import unittest

from harness import EndToEndTest, TESTDATA, csv_rows, environment, run
from xspace import gpu, space

try:
    import jsonschema
except ImportError:  # the other tests run without it
    jsonschema = None

VARIANTS = TESTDATA / "jax_cpu_variants.xplane.pb"
BENCHMARK = json.dumps({"context": {}, "benchmarks": [
    {"name": "a", "run_name": "a", "run_type": "iteration", "real_time": 5 + i, "cpu_time": 5,
     "time_unit": "ns"} for i in range(4)]})
SESSION = json.dumps({"schema": "xplane-time.tune.v1", "session": {}, "rounds": [
    {"samples": [{"id": "va", "t_ps": 5_000_000, "status": "ok"}]}]})


class OptionsTest(EndToEndTest):
    def refused(self, *arguments, names=()):
        with self.subTest(arguments):
            done = run(*arguments, cwd=self.at)
            self.assertEqual((done.code, done.out), (64, b""), done.message)
            self.assertRegex(done.message, r"\Axplane-time: [^\n]+\n\Z")
            for name in names:
                self.assertIn(name, done.message)


class Refused(OptionsTest):
    def test_options_of_runs_where_there_are_none(self):
        for command in ("kernels", "tree"):
            for option in (("--skip-runs", "5"), ("--trim", "iqr"), ("--metric", "span"),
                           ("--id-pattern", "(.)")):
                self.refused(command, VARIANTS, *option, names=option[:1])
        for command in ("functions", "compare", "pick"):
            self.refused(command, VARIANTS, "--tolerance", "5", names=("--tolerance",))

    def test_options_that_others_make_meaningless(self):
        samples = ("functions", VARIANTS, "--samples")
        for form in ("table", "csv", "markdown"):
            self.refused(*samples, "--format", form, "--sort", "mean", names=("--sort",))
            self.refused(*samples, "--format", form, "--metric", "span", names=("--metric",))
            self.refused("report", VARIANTS, "--samples", "--format", form,
                         names=("functions --samples",))
        for command in ("report", "functions"):
            self.refused(command, VARIANTS, "--metric", "span", "--format", "csv",
                         names=("--metric",))
            self.run_ok(command, VARIANTS, "--metric", "span", "--format", "csv", "--top", "2")
        for option in ("--function", "--exclude", "--kernel", "--exclude-kernel", "--scope", "--prefix"):
            self.refused("tree", VARIANTS, "--line", "x", option, "a", names=(option, "--line"))
        self.refused("tree", VARIANTS, "--line", "x", "--clock", "profile")
        for by in ("scope", "source"):
            for option in ("--line", "--name"):
                self.refused("tree", VARIANTS, "--by", by, option, "a", names=(option, "--by"))
            self.refused("tree", VARIANTS, "--by", by, "--sort", "name", names=("--sort",))
        for form in ("json", "csv", "junit", "benchmark", "bmf"):
            self.refused("compare", VARIANTS, VARIANTS, "--top", "1", "--format", form,
                         names=("--top", "table"))
            self.refused("pick", VARIANTS, "--top", "1", "-o", f"x.{form}", "--format", form)

        for command in ("report", "functions", "kernels", "tree", "pick"):
            for form in ("json", "csv"):
                for option in (("--unit", "us"), ("--wide",)):
                    self.refused(command, VARIANTS, *option, "--format", form,
                                 names=(option[0], "table"))
        self.refused("compare", VARIANTS, VARIANTS, "--id-pattern", "(.)", names=("--by-id",))
        self.refused(*samples, "--id-pattern", "(.)", names=("--samples",))
        self.run_ok(*samples, "--id-pattern", "(.)", "--format", "csv")

    def test_one_device_of_a_host_whose_planes_are_shown_as_they_are(self):
        for command in ("events", "planes"):
            self.refused(command, VARIANTS, "--device", "cpu:0", names=("--device cpu:0", "give cpu"))
        self.refused("tree", VARIANTS, "--device", "cpu:0", "--line", ".", names=("cpu:0",))

    def test_options_before_a_subcommand(self):
        for line, before, of in (("tune --delta 1% show", "--delta", "show"),
                                 ("tune --store x.db show", "--store", "show"),
                                 ("tune space.json replay --delta 1%", "SPACE", "replay"),
                                 ("power --json-schema sources", "--json-schema", "sources")):
            self.refused(*line.split(), names=(f"{before} must come after {of}: options of {of}",))

    def test_an_empty_text_is_no_value(self):
        for line in ("report T --device", "tune space.json --list --workload", "tune show --store",
                     "report T --function", "report T -o", "pick T --space",
                     "tune space.json --list --incumbent", "power sources --source"):
            *words, option = line.replace("T", str(VARIANTS)).split()
            self.refused(*words, option, "", names=(option.replace("-o", "--output"),
                                                    "its value is empty"))
        self.refused("report", "", names=("TRACE: its value is empty",))
        self.refused("pick", VARIANTS, "--delta", "", names=("--delta: '' is not a share",))

    def test_inputs_that_cannot_follow_an_option(self):
        result, bench = self.at / "r.json", self.write("b.json", BENCHMARK)
        self.run_ok(VARIANTS, "--samples", "--format", "json", "-o", result)
        session = self.write("s.json", SESSION)
        of_traces = (("--device", "cpu"), ("--kernel", "tanh"), ("--scope", "x"),
                     ("--min-duration", "5"), ("--max-events", "9"), ("--clock", "profile"),
                     ("--reader", "protobuf"), ("--run", "1"))
        of_runs = (("--skip-runs", "1"), ("--trim", "iqr"), ("--metric", "span"))
        for path, options in ((result, of_traces), (bench, of_traces + of_runs),
                              (session, (*of_traces, *of_runs, ("--id-pattern", "(.*)")))):
            for option in options:
                by_id = ("--by-id",) if option[0] == "--id-pattern" else ()
                self.refused("compare", path, path, *option, *by_id, names=(option[0], path.name))
                self.refused("pick", path, *option, names=(option[0], path.name))


class Samples(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.path = self.write("t.pb", space(gpu(0, runs=6)))

    def runs(self, *options):
        rows = csv_rows(self.run_ok("functions", self.path, "--samples", "--format", "csv",
                                    *options).text)
        return [int(row["run"]) for row in rows]

    def test_warm_up_and_trimmed_runs_are_left_out(self):
        self.assertEqual(self.runs(), [0, 1, 2, 3, 4, 5])
        self.assertEqual(self.runs("--skip-runs", "4"), [4, 5])
        self.assertEqual(self.runs("--trim", "drop-extremes"), [1, 2, 3, 4])
        self.assertEqual(self.runs("--trim", "drop-extremes", "--skip-runs", "2"), [3, 4])

    def test_samples_are_those_of_the_functions(self):
        for options in ((), ("--skip-runs", "2"), ("--trim", "iqr"),
                        ("--trim", "percent:20", "--metric", "span")):
            report = self.run_json(VARIANTS, "--samples", *options)
            for row in report["functions"]:
                own = [sample for sample in report["samples"] if not sample["suspect"]
                       and sample["function"] == row["function"]]
                self.assertEqual(len(own), row["active_ps"]["n"])
                mean = sum(sample["active_ps"] for sample in own) / len(own)
                self.assertAlmostEqual(mean, row["active_ps"]["mean"], places=3)

    def test_a_report_says_that_its_kernels_are_of_all_runs(self):
        self.assertNotIn("all runs", self.run_ok(self.path).text)
        for options in (("--skip-runs", "5"), ("--trim", "iqr")):
            self.assertIn("kernels, all devices and programs, all runs;",
                          self.run_ok(self.path, *options).text)

    def test_a_command_comes_first_but_may_be_the_value_of_an_option(self):
        refused = run(VARIANTS, "where")
        self.assertEqual(refused.code, 64)
        self.assertIn(f"where is a command and must come first: xplane-time where {VARIANTS}",
                      refused.message)
        value = run(VARIANTS, "--function", "where")
        self.assertNotIn("come first", value.message)
        self.assertIn("no execution matches --function", value.message)

    def test_what_top_cuts_is_told(self):
        told = {("functions", "--samples"): "... 46 more runs: --top 48",
                ("functions",): "... 6 more functions: --top 8",
                ("kernels",): "... 70 more kernels: --top 72",
                ("tree",): "... 78 more rows: --top 80",
                ("planes",): "... 1 more plane: --top 3",
                ("events", "--device", "all"): "... possibly more; omit --top to see all"}
        for command, note in told.items():
            for form in ("table", "markdown"):
                with self.subTest(command, form=form):
                    shown = self.run_ok(*command, VARIANTS, "--top", "2", "--format", form).text
                    self.assertIn(f"{note}\n", shown)
                    for most in ((), ("--top", "9999")):
                        whole = self.run_ok(*command, VARIANTS, *most, "--format", form).text
                        self.assertNotIn("--top", whole)
            rows = self.run_ok(*command, VARIANTS, "--top", "2", "--format", "csv").text
            self.assertNotIn("--top", rows)

    def test_narrow_tables_keep_what_tells_kernels_apart(self):
        for width in ("50", "60", "80", "100"):
            shown = self.run_ok("kernels", VARIANTS, "--function", "fn_[12]$",
                                env=environment(COLUMNS=width)).text
            self.assertRegex(shown, r"ynn_fusion\.2 .*n_2\n", width)

    def test_events_follow_both_limits(self):
        for limits, rows in ((("--top", "2", "--max-events", "5"), 2),
                             (("--top", "5", "--max-events", "2"), 2)):
            done = self.run_ok("events", self.path, *limits, "--format", "csv")
            self.assertEqual(len(csv_rows(done.text)), rows)


class Recorded(EndToEndTest):
    GIVEN = {
        "report": (("--kernel", "tanh", "--skip-runs", "2", "--min-duration", "5", "--trim",
                    "percent:20", "--metric", "span", "--top", "3"),
                   {"kernel": "tanh", "skip_runs": 2, "min_duration_ps": 5000, "metric": "span",
                    "trim": "percent:20", "top": 3}),
        "functions": (("--device", "cpu", "--exclude", "x", "--clock", "profile", "--id-pattern",
                       "fn_([0-9])", "--max-events", "400"),
                      {"device": "cpu", "exclude": "x", "clock": "profile", "max_events": 400,
                       "id_pattern": "fn_([0-9])"}),
        "kernels": (("--within", "fn_7", "--tolerance", "5", "--sort", "self"),
                    {"function": "fn_7", "tolerance_ps": 5, "sort": "self"}),
        "tree": (("--line", ".", "--name", "a", "--depth", "2", "--device", "all"),
                 {"line": ".", "name": "a", "depth": 2, "device": "all"}),
        "planes": (("--device", "all"), {"device": "all"}),
    }

    def test_every_option_that_is_not_the_default(self):
        for command, (options, want) in self.GIVEN.items():
            with self.subTest(command):
                report = self.run_json(command, VARIANTS, *options)
                self.assertEqual(report["options"], want)
                if jsonschema is None:
                    continue
                schema = json.loads(self.run_ok(command, "--json-schema").text)
                jsonschema.Draft202012Validator(schema).validate(report)

    def test_the_numbers_of_another_tool_record_them_too(self):
        asked = ("--compat", "tune-jax", "--device", "CPU")
        self.assertEqual(self.run_json(VARIANTS, *asked)["options"], {"device": "CPU"})

    def test_nothing_is_added_where_all_are_the_default(self):
        for command in self.GIVEN:
            same = ("--threads", "2") if command != "planes" else ()
            if command in ("report", "functions"):
                same += ("--trim", "none", "--skip-runs", "0", "--metric", "active")
            self.assertNotIn("options", self.run_json(command, VARIANTS, *same))


class FilterLine(OptionsTest):
    """Every view that a filter changes states the filter, in one line."""

    def line(self, *words):
        text = self.run_ok(*words).text
        lines = [line for line in text.splitlines() if "filter: " in line]
        self.assertEqual(len(lines), 1, text)
        return " ".join(text[text.index("filter: "):].split())

    def test_kernels_that_are_left_out(self):
        for command in ("functions", "kernels", "tree", "headroom"):
            for how in ((), ("--format", "markdown"), ("--format", "html")):
                self.assertIn("filter: kernels that match fusion are left out",
                              self.line(command, VARIANTS, "--exclude-kernel", "fusion", *how))
        self.assertIn("filter: kernels that match fusion are left out; devices and steps include all executions",
                      self.line("report", VARIANTS, "--exclude-kernel", "fusion"))

    def test_each_filter(self):
        for option, value, text in (
                ("--function", "fn_[67]", "only functions that match fn_[67]"),
                ("--prefix", "jit_a", "only functions that start with jit_a"),
                ("--exclude", "fn_7", "functions that match fn_7 are left out"),
                ("--kernel", "fusion", "only kernels that match fusion count"),
                ("--scope", "dot", "only kernels with a scope or source line that matches dot count")):
            for command in ("report", "functions", "kernels", "tree"):
                self.assertIn("filter: " + text, self.line(command, VARIANTS, option, value))
        self.assertIn("filter: only functions that match fn_7; kernels that match tanh are left out; "
                      "devices include all executions",
                      self.line(VARIANTS, "--function", "fn_7", "--exclude-kernel", "tanh"))
        self.assertIn("only functions that match fn_7", self.line("kernels", VARIANTS, "--within", "fn_7"))

    def test_no_filter(self):
        for command in ("report", "functions", "kernels", "tree", "headroom"):
            self.assertNotIn("filter: ", self.run_ok(command, VARIANTS, "--top", "3").text)


class Compared(OptionsTest):
    def result(self, name, *options, command="report"):
        path = self.at / name
        self.run_ok(command, VARIANTS, "--samples", "--format", "json", "-o", path, *options)
        return path

    def differ(self, names, one, other, *options):
        """compare and pick refuse the inputs. The message has the option, its values and the inputs."""
        for arguments in (("compare", one, other), ("pick", one, other)):
            with self.subTest(arguments):
                done = run(*arguments, *options, cwd=self.at)
                self.assertEqual((done.code, done.out), (65, b""), done.message)
                for name in (*names, one.name, other.name):
                    self.assertIn(name, done.message)

    def alike(self, one, other, *options):
        done = run("compare", one, other, *options, cwd=self.at)
        self.assertEqual(done.code, 12, done.message)

    def test_other_options_are_refused_on_both_sides(self):
        plain = self.result("plain.json")
        for names, *options in ((("kernel", "tanh"), "--kernel", "tanh"),
                                (("clock", "profile"), "--clock", "profile"),
                                (("device", "cpu"), "--device", "cpu"),
                                (("prefix", "jit_"), "--prefix", "jit_"),
                                (("function", "fn_1"), "--function", "fn_1"),
                                (("exclude", "fn_1"), "--exclude", "fn_1"),
                                (("exclude_kernel", "tanh"), "--exclude-kernel", "tanh"),
                                (("skip_runs", "2"), "--skip-runs", "2"),
                                (("trim", "iqr"), "--trim", "iqr"),
                                (("max_events", "200"), "--max-events", "200")):
            other = self.result("other.json", *options)
            self.differ((*names, "(default)"), plain, other)
            self.differ((*names, "(default)"), other, VARIANTS)
            self.alike(other, other)
            allowed = run("compare", plain, other, "--allow-mismatch", cwd=self.at)
            self.assertIn(names[0], allowed.text)
            self.assertIn(allowed.code, (0, 11, 12), allowed.message)

    def test_a_result_and_a_trace_with_the_same_options_are_alike(self):
        for options in (("--kernel", "tanh"), ("--device", "cpu"), ("--skip-runs", "2"),
                        ("--trim", "iqr"), ("--trim", "iqr", "--metric", "span"),
                        ("--by-id", "--id-pattern", "fn_([0-9])"), ("--function", "fn_1")):
            of_result = [option for option in options if option != "--by-id"]
            self.alike(self.result("r.json", *of_result), VARIANTS, *options)

    def test_a_trimmed_result_is_not_trimmed_again(self):
        options = ("--trim", "percent:20")
        result = self.result("r.json", *options)
        rows = json.loads(run("compare", result, VARIANTS, *options, "--format", "json",
                              cwd=self.at).text)["rows"]
        for row in rows:
            self.assertEqual(row["base"], row["head"])
        for other in (result, VARIANTS):
            self.refused("compare", result, other, "--trim", "iqr", names=("percent:20", "iqr"))

    def test_rounds_are_not_told_from_a_trimmed_result(self):
        done = run("pick", self.result("r.json", "--trim", "percent:20"), cwd=self.at)
        self.assertEqual((done.code, done.out), (65, b""), done.message)
        self.assertIn("r.json: was written with --trim", done.message)

    def test_what_a_result_lacks_may_be_asked_for(self):
        plain = self.result("plain.json")
        for options in (("--function", "fn_1"), ("--skip-runs", "2"), ("--trim", "iqr"),
                        ("--prefix", "jit_"), ("--by-id", "--id-pattern", "fn_([0-9])")):
            self.alike(plain, VARIANTS, *options)

    def test_a_result_keeps_its_id_pattern(self):
        trace = self.write("t.pb", space(gpu(0, runs=6, function="jit_mine_1", program_id=1)))
        result = self.at / "r.json"
        self.run_ok(trace, "--samples", "--id-pattern", "mine_([0-9])", "--format", "json", "-o",
                    result)
        done = run("pick", result, "--format", "json", cwd=self.at)
        self.assertEqual((done.code, json.loads(done.text)["pick"]), (0, "1"))

    def test_rows_of_samples_that_were_cut(self):
        cut = self.result("cut.json", "--top", "9", command="functions")
        self.differ(("top", "9"), self.result("plain.json"), cut)


if __name__ == "__main__":
    unittest.main()
