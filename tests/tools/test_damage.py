"""Damaged and hostile traces are refused with a location. They never cause crashes, hangs or partial output."""
import gzip
import random
import time
import unittest
import zlib

from harness import EndToEndTest, in_parallel, run
from xspace import Line, Plane, data, gpu, number, space, top_level_ends, tpu, varint

FOUR_GB = 4 << 30


def small_trace():
    """A trace of about 400 bytes with one item of each kind. Tests truncate and change it at each byte."""
    device = gpu(0, runs=2, function="jit_f", kernels=("k",))
    device.line("_counters_").event("power", 0, 0, power_mw=1.5, text="abc")
    other = tpu(1, runs=1, ops=("o",))
    environment = Plane("Task Environment").plane_stat("profile_start_time", 1_700_000_000)
    return space(device, other, environment, hostnames=["h"], warnings=["w"])


class Refusals(EndToEndTest):
    def check(self, what, done):
        """Requires exit code 0, or 65 with a message and without output."""
        self.assertIn(done.code, (0, 65), f"{what}: {done}")
        if done.code == 65:
            self.assertEqual(done.out, b"", what)
            self.assertRegex(done.message, r"\Axplane-time: [^\n]+\n\Z", what)
        else:
            self.assertTrue(done.out.endswith(b"\n"), what)

    def run_each(self, contents, *arguments):
        def one(item):
            name, content = item
            path = self.write(f"{name}.xplane.pb", content)
            done = run(arguments[0], path, *arguments[1:])
            path.unlink()
            return done
        return in_parallel(one, contents.items())


class Truncation(Refusals):
    def cuts(self, content):
        return {at: content[:at] for at in range(len(content))}

    def test_a_trace_cut_anywhere(self):
        """A cut between two planes cannot be detected. All other cuts are."""
        content = small_trace()
        whole = set(top_level_ends(content))
        self.assertEqual(len(whole), 6)
        for reader in ("wire", "protobuf"):
            cuts = self.cuts(content)
            done = self.run_each(cuts, "report", "--format", "json", "--reader", reader)
            for at, one in zip(cuts, done):
                self.check(f"{reader} {at}", one)
                if at not in whole:
                    self.assertEqual(one.code, 65, f"{reader}: {at} of {len(content)} bytes")
                    self.assertRegex(one.message, r"byte \d+", f"{reader} {at}")
                elif at > min(whole - {0}):
                    self.assertEqual(one.code, 0, f"{reader} {at}")

    def test_events_of_a_trace_cut_anywhere_are_complete_or_absent_in_a_file(self):
        cuts = self.cuts(small_trace())
        for at, content in list(cuts.items())[::5]:
            source, out = self.write("cut.xplane.pb", content), self.at / "events.csv"
            done = run("events", source, "--device", "all", "--format", "csv", "-o", out)
            self.check_written(at, done, out)

    def check_written(self, at, done, out):
        self.assertIn(done.code, (0, 65), at)
        self.assertEqual(done.out, b"", at)
        self.assertEqual(out.exists(), done.code == 0, at)
        self.assertEqual([path.name for path in self.at.glob("events.csv?*")], [], at)
        out.unlink(missing_ok=True)

    def test_gzip_cut_anywhere(self):
        cuts = self.cuts(gzip.compress(small_trace(), mtime=0))
        for at, done in zip(cuts, self.run_each(cuts, "report", "--format", "json")):
            self.check(at, done)
            self.assertEqual(done.code, 65, at)

    def test_flipped_gzip_bytes(self):
        whole = gzip.compress(small_trace(), mtime=0)
        trailer = len(whole) - 8  # CRC and length; every change must be detected
        flipped = {at: whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1:]
                   for at in range(10, len(whole))}
        for at, done in zip(flipped, self.run_each(flipped, "report", "--format", "json")):
            self.check(at, done)
            self.assertEqual(done.code, 65, f"byte {at} of {len(whole)}, trailer at {trailer}")


