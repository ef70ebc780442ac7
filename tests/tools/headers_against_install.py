"""Every public header against an installed package: its example compiles, links and runs.

XPLANE_TIME_BUILD is a complete build. The examples of one library are one program, which links only
the target, or the pkg-config module, that docs/cpp.md names for their headers.
"""
import functools
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["XPLANE_TIME_BUILD"])
TESTDATA = REPOSITORY / "testdata"
PAGE = REPOSITORY / "docs" / "cpp.md"
C_LIBRARY = "xplane_time_c"

# The files that examples open. Names and contents as in a user's folder.
INPUTS = {
    "trace.xplane.pb": TESTDATA / "gpu" / "h200_mixture.xplane.pb.gz",
    "run_dir/host.xplane.pb": TESTDATA / "jax_cpu_variants.xplane.pb",
    "power.jsonl": TESTDATA / "gpu" / "h200_mixture.power.jsonl",
    "variants.xplane.pb": TESTDATA / "jax_cpu_variants.xplane.pb",
    "problems.jsonl": REPOSITORY / "examples" / "power_run" / "problems.jsonl",
    **{f"{side}{i}.xplane.pb": TESTDATA / "diff" / f"jax_cpu_edit_{side}{i}.xplane.pb.gz"
       for side in ("base", "head") for i in (1, 2)},
}

