"""Compares completions with the help texts, in every installed shell."""
import os
import shutil
import subprocess
import unittest

from harness import BINARY, REPOSITORY, EndToEndTest, environment, run

FOLDER = REPOSITORY / "tools" / "completions"
COMMANDS = {"report", "planes", "functions", "kernels", "tree", "brief", "where", "headroom", "events", "energy", "compare", "diff", "fleet", "merge", "pick", "summarize",
            "tune", "grid", "verify", "power", "compat", "help"}
BASH = """source "$1"; COMP_WORDS=(xplane-time "${@:2}"); COMP_CWORD=$(($# - 1))
_xplane_time xplane-time; printf '%s\\n' "${COMPREPLY[@]}" """
FISH = "source $argv[1]; complete -C (string join -- ' ' xplane-time $argv[2..])"
ZSH = """_describe() { print -rl -- ${(P)argv[-1]} }; _files() { }
complete() { source $script }; script=$1; shift
words=(xplane-time "$@"); CURRENT=$#words; PREFIX=$words[-1]; complete"""
SHELLS = {"bash": ("xplane-time.bash", BASH, "\t"), "fish": ("xplane-time.fish", FISH, "\t"),
          "zsh": ("_xplane-time", ZSH, ":")}


class Completions(EndToEndTest):
    def complete(self, shell, *words):
        """Returns {completion: description} of the last word."""
        script, program, separator = SHELLS[shell]
        bin_folder, empty = self.at / "bin", self.at / "empty"
        bin_folder.mkdir(exist_ok=True)
        empty.mkdir(exist_ok=True)
        if not (bin_folder / "xplane-time").exists():
            (bin_folder / "xplane-time").symlink_to(BINARY)
        path = f"{bin_folder}:{os.environ['PATH']}"
        arguments = [FOLDER / script, *words]
        done = subprocess.run([shell, "-c", program, *([] if shell == "fish" else [shell]),
                               *arguments], env=environment(PATH=path, HOME=str(self.at)),
                              cwd=empty, capture_output=True, text=True, timeout=30, check=True)
        self.assertEqual(done.stderr, "")
        offered = [line.partition(separator) for line in done.stdout.splitlines()]
        return {name: text for name, _, text in offered
                if name.startswith(words[-1])}

    def test_commands_and_options(self):
        for shell in filter(shutil.which, SHELLS):
            with self.subTest(shell):
                self.assertEqual(set(self.complete(shell, "")), COMMANDS)
                self.assertEqual(set(self.complete(shell, "power", "r")),
                                 {"record", "replay", "run"})
                self.assertEqual(set(self.complete(shell, "tune", "show", "--")),
                                 {"--help", "--store", "--output", "--format"})
                self.assertEqual(set(self.complete(shell, "tree", "t.pb", "--dep")), {"--depth"})
                # A word that is not a command is a trace of report.
                self.assertIn("--samples", self.complete(shell, "--s"))
                found = self.complete(shell, "t.pb", "--tr")
                self.assertEqual(set(found), {"--trim"})
                if shell != "bash":  # bash shows no descriptions
                    self.assertEqual(found["--trim"], "Runs to exclude: none, drop-extremes, "
                                                      "iqr, mad or percent:P (default none)")

    def test_values(self):
        for shell in filter(shutil.which, SHELLS):
            with self.subTest(shell):
                for words, values in (
                        (("tree", "t.pb", "--by"), "nesting scope source module"),
                        (("fleet", "--by"), "host device host,device none"),
                        (("kernels", "--sort"), "total name mean median max self count share"),
                        (("report", "--sort"), "total name mean median max runs std min self count share"),
                        (("t.pb", "--sort"), "total name mean median max runs std min self count share"),
                        (("tree", "--sort"), "total"),
                        (("--unit",), "auto ns us ms s"),
                        (("tune", "export", "--format"), "csv json t4 tuned"),
                        (("power", "record", "--top", "3", "--format"),
                         "table json csv markdown openmetrics html sqlite")):
                    self.assertEqual(set(self.complete(shell, *words, "")), set(values.split()), words)
                self.assertEqual(set(self.complete(shell, "t.pb", "--format", "m")), {"markdown"})

    def test_values_that_are_offered_are_accepted(self):
        trace = REPOSITORY / "testdata" / "jax_cpu_control_flow.xplane.pb"
        for command, option in (("report", "--sort"), ("functions", "--sort"), ("kernels", "--sort"),
                                ("tree", "--sort"), ("fleet", "--by"), ("report", "--unit")):
            values = self.complete("bash", command, option, "")
            self.assertTrue(values)
            for value in values:
                done = run(command, trace, option, value)
                self.assertEqual(done.code, 0, (command, option, value, done.message))


if __name__ == "__main__":
    unittest.main()
