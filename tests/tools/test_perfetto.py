"""Tests of -o FILE.pftrace. Reads it with Perfetto's schema if the package `perfetto` is installed."""
import collections
import os
import pathlib
import subprocess
import tempfile
import unittest

from harness import (BINARY, EndToEndTest, REPOSITORY, TESTDATA, csv_rows, environment, open_terminal,
                     run)
from test_readme import BLOCK, commands

try:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
except ImportError:
    Trace = None

VARIANTS = TESTDATA / "jax_cpu_variants.xplane.pb"
CONTROL_FLOW = TESTDATA / "jax_cpu_control_flow.xplane.pb"
POWER = ["energy", TESTDATA / "energy" / "jax_cpu_mixture.xplane.pb", "--power",
         TESTDATA / "energy" / "replayed.power.jsonl"]
WRITE_WORLD = os.environ.get("WRITE_POWER_WORLD")

Slice = collections.namedtuple("Slice", "start_ps duration_ps name")


def written(*command):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "t.pftrace"
        done = run(*command, "-o", path)
        assert done.code == 0, done.message
        return path.read_bytes()


class Tracks:
    """Slices and values by path of names, from the root track to the track."""

    def __init__(self, data):
        self.trace = Trace.FromString(data)
        self.paths, self.slices, self.values = {}, collections.defaultdict(list), {}
        self.sequences = {}
        for packet in self.trace.packet:
            if packet.HasField("track_descriptor"):
                self.describe(packet.track_descriptor)
            else:
                self.take(packet)

    def describe(self, track):
        above = self.paths[track.parent_uuid] if track.parent_uuid else ()
        self.paths[track.uuid] = (*above, track.name)

    def take(self, packet):
        flags = packet.sequence_flags
        if flags & packet.SEQ_INCREMENTAL_STATE_CLEARED:
            defaults = packet.trace_packet_defaults
            self.sequences[packet.trusted_packet_sequence_id] = {
                "ns": 0, "open": [], "names": {}, "exact": {},
                "path": self.paths[defaults.track_event_defaults.track_uuid]}
        sequence = self.sequences[packet.trusted_packet_sequence_id]
        for each in packet.interned_data.event_names:
            sequence["names"][each.iid] = each.name
        for each in packet.interned_data.debug_annotation_names:
            sequence["exact"][each.iid] = each.name
        if packet.HasField("track_event"):
            sequence["ns"] += packet.timestamp
            self.add(packet.track_event, sequence["ns"], sequence)

    def add(self, event, ns, sequence):
        if event.type == TrackEvent.TYPE_COUNTER:
            self.values.setdefault(sequence["path"], []).append((ns, event.double_counter_value))
        elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
            exact = {sequence["exact"][each.name_iid]: each.int_value
                     for each in event.debug_annotations}
            sequence["open"].append((ns, exact, sequence["names"][event.name_iid]))
        else:
            start_ns, exact, name = sequence["open"].pop()
            self.slices[sequence["path"]].append(
                Slice(exact.get("start_ps", start_ns * 1000),
                      exact.get("duration_ps", (ns - start_ns) * 1000), name))


