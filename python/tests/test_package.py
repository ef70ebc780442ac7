"""Tests of the installed package. Run them with python -m unittest discover python/tests."""
import copy
import ctypes
import gzip
import io
import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

import xplane_time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(REPOSITORY / "tests/tools"))
import xspace
TESTDATA = REPOSITORY / "testdata"
VARIANTS = TESTDATA / "jax_cpu_variants.xplane.pb"
TRACES = sorted(TESTDATA.glob("*.xplane.pb"))
SHARED = sorted((REPOSITORY.parent / "shared/traces").glob("*.xplane.pb"))


def command_json(*arguments):
    """The JSON output of the installed command."""
    command = pathlib.Path(sys.executable).parent / "xplane-time"
    done = subprocess.run([command, *map(str, arguments), "--format", "json"],
                          capture_output=True, check=True)
    return json.loads(done.stdout)


def flat(row):
    """A row of the JSON output, with the column names of a table."""
    out = {}
    for key, value in row.items():
        if isinstance(value, dict):
            out.update({f"{key}_{name}": part for name, part in flat(value).items()})
        elif key.endswith("ci95") and value is not None:
            out[f"{key}_lo"], out[f"{key}_hi"] = value
        elif isinstance(value, list) and all(isinstance(part, str) for part in value):
            out[key] = "; ".join(value) or None
        else:
            out[key] = value
    return out


class Tables(unittest.TestCase):
    def assert_rows(self, table, rows):
        """Checks that the rows are equal in any order, because the command sorts them."""
        def key(row):
            return [str(row[name]) for name in table.columns if not isinstance(row.get(name), float)
                    and name in row]
        rows = sorted(map(flat, rows), key=key)
        self.assertEqual(len(table), len(rows))
        for got, want in zip(sorted(table, key=key), rows):
            for name, value in want.items():
                if value is not None and not isinstance(value, dict):
                    self.assertEqual(got[name], value, name)

    def test_tables_hold_what_the_command_prints(self):
        self.assertGreaterEqual(len(TRACES), 4)
        for path in TRACES + SHARED:
            with self.subTest(path.name):
                if path.name == "corrupt_utf8.xplane.pb":
                    with self.assertRaises(xplane_time.DamagedTraceError):
                        xplane_time.open(path)
                    continue
                want = command_json(path, "--device", "all", "--top", "1000000")
                report = xplane_time.open(path).report(device="all")
                for section in ("inputs", "devices", "functions", "combined", "diagnostics"):
                    self.assert_rows(getattr(report, section), want[section])
                kernels = command_json("kernels", path, "--device", "all")["kernels"]
                self.assert_rows(report.kernels, kernels)

    def test_options_are_those_of_the_command(self):
        trace = xplane_time.open(VARIANTS)
        want = command_json("functions", VARIANTS, "--by-id", "--trim", "iqr", "--skip-runs", "1",
                            "--metric", "span")
        self.assert_rows(trace.functions(by_id=True, trim="iqr", skip_runs=1, metric="span"),
                         want["variants"])
        want = command_json("functions", VARIANTS, "--samples", "--function", "_[12]")
        self.assert_rows(trace.samples(function="_[12]"), want["samples"])
        want = command_json("planes", VARIANTS)
        lines = sum(max(1, len(plane["lines"])) for plane in want["planes"])
        self.assertEqual(len(trace.planes), lines)
        want = command_json("tree", VARIANTS, "--depth", "2")
        self.assert_rows(trace.tree(depth=2), want["rows"] if "rows" in want else want["tree"])
        want = command_json("tree", VARIANTS, "--by", "source")
        self.assert_rows(trace.tree(by="source"), want["tree"])
        train = REPOSITORY / "testdata/gpu/h200_train.xplane.pb.gz"
        want = command_json("tree", train, "--by", "scope", "--fold")
        self.assert_rows(xplane_time.open(train).tree(by="scope", fold=True), want["tree"])
        with self.assertRaisesRegex(xplane_time.ArgumentError, "by=\"scope\""):
            trace.tree(fold=True)

    def test_events(self):
        trace = xplane_time.open(VARIANTS)
        table = trace.events(device="all", stats=["hlo_op", "run_id"])
        want = command_json("events", VARIANTS, "--device", "all", "--stat", "hlo_op",
                            "--stat", "run_id")["events"]
        self.assertEqual(len(table), trace.event_count)
        self.assertEqual(len(want), len(table))
        for got, row in zip(table, want):
            stats = row.pop("stats")
            self.assertEqual({name: got[name] for name in row}, row)
            self.assertEqual({name: got[name] for name in stats}, stats)
        narrow = trace.events(["name", "duration_ps"], device="all")
        self.assertEqual(narrow.columns, ["name", "duration_ps"])
        self.assertEqual(trace.events("name", stats="run_id").columns, ["name", "run_id"])
        self.assertEqual(narrow["duration_ps"], table["duration_ps"])

    def test_points_in_time_have_all_their_digits(self):
        trace = xplane_time.open(VARIANTS)

        def text(picoseconds):
            return f"{picoseconds // 10**6}.{picoseconds % 10**6:06d} us"

        samples = trace.samples()
        lines = repr(samples).splitlines()[2:12]
        self.assertEqual(len(lines), 10)
        for line, value in zip(lines, samples["start_ps"]):
            self.assertIn(f"  {text(value)}  ", line)
        for table, name in ((samples, "start_ps"), (trace.report().devices, "first_ps"),
                            (trace.report().devices, "last_ps")):
            for value in table[name][:10]:
                self.assertIn(f"<td>{text(value)}</td>", table._repr_html_())

    def test_looks(self):
        table = xplane_time.open(VARIANTS).functions()
        self.assertIn("jit_autotune_fn_", repr(table))
        self.assertRegex(repr(table), r"active_ps_median .*\n.* us")
        self.assertLessEqual(len(repr(table).splitlines()), 15)
        self.assertLessEqual(max(map(len, repr(table).splitlines())), 100)
        page = xplane_time.open(VARIANTS).kernels()._repr_html_()
        self.assertIn("<table>", page)
        self.assertNotIn("<lambda>", page)
        self.assertIn("Report", repr(xplane_time.open(VARIANTS).report()))
        self.assertIn("events)", repr(xplane_time.open(VARIANTS)))
        with self.assertRaisesRegex(KeyError, "active_ps_median"):
            table["median"]


