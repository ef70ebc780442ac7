"""Writes tables and results to Parquet, SQLite and DuckDB, and compares the files with the originals."""
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from contextlib import closing

import xplane_time
from test_package import REPOSITORY, VARIANTS

sys.path.append(str(REPOSITORY / "tests/tools"))
import xspace

try:
    import duckdb
except ModuleNotFoundError:
    duckdb = None
try:
    import pyarrow.parquet
except ModuleNotFoundError:
    pyarrow = None

COMMAND = pathlib.Path(sys.executable).parent / "xplane-time"
TESTDATA = REPOSITORY / "testdata"
SPMD = TESTDATA / "jax_cpu_spmd4.xplane.pb"
MIXTURE = TESTDATA / "energy/jax_cpu_mixture.xplane.pb"
LOG = TESTDATA / "energy/replayed.power.jsonl"
SIDES = [TESTDATA / f"diff/jax_cpu_edit_{side}1.xplane.pb.gz" for side in ("base", "head")]
NAME = "odd \"name\" 'of'\na table; --"
IS_SUM = ("SELECT kernel, SUM(count), SUM(self_ps) FROM kernels WHERE self_ps IS NOT NULL "
          "GROUP BY kernel")


def results():
    """Each kind of result, with the command line that writes the same tables."""
    trace = xplane_time.open(SPMD)
    return [
        (trace.report(samples=True), ["report", SPMD, "--samples"]),
        (xplane_time.open(VARIANTS).report(by_id=True, metric="span"), None),
        (trace.where(), ["where", SPMD]),
        (trace.headroom(), ["headroom", SPMD]),
        (trace.brief(limit=2), ["brief", SPMD, "--limit", "2"]),
        (xplane_time.diff(*SIDES), ["diff", *SIDES]),
        (xplane_time.pick(VARIANTS), ["pick", VARIANTS]),
        (xplane_time.compare(*SIDES, min_effect=0.9, offset_std=0.05, max_mde=9),
         ["compare", *SIDES, "--min-effect", "90%", "--offset-std", "5%", "--max-mde", "900%"]),
        (xplane_time.open(MIXTURE).energy(LOG), ["energy", MIXTURE, "--power", LOG]),
    ]


def odd_events():
    """Events with every type of stat, the limits of its range, unknown values, and unusual texts."""
    plane = xspace.Plane("/device:GPU:0")
    line = plane.line("line\n\"1\"")
    line.event("a\"b\n'c", 0, 5, large=xspace.Unsigned(2**64 - 1), count=xspace.Unsigned(3),
               least=-2**63, real=-0.1, text="nul\0, \u00e9 and \U0001f600", bad=b"\xff\xfe name")
    line.event(b"invalid \xff", 10, 2**53 + 1, large=xspace.Unsigned(1), most=2**63 - 1,
               **{"select \"x\"": 1})
    return xplane_time.open(xspace.space(plane)).events(
        device="all", stats=["large", "count", "least", "most", "real", "text", "bad", 'select "x"'])


def rows_of(database, name):
    found = database.execute(f"SELECT * FROM {quoted(name)}")
    columns = [each[0] for each in found.description]
    return [dict(zip(columns, row)) for row in found.fetchall()]


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


class FilesTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.at = pathlib.Path(temporary.name)

    def refused(self, words, call, error=xplane_time.ArgumentError):
        with self.assertRaisesRegex(error, words) as caught:
            call()
        return caught.exception

    def sqlite(self, name="out.sqlite"):
        database = sqlite3.connect(self.at / name)
        self.addCleanup(database.close)
        return database


