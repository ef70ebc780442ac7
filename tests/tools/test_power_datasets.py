"""Tests of power run with data sets in other formats than JSON Lines, and of power datasets."""
import csv
import io
import json
import os
import sys
import unittest

from harness import HERE, EndToEndTest, environment, run

FAKE_COMMAND = HERE / "fake_command.py"


class Datasets(EndToEndTest):
    def run_on(self, dataset, *options, code=0, env=None):
        """Runs the data set, and returns the stored records."""
        self.done = run("power", "run", dataset, "--model", "m", "--source", "none", *options, "--",
                        sys.executable, FAKE_COMMAND, self.at / "asked.log", cwd=self.at,
                        env=env or environment())
        self.assertEqual(self.done.code, code, self.done.message)
        files = sorted(self.at.glob("runs/*/records.jsonl"))
        return [json.loads(line) for line in files[0].read_text().splitlines()] if files else []

    def refused(self, dataset, *options, code=65, **more):
        self.assertEqual(self.run_on(dataset, *options, code=code, **more), [])
        return self.done.message

    def test_the_list(self):
        listed = run("power", "datasets", "--format", "json").json["datasets"]
        self.assertEqual([each["name"] for each in listed], ["jsonl", "csv", "parquet", "hf"])
        self.assertEqual([each["needs"] is None for each in listed], [True, True, False, False])
        rows = list(csv.DictReader(io.StringIO(run("power", "datasets", "--format", "csv").text)))
        self.assertEqual([each["name"] for each in rows], ["jsonl", "csv", "parquet", "hf"])
        table = run("power", "datasets").text
        self.assertIn("pip install xplane-time pyarrow", table)

    def test_csv(self):
        self.write("set.csv", 'id,question,label\r\n1,"a, ""b""\nc",4\r\n2,p1,5\r\n')
        kept = self.run_on("set.csv", "--problem-field", "question", "--answer-field", "label")
        self.assertEqual([(each["problem"], each["answer"], each["dataset_metadata"])
                          for each in kept],
                         [('a, "b"\nc', "4", {"id": "1"}), ("p1", "5", {"id": "2"})])

    def test_what_is_refused_says_where_and_the_way_out(self):
        self.write("set.csv", "id,question\n1,p\n2\n")
        self.assertIn("set.csv: line 2: problem: must be present; fields: id, question "
                      "(--problem-field NAME)", self.refused("set.csv"))
        self.assertIn("set.csv: line 3: it has 1 cells, but the header has 2",
                      self.refused("set.csv", "--problem-field", "question"))
        self.write("set.jsonl.gz", b"\x1f\x8b\x08\x00")
        self.assertIn("with gunzip first", self.refused("set.jsonl.gz"))
        self.write("set.txt", "p\n")
        self.assertIn("xplane-time power datasets", self.refused("set.txt"))
        self.assertIn("without state.json", self.refused("."))
        self.assertIn("not in", self.refused("set.csv", "--dataset-format", "xml", code=64))

    def test_a_shuffled_part_goes_on_in_the_same_order(self):
        self.write("set.jsonl", "".join(f'{{"problem": "p{i}"}}\n' for i in range(30)))
        kept = self.run_on("set.jsonl", "--shuffle", 7, "--limit", 4)
        first = [each["index"] for each in kept]
        self.assertNotEqual(first, sorted(first))
        self.assertEqual([each["problem"] for each in kept], [f"p{i}" for i in first])
        for other in (["--shuffle", 8], []):
            self.run_on("set.jsonl", *other, "--limit", 9, "--resume", code=65)
            self.assertIn("the run has another order (shuffle 7, not", self.done.message)
        kept = self.run_on("set.jsonl", "--shuffle", 7, "--max-queries", 9, "--resume")
        indices = [each["index"] for each in kept]
        self.assertEqual(indices[:4], first)
        self.assertEqual(len(set(indices)), 9)
        whole = self.run_on("set.jsonl", "--shuffle", 7, "--limit", 9, "--overwrite")
        self.assertEqual([each["index"] for each in whole], indices)

    def test_another_field_is_not_gone_on_with(self):
        self.write("set.jsonl", '{"problem": "p", "other": "o"}\n')
        self.run_on("set.jsonl")
        self.run_on("set.jsonl", "--problem-field", "other", "--resume", code=65)
        self.assertIn("another problem_field (problem, not other)", self.done.message)

    def python(self, script):
        program = self.at / "python"
        program.write_text(f"#!/bin/sh\n{script}")
        program.chmod(0o755)
        return environment(XPLANE_TIME_PYTHON=str(program))

    def test_python_reads_the_others(self):
        self.write("set.parquet", b"PAR1")
        env = self.python("""[ "$*" = "-P -m xplane_time.datasets set.parquet" ] &&
            echo '{"problem": "p", "level": 3}'\n""")
        kept = self.run_on("set.parquet", env=env)
        self.assertEqual([(each["problem"], each["dataset_metadata"]) for each in kept],
                         [("p", {"level": 3})])

    def test_nothing_beside_the_data_set_is_run(self):
        """With python -m, the current directory would come first in the search path of modules."""
        self.write("set.parquet", b"PAR1")
        trap = f"open({str(self.at / 'ran')!r}, 'w').write(__name__)\n"
        (self.at / "xplane_time").mkdir()
        for name in ("pyarrow.py", "json.py", "datetime.py", "runpy.py", "xplane_time/__init__.py",
                     "xplane_time/datasets.py"):
            self.write(name, trap)
        self.run_on("set.parquet", code=self.refusal(), env=environment(XPLANE_TIME_PYTHON=sys.executable))
        self.assertFalse((self.at / "ran").exists())

    @staticmethod
    def refusal():
        """The expected message: damaged, or without xplane-time and pyarrow in this Python."""
        try:
            import pyarrow  # noqa: F401
            import xplane_time  # noqa: F401
        except ImportError:
            return 69
        return 65

    def test_without_python_it_says_what_to_install(self):
        folder = self.at / "saved"
        folder.mkdir()
        (folder / "state.json").write_text("{}")
        message = self.refused("saved", code=69, env=self.python(
            "echo 'No module named xplane_time' >&2; exit 1\n"))
        self.assertIn("saved: No module named xplane_time; ", message)
        self.assertIn("pip install xplane-time pyarrow", message)
        message = self.refused("saved", code=69,
                               env=environment(XPLANE_TIME_PYTHON="/nothing/python"))
        self.assertIn("/nothing/python: No such file or directory", message)
        message = self.refused("saved", env=self.python("echo 'a damaged stream' >&2; exit 65\n"))
        self.assertIn("saved: a damaged stream", message)

    def test_nothing_is_left_in_the_scratch_folder(self):
        scratch = self.at / "scratch"
        scratch.mkdir()
        self.write("set.parquet", b"PAR1")
        env = {**self.python("""echo '{"problem": "p"}'\n"""), "TMPDIR": str(scratch)}
        self.run_on("set.parquet", env=env)
        self.assertEqual(os.listdir(scratch), [])


if __name__ == "__main__":
    unittest.main()