@unittest.skipIf(Trace is None, "without the package perfetto")
class Schema(EndToEndTest):
    def check_same(self, data, *traces):
        """Checks that the file has the same events as other commands."""
        tracks = Tracks(data)
        samples = run("functions", *traces, "--samples", "--format", "json").json
        runs, steps, kernels = (collections.Counter() for _ in range(3))
        for row in samples["samples"]:
            runs[Slice(row["start_ps"], row["span_ps"], row["function"])] += 1
        for row in run("where", *traces, "--format", "json").json["steps"]:
            steps[Slice(row["start_ps"], row["span_ps"], row["name"])] += 1
        for row in run("kernels", *traces, "--format", "json").json["kernels"]:
            kernels[row["kernel"]] += row["count"]
            kernels[row["kernel"], "ps"] += row["total_ps"]
        found, host = collections.Counter(), collections.Counter()
        for path, slices in tracks.slices.items():
            if path[1] == "CPU":  # the host has no ordinal
                host.update((path[-1], each.name) for each in slices)
            elif path[-1] == "runs":
                runs.subtract(Slice(*each[:2], each.name.removesuffix(" (suspect)"))
                              for each in slices)
            elif path[-1] == "steps":
                steps.subtract(slices)
            else:
                for each in slices:
                    found[each.name] += 1
                    found[each.name, "ps"] += each.duration_ps
        self.assertEqual(found, kernels)
        threads = {line for line, _ in host}
        events = csv_rows(run("events", *traces, "--device", "all", "--format", "csv").text)
        self.assertEqual(host, collections.Counter(
            (row["line"], row["name"]) for row in events if row["line"] in threads))
        self.assertIn("python", threads)
        self.assertEqual(set(runs.values()) | set(steps.values()), {0})
        return tracks

    def test_every_field_is_of_the_schema(self):
        for data in (written("report", VARIANTS), written(*POWER)):
            trace = Trace.FromString(data)
            trace.DiscardUnknownFields()
            self.assertEqual(trace.ByteSize(), len(data))
            self.assertTrue(all(not each["open"] for each in Tracks(data).sequences.values()))

    def test_events_are_those_of_the_other_commands(self):
        for traces in ([VARIANTS], [CONTROL_FLOW], [TESTDATA / "jax_cpu_spmd4.xplane.pb"],
                       [VARIANTS, CONTROL_FLOW]):
            with self.subTest(traces=traces):
                tracks = self.check_same(written("report", *traces), *traces)
                self.assertEqual({path[0] for path in tracks.slices}, set(map(str, traces)))

    def test_power_is_what_the_energy_is_of(self):
        data = written(*POWER)
        energy = run(*POWER, "--format", "json").json
        tracks = Tracks(data)
        (measured,) = (values for path, values in tracks.values.items() if path[-1] == "power")
        (explained,) = (values for path, values in tracks.values.items()
                        if path[-1] == "power explained")
        (device,) = energy["devices"]
        self.assertEqual(len(measured), device["windows"])
        self.assertEqual([ns for ns, _ in measured], [ns for ns, _ in explained])
        joules = sum(watts * (then - ns) / 1e9
                     for (ns, watts), (then, _) in zip(measured, measured[1:]))
        self.assertLess(abs(joules / device["measured_j"] - 1), 0.1)
        of_trace = Tracks(written("report", POWER[1])).slices
        self.assertEqual(of_trace, {path: slices for path, slices in tracks.slices.items()
                                    if path[-1] != "power unknown"})

    @unittest.skipIf(WRITE_WORLD is None, "needs WRITE_POWER_WORLD")
    def test_layers_without_a_trace_are_a_track(self):
        base = self.at / "mix"
        subprocess.run([WRITE_WORLD, "mix", "1", str(base)], check=True)
        layers = base.with_suffix(".layers.csv")
        tracks = Tracks(written("energy", "--layers", layers, "--power",
                                base.with_suffix(".power.jsonl")))
        rows = csv_rows(layers.read_bytes().decode())
        (found,) = (slices for path, slices in tracks.slices.items() if path[-1] == "layers")
        self.assertEqual(collections.Counter(each.name for each in found),
                         collections.Counter(row["layer_name"] for row in rows))
        seconds = sum(float(row["end_time"]) - float(row["start_time"]) for row in rows)
        self.assertAlmostEqual(sum(each.duration_ps for each in found) / 1e12, seconds, places=3)
        self.assertEqual({path[0] for path in tracks.values}, {str(layers)})

    def test_commands_of_the_page_run(self):
        page = (REPOSITORY / "docs" / "perfetto.md").read_text()
        os.symlink(TESTDATA, self.at / "testdata")
        path = os.pathsep.join([str(BINARY.parent), os.environ["PATH"]])
        pairs = [pair for block in BLOCK.findall(page) for pair in commands(block)]
        for command, output in pairs:
            done = subprocess.run(["bash", "-c", command], cwd=self.at, timeout=30,
                                  env=environment(PATH=path), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            self.assertEqual((done.stdout.decode(), done.returncode), (output, 0), command)
        self.assertTrue(Tracks((self.at / "run.pftrace").read_bytes()).slices)
        self.assertTrue(Tracks((self.at / "power.pftrace").read_bytes()).values)


class Line(EndToEndTest):
    def test_what_it_would_ignore_is_refused(self):
        for option in (["--function", "f"], ["--top", "3"], ["--sort", "name"], ["--clock", "device"],
                       ["--metric", "span"], ["--min-duration", "5"], ["--columns", "runs"],
                       ["--samples"]):
            done = run("report", VARIANTS, *option, "--format", "perfetto")
            self.assertEqual(done.code, 64, option)
            self.assertIn(option[0], done.message)
        done = run("report", VARIANTS, "--compat", "xprof", "--format", "perfetto")
        self.assertEqual((done.code, done.out), (64, b""))

    def test_other_commands_do_not_write_it(self):
        for command in ("functions", "where", "planes", "brief"):
            with tempfile.TemporaryDirectory() as folder:
                done = run(command, VARIANTS, "-o", pathlib.Path(folder) / "t.pftrace")
                self.assertEqual(done.code, 64)
                self.assertIn("unknown suffix .pftrace", done.message)

    def test_it_goes_into_a_pipe_and_not_to_a_terminal(self):
        self.assertEqual(run("report", VARIANTS, "--format", "perfetto").out,
                         written("report", VARIANTS))
        main, other = open_terminal()
        done = subprocess.run([BINARY, VARIANTS, "--format", "perfetto"], stdout=other,
                              stderr=subprocess.PIPE, env=environment(), timeout=30)
        os.close(other)
        os.close(main)
        self.assertEqual(done.returncode, 64)
        self.assertIn(b"-o FILE.pftrace", done.stderr)

    def test_the_same_whatever_the_threads(self):
        self.assertEqual(written("report", VARIANTS, "--threads", "1"),
                         written("report", VARIANTS, "--threads", "4"))


if __name__ == "__main__":
    unittest.main()
