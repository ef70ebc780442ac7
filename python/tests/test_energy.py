"""Energies from Python, with the trace and the log of testdata/energy. If write_power_world is built
(tests/support/write_power_world.cc), also with simulated devices whose energies are known."""
import csv
import json
import pathlib
import subprocess
import tempfile
import unittest

import xplane_time
from test_package import command_json, flat

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TRACE = REPOSITORY / "testdata/energy/jax_cpu_mixture.xplane.pb"
LOG = REPOSITORY / "testdata/energy/replayed.power.jsonl"
WRITE_WORLD = REPOSITORY / "build/tests/write_power_world"
TABLES = ("inputs", "devices", "kernels", "functions", "layers", "sources", "findings",
          "diagnostics")


class RealTrace(unittest.TestCase):
    def setUp(self):
        self.trace = xplane_time.open(TRACE)

    def test_numbers_are_those_of_the_command(self):
        for options, arguments in (({}, ()), ({"map": {0: "package"}}, ("--map", "0=package")),
                                   ({"function": "1024", "device": "cpu"},
                                    ("--function", "1024", "--device", "cpu"))):
            want = command_json("energy", TRACE, "--power", LOG, *arguments)
            report = self.trace.energy(LOG, **options)
            self.assertEqual(report.to_dict(), want)
            for name in TABLES:
                table = getattr(report, name)
                self.assertEqual(len(table), len(want[name]))
                for row, of_command in zip(table, map(flat, want[name])):
                    self.assertEqual({key: row[key] for key in of_command if key in row},
                                     {key: of_command[key] for key in of_command if key in row})
        self.assertAlmostEqual(report.functions["mean_w"][0], 75, delta=1)
        self.assertIn("<svg", report.svg())
        self.assertIn("jit_matmul_1024", repr(report))

    def test_tables_are_arrow(self):
        frame = self.trace.energy(LOG).kernels.to_polars()
        self.assertEqual(frame["energy_j_ci95_lo"].null_count(), 0)

    def test_what_cannot_be_told_is_an_error_with_the_way_out(self):
        for options, kind, words in (
                ({}, xplane_time.NothingFoundError, "the trace contains no power of this device"),
                ({"power_log": LOG, "map": {0: "GPU-8f6e"}}, xplane_time.NothingFoundError,
                 "--map"),
                ({"power_log": LOG, "kernel": "none_such"}, xplane_time.NothingFoundError,
                 "no execution matches kernel='none_such'"),
                ({"power_log": __file__}, xplane_time.DamagedTraceError, "not the header of a power log"),
                ({"power_log": "none.jsonl"}, xplane_time.MissingInputError, "none.jsonl"),
                ({"power_log": LOG, "layers": "none.csv"}, xplane_time.MissingInputError,
                 "none.csv"),
                ({"power_log": LOG, "layer_re": "x"}, xplane_time.ArgumentError, "needs a group"),
                ({"power_log": LOG, "map": {0: 1}}, xplane_time.ArgumentError, "map: must be a dict"),
                ({"power_log": "a\0b"}, xplane_time.ArgumentError, "zero byte")):
            with self.subTest(options), self.assertRaisesRegex(kind, words):
                self.trace.energy(**options)
        with self.assertRaisesRegex(TypeError, r"energy\(\) .*'mapp'; did you mean 'map'"):
            self.trace.energy(LOG, mapp={})
        self.trace.energy(LOG, map=None, kernel=None)  # None means the default

    def test_a_log_of_another_time(self):
        with tempfile.TemporaryDirectory() as folder:
            head, *lines = LOG.read_text().splitlines(keepends=True)
            head = json.loads(head)
            head["clocks"]["realtime_ns"] += 3_600_000_000_000
            log = pathlib.Path(folder) / "p.jsonl"
            log.write_text(json.dumps(head) + "\n" + "".join(lines))
            with self.assertRaisesRegex(xplane_time.NothingFoundError, "do not overlap in time"):
                self.trace.energy(log)


@unittest.skipUnless(WRITE_WORLD.exists(), "needs ./test.sh to have run")
class Worlds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = pathlib.Path(folder.name)

    def world(self, kind, seed=1):
        """The paths of trace, log and layers, and the true energies."""
        base = self.at / f"{kind}{seed}"
        subprocess.run([WRITE_WORLD, kind, str(seed), base], check=True)
        return (base.with_suffix(".xplane.pb"), base.with_suffix(".power.jsonl"),
                base.with_suffix(".layers.csv"), json.loads(base.with_suffix(".truth.json").read_text()))

    def test_unknown_is_none_with_its_reason(self):
        trace, log, *_ = self.world("periodic", seed=2)
        report = xplane_time.open(trace).energy(log)
        self.assertEqual(set(report.kernels["energy_j"]), {None})
        self.assertEqual(set(report.kernels["reason"]), {"not_separable"})
        self.assertEqual(set(report.kernels["group"]), set(report.groups["group"]))
        self.assertEqual(report.to_dict(), command_json("energy", trace, "--power", log))

    def test_doubts_come_with_each_table(self):
        trace, log, *_ = self.world("other_load")
        report = xplane_time.open(trace).energy(log)
        self.assertTrue(report.devices["poor_fit"][0])
        [doubt] = report.kernels.doubts
        self.assertIn("a load that did not run in this trace", doubt)
        self.assertIn("a load that did not run in this trace", repr(report))

    def test_layers_that_were_marked(self):
        trace, log, layers, truth = self.world("mix")
        want = command_json("energy", "--layers", layers, "--power", log, "--device", "gpu:0")
        report = xplane_time.energy_of_layers(layers, log, device="gpu:0")
        self.assertEqual(report.to_dict(), want)
        # The same layers, with times of the log's monotonic clock.
        clocks = json.loads(log.read_text().splitlines()[0])["clocks"]
        back_ns = clocks["realtime_ns"] - clocks["monotonic_ns"]
        with layers.open(newline="") as file:
            runs = [(row["layer_name"], *(int(row[name].replace(".", "")) - back_ns
                                          for name in ("start_time", "end_time")))
                    for row in csv.DictReader(file)]
        marked = xplane_time.energy_of_layers(iter(runs), log, map={0: "GPU-a"})
        self.assertEqual(len(marked.layers), 8)
        for row, of_file in zip(marked.layers, report.layers):
            self.assertAlmostEqual(row["energy_j"], of_file["energy_j"], places=3)
            joules = truth["kernel_" + row["layer"].strip('layer, "')]
            self.assertAlmostEqual(row["energy_j"], joules, delta=0.04 * joules)
        beside = xplane_time.open(trace).energy(log, layers=layers)
        self.assertEqual(len(beside.layers), 8)
        with self.assertRaisesRegex(xplane_time.ArgumentError, "no runs of layers"):
            xplane_time.energy_of_layers([], log)
        with self.assertRaisesRegex(xplane_time.NothingFoundError, "do not overlap in time"):
            xplane_time.energy_of_layers([("a", 1, 2)], log)


if __name__ == "__main__":
    unittest.main()