class FlippedBytes(Refusals):
    CASES = 300

    def flipped(self):
        seeded, content = random.Random(20261121), small_trace()
        cases = {}
        for case in range(self.CASES):
            changed = bytearray(content)
            for _ in range(seeded.choice((1, 1, 2, 8))):
                changed[seeded.randrange(len(changed))] ^= 1 << seeded.randrange(8)
            cases[case] = bytes(changed)
        return cases

    def test_seeded_flips(self):
        cases = self.flipped()
        readers = {reader: self.run_each(cases, "report", "--device", "all", "--format", "json",
                                         "--reader", reader) for reader in ("wire", "protobuf")}
        for name, all_done in readers.items():
            for case, done in zip(cases, all_done):
                with self.subTest(case=case, reader=name):
                    self.check(f"case {case}", done)
                    if done.code == 0:
                        self.assertEqual(done.json["schema"], "xplane-time.report.v1")
        for case, wire, protobuf in zip(cases, *readers.values()):
            with self.subTest(case=case):
                self.compare_readers(wire, protobuf)
        self.assertEqual({done.code for done in readers["wire"]}, {0, 65})

    def compare_readers(self, wire, protobuf):
        """The wire reader does not check fields that the report does not need. There is no other difference."""
        if protobuf.code == 0:
            self.assertEqual((wire.code, wire.out), (0, protobuf.out))
        if wire.code == 65:
            self.assertEqual(protobuf.code, 65)


