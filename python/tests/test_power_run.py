"""Tests of xplane_time.power.run, and of data sets that Python reads."""
import importlib.util
import io
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import pandas
import polars
import pyarrow
import pyarrow.parquet

from xplane_time import datasets, power
from xplane_time.errors import (ArgumentError, DamagedTraceError, MissingInputError,
                                NothingFoundError, XplaneTimeWarning)
from xplane_time.power_client import Answer

RECORDS = [{"problem": f"p{i}", "answer": i, "level": i % 2, "parts": [i, None]} for i in range(6)]
HAS_DATASETS = importlib.util.find_spec("datasets") is not None


def upper(problem):
    return Answer(problem.upper(), 1, 2)


class PowerRunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = pathlib.Path(folder.name)

    def run_on(self, dataset, client=upper, **options):
        options.setdefault("sources", "none")
        return power.run(dataset, client, model="m", output_dir=self.at / "runs", **options)

    def problems(self, run):
        return run.records["problem"]


class Datasets(PowerRunTest):
    def test_whatever_holds_records(self):
        frame = pandas.DataFrame(RECORDS)
        path = self.at / "set.parquet"
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(RECORDS), path)
        lines = self.at / "set.jsonl"
        lines.write_text("".join(json.dumps(each) + "\n" for each in RECORDS))
        for dataset in (RECORDS, iter(RECORDS), (each for each in RECORDS), frame,
                        polars.DataFrame(RECORDS), pyarrow.Table.from_pylist(RECORDS), path,
                        str(lines), [f"p{i}" for i in range(6)]):
            with self.subTest(type(dataset).__name__):
                run = self.run_on(dataset, overwrite=True)
                self.assertEqual(self.problems(run), [f"p{i}" for i in range(6)])
                self.assertEqual(run.records["model_answer"], [f"P{i}" for i in range(6)])
                self.assertEqual(run.records["status"], ["ok"] * 6)

    def test_metadata_and_answers_stay(self):
        run = self.run_on(RECORDS)
        self.assertEqual(run.records["answer"], [str(i) for i in range(6)])
        self.assertEqual(json.loads(run.records[3]["dataset_metadata"]),
                         {"level": 1, "parts": [3, None]})

    def test_what_never_ends_is_limited(self):
        def forever():
            while True:
                yield "p"

        self.assertEqual(len(self.run_on(forever(), limit=3).records), 3)

    def test_shuffled_it_is_the_order_of_the_command(self):
        indices = self.run_on(RECORDS, shuffle=7, limit=4).records["index"]
        self.assertEqual(len(set(indices)), 4)
        self.assertNotEqual(indices, sorted(indices))
        with self.assertRaisesRegex(ArgumentError, "another order"):
            self.run_on(RECORDS, shuffle=8, resume=True)
        run = self.run_on(RECORDS, shuffle=7, resume=True)
        self.assertEqual(run.records["index"][:4], indices)
        self.assertEqual(sorted(run.records["index"]), list(range(6)))

    def test_what_is_none_is_refused(self):
        for dataset, error, message in (
                ([{"question": "q"}], DamagedTraceError, "dataset: line 1: problem: must be present"
                 "; fields: question"),
                ([3], ArgumentError, "a dict or a string, not int"),
                (3, ArgumentError, "not int"),
                ({"train": []}, ArgumentError, "must not be a dict of 'train'"),
                ([], DamagedTraceError, "no record"),
                (self.at / "nothing.parquet", MissingInputError, "no such file")):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                self.run_on(dataset)
        self.assertFalse((self.at / "runs").exists())

    def test_values_that_json_has_not(self):
        import datetime

        records = [{"problem": "p", "nan": float("nan"), "bytes": b"123",
                    "at": datetime.datetime(2026, 1, 2), "set": {4}}]
        lines = io.StringIO()
        self.assertEqual(datasets.write_json_lines(records, lines), 1)
        self.assertEqual(json.loads(lines.getvalue()),
                         {"problem": "p", "nan": None, "bytes": "3 bytes",
                          "at": "2026-01-02T00:00:00", "set": [4]})

    def test_damage_is_an_error_of_the_file(self):
        path = self.at / "set.parquet"
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(RECORDS), path)
        whole = path.read_bytes()
        for size in range(4, len(whole), 97):
            path.write_bytes(whole[:size])
            with self.assertRaisesRegex(DamagedTraceError, "set.parquet"):
                list(datasets.records_of(path))
        with self.assertRaisesRegex(DamagedTraceError, "set.parquet: "):
            self.run_on(path)


