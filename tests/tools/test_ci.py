"""Runs the shell steps of the CI recipes with bash, on synthetic traces."""
import json
import os
import re
import subprocess
import unittest
import xml.etree.ElementTree

from harness import BINARY, REPOSITORY, environment
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

    def bash(self, script, **variables):
        done = subprocess.run(["bash", "-e", "-c", script], cwd=self.at, capture_output=True,
                              text=True, timeout=60, env=environment(**variables))
        return done


class GitHub(Recipe):
    SCRIPT = block(REPOSITORY / "action.yml", "run: |")

    def act(self, base="", head="", arguments="", pass_on="0 11", command="compare", junit=""):
        for name in ("summary", "output"):
            self.write(name, "")
        return self.bash(self.SCRIPT, COMMAND=command, BASE=base, HEAD=head, ARGUMENTS=arguments,
                         PASS_ON=pass_on, JUNIT=junit, PROGRAM=str(BINARY),
                         GITHUB_STEP_SUMMARY=str(self.at / "summary"),
                         GITHUB_OUTPUT=str(self.at / "output"))

    def outputs(self):
        return dict(line.split("=", 1) for line in (self.at / "output").read_text().splitlines())

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
        self.assertIn("--format junit -o absent/out.xml was not written: exit code 73",
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
        done = self.bash(self.SCRIPT, COMMAND="tune", BASE="", HEAD="", PASS_ON="0", JUNIT="",
                         ARGUMENTS="--resume s.json -- ./h", PROGRAM="./program",
                         GITHUB_STEP_SUMMARY=str(self.at / "summary"),
                         GITHUB_OUTPUT=str(self.at / "output"))
        self.assertEqual(done.returncode, 75)
        self.assertIn("got tune --resume s.json -- ./h", (self.at / "summary").read_text())

        self.assertIn("stopped early", (self.at / "summary").read_text())

    def test_a_tuning_that_writes_a_file_has_a_summary(self):
        program = self.write("program", "#!/bin/sh\nexit 11\n")
        program.chmod(0o755)
        for name in ("summary", "output"):
            self.write(name, "")
        self.bash(self.SCRIPT, COMMAND="tune", BASE="", HEAD="", PASS_ON="0", JUNIT="",
                  ARGUMENTS="s.json -o out.json -- ./h", PROGRAM="./program",
                  GITHUB_STEP_SUMMARY=str(self.at / "summary"),
                  GITHUB_OUTPUT=str(self.at / "output"))
        self.assertIn("the result is in the file that the arguments name", self.summary())

    def test_tune_has_no_junit(self):
        done = self.act(command="tune", arguments="s.json -- ./h", junit="out.xml")
        self.assertEqual(done.returncode, 64)
        self.assertIn("tune writes no JUnit XML", done.stdout)
        self.assertIn("tune writes no JUnit XML", self.summary())

    def test_a_runner_without_the_program(self):
        done = self.bash(self.SCRIPT, COMMAND="compare", BASE="a", HEAD="b", PASS_ON="0", JUNIT="",
                         ARGUMENTS="", PROGRAM="./none",
                         GITHUB_STEP_SUMMARY=str(self.at / "summary"),
                         GITHUB_OUTPUT=str(self.at / "output"))
        self.assertEqual(done.returncode, 127)
        self.assertIn("no program ./none on this runner", (self.at / "summary").read_text())
        done = self.bash(GitLab.SCRIPT, XPLANE_TIME="./none")
        self.assertEqual(done.returncode, 69)
        self.assertIn("no program ./none on this runner", done.stderr)

    def test_the_step_gets_every_input(self):
        text = (REPOSITORY / "action.yml").read_text()
        inputs = re.findall(r"^  ([a-z-]+):$", text.partition("outputs:")[0], re.MULTILINE)
        for name in inputs:
            self.assertIn("${{ inputs.%s }}" % name, text)


class GitLab(Recipe):
    SCRIPT = block(REPOSITORY / "ci" / "gitlab.yml", "- |")

    def test_every_exit_code_once(self):
        for code, (base, head, arguments) in self.CASES.items():
            with self.subTest(code):
                for name in ("xplane-time.xml", "xplane-time.md"):
                    (self.at / name).unlink(missing_ok=True)
                done = self.bash(self.SCRIPT, XPLANE_TIME=str(BINARY), XPLANE_TIME_BASE=base,
                                 XPLANE_TIME_HEAD=head, XPLANE_TIME_ARGUMENTS=arguments)
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                self.assertEqual((self.at / "xplane-time.xml").exists(), code < 64)
                summary = (self.at / "xplane-time.md").read_text()
                self.assertEqual(summary.startswith("### "), code < 64, summary)

    def job(self, **variables):
        return self.bash(self.SCRIPT, **{"XPLANE_TIME": str(BINARY), "XPLANE_TIME_BASE": "base*.pb",
                                         "XPLANE_TIME_HEAD": "slower*.pb",
                                         "XPLANE_TIME_ARGUMENTS": "", **variables})

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


if __name__ == "__main__":
    unittest.main()
