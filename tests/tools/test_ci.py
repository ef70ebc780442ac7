"""Runs the shell steps of the CI recipes with bash, on synthetic traces."""
import importlib.util
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import unittest
import xml.etree.ElementTree
import zipfile

from harness import BINARY, HERE, REPOSITORY, environment
from test_compare import Decisions, trace


def block(path, key):
    """The text of the literal block `key: |` (or `- |`), without its indentation."""
    lines = path.read_text().splitlines()
    starts = [i for i, line in enumerate(lines) if line.strip() == key]
    assert len(starts) == 1, (path, key)
    indent = len(lines[starts[0]]) - len(lines[starts[0]].lstrip())
    body = []
    for line in lines[starts[0] + 1:]:
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        body.append(line)
    depth = min(len(line) - len(line.lstrip()) for line in body if line.strip())
    return "\n".join(line[depth:] for line in body) + "\n"


class Recipe(Decisions):
    TIMES = {"jit_a": 10_000_000, "jit_b": 5_000_000}
    SLOWER = {"jit_a": 11_000_000, "jit_b": 5_000_000}
    PERHAPS = {"jit_a": 10_130_000, "jit_b": 5_000_000}

    def setUp(self):
        super().setUp()
        self.side("base", self.TIMES, 6)
        self.side("same", self.TIMES, 6)
        self.side("slower", self.SLOWER, 6)
        self.side("perhaps", self.PERHAPS, 5)
        self.side("v100", self.TIMES, 2, model="V100")
        self.side("h100", self.TIMES, 2, model="H100")
        failed = '{"benchmarks": [{"name": "a", "error_occurred": true}]}'
        self.write("ran.json", '{"benchmarks": [{"name": "a", "real_time": 1, "time_unit": "ns"}]}')
        self.write("failed.json", failed)

    # base, head, other arguments, and the exit code
    CASES = {
        0: ("base*.pb", "same*.pb", ""),
        10: ("base*.pb", "slower*.pb", ""),
        11: ("base*.pb", "perhaps*.pb", "--max-mde 30%"),
        12: ("base0.xplane.pb", "same0.xplane.pb", ""),
        20: ("ran.json", "failed.json", ""),
        64: ("base*.pb", "same*.pb", "--min-effect 5"),
        65: ("v100*.pb", "h100*.pb", ""),
        66: ("base*.pb", "absent.pb", ""),
    }

    # Names that would be further outputs if they were written as they are.
    HOSTILE = ("a\nexit-code=0\npick=evil\nXPLANE_TIME_PICK=evil", "%0Apick=evil",
               "x<<EOF\nverdict=evil\nEOF", "<<EOF", "::add-mask::winner\r\n::error::evil",
               'quo"te\\n\\', "$HOME `id` $(id) 'x' é *", "null", "}, \"params\":{\"k\":1}")

    def bash(self, script, shell="bash", **variables):
        done = subprocess.run([shell, "-e", "-c", script], cwd=self.at, capture_output=True,
                              text=True, timeout=120, env=environment(**variables))
        return done

    def write_variants(self, *names, ratios=None):
        """A file of benchmarks, with a space for it. Returns the arguments of pick."""
        ratios = ratios or range(1, len(names) + 1)
        self.write("variants.json", json.dumps({"benchmarks": [
            {"name": name, "real_time": 10 * ratio + 0.001 * i, "time_unit": "us"}
            for i in range(8) for name, ratio in zip(names, ratios)]}))
        self.write("known.json", json.dumps({"variants": [
            {"id": name, "params": {"name": name, "block": 64}} for name in names]}))
        return "variants.json --id-pattern=(?s)^(.+)$ --space known.json"

    def tuning(self, *variants, options="", ids=()):
        """The arguments of tune, for a harness that runs nothing."""
        variants = [{"params": each} for each in variants]
        for variant, name in zip(variants, ids):
            variant["id"] = name
        self.write("space.json", json.dumps({"schema": "xplane-time.space.v1", "name": "fake",
                                             "variants": variants}))
        return (f"space.json {options} -- {sys.executable} {HERE / 'fake_harness.py'} "
                f"{self.at / 'harness.log'}")

    def wheel(self):
        """A package of which the program is ours. Without a network, pip installs it, too."""
        name = "xplane_time-9.9-py3-none-any.whl"
        info = "xplane_time-9.9.dist-info"
        with zipfile.ZipFile(self.at / name, "w") as wheel:
            script = zipfile.ZipInfo("xplane_time-9.9.data/scripts/xplane-time")
            script.external_attr = 0o100755 << 16
            wheel.writestr(script, f"#!/bin/sh\nexec {shlex.quote(str(BINARY))} \"$@\"\n")
            wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: xplane-time\nVersion: 9.9\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\n"
                                            "Root-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
        return str(self.at / name)

    def bare_path(self):
        """A PATH with Python and without a program xplane-time."""
        if importlib.util.find_spec("ensurepip") is None:
            self.skipTest("no ensurepip: apt-get install python3-venv")
        path = "/usr/bin:/bin"
        if shutil.which("xplane-time", path=path):
            self.skipTest("xplane-time is installed")
        (self.at / "bare").mkdir()
        python = self.write("bare/python3", f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        python.chmod(0o755)
        return f"{python.parent}:{path}"


class GitHub(Recipe):
    SCRIPT = block(REPOSITORY / "action.yml", "run: |")

    def act(self, base="", head="", arguments="", pass_on="0 11", command="compare", junit="",
            program=str(BINARY), install="none", **more):
        for name in ("summary", "output", "path"):
            self.write(name, "")
        return self.bash(self.SCRIPT, COMMAND=command, BASE=base, HEAD=head, ARGUMENTS=arguments,
                         PASS_ON=pass_on, JUNIT=junit, PROGRAM=program, INSTALL=install,
                         SOURCE=str(self.at / "absent"), RUNNER_TEMP=str(self.at),
                         XDG_RUNTIME_DIR=str(self.at), GITHUB_PATH=str(self.at / "path"),
                         GITHUB_STEP_SUMMARY=str(self.at / "summary"),
                         GITHUB_OUTPUT=str(self.at / "output"), **more)

    def outputs(self):
        """As the runner reads them: NAME=VALUE, or NAME<<DELIMITER, lines, DELIMITER. Without the
        file of the summary, which is checked here."""
        found = {}
        lines = iter((self.at / "output").read_text().split("\n")[:-1])
        for line in lines:
            name, mark, value = min(line.partition("="), line.partition("<<"), key=lambda part: len(
                part[0]) if part[1] else len(line) + 1)
            self.assertTrue(mark, line)
            if mark == "<<":
                value = "\n".join(iter(lambda: next(lines), value))
            self.assertNotIn(name, found)
            found[name] = value
        summary = found.pop("summary-file")
        with open(summary) as file:
            self.assertEqual(file.read(), self.summary())
        return found

    def commands(self, stdout):
        """The commands in a log that the runner obeys."""
        token, found = None, []
        for line in stdout.splitlines():
            if token is not None:
                token = None if line == f"::{token}::" else token
            elif line.startswith("::stop-commands::"):
                token = line.removeprefix("::stop-commands::")
            elif line.strip().startswith("::"):
                found.append(line)
        self.assertIsNone(token)
        return found

    def summary(self):
        return (self.at / "summary").read_text()

    def test_an_empty_side_is_named(self):
        for base, head, name in (("", "same*.pb", "base"), ("base*.pb", " ", "head")):
            with self.subTest(name):
                done = self.act(base, head)
                self.assertEqual(done.returncode, 64)
                self.assertIn(f"the input {name} is empty", self.summary())
                self.assertIn(f"the input {name} is empty", done.stdout)
                self.assertEqual(self.outputs()["exit-code"], "64")

    def test_junit_that_cannot_be_written_fails_the_job(self):
        done = self.act(*self.CASES[0], junit="absent/out.xml")
        self.assertEqual(done.returncode, 73, done.stdout)
        self.assertIn("-o absent/out.xml was not written: exit code 73",
                      self.summary())
        self.assertTrue(self.summary().startswith("### no regression"), self.summary())
        self.assertEqual(self.outputs()["exit-code"], "73")

    def test_why_and_junit_together(self):
        base, head, arguments = self.CASES[10]
        done = self.act(base, head, arguments + " --why --top 1 --unit=us --wide", junit="out.xml")
        self.assertEqual(done.returncode, 10, done.stdout + done.stderr)
        self.assertIn("why: ", self.summary())
        suite = xml.etree.ElementTree.fromstring((self.at / "out.xml").read_text())
        self.assertEqual(suite.get("failures"), "1")

    def test_a_file_in_the_arguments_is_written_besides_the_summary(self):
        base, head, _ = self.CASES[10]
        for words, name in (("-o out.json", "out.json"), ("--output=x.csv", "x.csv"),
                            ("-oy.md --why", "y.md"), ("--format json -o z.txt", "z.txt")):
            with self.subTest(words):
                done = self.act(base, head, words)
                self.assertEqual(done.returncode, 10, done.stdout + done.stderr)
                self.assertTrue(self.summary().startswith("### slower"), self.summary())
                self.assertGreater((self.at / name).stat().st_size, 100)
        self.assertEqual(json.loads((self.at / "z.txt").read_text())["exit_code"], 10)
        done = self.act(base, head, "-o absent/x.json")
        self.assertEqual(done.returncode, 73)
        self.assertIn("-o absent/x.json was not written", self.summary())

    def test_the_verdict_is_an_output(self):
        self.act(*self.CASES[10])
        self.assertEqual(self.outputs(), {"exit-code": "10", "verdict": "slower"})
        times = {"jit_autotune_fn_0": 10_000_000, "jit_autotune_fn_1": 12_000_000}
        self.write("variants.xplane.pb", trace(times, 1))
        self.write("space.json", json.dumps({"variants": [
            {"id": "0", "params": {"block": 64, "kind": "a} b"}}, {"id": "1", "params": {}}]}))
        self.act(command="pick", arguments="variants.xplane.pb --space space.json")
        outputs = self.outputs()
        self.assertEqual((outputs["exit-code"], outputs["verdict"], outputs["pick"]),
                         ("0", "winner", "0"))
        self.assertEqual(json.loads(outputs["params"]), {"block": 64, "kind": "a} b"})
        self.assertLess(float(outputs["regret"]), 0.005)
        self.act(command="pick", arguments="variants.xplane.pb")
        self.assertEqual(self.outputs()["params"], "")

    def test_a_pick_that_is_undecided_has_no_output(self):
        rows = [{"name": f"jit_autotune_fn_{v}", "real_time": -1 if v == 2 else 10 + v + 0.01 * i,
                 "time_unit": "us"} for i in range(8) for v in range(3)]
        self.write("b.json", json.dumps({"benchmarks": rows}))
        self.act(command="pick", arguments="b.json")
        self.assertEqual(self.outputs(), {"exit-code": "11", "verdict": "undecided", "pick": "",
                                          "params": "", "regret": ""})

    def test_every_exit_code_once(self):
        for code, (base, head, arguments) in self.CASES.items():
            with self.subTest(code):
                done = self.act(base, head, arguments, pass_on="0")
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                self.assertIn(f"exit-code={code}\n", (self.at / "output").read_text())
                summary = (self.at / "summary").read_text()
                self.assertEqual(bool(summary.startswith("### ")), code < 64, summary)
                self.assertEqual("\nxplane-time: " in summary, code >= 64, summary)

    def test_codes_that_pass_become_warnings(self):
        base, head, arguments = self.CASES[11]
        done = self.act(base, head, arguments)
        self.assertEqual(done.returncode, 0)
        self.assertIn("::warning", done.stdout)
        done = self.act(*self.CASES[10])
        self.assertEqual(done.returncode, 10)
        self.assertIn("::error", done.stdout)

    def test_junit_is_written_beside_the_summary(self):
        self.act(*self.CASES[10], junit="out.xml")
        suite = xml.etree.ElementTree.fromstring((self.at / "out.xml").read_text())
        self.assertEqual(suite.get("failures"), "1")

    def test_pick_and_tune(self):
        times = {"jit_autotune_fn_0": 10_000_000, "jit_autotune_fn_1": 12_000_000}
        self.write("variants.xplane.pb", trace(times, 1))
        done = self.act(command="pick", arguments="variants.xplane.pb")
        self.assertEqual(done.returncode, 0)
        self.assertIn("winner", (self.at / "summary").read_text())
        # The exit code of tune becomes that of the job, and its output becomes the summary.
        program = self.write("program", '#!/bin/sh\necho "got $*"\nexit 75\n')
        program.chmod(0o755)
        done = self.act(command="tune", arguments="--resume s.json -- ./h", program="./program")
        self.assertEqual(done.returncode, 75)
        self.assertIn("got tune --resume s.json --format json -- ./h", self.summary())
        self.assertIn("stopped early", self.summary())
        self.assertEqual(self.outputs(), {"exit-code": "75"})

    def test_outputs_of_a_tuning(self):
        fast = {"cost": 100, "kind": 'a} b"},"status":"x\npick=evil', "more": 0}
        arguments = self.tuning({"cost": 130}, fast, options="--store=own.db -o out.json")
        done = self.act(command="tune", arguments=arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        result = json.loads((self.at / "out.json").read_text())
        outputs = self.outputs()
        self.assertEqual(set(outputs), {"exit-code", "verdict", "pick", "params", "regret"})
        self.assertEqual((outputs["exit-code"], outputs["verdict"], outputs["pick"]),
                         ("0", "winner", result["pick"]))
        self.assertEqual(json.loads(outputs["params"]), fast)
        self.assertEqual(float(outputs["regret"]), result["regret"]["hi"])
        self.assertTrue(self.summary().startswith("### winner"), self.summary())
        done = self.act(command="tune", arguments="show 1 --store own.db")
        self.assertIn("winner", self.summary())
        self.assertEqual(self.outputs(), {"exit-code": "0"})
        done = self.act(command="tune", arguments="export --format tuned --store own.db -o t.json")
        self.assertIn("the result is in the file that the arguments name", self.summary())
        self.assertGreater((self.at / "t.json").stat().st_size, 10)

    def test_names_of_a_tuning_do_not_make_further_outputs(self):
        for number, name in enumerate(self.HOSTILE):
            with self.subTest(name):
                fast = {"cost": 100, "kind": name}
                arguments = self.tuning(fast, {"cost": 180}, options=f"--store {number}.db",
                                        ids=(name, "slow"))
                done = self.act(command="tune", arguments=arguments)
                outputs = self.outputs()
                self.assertEqual(set(outputs), {"exit-code", "verdict", "pick", "params", "regret"})
                self.assertEqual((outputs["exit-code"], outputs["verdict"]), ("0", "winner"),
                                 done.stdout + done.stderr)
                self.assertEqual(outputs["pick"], name.replace("\r", "\\r").replace("\n", "\\n"))
                self.assertEqual(json.loads(outputs["params"]), fast)
                self.assertEqual(self.commands(done.stdout) + self.commands(done.stderr), [])

    def test_outputs_of_an_undecided_tuning(self):
        arguments = self.tuning({"cost": 100}, {"cost": 101}, options="--budget-runs 8")
        done = self.act(command="tune", arguments=arguments)
        outputs = self.outputs()
        self.assertEqual((done.returncode, outputs["exit-code"], outputs["verdict"]),
                         (0, "11", "undecided"), done.stdout + done.stderr)
        self.assertEqual(outputs["regret"], "")
        self.assertIn(json.loads(outputs["params"])["cost"], (100, 101))
        done = self.act(command="tune", arguments=self.tuning(
            {"mode": "broken"}, {"mode": "prepare-crash"}, options="--store failed.db"))
        outputs = self.outputs()
        self.assertEqual((done.returncode, outputs), (20, {
            "exit-code": "20", "verdict": "all_failed", "pick": "", "params": "", "regret": ""}),
            done.stdout)

    def test_a_tuning_that_cannot_start(self):
        done = self.act(command="tune", arguments="absent.json -- ./h")
        self.assertEqual(done.returncode, 66, done.stdout)
        self.assertIn("absent.json", self.summary())
        self.assertEqual(self.outputs(), {"exit-code": "66"})

    def test_names_do_not_make_further_outputs(self):
        for name in self.HOSTILE:
            with self.subTest(name):
                done = self.act(command="pick", arguments=self.write_variants(name, "slow"))
                outputs = self.outputs()
                self.assertEqual(set(outputs), {"exit-code", "verdict", "pick", "params", "regret"})
                self.assertEqual((outputs["exit-code"], outputs["verdict"]), ("0", "winner"),
                                 done.stdout + done.stderr)
                lines = name.replace("\r", "\\r").replace("\n", "\\n")
                self.assertEqual(outputs["pick"], lines)
                self.assertEqual(json.loads(outputs["params"]), {"name": name, "block": 64})
                self.assertEqual(self.commands(done.stdout), [])
                self.assertEqual(self.commands(done.stderr), [])
                done = self.act(command="pick", arguments=self.write_variants(
                    "other", name, ratios=(1, 1.001)), pass_on="0 11")
                outputs = self.outputs()
                self.assertEqual((outputs["exit-code"], outputs["verdict"]), ("11", "undecided"))
                self.assertEqual(outputs["pick"], "other")
                self.assertEqual(len(self.commands(done.stdout)), 1)  # the warning
                done = self.act(*["variants.json"] * 2)
                self.assertEqual(self.outputs(), {"exit-code": "12", "verdict": "too_little_data"})
                self.assertEqual(len(self.commands(done.stdout)), 1)  # the error

    def test_pip_installs_a_program_that_is_missing(self):
        arguments = self.write_variants("a", "b")
        options = {"command": "pick", "arguments": arguments, "program": "xplane-time",
                   "PATH": self.bare_path(), "PIP_NO_INDEX": "1"}
        done = self.act(install=self.wheel(), **options)
        self.assertEqual(self.outputs()["pick"], "a", done.stdout + done.stderr)
        folder = (self.at / "path").read_text().strip()  # for the steps after this one
        self.assertTrue((self.at / folder / "xplane-time").exists())
        done = self.act(**options)
        self.assertEqual(done.returncode, 127)
        self.assertIn("there is no program xplane-time on this runner", self.summary())
        done = self.act(install="", **options)  # the source, which is absent here
        self.assertEqual(done.returncode, 69)
        self.assertIn("pip could not install the program", self.summary())
        self.assertIn(str(self.at / "absent"), self.summary())
        self.assertEqual(self.outputs(), {"exit-code": "69"})

    def test_an_unknown_command_is_refused(self):
        done = self.act(command="report", arguments="variants.json")
        self.assertEqual(done.returncode, 64)
        self.assertIn("must be compare, pick or tune", self.summary())

    def test_tune_has_no_junit(self):
        done = self.act(command="tune", arguments="s.json -- ./h", junit="out.xml")
        self.assertEqual(done.returncode, 64)
        self.assertIn("tune writes no JUnit XML", done.stdout)
        self.assertIn("tune writes no JUnit XML", self.summary())

    def test_a_runner_without_the_program(self):
        done = self.act("a", "b", program="./none", install="")
        self.assertEqual(done.returncode, 127)
        self.assertIn("no program ./none on this runner", (self.at / "summary").read_text())
        done = self.bash(GitLab.SCRIPT, **{**GitLab.DEFAULTS, "XPLANE_TIME": "./none"})
        self.assertEqual(done.returncode, 69)
        self.assertIn("no program ./none on this runner", done.stderr)

    def test_the_step_gets_every_input(self):
        text = (REPOSITORY / "action.yml").read_text()
        inputs = re.findall(r"^  ([a-z-]+):$", text.partition("outputs:")[0], re.MULTILINE)
        for name in inputs:
            self.assertIn("${{ inputs.%s }}" % name, text)


class GitLab(Recipe):
    JOB = REPOSITORY / "ci" / "gitlab.yml"
    SCRIPT = block(JOB, "- |")
    DEFAULTS = dict(re.findall(r'^    (XPLANE_TIME\w*): "?(.*?)"?$', JOB.read_text(), re.MULTILINE))

    def test_every_exit_code_once(self):
        for code, (base, head, arguments) in self.CASES.items():
            with self.subTest(code):
                for name in ("xplane-time.xml", "xplane-time.md"):
                    (self.at / name).unlink(missing_ok=True)
                done = self.job(XPLANE_TIME_BASE=base, XPLANE_TIME_HEAD=head,
                                XPLANE_TIME_ARGUMENTS=arguments)
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                self.assertEqual((self.at / "xplane-time.xml").exists(), code < 64)
                summary = (self.at / "xplane-time.md").read_text()
                self.assertEqual(summary.startswith("### "), code < 64, summary)

    def job(self, **variables):
        return self.bash(self.SCRIPT, **{
            **self.DEFAULTS, "XPLANE_TIME": str(BINARY), "XPLANE_TIME_BASE": "base*.pb",
            "XPLANE_TIME_HEAD": "slower*.pb", **variables})

    def test_an_empty_side_is_named(self):
        for name in ("BASE", "HEAD"):
            done = self.job(**{f"XPLANE_TIME_{name}": " "})
            self.assertEqual(done.returncode, 64)
            self.assertIn(f"XPLANE_TIME_{name} is empty", done.stderr)
            self.assertIn(f"XPLANE_TIME_{name} is empty", (self.at / "xplane-time.md").read_text())

    def test_layout_is_for_what_people_read(self):
        done = self.job(XPLANE_TIME_ARGUMENTS="--top 1 --unit us --wide")
        self.assertEqual(done.returncode, 10, done.stdout + done.stderr)
        self.assertIn("1 more function:", (self.at / "xplane-time.md").read_text())
        suite = xml.etree.ElementTree.fromstring((self.at / "xplane-time.xml").read_text())
        self.assertEqual(suite.get("tests"), "2")

    def test_a_report_that_cannot_be_written_fails_the_job(self):
        (self.at / "xplane-time.xml").mkdir()
        done = self.job()
        self.assertEqual(done.returncode, 73, done.stdout + done.stderr)
        self.assertIn("xplane-time.xml was not written", done.stderr)

    def test_why_and_files_in_the_arguments(self):
        done = self.job(XPLANE_TIME_ARGUMENTS="--why -o out.json --min-effect 2%")
        self.assertEqual(done.returncode, 10, done.stdout + done.stderr)
        self.assertIn("why: ", (self.at / "xplane-time.md").read_text())
        self.assertIn("slower", done.stdout)
        self.assertIn("why", json.loads((self.at / "out.json").read_text()))
        suite = xml.etree.ElementTree.fromstring((self.at / "xplane-time.xml").read_text())
        self.assertEqual(suite.get("failures"), "1")

    def variables(self):
        """As GitLab reads them: it takes no spaces, and expands $NAME."""
        lines = (self.at / "xplane-time.env").read_text().split("\n")
        self.assertEqual(lines.pop(), "")
        for line in lines:
            self.assertRegex(line, r"^XPLANE_TIME_[A-Z_]+=[^\s$]+$")
        found = dict(line.removeprefix("XPLANE_TIME_").split("=", 1) for line in lines)
        self.assertEqual(len(found), len(lines))
        self.assertEqual(found.pop("SUMMARY_FILE"), "xplane-time.md")
        return found

    def test_variables_of_a_comparison(self):
        self.job()
        self.assertEqual(self.variables(), {"EXIT_CODE": "10", "VERDICT": "slower"})
        self.job(XPLANE_TIME_HEAD="absent.pb")
        self.assertEqual(self.variables(), {"EXIT_CODE": "66"})

    def test_variables_of_a_pick(self):
        shells = [shell for shell in ("bash", "dash") if shutil.which(shell)]
        for shell, name in itertools.product(shells, self.HOSTILE):
            with self.subTest(name, shell=shell):
                arguments = self.write_variants(name, "slow") + " -o out.json"
                done = self.job(shell=shell, XPLANE_TIME_COMMAND="pick",
                                XPLANE_TIME_ARGUMENTS=arguments)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                found = self.variables()
                self.assertEqual(set(found), {"EXIT_CODE", "VERDICT", "PICK", "PARAMS", "REGRET"})
                self.assertEqual((found["EXIT_CODE"], found["VERDICT"]), ("0", "winner"))
                self.assertEqual(json.loads(f'"{found["PICK"]}"'), name)
                self.assertEqual(json.loads(found["PARAMS"]), {"name": name, "block": 64})
                regret = json.loads((self.at / "out.json").read_text())["regret"]
                self.assertEqual(float(found["REGRET"]), regret)
        arguments = self.write_variants("a", "b", ratios=(1, 1.001))
        done = self.job(XPLANE_TIME_COMMAND="pick", XPLANE_TIME_ARGUMENTS=arguments)
        self.assertEqual(done.returncode, 11)
        self.assertEqual({**self.variables(), "REGRET": ""}, {
            "EXIT_CODE": "11", "VERDICT": "undecided", "PICK": "a", "REGRET": "",
            "PARAMS": '{"block":64,"name":"a"}'})

    def test_what_is_too_long_for_gitlab_is_left_out(self):
        name = "x" * 5000
        self.job(XPLANE_TIME_COMMAND="pick", XPLANE_TIME_ARGUMENTS=self.write_variants(name, "b"))
        self.assertEqual(set(self.variables()), {"EXIT_CODE", "VERDICT", "REGRET"})
        self.assertLess((self.at / "xplane-time.env").stat().st_size, 5000)

    def test_variables_of_a_tuning(self):
        name = self.HOSTILE[6]
        arguments = self.tuning({"cost": 100, "kind": "a b$HOME"}, {"cost": 180},
                                options="--store=own.db -o out.json", ids=(name, "slow"))
        done = self.job(XPLANE_TIME_COMMAND="tune", XPLANE_TIME_ARGUMENTS=arguments,
                        XDG_RUNTIME_DIR=str(self.at))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        result = json.loads((self.at / "out.json").read_text())
        found = self.variables()
        self.assertEqual((found["EXIT_CODE"], found["VERDICT"]), ("0", "winner"))
        self.assertEqual(json.loads(f'"{found["PICK"]}"'), name)
        self.assertEqual(json.loads(found["PARAMS"]), {"cost": 100, "kind": "a b$HOME"})
        self.assertEqual(float(found["REGRET"]), result["regret"]["hi"])
        self.assertTrue((self.at / "xplane-time.md").read_text().startswith("### winner"))
        self.assertIn("winner", done.stdout)
        done = self.job(XPLANE_TIME_COMMAND="tune", XPLANE_TIME_ARGUMENTS="absent.json -- ./h")
        self.assertEqual(done.returncode, 66)
        self.assertEqual(self.variables(), {"EXIT_CODE": "66"})

    def test_an_unknown_command_is_refused(self):
        self.assertEqual(self.job(XPLANE_TIME_COMMAND="report").returncode, 64)

    def test_pip_installs_a_program_that_is_missing(self):
        options = {"XPLANE_TIME": "xplane-time", "PATH": self.bare_path(), "PIP_NO_INDEX": "1"}
        done = self.job(XPLANE_TIME_INSTALL=self.wheel(), **options)
        self.assertEqual(done.returncode, 10, done.stdout + done.stderr)
        self.assertEqual(self.variables()["VERDICT"], "slower")
        done = self.job(XPLANE_TIME_INSTALL="./absent", **options)
        self.assertEqual(done.returncode, 69)
        self.assertIn("pip could not install ./absent", (self.at / "xplane-time.md").read_text())


if __name__ == "__main__":
    unittest.main()