class Runs(PowerRunTest):
    def test_the_directory_is_that_of_the_command(self):
        run = self.run_on(RECORDS, sources="constant:5", dataset_name="d")
        self.assertEqual(sorted(each.name for each in run.path.iterdir()),
                         ["records.jsonl", "run.json", "summary.json"])
        self.assertTrue(run.path.name.endswith("_m_d"))
        summary = run.summary
        self.assertEqual((summary["total_queries"], summary["complete"]), (6, True))
        self.assertEqual(summary["energy_totals"]["all_known"], 6)
        self.assertEqual(summary["profiler_config"]["function"], "upper")
        self.assertEqual(run.records["token_metrics_total"], [3] * 6)
        self.assertEqual(run.records["energy_metrics_per_query_joules"], [None] * 6)
        self.assertGreater(min(run.records["latency_metrics_total_query_seconds"]), 0)
        self.assertIn("6 records, 0 failed", repr(run))

    def test_what_it_raises_is_the_records_failure(self):
        def answer(problem, question):
            if problem == "p1":
                raise ValueError("no such tool")
            if problem == "p2":
                raise MemoryError
            if problem == "p3":
                return Answer("", output_tokens=-1)
            if problem == "p4":
                return 7
            return f"{question.model} {question.dataset_metadata['level']} \ud800"

        rows = self.run_on(RECORDS, answer).records
        self.assertEqual(rows["status"], ["ok", "runtime_error", "oom", "bad_answer",
                                          "runtime_error", "ok"])
        self.assertEqual(rows["message"][1], "ValueError: no such tool")
        self.assertEqual(rows["model_answer"][0], "m 0 ?")
        again = self.run_on(RECORDS, upper, resume=True, retry_failed=True)
        self.assertEqual(again.records["status"], ["ok"] * 6)

    def test_interrupted_what_is_kept_stays(self):
        def answer(problem):
            if problem == "p3":
                raise KeyboardInterrupt
            return problem

        with self.assertRaises(KeyboardInterrupt):
            self.run_on(RECORDS, answer)
        directory, = (self.at / "runs").iterdir()
        self.assertEqual(self.problems(power.Run(directory)), ["p0", "p1", "p2"])
        self.assertEqual(power.Run(directory).summary["stop_reason"], "interrupted")
        asked = []
        run = self.run_on(RECORDS, lambda problem: asked.append(problem) or problem, resume=True)
        self.assertEqual(asked, ["p3", "p4", "p5"])
        self.assertEqual(len(run.records), 6)

    def test_a_signal_between_records_is_a_keyboard_interrupt(self):
        def answer(problem):
            if problem == "p2":  # handled after the answer was received
                signal.raise_signal(signal.SIGINT)
            return problem

        # If a shell starts Python in the background, Python installs no handler of SIGINT.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        with self.assertRaises(KeyboardInterrupt):
            self.run_on(RECORDS, answer)
        directory, = (self.at / "runs").iterdir()
        self.assertIn(len(power.Run(directory).records), (2, 3))

    def test_other_threads_run_meanwhile(self):
        ready = threading.Event()
        thread = threading.Thread(target=ready.set)

        def answer(problem):
            if problem == "p0":
                thread.start()
            self.assertTrue(ready.wait(30))
            return problem

        self.assertEqual(self.run_on(RECORDS, answer).records["status"], ["ok"] * 6)
        thread.join()

    def test_what_is_there_stays_unless_asked(self):
        self.run_on(RECORDS)
        with self.assertRaisesRegex(ArgumentError, "already exists"):
            self.run_on(RECORDS)
        with self.assertRaisesRegex(ArgumentError, "another input_sha256"):
            self.run_on(RECORDS[:2], resume=True)

    def test_a_source_without_energy_is_told_of(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.run_on(RECORDS, sources="process")
        self.assertEqual([each.category for each in caught], [XplaneTimeWarning])
        with self.assertRaises((NothingFoundError, ArgumentError)):
            self.run_on(RECORDS, sources="no_such_source", overwrite=True)

    def test_a_client_by_name_is_the_commands(self):
        with self.assertRaisesRegex(ArgumentError, "client"):
            self.run_on(RECORDS, "no_such_client")


class Kept(PowerRunTest):
    def test_parquet(self):
        run = self.run_on(RECORDS)
        run.to_parquet(self.at / "run.parquet")
        rows = pyarrow.parquet.read_table(self.at / "run.parquet").to_pylist()
        self.assertEqual([each["problem"] for each in rows], [f"p{i}" for i in range(6)])
        self.assertEqual(rows[2]["model_answers"], {"m": "P2"})
        self.assertEqual(rows[2]["model_metrics"]["m"]["token_metrics"]["output"], 2)
        self.assertEqual(rows[3]["dataset_metadata"], {"level": 1, "parts": [3, None]})
        with self.assertRaisesRegex(ArgumentError, "already exists"):
            run.to_parquet(self.at / "run.parquet")

    def test_fields_that_change_their_type_are_json(self):
        run = self.run_on([{"problem": "a", "x": 1}, {"problem": "b", "x": "text"}])
        self.assertEqual(run.to_arrow()["dataset_metadata"].to_pylist(), ['{"x": 1}', '{"x": "text"}'])

    def test_saved_to_disk_it_is_a_data_set_again(self):
        run = self.run_on(RECORDS)
        run.save_to_disk(self.at / "saved")
        again = self.run_on(self.at / "saved", overwrite=True)
        self.assertEqual(self.problems(again), [f"p{i}" for i in range(6)])
        self.assertEqual(json.loads(again.records["dataset_metadata"][3])["level"], 1)
        (self.at / "saved" / "state.json").write_text("{}")
        with self.assertRaisesRegex(DamagedTraceError, "saved: not a folder of save_to_disk.*_data_files"):
            self.run_on(self.at / "saved")

    def test_rows_have_what_all_devices_took_and_how_the_answer_ended(self):
        run = self.run_on(RECORDS, sources="constant:65")
        row = run.records[0]
        seconds = row["latency_metrics_total_query_seconds"]
        self.assertGreaterEqual(row["all_joules"], 65 * seconds)
        self.assertEqual((row["attempts"], row["finish_reason"]), (1, None))

    def test_errors_are_in_words_of_python(self):
        self.run_on(RECORDS)
        with self.assertRaisesRegex(ArgumentError, "with resume=True, replace it with overwrite=True"):
            self.run_on(RECORDS)
        with self.assertRaisesRegex(ArgumentError, "require the name of a client"):
            self.run_on(RECORDS, concurrency=2, overwrite=True)

    @unittest.skipUnless(HAS_DATASETS, "datasets is not installed")
    def test_datasets_opens_what_is_saved_and_writes_what_is_read(self):
        import datasets as hf

        run = self.run_on(RECORDS)
        run.save_to_disk(self.at / "saved")
        loaded = hf.load_from_disk(str(self.at / "saved"))
        self.assertEqual(loaded["problem"][:], [f"p{i}" for i in range(6)])
        self.assertEqual(loaded[2]["model_metrics"]["m"]["token_metrics"]["total"], 3)
        theirs = hf.Dataset.from_list(RECORDS)
        self.assertEqual(len(self.run_on(theirs, overwrite=True).records), 6)
        theirs.save_to_disk(str(self.at / "theirs"), num_shards=2)
        run = self.run_on(self.at / "theirs", problem_field="problem")
        self.assertEqual(self.problems(run), [f"p{i}" for i in range(6)])
        hf.DatasetDict(train=theirs, test=theirs).save_to_disk(str(self.at / "splits"))
        with self.assertRaisesRegex(DamagedTraceError, "splits train, test; give one"):
            self.run_on(self.at / "splits")
        self.assertEqual(len(self.run_on(self.at / "splits" / "test").records), 6)


class Module(PowerRunTest):
    def run_module(self, *arguments):
        return subprocess.run([sys.executable, "-m", "xplane_time.datasets", *map(str, arguments)],
                              capture_output=True, text=True, cwd=self.at)

    def test_json_lines_of_a_file(self):
        path = self.at / "set.parquet"
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(RECORDS), path)
        done = self.run_module(path)
        self.assertEqual([json.loads(line) for line in done.stdout.splitlines()], RECORDS)
        path.write_bytes(b"PAR1")
        done = self.run_module(path)
        self.assertEqual(done.returncode, 65)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertEqual(self.run_module().returncode, 64)

    def test_without_pyarrow(self):
        blocked = "import sys; sys.modules['pyarrow'] = None; sys.argv = ['m', 'x.parquet']; " \
                  "import runpy; runpy.run_module('xplane_time.datasets', run_name='__main__')"
        done = subprocess.run([sys.executable, "-c", blocked], capture_output=True, text=True)
        self.assertEqual(done.returncode, 69)
        self.assertIn("pip install pyarrow", done.stderr)


if __name__ == "__main__":
    unittest.main()
