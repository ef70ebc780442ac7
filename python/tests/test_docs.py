"""The code of docs/python.md runs, and prints what the page says."""
import contextlib
import importlib.util
import io
import os
import pathlib
import re
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Page(unittest.TestCase):
    def test_code_prints_what_the_page_says(self):
        page = (REPOSITORY / "docs/python.md").read_text()
        has_jax = importlib.util.find_spec("jax") is not None
        before = os.getcwd()
        os.chdir(REPOSITORY)
        self.addCleanup(os.chdir, before)
        names, printed, count = {}, None, 0
        for kind, text in BLOCK.findall(page):
            if kind == "python":
                if "jax" in text and not has_jax:
                    break  # the last part of the page
                out = io.StringIO()
                with contextlib.redirect_stdout(out):
                    exec(compile(text, "docs/python.md", "exec"), names)
                printed = out.getvalue()
            else:
                self.assertEqual(printed, text)
                count += 1
        self.assertGreaterEqual(count, 5 if has_jax else 4)


if __name__ == "__main__":
    unittest.main()