class Options(unittest.TestCase):
    METHODS = {"report": xplane_time.ReportOptions, "functions": xplane_time.FunctionOptions,
               "samples": xplane_time.SampleOptions, "kernels": xplane_time.KernelOptions}

    DOCUMENTED = {**METHODS, "energy": xplane_time.EnergyOptions}

    def setUp(self):
        self.trace = xplane_time.open(VARIANTS)

    def test_help_tells_the_options_of_each_method(self):
        for name, options in self.DOCUMENTED.items():
            text = getattr(xplane_time.Trace, name).__doc__
            told = [line.split(":")[0].strip() for line in text.split("Options:\n")[1].splitlines()
                    if not line.startswith("        ")]
            self.assertEqual(told, list(options.__annotations__), name)
            self.assertLessEqual(max(map(len, text.splitlines())), 92)

    def test_every_option_is_known_to_the_reader_of_traces(self):
        values = {"device": "cpu", "function": ".", "exclude": "nothing", "prefix": "jit_",
                  "kernel": ".", "exclude_kernel": "nothing", "scope": "", "min_duration_ps": 0, "max_events": 10**6,
                  "clock": "profile", "id_pattern": "(.*)", "skip_runs": 0, "by_id": False,
                  "metric": "span", "trim": "none", "seed": 1, "collective_re": "psum", "copy_re": "copy",
                  "tolerance_ps": 0, "samples": True, "step_re": ""}
        self.assertEqual(list(values), list(xplane_time.ReportOptions.__annotations__))
        for name, options in self.METHODS.items():
            given = {key: values[key] for key in options.__annotations__}
            getattr(self.trace, name)(**given)
            getattr(self.trace, name)(**dict.fromkeys(given))  # None means the default

    def test_functions_takes_every_filter(self):
        want = command_json("functions", VARIANTS, "--kernel", "tanh", "--min-duration", "15000",
                            "--max-events", "300")["functions"]
        got = self.trace.functions(kernel="tanh", min_duration_ps=15_000_000, max_events=300)
        self.assertEqual([(row["function"], row["kernels_total"]) for row in got],
                         [(row["function"], row["kernels_total"]) for row in want])
        self.assertNotEqual(got["kernels_total"], self.trace.functions()["kernels_total"])
        seeds = [self.trace.functions(seed=seed)["active_ps_median_ci95_lo"] for seed in (1, 1, 2)]
        self.assertEqual(seeds[0], seeds[1])

    def test_an_option_that_a_method_does_not_have(self):
        with self.assertRaisesRegex(TypeError, r"functions\(\) .*'trimm'; did you mean 'trim'"):
            self.trace.functions(trimm="iqr")
        with self.assertRaisesRegex(TypeError, r"kernels\(\) .*'by_id'.*device, function"):
            self.trace.kernels(by_id=True)


