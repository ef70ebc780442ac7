"""Runs the commands in the README and the pages, and compares their outputs.

If a change is intended, run `python3 test_readme.py --freeze`, and review the difference.
"""
import os
import re
import subprocess
import sys
import unittest

from harness import BINARY, EndToEndTest, REPOSITORY, environment

README = REPOSITORY / "README.md"
PAGES = (README, *(REPOSITORY / "docs" / page
                   for page in ("brief.md", "diff.md", "energy.md", "fleet.md", "kineto.md", "tree.md", "where.md")))
NOT_RUN = ("./demo.sh", "./test.sh", "git ", "cmake ", "pip ")
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(block):
    """[(command, expected output)]. A backslash at the end of a line continues the command."""
    found = []
    continued = False
    for line in block.splitlines():
        if continued:
            found[-1][0] += "\n" + line.removeprefix("> ")
        elif line.startswith("$ "):
            found.append([line[2:], ""])
        elif found:
            found[-1][1] += line + "\n"
        continued = bool(found) and line.endswith("\\") and (continued or line.startswith("$ "))
    return [tuple(pair) for pair in found]


def outcome(command):
    """stdout and stderr in the order of a terminal."""
    env = environment(PATH=f"{BINARY.parent}{os.pathsep}{os.environ.get('PATH', '')}",
                      NO_COLOR="1")
    done = subprocess.run(["bash", "-c", command], cwd=REPOSITORY, env=env, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout.decode()


def freeze():
    for page in PAGES:
        text = page.read_text()
        for block in BLOCK.findall(text):
            for command, output in commands(block):
                if command.startswith(NOT_RUN):
                    continue
                shown = "$ " + command.replace("\n", "\n> ") + "\n"
                if shown not in block:
                    shown = "$ " + command + "\n"
                text = text.replace(shown + output, shown + outcome(command))
        page.write_text(text)


class Commands(unittest.TestCase):
    def test_blocks_are_parted_into_commands(self):
        block = "$ one\nout\n\nput\n$ two \\\n> --three\n$ four\n"
        self.assertEqual(commands(block), [("one", "out\n\nput\n"), ("two \\\n--three", ""),
                                           ("four", "")])


LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.*)$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
NAVIGATION = re.compile(r" +- (.*?):(?: ([\w-]+\.md))?")  # a part, or a page with its title
LONG = {"python.md"}  # one page for all of the package, with links to its sections
SOURCES = {".c", ".cc", ".cmake", ".h", ".json", ".md", ".proto", ".py", ".sh", ".txt", ".yml"}


def anchors(page):
    """The anchors of a page's headings, as GitHub derives them."""
    found = set()
    for heading in HEADING.findall(CODE.sub("", page.read_text())):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number = next(n for n in range(100) if (f"{anchor}-{n}" if n else anchor) not in found)
        found.add(f"{anchor}-{number}" if number else anchor)
    return found


class Links(unittest.TestCase):
    def links(self, page):
        for target in LINK.findall(CODE.sub("", page.read_text())):
            if not target.startswith(("http:", "https:", "mailto:")):
                yield target, *target.partition("#")[::2]

    def test_every_link_has_a_target(self):
        for page in (README, REPOSITORY / "CONTRIBUTING.md", *(REPOSITORY / "docs").glob("*.md")):
            for link, path, anchor in self.links(page):
                with self.subTest(page=page.name, link=link):
                    target = (page.parent / path).resolve() if path else page
                    self.assertTrue(target.exists())
                    if anchor and target.suffix == ".md":
                        self.assertIn(anchor, anchors(target))

    def test_the_index_lists_every_page(self):
        index = REPOSITORY / "docs" / "README.md"
        listed = {path for _, path, _ in self.links(index)}
        pages = {page.name for page in (REPOSITORY / "docs").glob("*.md")} - {index.name}
        self.assertEqual(pages - listed, set())

    def test_the_navigation_of_the_site_has_every_page_once(self):
        text = (REPOSITORY / "mkdocs.yml").read_text()
        lines = text.split("\nnav:\n")[1].splitlines()
        navigation = [(len(line) - len(line.lstrip()), *NAVIGATION.fullmatch(line).groups()) for line in lines]
        pages = [page for _, _, page in navigation if page]
        self.assertEqual(sorted(pages), sorted(page.name for page in (REPOSITORY / "docs").glob("*.md")))
        # The parts are those of the index, with the same pages.
        part, parts = None, {}
        for indent, title, page in navigation:
            if indent == 2:
                part = title
            elif page:
                parts.setdefault(part, set()).add(page)
        index = (REPOSITORY / "docs" / "README.md").read_text()
        sections = dict(section.split("\n", 1) for section in index.split("\n## ")[1:])
        listed = {title: {target.partition("#")[0] for target in LINK.findall(text)}
                  for title, text in sections.items()}
        repeated = {"ci.md"}  # the exit codes, in Reference too
        self.assertEqual(parts, {title: pages - (repeated if title == "Reference" else set())
                                 for title, pages in listed.items()})

    def test_pages_have_at_most_300_lines(self):
        lengths = {page.name: len(page.read_text().splitlines()) for page in (REPOSITORY / "docs").glob("*.md")}
        self.assertEqual({name: length for name, length in lengths.items()
                          if length > 300 and name not in LONG}, {})

    def test_every_page_that_a_source_names_exists(self):
        missing, named = [], set()
        for folder in ("bench", "ci", "cmake", "examples", "include", "python", "src", "tests", "tools"):
            for path in (REPOSITORY / folder).rglob("*"):
                if not path.is_file() or path.suffix not in SOURCES:
                    continue
                for page in re.findall(r"\bdocs/([\w-]+\.md)\b", path.read_text(errors="replace")):
                    named.add(page)
                    if not (REPOSITORY / "docs" / page).exists():
                        missing.append((str(path.relative_to(REPOSITORY)), page))
        self.assertEqual(missing, [])
        self.assertGreater(len(named), 10)

    def test_anchors(self):
        self.assertLessEqual({"exit-codes", "what-would-decide"}, anchors(REPOSITORY / "docs" / "ci.md"))


@unittest.skipUnless(README.exists(), "README.md does not exist yet")
class Readme(EndToEndTest):
    def test_commands_print_what_the_page_says(self):
        for page in PAGES:
            blocks = BLOCK.findall(page.read_text())
            pairs = [pair for block in blocks for pair in commands(block)]
            self.assertTrue(any(command.startswith("xplane-time") for command, _ in pairs),
                            f"{page.name}: no ```console block runs xplane-time")
            for command, output in pairs:
                if command.startswith(NOT_RUN):
                    continue
                with self.subTest(page=page.name, command=command):
                    self.assertEqual(outcome(command), output)


if __name__ == "__main__":
    freeze() if sys.argv[1:] == ["--freeze"] else unittest.main()