class Sqlite(FilesTest):
    path = property(lambda self: self.at / "out.sqlite")

    def test_every_type_comes_back(self):
        events = odd_events()
        events.to_sqlite(self.path, NAME)
        want = [{**row, "large": str(row["large"])} for row in events]
        self.assertEqual(want[0]["large"], "18446744073709551615")  # too large for an integer of SQLite
        self.assertEqual(want[1]["name"], r"invalid \xff")
        self.assertEqual(rows_of(self.sqlite(), NAME), want)
        types = dict(self.sqlite().execute("SELECT name, type FROM pragma_table_info(?)", (NAME,)))
        self.assertEqual({name: types[name] for name in ("large", "count", "least", "real", "name")},
                         {"large": "TEXT", "count": "INTEGER", "least": "INTEGER", "real": "REAL",
                          "name": "TEXT"})

    def test_tables_of_all_results_in_one_file(self):
        for number, (result, _) in enumerate(results()):
            for name, table in result.tables.items():
                with self.subTest(type(result).__name__, table=name):
                    table.to_sqlite(self.path, f"{name} {number}")
                    self.assertEqual(rows_of(self.sqlite(), f"{name} {number}"), list(table))

    def test_a_table_that_is_there(self):
        first, second = (xplane_time.open(path).kernels() for path in SIDES)
        first.to_sqlite(self.path, "kernels")
        for name in ("kernels", "Kernels"):  # SQL ignores case
            self.refused(r"out.sqlite: table '[kK]ernels' already exists; .*'append'",
                         lambda: second.to_sqlite(self.path, name))
        self.assertEqual(rows_of(self.sqlite(), "kernels"), list(first))
        second.to_sqlite(self.path, "kernels", if_exists="append")
        self.assertEqual(rows_of(self.sqlite(), "kernels"), [*first, *second])
        second.to_sqlite(self.path, "kernels", if_exists="replace")
        self.assertEqual(rows_of(self.sqlite(), "kernels"), list(second))
        first.to_sqlite(self.path, "others", if_exists="append")
        self.assertEqual(rows_of(self.sqlite(), "others"), list(first))
        self.refused("if_exists: must be 'fail', 'replace' or 'append', not 'upsert'",
                     lambda: first.to_sqlite(self.path, "x", if_exists="upsert"))

    def test_an_empty_file_is_none(self):
        self.path.touch()  # an empty file, as from tempfile
        table = odd_events()
        table.to_sqlite(self.path, "t")
        self.assertEqual(len(rows_of(self.sqlite(), "t")), len(table))

    def test_other_columns_are_not_appended_to(self):
        trace = xplane_time.open(VARIANTS)
        trace.kernels().to_sqlite(self.path, "t")
        before = rows_of(self.sqlite(), "t")
        self.refused(r"'t' has other columns: .*runs \(existing: missing, new: INTEGER\), .* \.\.\.; choose",
                     lambda: trace.functions().to_sqlite(self.path, "t", if_exists="append"))
        self.assertEqual(rows_of(self.sqlite(), "t"), before)
        events = odd_events()
        events.to_sqlite(self.path, "events")
        with closing(sqlite3.connect(self.path)) as database:
            database.execute("ALTER TABLE events ADD COLUMN more")
            database.execute("CREATE TABLE narrow AS SELECT name FROM events WHERE false")
            database.execute("CREATE VIEW seen AS SELECT name FROM events")
        events.to_sqlite(self.path, "events", if_exists="append")
        self.assertEqual([row["more"] for row in rows_of(self.sqlite(), "events")], [None] * 4)
        self.refused("narrow.*input", lambda: events.to_sqlite(self.path, "narrow", if_exists="append"))
        self.refused("DROP VIEW", lambda: events.to_sqlite(self.path, "seen", if_exists="replace"),
                     sqlite3.Error)

    def test_all_rows_or_none(self):
        events = odd_events()
        events.to_sqlite(self.path, "t")
        with closing(sqlite3.connect(self.path)) as database:
            database.execute("CREATE TRIGGER full BEFORE INSERT ON t WHEN NEW.start_ps > 0 "
                             "BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
        error = self.refused("disk is full", lambda: events.to_sqlite(self.path, "t", if_exists="append"),
                             sqlite3.Error)
        self.assertEqual(error.__notes__, [f"{self.path}: table 't' was not written"])
        self.assertEqual(len(rows_of(self.sqlite(), "t")), len(events))
        self.refused("unable to open", lambda: events.to_sqlite(self.at / "none/x.sqlite", "t"),
                     sqlite3.Error)

    def test_a_result_is_the_file_of_the_command(self):
        for number, (result, command) in enumerate(results()):
            ours, theirs = f"{number}.sqlite", f"{number}_command.sqlite"
            result.to_sqlite(self.at / ours)
            names = {name for name, in self.sqlite(ours).execute("SELECT name FROM sqlite_master")}
            self.assertEqual(names, {"document", *result.tables})
            if command is None:
                continue
            subprocess.run([COMMAND, *command, "-o", self.at / theirs], check=True, capture_output=True)
            if command[0] == "report":  # the package also knows the rates of its kernels
                for path in (ours, theirs):
                    self.sqlite(path).executescript(
                        "UPDATE kernels SET flops_per_s = NULL, bytes_per_s = NULL, roof_share = NULL")
            with self.subTest(command[0]):
                self.assertEqual(list(self.sqlite(ours).iterdump()),
                                 list(self.sqlite(theirs).iterdump()))

    def test_sums_are_those_of_the_report(self):
        report = xplane_time.open([SPMD, VARIANTS]).report()
        report.to_sqlite(self.path)
        sums = {}
        for row in report.kernels:
            count, self_ps = sums.get(row["kernel"], (0, 0))
            sums[row["kernel"]] = count + row["count"], self_ps + row["self_ps"]
        found = {kernel: tuple(rest) for kernel, *rest in self.sqlite().execute(IS_SUM)}
        self.assertEqual(found, sums)
        self.assertGreater(len(sums), 10)

    def test_a_result_whose_file_is_there(self):
        where, report = (xplane_time.open(SPMD).where(), xplane_time.open(SPMD).report())
        where.to_sqlite(self.path)
        self.refused("out.sqlite: already exists; .*'replace'", lambda: report.to_sqlite(self.path))
        self.assertIn("steps", [name for name, in self.sqlite().execute("SELECT name FROM sqlite_master")])
        report.to_sqlite(self.path, if_exists="replace")
        self.assertEqual(len(rows_of(self.sqlite(), "kernels")), len(report.kernels))
        self.refused("not 'append'", lambda: report.to_sqlite(self.path, if_exists="append"))
        self.path.chmod(0o600)
        report.to_sqlite(self.path, if_exists="replace")
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o600)
        self.assertEqual([each.name for each in self.at.iterdir()], ["out.sqlite"])

    def test_a_journal_beside_the_file_is_not_applied_to_it(self):
        where = xplane_time.open(SPMD).where()
        for suffix in ("-wal", "-journal"):
            journal = self.path.with_name(self.path.name + suffix)
            journal.write_bytes(b"x")
            self.refused(f"out.sqlite{suffix} is a journal", lambda: where.to_sqlite(self.path))
            self.assertFalse(self.path.exists())
            journal.unlink()
        where.to_sqlite(self.path)