class Doubts(unittest.TestCase):
    """The tables of a report carry its warnings."""

    def setUp(self):
        plane = xspace.Plane("/host:CPU")
        line = plane.line("worker")
        for run in range(3):  # without run_id, it is unknown when a run ends
            line.event("add", run * 1000, 500, hlo_op="add", hlo_module="jit_autotune_fn_1<T>",
                       program_id=1)
        self.uncertain = xplane_time.open(xspace.space(plane))

    def test_uncertain_times_warn_where_they_are_asked_for(self):
        trace = self.uncertain
        for call in (lambda: trace.functions(), lambda: trace.functions(by_id=True),
                     lambda: trace.samples()):
            with self.assertWarnsRegex(xplane_time.XplaneTimeWarning,
                                       "^times may be wrong: .*jit_autotune_fn_1<T>.*no run_id") as caught:
                call()
            self.assertEqual(caught.filename, __file__)  # the caller's line
            self.assertEqual(len(caught.warnings), 1)

    def test_certain_ones_do_not(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.uncertain.report(samples=True)  # a report shows its doubts in its output
            self.uncertain.kernels()
            trace = xplane_time.open(VARIANTS)
            self.assertEqual(trace.functions().doubts, [])
            trace.samples()

    def test_tables_show_them(self):
        report = self.uncertain.report()
        [doubt] = report.functions.doubts
        self.assertRegex(doubt, r"^1 x .*no run_id")
        self.assertEqual(report.kernels.doubts, [doubt])
        self.assertIn("doubtful: 1 x ", repr(report.functions))
        self.assertIn(doubt, repr(report))
        page = report.functions._repr_html_()
        self.assertIn("doubtful: 1 x ", page)
        self.assertNotIn("<T>", page)

    def test_many_doubts_are_cut_in_what_is_shown_only(self):
        plane = xspace.gpu(0)
        trace = xplane_time.open(xspace.space(plane, warnings=[f"lost {at}" for at in range(9)]))
        table = trace.functions()
        self.assertEqual(len(table.doubts), 9)
        self.assertEqual(repr(table).count("doubtful: "), 3)
        self.assertTrue(repr(table).endswith("6 more doubts (see doubts)"))


class Arrow(unittest.TestCase):
    def setUp(self):
        self.trace = xplane_time.open(VARIANTS)
        self.events = self.trace.events(device="all", stats=["hlo_op", "run_id"])
        self.columns = self.events.to_dict()

    def test_pyarrow(self):
        import pyarrow
        table = pyarrow.table(self.events)
        table.validate(full=True)
        self.assertEqual(table.to_pydict(), self.columns)
        self.assertEqual(pyarrow.schema(self.events), table.schema)
        self.assertEqual(self.events.to_arrow(), table)

    def test_polars(self):
        import polars
        frame = polars.DataFrame(self.events)
        self.assertEqual(frame.to_dict(as_series=False), self.columns)
        self.assertEqual(self.events.to_polars().shape, frame.shape)

    def test_pandas(self):
        frame = self.events.to_pandas()
        self.assertEqual(frame["duration_ps"].tolist(), self.columns["duration_ps"])
        self.assertEqual(frame["name"].tolist(), self.columns["name"])
        self.assertEqual(frame["run_id"].dropna().tolist(),
                         [run for run in self.columns["run_id"] if run is not None])
        self.assertEqual(str(frame["run_id"].dtype), "Int64")

    def test_duckdb(self):
        import duckdb
        events = self.events.to_arrow()
        rows = duckdb.sql("select name, sum(duration_ps)::bigint from events group by name").fetchall()
        sums = {}
        for name, duration in zip(self.columns["name"], self.columns["duration_ps"]):
            sums[name] = sums.get(name, 0) + duration
        self.assertEqual(dict(rows), sums)
        self.assertEqual(events.num_rows, len(self.events))

    def test_tables_outlive_the_trace(self):
        import pyarrow
        name = pyarrow.table(self.events).column("name")
        del self.events, self.trace
        self.assertEqual(name.to_pylist(), self.columns["name"])

    def test_a_stream_that_nobody_reads_is_released(self):
        for _ in range(1000):
            self.events.__arrow_c_stream__()
            self.events.__arrow_c_schema__()


class Opening(unittest.TestCase):
    def test_sources(self):
        content = VARIANTS.read_bytes()
        want = xplane_time.open(VARIANTS).functions().to_dict()
        for source in (str(VARIANTS), content, bytearray(content), memoryview(content),
                       gzip.compress(content), [VARIANTS], io.BytesIO(content)):
            self.assertEqual(xplane_time.open(source).functions().to_dict(), want)
        with VARIANTS.open("rb") as file:
            self.assertEqual(xplane_time.open(file).functions().to_dict(), want)
        self.assertEqual(xplane_time.open(content, threads=1).functions().to_dict(), want)
        both = xplane_time.open([VARIANTS, TESTDATA / "jax_cpu_spmd4.xplane.pb"])
        self.assertEqual(len(both.inputs), 2)

    def test_log_directories(self):
        with tempfile.TemporaryDirectory() as folder:
            for run in ("2026_01_01", "2026_01_02"):
                at = pathlib.Path(folder, "plugins/profile", run)
                at.mkdir(parents=True)
                (at / "host.xplane.pb").write_bytes(VARIANTS.read_bytes())
            self.assertIn("2026_01_02", xplane_time.open(folder).inputs["path"][0])
            self.assertIn("2026_01_01", xplane_time.open(folder, run="2026_01_01").inputs["path"][0])

    def test_a_trace_closes_and_its_tables_stay(self):
        content = bytearray(VARIANTS.read_bytes())
        with xplane_time.open(content) as trace:
            table = trace.functions()
        content.clear()
        self.assertGreater(len(table["function"]), 0)
        self.assertEqual(repr(trace), "Trace(closed)")
        with self.assertRaisesRegex(xplane_time.ArgumentError, "closed; open it again"):
            trace.kernels()
        trace.close()

    def test_what_is_not_pickled_says_what_to_do(self):
        trace = xplane_time.open(VARIANTS)
        table = trace.functions()
        results = (trace.report(), trace.where(), trace.brief(), xplane_time.diff(VARIANTS, VARIANTS))
        for thing, way_out in ((trace, "open it where it is used"), (table, "to_arrow"),
                               *((result, "pickle its to_dict") for result in results)):
            with self.subTest(type(thing).__name__):
                with self.assertRaisesRegex(TypeError, way_out):
                    pickle.dumps(thing)
        self.assertEqual(copy.deepcopy(table).to_dict(), table.to_dict())
        for result in results:
            self.assertEqual(pickle.loads(pickle.dumps(result.to_dict())), result.to_dict())
            self.assertIs(copy.copy(result), result)
            self.assertIs(copy.deepcopy(result), result)

    def test_ctrl_c_ends_a_diff(self):
        # The signal comes while captures are read. Python handles it after the first capture.
        for call in (xplane_time.diff, xplane_time.compare,
                     lambda base, head: xplane_time.pick(base)):
            started = time.monotonic()
            before = signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            try:
                with self.assertRaises(KeyboardInterrupt):
                    call([VARIANTS] * 100_000, [VARIANTS])
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
            self.assertLess(time.monotonic() - started, 20)

    def test_damaged_hosts_of_a_run_are_left_out_with_a_warning(self):
        good = xspace.space(xspace.gpu(0, runs=2), hostnames=["one"])
        bad_event = xspace.gpu(1, runs=2)
        bad_event.lines[0].events.append(xspace.data(4, b"\x08"))
        with tempfile.TemporaryDirectory() as folder:
            at = pathlib.Path(folder)
            (at / "one.xplane.pb").write_bytes(good)
            for name, bad in (("empty", b""), ("cut", good[:-3])):
                (at / "two.xplane.pb").write_bytes(bad)
                with self.subTest(name), self.assertWarnsRegex(
                        xplane_time.XplaneTimeWarning, "two.xplane.pb") as caught:
                    trace = xplane_time.open(folder)
                self.assertEqual(caught.filename, __file__)
                self.assertEqual(trace.functions()["host"], ["one"])
                self.assertIn("two.xplane.pb", trace.functions().doubts[0])
            (at / "two.xplane.pb").write_bytes(xspace.space(bad_event, hostnames=["two"]))
            trace = xplane_time.open(folder)
            for read in (trace.functions, trace.kernels, trace.events, lambda: trace.planes,
                         lambda: trace.tree(line=".")):
                with self.assertWarnsRegex(xplane_time.XplaneTimeWarning, "two.xplane.pb") as caught:
                    table = read()
                self.assertEqual(caught.filename, __file__)
                self.assertEqual(set(table["host"]), {"one"})
                self.assertIn("two.xplane.pb", table.doubts[0])
            (at / "one.xplane.pb").write_bytes(b"")
            with self.assertRaises(xplane_time.DamagedTraceError):
                xplane_time.open(folder).functions()

    def test_a_stat_that_none_of_the_events_has_warns(self):
        plane = xspace.gpu(0)
        other = xspace.Plane("/host:CPU")
        other.line("thread").event("e", 0, 5, note="n")
        trace = xplane_time.open(xspace.space(plane, other))
        with self.assertWarnsRegex(xplane_time.XplaneTimeWarning, "no selected event.*note"):
            table = trace.events(device="gpu", stats=["note"])
        self.assertEqual(set(table["note"]), {None})
        with self.assertRaisesRegex(xplane_time.NothingFoundError, "did you mean note?"):
            trace.events(stats=["noet"])

    def test_bytes_live_as_long_as_the_trace(self):
        content = bytearray(VARIANTS.read_bytes())
        trace = xplane_time.open(content)
        with self.assertRaises(BufferError):
            content.clear()
        del trace
        content.clear()

    def test_errors(self):
        trace = xplane_time.open(VARIANTS)
        cases = [
            (lambda: xplane_time.open("no/such/file"), xplane_time.InputError, FileNotFoundError),
            (lambda: xplane_time.open([]), xplane_time.ArgumentError, ValueError),
            (lambda: xplane_time.open(None), xplane_time.ArgumentError, ValueError),
            (lambda: xplane_time.open(io.BytesIO()), xplane_time.DamagedTraceError, Exception),
            (lambda: xplane_time.open(io.StringIO("x")), xplane_time.ArgumentError, ValueError),
            (lambda: xplane_time.open([b"x"]), xplane_time.ArgumentError, ValueError),
            (lambda: xplane_time.open(VARIANTS, threads=0), xplane_time.ArgumentError, ValueError),
            (lambda: trace.functions(device=3), xplane_time.ArgumentError, ValueError),
            (lambda: trace.functions(skip_runs=-1), xplane_time.ArgumentError, ValueError),
            (lambda: trace.events(name=None), xplane_time.ArgumentError, ValueError),
            (lambda: trace.events(min_duration_ps=1.5), xplane_time.ArgumentError, ValueError),
            (lambda: trace.tree(depth=-1), xplane_time.ArgumentError, ValueError),
            (lambda: trace.functions(function="nothing"), xplane_time.NothingFoundError,
             Exception),
            (lambda: xplane_time.open(b"\x0a\x05abc"), xplane_time.DamagedTraceError, Exception),
            (lambda: trace.functions(device="tpu"), xplane_time.NothingFoundError, Exception),
            (lambda: trace.functions(function="("), xplane_time.ArgumentError, ValueError),
            (lambda: trace.report(metric="best"), xplane_time.ArgumentError, ValueError),
            (lambda: trace.report(trim="often"), xplane_time.ArgumentError, ValueError),
            (lambda: trace.events(["colour"]), xplane_time.ArgumentError, ValueError),
            (lambda: trace.events(stats=["hlo_opp"]), xplane_time.NothingFoundError, Exception),
            (lambda: trace.events(stats=["hlo_op"] * 2), xplane_time.ArgumentError, ValueError),
            (lambda: trace.events(stats=["name"]), xplane_time.ArgumentError, ValueError),
        ]
        for call, kind, builtin in cases:
            with self.subTest(kind.__name__), self.assertRaises(kind) as caught:
                call()
            self.assertIsInstance(caught.exception, builtin)
            self.assertNotIn("nanobind", str(caught.exception))
            self.assertTrue(caught.exception.code.isupper())
            self.assertIn(caught.exception.message, str(caught.exception))
            again = pickle.loads(pickle.dumps(caught.exception))
            self.assertEqual((type(again), again.code, str(again)),
                             (type(caught.exception), caught.exception.code,
                              str(caught.exception)))

    def test_import_is_lean(self):
        done = subprocess.run(
            [sys.executable, "-c", "import sys, xplane_time; print([m for m in sys.modules if "
             "m in ('jax', 'numpy', 'pandas', 'polars', 'pyarrow', 'duckdb')])"],
            capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.strip(), "[]")


class Files(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.path = pathlib.Path(temporary.name) / "a.xplane.pb"
        self.path.write_bytes(VARIANTS.read_bytes())

    def test_a_file_that_is_written_to_is_refused_not_read(self):
        trace = xplane_time.open(self.path)
        want = trace.functions().to_dict()
        with self.path.open("r+b") as file:
            file.truncate(4096)
        for read in (trace.functions, trace.kernels, trace.events, trace.tree,
                     lambda: trace.planes):
            with self.assertRaisesRegex(xplane_time.DamagedTraceError, "open it again"):
                read()
        self.path.unlink()
        self.path.write_bytes(VARIANTS.read_bytes())
        trace = xplane_time.open(self.path)
        replaced = self.path.with_suffix(".new")
        replaced.write_bytes(b"")
        replaced.rename(self.path)  # the opened file still exists without a name
        self.assertEqual(trace.functions().to_dict(), want)

    def test_names_that_are_no_text(self):
        odd = os.path.join(os.fsencode(self.path.parent), b"a\xfe.xplane.pb")
        os.rename(self.path, odd)
        self.assertGreater(len(xplane_time.open(os.fsdecode(odd)).functions()), 0)
        with self.assertRaises(xplane_time.MissingInputError):
            xplane_time.open(os.fsdecode(odd) + "x")
        with self.assertRaises(xplane_time.ArgumentError):
            xplane_time.open("a.xplane.pb\0b")

    def test_messages_may_quote_bytes_that_are_no_text(self):
        with self.assertRaises(xplane_time.DamagedTraceError):
            xplane_time.open(b"\n\x15\x12\x0f/device:GPU:0 \xff\x1a\x02\n\x7f")


class Rows(unittest.TestCase):
    def test_rows_by_number_and_slice(self):
        table = xplane_time.open(VARIANTS).functions()
        rows = list(table)
        self.assertEqual((table[0], table[-1]), (rows[0], rows[-1]))
        self.assertEqual(table[1:7:2], rows[1:7:2])
        with self.assertRaises(IndexError):
            table[len(rows)]
        with self.assertRaises(KeyError):
            table["no such column"]


class Threads(unittest.TestCase):
    def test_others_run_while_a_trace_is_read(self):
        # The reader waits for bytes that only another thread of this process can write. If it kept
        # the interpreter's lock, both would wait forever.
        script = """
import os, sys, tempfile, threading, xplane_time
content = open(sys.argv[1], "rb").read()
with tempfile.TemporaryDirectory() as folder:
    fifo = os.path.join(folder, "fifo.xplane.pb")
    os.mkfifo(fifo)
    def write():
        with open(fifo, "wb") as out:
            out.write(content)
    threading.Thread(target=write).start()
    print(len(xplane_time.open(fifo).kernels(device="all")))
"""
        done = subprocess.run([sys.executable, "-c", script, str(VARIANTS)],
                              capture_output=True, text=True, timeout=120, check=True)
        want = len(xplane_time.open(VARIANTS).kernels(device="all"))
        self.assertEqual(done.stdout.strip(), str(want))

    def test_a_trace_is_shared(self):
        trace = xplane_time.open(VARIANTS)
        want = trace.kernels().to_dict()
        got = []
        threads = [threading.Thread(target=lambda: got.append(trace.kernels().to_dict()))
                   for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(got, [want] * 8)


class CInterface(unittest.TestCase):
    """The shared library beside the module, through ctypes."""

    def setUp(self):
        folder = pathlib.Path(xplane_time.__file__).parent
        self.library = ctypes.CDLL(str(folder / "libxplane_time_c.so"))
        self.library.xplane_time_version.restype = ctypes.c_char_p

    def test_functions(self):
        import pyarrow
        self.assertEqual(self.library.xplane_time_version().decode(), xplane_time.__version__)
        trace, error = ctypes.c_void_p(), ctypes.c_char_p()
        path = (ctypes.c_char_p * 1)(str(VARIANTS).encode())
        self.assertEqual(self.library.xplane_time_open(path, ctypes.c_size_t(1), None,
                                                       ctypes.byref(trace), ctypes.byref(error)), 0)
        stream = ctypes.create_string_buffer(5 * ctypes.sizeof(ctypes.c_void_p))
        self.assertEqual(self.library.xplane_time_functions(trace, None, stream,
                                                            ctypes.byref(error)), 0)
        self.library.xplane_time_close(trace)
        reader = pyarrow.RecordBatchReader._import_from_c(ctypes.addressof(stream))
        self.assertEqual(reader.read_all().to_pydict(),
                         xplane_time.open(VARIANTS).functions().to_dict())

    def test_errors(self):
        trace, error = ctypes.c_void_p(), ctypes.c_char_p()
        status = self.library.xplane_time_open_memory(b"\x0a\x05abc", ctypes.c_size_t(5), None,
                                                      ctypes.byref(trace), ctypes.byref(error))
        self.assertEqual(status, 15)
        self.assertIn(b"byte", error.value)
        self.library.xplane_time_free_text(error)


if __name__ == "__main__":
    unittest.main()
