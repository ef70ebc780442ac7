"""Runs the code of the pages in docs, and compares its output with the page.

The output of a ```python block follows it. The output of a command in ```console follows the command.
The kind of the block states how it is compared:

    ```text             exactly
    ```text measured    except for numbers and units: the same words in any order, because the
                        order may differ on a busy machine
    ```text example     any output; the names may belong to one version of jax

Each page runs in a temporary directory, in which `testdata` links to that of the repository. Blocks that
require jax, torch, duckdb or pyarrow are skipped if the module is not installed. Drawings, and the
commands after them, are checked by tests/tools.
"""
import contextlib
import importlib.util
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(python|text|console)(?: (measured|example))?\n(.*?)^```$",
                   re.MULTILINE | re.DOTALL)
MISSING = [module for module in ("jax", "torch", "duckdb", "pyarrow")
           if importlib.util.find_spec(module) is None]
HAS_JAX = "jax" not in MISSING


def words(text):
    """The words, with placeholders for numbers and units. The widths of columns have no effect."""
    text = re.sub(r"\b(?:ns|us|ms|s)\b", "TIME", text)
    return re.sub(r"[\d.,]+", "NUMBER", text).split()


def first_words(text):
    """The first word of each line of a table, except for notes on hidden columns."""
    return [line.split()[0] for line in text.splitlines()
            if line.strip() and not line.startswith("not shown")]


def printed_by(code, names, page):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, page, "exec"), names)
    return out.getvalue()


def output_of(command):
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True,
                          env={**os.environ, "PATH": path, "COLUMNS": "80", "NO_COLOR": "1",
                               "LC_ALL": "C.UTF-8"})
    return done.stdout


class Pages(unittest.TestCase):
    def check(self, how, got, want):
        if how is None:
            self.assertEqual(got, want)
        elif how == "measured":
            self.assertEqual(sorted(words(got)), sorted(words(want)))
        else:
            self.assertTrue(got.strip() and want.strip())

    def check_command(self, how, text):
        command, want = text.removeprefix("$ ").split("\n", 1)
        got = output_of(command)
        if how == "measured":  # notes about this trace may add lines
            self.assertEqual(set(first_words(want)) - set(first_words(got)), set(), got)
        else:
            self.check(how, got, want)

    def run_page(self, path):
        """Returns the number of checked outputs."""
        names, printed, checked = {}, None, 0
        for kind, how, text in BLOCK.findall(path.read_text()):
            how = how or None
            if kind == "python":
                if any(re.search(rf"\b{module}\b", text) for module in MISSING):
                    break  # later blocks may depend on this one
                printed = printed_by(text, names, path.name)
                continue
            with self.subTest(page=path.name, block=text):
                if kind == "text":
                    self.check(how, printed, text)
                else:
                    self.check_command(how, text)
            checked += 1
        return checked

    def test_code_prints_what_the_page_says(self):
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        counts = {}
        for path in sorted((REPOSITORY / "docs").glob("*.md")):
            content = path.read_text()
            if "```drawing" in content or "```python" not in content:
                continue
            with tempfile.TemporaryDirectory() as folder:
                os.symlink(REPOSITORY / "testdata", pathlib.Path(folder, "testdata"))
                os.chdir(folder)
                counts[path.name] = self.run_page(path)
                os.chdir(before)
        self.assertGreaterEqual(counts["python.md"], 5 if set(MISSING) - {"torch"} else 13)
        self.assertTrue(not HAS_JAX or counts["tutorial.md"] >= 8, counts)


class Comparison(unittest.TestCase):
    def test_measured_numbers_may_differ_and_nothing_else(self):
        self.assertEqual(words("'a': 12.5 us, median of 9"), words("'a':  7 ms, median of 9"))
        self.assertNotEqual(sorted(words("b: 1 us")), sorted(words("a: 1 us")))
        self.assertEqual(first_words("f  us\njit_a  3\n\nnot shown, too wide: x\n"), ["f", "jit_a"])


if __name__ == "__main__":
    unittest.main()