class Inputs(FilesTest):
    """Outputs never overwrite a trace, whatever its name, or other existing files."""

    def test_a_trace_stays(self):
        trace_path, link = self.at / "capture", self.at / "link.parquet"
        shutil.copy(SPMD, trace_path)
        link.symlink_to(trace_path)
        trace = xplane_time.open(trace_path)
        report = trace.report()
        before = trace_path.read_bytes()
        calls = [lambda path: report.to_sqlite(path, if_exists="replace"), report.to_html,
                 lambda path: report.kernels.to_sqlite(path, "x", if_exists="replace")]
        if duckdb is not None:
            calls.append(lambda path: report.kernels.to_duckdb(path, "x", if_exists="replace"))
        if pyarrow is not None:
            calls.append(lambda path: report.kernels.to_parquet(path, if_exists="replace"))
        for call in calls:
            for path in (trace_path, link, str(link), self.at):
                self.refused(f"^{path}: the existing file is not a valid (Parquet|SQLite|DuckDB|HTML)",
                             lambda: call(path))
        self.assertEqual(trace_path.read_bytes(), before)
        self.assertEqual({each.name for each in self.at.iterdir()}, {"capture", "link.parquet"})


@unittest.skipIf(pyarrow is None, "no pyarrow: pip install pyarrow")
class Parquet(FilesTest):
    path = property(lambda self: self.at / "t.parquet")

    def test_every_type_comes_back(self):
        events = odd_events()
        events.to_parquet(self.path)
        back = pyarrow.parquet.read_table(self.path)
        self.assertEqual(back.to_pylist(), list(events))
        types = {name: str(back.schema.field(name).type) for name in ("large", "least", "real")}
        self.assertEqual(types, {"large": "uint64", "least": "int64", "real": "double"})

    def test_tables_of_all_results(self):
        for result, _ in results():
            for name, table in result.tables.items():
                with self.subTest(type(result).__name__, table=name):
                    table.to_parquet(self.path, if_exists="replace")
                    back = pyarrow.parquet.read_table(self.path)
                    self.assertEqual(back.to_pylist(), list(table))
                    self.assertEqual(back.schema.types, table.to_arrow().schema.types)

    def test_a_file_that_is_there(self):
        table = odd_events()
        table.to_parquet(self.path)
        self.refused("t.parquet: already exists", lambda: table.to_parquet(self.path))
        self.refused("not 'append'", lambda: table.to_parquet(self.path, if_exists="append"))
        link = self.at / "link.parquet"
        link.symlink_to(self.path)
        xplane_time.open(VARIANTS).kernels().to_parquet(link, if_exists="replace")
        self.assertTrue(link.is_symlink())
        self.assertEqual(pyarrow.parquet.read_table(self.path).num_rows, 72)

    def test_a_file_is_whole_or_not_there(self):
        table = odd_events()
        with unittest.mock.patch("pyarrow.parquet.write_table", side_effect=OSError("disk is full")):
            self.refused("disk is full", lambda: table.to_parquet(self.path), OSError)
        self.assertEqual(list(self.at.iterdir()), [])