STANDARD_HEADERS = ("cassert", "cstdint", "functional", "iostream", "optional", "span", "string",
                    "string_view", "vector")
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(examples LANGUAGES C CXX)
find_package(xplane_time 0.1 REQUIRED)
"""


def example(header):
    """The lines below `Example:` in the comment at the top of a header, to the first empty one."""
    lines = []
    found = False
    for line in header.read_text().splitlines():
        if not line.startswith(("//", "/*", " *")):
            break
        text = line[2:]
        if text.strip() == "Example:":
            found = True
        elif found and text.startswith("   "):
            lines.append(text[3:])
        elif lines:
            break
    return "\n".join(lines)


@dataclass
class Library:
    name: str  # of the library and its .pc file
    target: str
    headers: list

    def source(self, prefix):
        """(file name, text) of a program with the examples of its headers."""
        examples = {header: example(prefix / "include" / "xplane_time" / header) for header in self.headers}
        if self.name == C_LIBRARY:
            functions = "".join(f"static int example{i}(void) {{\n{text}\nreturn 0;\n}}\n"
                                for i, text in enumerate(examples.values()))
            calls = " + ".join(f"example{i}()" for i in range(len(examples)))
            includes = "#include <stdio.h>\n" + "".join(f"#include <xplane_time/{header}>\n"
                                                        for header in self.headers)
            return f"{self.name}.c", f"{includes}{functions}int main(void) {{ return {calls}; }}\n"
        headers = list(self.headers)
        if any("OpenTrace(" in text for text in examples.values()) and "read.h" not in headers:
            headers.append("read.h")
        includes = "".join(f"#include <{name}>\n" for name in STANDARD_HEADERS)
        includes += "".join(f"#include <xplane_time/{header}>\n" for header in headers)
        functions = "".join(f"absl::Status Example{i}() {{\n{text}\nreturn absl::OkStatus();\n}}\n"
                            for i, text in enumerate(examples.values()))
        calls = "".join(f"  failed += Failed(\"{header}\", Example{i}());\n"
                        for i, header in enumerate(examples))
        return f"{self.name}.cc", (
            f"{includes}#include <absl/status/status.h>\nusing namespace xplane_time;\n{functions}"
            "int Failed(std::string_view header, const absl::Status& status) {\n"
            "  if (!status.ok()) std::cerr << header << \": \" << status << '\\n';\n"
            "  return status.ok() ? 0 : 1;\n}\n"
            f"int main() {{\n  int failed = 0;\n{calls}  return failed;\n}}\n")


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode:
        raise AssertionError(f"{shlex.join(map(str, command))}: {done.returncode}\n{done.stdout}")
    return done.stdout


class Headers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.scratch)
        cls.prefix = cls.scratch / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        modules = sorted(cls.prefix.rglob("*.pc"))
        cls.environment = {**os.environ, "PKG_CONFIG_PATH": str(modules[0].parent)}
        cls.libraries = [Library(module.stem, cls.variable(module.stem, "cmake_target"),
                                 cls.variable(module.stem, "headers").split())
                         for module in modules]
        cls.at = cls.scratch / "run"
        for name, source in INPUTS.items():
            (cls.at / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, cls.at / name)

    @classmethod
    def pkg_config(cls, *arguments):
        return run("pkg-config", *arguments, env=cls.environment).strip()

    @classmethod
    def variable(cls, module, name):
        return cls.pkg_config(f"--variable={name}", module)

    @classmethod
    @functools.cache
    def built(cls):
        """The folder of programs that CMake built from the examples, against find_package."""
        at = cls.scratch / "examples"
        at.mkdir(exist_ok=True)
        project = PROJECT
        for library in cls.libraries:
            name, text = library.source(cls.prefix)
            (at / name).write_text(text)
            project += (f"add_executable({library.name} {name})\n"
                        f"target_link_libraries({library.name} PRIVATE {library.target})\n")
        (at / "program.cc").write_text(page_program()[0])
        project += "add_executable(program program.cc)\ntarget_link_libraries(program xplane_time::xplane_time)\n"
        (at / "CMakeLists.txt").write_text(project)
        run("cmake", "-G", "Ninja", "-S", at, "-B", at / "build", "-DCMAKE_BUILD_TYPE=Debug",
            "-DCMAKE_CXX_FLAGS=-g0", f"-DCMAKE_PREFIX_PATH={cls.prefix}",
            "-DCMAKE_CXX_OUTPUT_EXTENSION_REPLACE=ON", "-DCMAKE_C_OUTPUT_EXTENSION_REPLACE=ON")
        run("cmake", "--build", at / "build", "-j2")
        return at / "build"

    def execute(self, program, *arguments):
        at = Path(tempfile.mkdtemp(dir=self.scratch))
        shutil.copytree(self.at, at, dirs_exist_ok=True)
        return run(program, *arguments, cwd=at)

    def test_every_header_has_a_library_and_an_example(self):
        public = {path.name for path in (REPOSITORY / "include" / "xplane_time").glob("*.h")}
        installed = {path.name for path in (self.prefix / "include" / "xplane_time").iterdir()}
        owned = [header for library in self.libraries for header in library.headers]
        self.assertEqual(sorted(owned), sorted(public))
        self.assertEqual(installed, public)
        without = [header for header in sorted(public)
                   if not example(self.prefix / "include" / "xplane_time" / header)]
        self.assertEqual(without, [], "no example (`Example:`, an empty line, indented code)")

    def test_the_page_has_a_row_for_each_library(self):
        rows = re.findall(r"^\| ([^|]+?) \| `(xplane_time::\w+)` \| `(\w+)` \|$", PAGE.read_text(), re.MULTILINE)
        rows = [(module, target, re.findall(r"`([\w.]+)`", headers)) for headers, target, module in rows]
        expected = [(library.name, library.target, library.headers) for library in self.libraries]
        self.assertEqual(sorted(rows), sorted(expected))

    def test_examples_link_by_find_package(self):
        for library in self.libraries:
            with self.subTest(library.name):
                printed = self.execute(self.built() / library.name)
                self.assertNotRegex(printed, r"\de[+-]\d", "a number that people cannot read")

    def test_examples_link_by_pkg_config(self):
        for library in self.libraries:
            with self.subTest(library.name):
                [compiled] = self.built().glob(f"CMakeFiles/{library.name}.dir/{library.name}.o*")
                compiler = "cc" if library.name == C_LIBRARY else "g++"
                libraries = self.pkg_config("--libs", library.name).split()
                run(compiler, compiled, "-o", self.scratch / "linked", *libraries)
                headers = self.scratch / f"headers.{'c' if library.name == C_LIBRARY else 'cc'}"
                headers.write_text("".join(f"#include <xplane_time/{name}>\n" for name in library.headers))
                run(compiler, "-fsyntax-only", "-Wall", "-Werror", headers,
                    *self.pkg_config("--cflags", library.name).split())

    def test_modules_can_be_combined(self):
        program = self.scratch / "all.cc"
        program.write_text("int main() {}\n")
        names = [library.name for library in self.libraries]
        run("g++", program, "-o", self.scratch / "all", "-Wl,--whole-archive",
            *(f"-l{name}" for name in names), f"-L{self.variable(names[0], 'libdir')}",
            "-Wl,--no-whole-archive", *self.pkg_config("--libs", *names).split())

    def test_the_program_of_the_page_prints_what_the_page_shows(self):
        _, command, output = page_program()
        arguments = shlex.split(command)[1:]
        self.assertEqual(run(self.built() / "program", *arguments, cwd=REPOSITORY), output)


def page_program():
    """(program, command, output) of docs/cpp.md."""
    text = PAGE.read_text()
    [program] = re.findall(r"^```cpp\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    [(command, output)] = re.findall(r"^```text\n\$ (.*?)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return program, command, output


if __name__ == "__main__":
    unittest.main()