class Hostile(Refusals):
    def refused(self, name, content, reason=None):
        path = self.write(name, content)
        began = time.monotonic()
        done = run(path, limit_bytes=FOUR_GB)
        self.assertLess(time.monotonic() - began, 20, name)
        self.assertEqual((done.code, done.out), (65, b""), f"{name}: {done.message}")
        if reason:
            self.assertIn(reason, done.message)
        return done

    def test_nested_groups(self):
        for name, content in {
                "space": b"\x0b" * 1_000_000, "plane": data(1, b"\x0b" * 1_000_000),
                "line": data(1, data(3, b"\x0b" * 1_000_000)),
                "event": data(1, data(3, data(4, b"\x0b" * 1_000_000))),
                "metadata": data(1, data(4, data(2, b"\x0b" * 1_000_000)))}.items():
            for reader in ("wire", "protobuf"):
                with self.subTest(name, reader=reader):
                    path = self.write(f"{name}.xplane.pb", content)
                    done = run(path, "--device", "all", "--reader", reader, limit_bytes=FOUR_GB)
                    self.assertEqual((done.code, done.out), (65, b""), done.message)

    def test_groups_that_match_are_skipped(self):
        depth = 50
        unknown = b"".join([b"\x5b" * depth, number(9, 1), b"\x5c" * depth])  # field 11
        report = self.run_json(self.write("groups.xplane.pb", space(gpu(0)) + unknown))
        self.assertEqual(report["devices"][0]["executions"], 6)

    def test_lengths_past_the_end(self):
        for length in (5, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
            with self.subTest(length):
                claimed = b"\x0a" + varint(length) + b"abc"
                self.refused("space.xplane.pb", claimed, "byte")
                self.refused("plane.xplane.pb", data(1, b"\x1a" + claimed[1:]), "byte")
                line = data(3, b"\x22" + claimed[1:])
                self.refused("line.xplane.pb", data(1, data(2, "/device:GPU:0") + line), "byte")

    def test_varint_that_never_ends(self):
        for content in (b"\xff" * 1000, b"\x0a" + b"\xff" * 1000, b"\x08" + b"\x80" * 1000):
            self.refused("varint.xplane.pb", content, "byte")

    def test_gzip_bomb(self):
        """128 MB of zeros in 130 kB are refused before they fill the memory."""
        bomb = zeros_in_gzip(1 << 27)
        self.refused("bomb.xplane.pb.gz", bomb)
        self.refused("mixed.gz", gzip.compress(data(1, data(2, "/device:GPU:0"))) + bomb)
        nested = zlib.compressobj(9, zlib.DEFLATED, 31)
        self.refused("groups.gz", nested.compress(b"\x0b" * (1 << 26)) + nested.flush(), "nested")

    def test_a_big_plain_run_of_zeros(self):
        with open(self.at / "zeros.xplane.pb", "wb") as sparse:
            sparse.truncate(8 << 30)
        done = run(self.at / "zeros.xplane.pb")
        self.assertEqual((done.code, done.out), (65, b""))

    def test_millions_of_planes_and_metadata_stay_small(self):
        many = {"planes.xplane.pb": data(1, data(2, "x")) * 1_000_000,
                "hosts.xplane.pb": space(gpu(0)) + data(4, "h") * 1_000_000}
        for name, content in many.items():
            with self.subTest(name):
                done = run("planes", self.write(name, content), "--format", "json",
                           limit_bytes=FOUR_GB)
                self.check(name, done)

    def test_compressed_string_bomb_in_a_stat(self):
        device = gpu(0)
        device.lines[0].events[0] = self.event_with(device, data(8, zeros_in_gzip(1 << 26)))
        path = self.write("stat.xplane.pb", space(device))
        done = run("events", path, "--stat", "note", "--format", "csv", limit_bytes=FOUR_GB)
        self.assertEqual(done.code, 0, done.message)
        self.assertLess(len(done.out), 100_000)

    @staticmethod
    def event_with(device, value):
        note = number(1, device.stat_names["note"])
        return data(4, number(1, 1) + number(2, 0) + number(3, 5) + data(4, note + value))


def zeros_in_gzip(count):
    """A gzip member of `count` zero bytes, made without storing them."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    chunk = bytes(1 << 24)
    packed = [packer.compress(chunk) for _ in range(count >> 24)]
    return b"".join(packed) + packer.flush()


class BadEvents(EndToEndTest):
    """Damaged events are counted and skipped. The rest of the trace is used."""

    def report(self, *odd_events):
        device = gpu(0, runs=2, kernels=("k",))
        stream: Line = device.lines[0]
        for start, duration in odd_events:
            stream.event("odd", start, duration, hlo_module="jit_odd", program_id=1)
        return self.run_json(self.write("odd.xplane.pb", space(device)))

    def test_events_off_the_axis_are_counted_and_skipped(self):
        end = (1 << 63) - 1
        cases = {"negative_duration": [(0, -1), (5, -end)],
                 "time_overflow": [(end, 10), (end - 5, end)]}
        for code, events in cases.items():
            with self.subTest(code):
                report = self.report(*events)
                found = {row["code"]: row["count"] for row in report["diagnostics"]}
                self.assertEqual(found.get(code), len(events), found)
                self.assertEqual([row["function"] for row in report["functions"]], ["jit_step"])
                self.assertEqual(report["devices"][0]["executions"], 2)

    def test_events_without_a_name_get_their_id(self):
        """All event metadata is missing, for GPU kernels, TPU modules and ops, and CPU thunks."""
        host = Plane("/host:CPU")
        host.line("worker").event("dot", 0, 900, hlo_op="dot", hlo_module="jit_f", program_id=1,
                                  run_id=1, device_ordinal=0)
        for plane in (gpu(0), tpu(0), host):
            with self.subTest(plane.name):
                plane.names.of.clear()
                path = self.write("unnamed.xplane.pb", space(plane))
                for command in ("report", "planes", "functions", "kernels", "tree", "events"):
                    done = run(command, path, "--format", "json")
                    self.assertEqual(done.code, 0, f"{command}: {done.message}")
                names = {event["name"] for event in done.json["events"]}
                self.assertTrue(names)
                for name in names:
                    self.assertRegex(name, r"\A\(event metadata \d+\)\Z")

    def test_a_diagnostic_has_its_place(self):
        report = self.report((0, -1))
        [row] = [row for row in report["diagnostics"] if row["code"] == "negative_duration"]
        self.assertEqual((row["plane"], row["line"], row["event"]),
                         ("/device:GPU:0", "Stream #1(Kernel)", 2))
        content = (self.at / "odd.xplane.pb").read_bytes()
        length = content[row["byte_offset"] - 1]  # the event begins after its length
        event = content[row["byte_offset"]:row["byte_offset"] + length]
        self.assertIn(number(3, -1), event)


if __name__ == "__main__":
    unittest.main()