@unittest.skipIf(duckdb is None, "no duckdb: pip install duckdb")
class DuckDb(FilesTest):
    path = property(lambda self: self.at / "out.duckdb")

    def test_every_type_comes_back(self):
        events = odd_events()
        events.to_duckdb(self.path, NAME)
        with duckdb.connect(self.path) as database:
            self.assertEqual(rows_of(database, NAME), list(events))
            types = {name: kind for name, kind, *_ in
                     database.execute(f"DESCRIBE {quoted(NAME)}").fetchall()}
        self.assertEqual({name: types[name] for name in ("large", "least", "real", "name")},
                         {"large": "UBIGINT", "least": "BIGINT", "real": "DOUBLE", "name": "VARCHAR"})

    def test_tables_of_all_results_in_one_database(self):
        with duckdb.connect() as database:
            for number, (result, _) in enumerate(results()):
                for name, table in result.tables.items():
                    with self.subTest(type(result).__name__, table=name):
                        table.to_duckdb(database, f"{name} {number}")
                        self.assertEqual(rows_of(database, f"{name} {number}"), list(table))

    def test_a_table_that_is_there(self):
        first, second = (xplane_time.open(path).kernels() for path in SIDES)
        first.to_duckdb(self.path, "kernels")
        for name in ("kernels", "Kernels"):
            self.refused("out.duckdb: table '[kK]ernels' already exists",
                         lambda: second.to_duckdb(self.path, name))
        second.to_duckdb(self.path, "kernels", if_exists="append")
        with duckdb.connect(self.path) as database:
            self.assertEqual(rows_of(database, "kernels"), [*first, *second])
            second.to_duckdb(database, "kernels", if_exists="replace")
            self.assertEqual(rows_of(database, "kernels"), list(second))
            self.refused(r"this connection: table 'kernels' has other columns: .*runs \(existing: missing",
                         lambda: xplane_time.open(VARIANTS).functions().to_duckdb(
                             database, "kernels", if_exists="append"))
            self.refused("not 'upsert'", lambda: first.to_duckdb(database, "x", if_exists="upsert"))
            self.assertEqual(database.execute("SHOW TABLES").fetchall(), [("kernels",)])

    def test_a_transaction_of_the_user_stays_theirs(self):
        with duckdb.connect() as database:
            database.begin()
            odd_events().to_duckdb(database, "t")
            database.rollback()
            self.assertEqual(database.execute("SHOW TABLES").fetchall(), [])

    def test_sums_are_those_of_the_report(self):
        kernels = xplane_time.open(SPMD).kernels()
        with duckdb.connect() as database:
            kernels.to_duckdb(database, "kernels")
            found = database.execute(IS_SUM).fetchall()
        self.assertEqual(sum(count for _, count, _ in found), sum(kernels["count"]))
        self.assertEqual(sum(self_ps for *_, self_ps in found), sum(kernels["self_ps"]))


class Missing(FilesTest):
    def test_what_is_missing_says_how_to_install_it(self):
        table = odd_events()
        for module, call in (("duckdb", lambda: table.to_duckdb(self.at / "x", "t")),
                             ("pyarrow", lambda: table.to_parquet(self.at / "x"))):
            with unittest.mock.patch.dict(sys.modules, {module: None}):
                error = self.refused(module, call, ModuleNotFoundError)
            self.assertRegex("".join(error.__notes__), f"pip install {module}")


if __name__ == "__main__":
    unittest.main()
