"""Tests all forms of input: files, gzip, pipes, directories, and several of them."""
import contextlib
import gzip
import json
import os
import shutil
import socket
import subprocess
import unittest

from harness import BINARY, TESTDATA, TIMEOUT_S, EndToEndTest, environment, run
from xspace import Plane, Unsigned, data, gpu, space

RUNS = "log/plugins/profile"


def without_inputs(report):
    """The report without inputs and options."""
    return {name: value for name, value in report.items() if name not in ("inputs", "options")}


class OneFile(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.content = space(gpu(0), hostnames=["one"])
        self.want = self.run_json(self.write("plain.xplane.pb", self.content))

    def same_report(self, got, path):
        self.assertEqual(without_inputs(got), without_inputs(self.want))
        self.assertEqual([row["path"] for row in got["inputs"]], [str(path)])
        self.assertEqual([row["bytes"] for row in got["inputs"]], [len(self.content)])

    def test_the_name_does_not_matter(self):
        packed = gzip.compress(self.content)
        for name, content in {
                "a.xspace.pb": self.content, "a.xplane.pb.gz": packed, "a.xplane.pb": packed,
                "plain.gz": self.content, "trace.json": packed, "no_extension": self.content,
                "with space and ü.pb": packed}.items():
            with self.subTest(name):
                self.same_report(self.run_json(self.write(name, content)), self.at / name)

    def test_gzip_of_several_members_and_padding(self):
        half = len(self.content) // 2
        members = [gzip.compress(part) for part in (self.content[:half], self.content[half:])]
        for name, content in {"two.gz": members[0] + members[1],
                              "padded.gz": gzip.compress(self.content) + bytes(512)}.items():
            with self.subTest(name):
                self.same_report(self.run_json(self.write(name, content)), self.at / name)

    def test_standard_input(self):
        for content in (self.content, gzip.compress(self.content)):
            for command in ("report", "planes", "kernels", "events"):
                for reader in ("wire", "protobuf"):
                    got = self.run_json(command, "-", "--reader", reader, stdin=content)
                    want = self.run_json(command, "plain.xplane.pb", "--reader", reader)
                    self.assertEqual(without_inputs(got), without_inputs(want))
        with open(self.at / "plain.xplane.pb", "rb") as redirected:
            self.same_report(self.run_json("-", stdin=redirected), "standard input")

    def test_a_symbolic_link_and_a_relative_path(self):
        (self.at / "link.pb").symlink_to("plain.xplane.pb")
        self.same_report(self.run_json("link.pb"), "link.pb")
        self.same_report(self.run_json("./plain.xplane.pb"), "./plain.xplane.pb")

    def test_a_name_that_looks_like_an_option(self):
        self.write("-o.pb", self.content)
        self.same_report(self.run_ok("--format", "json", "--", "-o.pb").json, "-o.pb")
        self.same_report(self.run_json("./-o.pb"), "./-o.pb")

    def test_options_may_come_before_the_trace(self):
        name = "plain.xplane.pb"
        for options in (("--device", "gpu"), ("--top", "3"), ("--quiet",), ("-o", "/dev/stdout")):
            with self.subTest(options):
                self.same_report(self.run_ok(*options, "--format", "json", name).json, name)
        want = self.run_ok("events", name, "--stat", "program_id", "--stat", "hlo_op")
        for words in (("--stat", "program_id", "--stat", "hlo_op", name),
                      ("--stat", "program_id", name, "--stat", "hlo_op")):
            with self.subTest(words):
                self.assertEqual(run("events", *words, cwd=self.at).out, want.out)


class EndlessPipes(EndToEndTest):
    """Data that cannot be a trace is refused while it arrives, because the pipe never ends."""

    def check(self, shell, reason):
        with self.subTest(shell):
            done = subprocess.run(["bash", "-c", f'{shell} | "$0" -', BINARY], cwd=self.at,
                                  capture_output=True, timeout=TIMEOUT_S,
                                  env=environment(TMPDIR=str(self.at)))
            message = done.stderr.decode()
            self.assertEqual((done.returncode, done.stdout), (65, b""), message)
            self.assertIn(f"standard input: {reason}", message)

    def test_they_are_refused_at_once(self):
        good = space(gpu(0))
        self.write("good", good)
        self.write("good.gz", gzip.compress(good))
        text = "not an XPlane trace: it looks like text"
        self.check("cat /dev/zero", "damaged trace: a field number of 0 (byte 0)")
        self.check("yes", text)
        self.check("yes 'a line of a log'", text)
        self.check("""yes '{"traceEvents": ['""", "damaged Kineto trace: more than 1024 levels")
        self.check("cat good /dev/zero", f"damaged trace: a field number of 0 (byte {len(good)})")
        self.check("{ cat good; yes ' '; }", "damaged trace")
        self.check("{ cat good; yes; }", "damaged trace")
        self.check("yes | gzip -1", text)
        self.check(r"{ printf '\n\xff\xff\xff\xff\xff\xff\x0f'; cat /dev/zero; }",
                   "not an XPlane trace: a length of")
        self.assertEqual(sorted(path.name for path in self.at.iterdir()), ["good", "good.gz"])

    def test_a_long_trace_on_a_pipe_is_read(self):
        """The trace is longer than one piece of the pipe, both plain and with gzip."""
        long = space(*(gpu(at, runs=5000) for at in range(3)), hostnames=["h"])
        self.assertGreater(len(long), 3 << 18)
        want = self.run_json(self.write("long.xplane.pb", long))
        for content in (long, gzip.compress(long, 1), gzip.compress(long, 0)):
            got = self.run_json("-", stdin=content)
            self.assertEqual(without_inputs(got), without_inputs(want))


class Directories(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.write(f"{RUNS}/2026_01_02_10_00_00/one.xplane.pb", self.host("one", 1))
        self.write(f"{RUNS}/2026_01_02_10_00_00/two.xplane.pb", self.host("two", 2))
        self.write(f"{RUNS}/2026_01_02_10_00_00/one.trace.json.gz", b"not read")
        self.write(f"{RUNS}/2025_12_31_23_59_59/old.xplane.pb", self.host("old", 4))
        self.write("log/events.out.tfevents", b"not read")

    @staticmethod
    def host(name, runs):
        return space(gpu(0, runs=runs), hostnames=[name])

    def hosts(self, *arguments):
        report = self.run_json(*arguments)
        return {row["host"]: row["runs"] for row in report["functions"]}

    def test_run_directory_has_all_its_hosts(self):
        run_directory = f"{RUNS}/2026_01_02_10_00_00"
        self.assertEqual(self.hosts(run_directory), {"one": 1, "two": 2})
        report = self.run_json(run_directory)
        for section in ("devices", "functions", "kernels"):
            self.assertEqual([row["host"] for row in report[section]],
                             sorted(row["host"] for row in report[section]), section)
            self.assertEqual({row["host"] for row in report[section]}, {"one", "two"})
        self.assertEqual({row["capture"] for row in report["inputs"]}, {0})
        self.assertEqual(report["capture"]["hostnames"], ["one", "two"])

    def spoil(self, directory, suffix):
        """Creates unreadable files with names of traces. Returns their names."""
        directory = self.at / directory
        names = [each + suffix for each in ("gone", "circle", "pipe", "socket", "device", "closed")]
        (directory / names[0]).symlink_to("nowhere")
        (directory / names[1]).symlink_to(names[1])
        os.mkfifo(directory / names[2])
        with socket.socket(socket.AF_UNIX) as made:
            with contextlib.chdir(directory):  # paths of sockets are limited to 107 bytes
                made.bind(names[3])
        (directory / names[4]).symlink_to("/dev/zero")
        (directory / names[5]).write_bytes(b"x")
        (directory / names[5]).chmod(0)
        return names

    def test_what_cannot_be_read_in_a_run_is_left_out_with_a_warning(self):
        run_directory = f"{RUNS}/2026_01_02_10_00_00"
        names = self.spoil(run_directory, ".xplane.pb")
        for command, section in (("functions", "functions"), ("report", "functions"),
                                 ("kernels", "kernels"), ("planes", "planes")):
            for given in (run_directory, "log"):
                done = run(command, given, "--format", "json", cwd=self.at)
                self.assertEqual(done.code, 0, done.message)
                self.assertEqual({row["host"] for row in done.json[section]}, {"one", "two"})
                for name in names:
                    self.assertIn(name, done.message)
        done = run("fleet", run_directory, cwd=self.at)
        self.assertEqual(done.code, 0, done.message)
        self.assertIn("skipped: ", done.text + done.message)

    def test_traces_of_pytorch_with_what_cannot_be_read(self):
        trace = json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": [
            {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.0, "dur": 2.0,
             "args": {"device": 0, "stream": 7, "correlation": 1}}]})
        self.write("ranks/rank0.pt.trace.json", trace)
        self.write("ranks/other.json", '{"a": 1}')
        names = self.spoil("ranks", ".json")
        done = run("kernels", "ranks", "--format", "json", cwd=self.at)
        self.assertEqual(done.code, 0, done.message)
        self.assertEqual([row["kernel"] for row in done.json["kernels"]], ["k"])
        if os.geteuid() == 0:
            names.remove("closed.json")  # root can read it, but it is not a trace
        for name in names:
            self.assertIn(name, done.message)
        self.assertNotIn("other.json", done.message)

    def test_a_run_of_what_cannot_be_read_is_refused(self):
        for suffix in (".xplane.pb", ".json"):
            at = f"bad{suffix}"
            (self.at / at).mkdir()
            os.mkfifo(self.at / at / f"pipe{suffix}")
            done = run("report", at, cwd=self.at)
            self.assertIn(done.code, (65, 66), done.message)
            self.assertIn(at, done.message)

    @unittest.skipIf(os.geteuid() == 0, "root may list everything")
    def test_a_run_that_cannot_be_listed_is_not_passed_over(self):
        closed = self.at / RUNS / "2027_01_01_00_00_00"
        closed.mkdir()
        closed.chmod(0)
        self.addCleanup(closed.chmod, 0o700)
        done = run("report", "log", cwd=self.at)
        self.assertEqual(done.code, 74, done.message)
        self.assertIn("2027_01_01_00_00_00: cannot list", done.message)

    def test_every_command_has_the_host_on_each_row(self):
        for command, section in (("planes", "planes"), ("tree", "tree"), ("events", "events"),
                                 ("kernels", "kernels"), ("functions", "functions")):
            rows = self.run_json(command, "log")[section]
            self.assertEqual({row["host"] for row in rows}, {"one", "two"}, command)

    def test_log_directory_is_its_latest_run(self):
        for at in ("log", "log/", "log/plugins/profile", "log/plugins"):
            with self.subTest(at):
                self.assertEqual(self.hosts(at), {"one": 1, "two": 2})

    def test_run_chooses_another(self):
        self.assertEqual(self.hosts("log", "--run", "2025_12_31_23_59_59"), {"old": 4})
        done = run("log", "--run", "2024", cwd=self.at)
        self.assertEqual((done.code, done.out), (66, b""))
        self.assertIn("2025_12_31_23_59_59, 2026_01_02_10_00_00", done.message)

    def test_the_latest_run_is_the_latest_by_name_not_by_time_of_change(self):
        old = self.at / f"{RUNS}/2025_12_31_23_59_59/old.xplane.pb"
        old.write_bytes(old.read_bytes())
        self.assertEqual(self.hosts("log"), {"one": 1, "two": 2})

    def test_runs_without_traces_are_passed_over(self):
        (self.at / RUNS / "2027_01_01_00_00_00").mkdir()
        self.assertEqual(self.hosts("log"), {"one": 1, "two": 2})

    def test_flat_directory_of_gzipped_hosts(self):
        for name in ("one", "two"):
            self.write(f"flat/{name}.xplane.pb.gz", gzip.compress(self.host(name, 3)))
        self.assertEqual(self.hosts("flat"), {"one": 3, "two": 3})

    def test_files_of_other_times_are_no_hosts_of_one_run(self):
        second = 1_000_000_000

        def recorded(start_s, stop_s):
            times = Plane("Task Environment", id=9)
            times.plane_stat("profile_start_time", Unsigned(int(start_s * second)))
            times.plane_stat("profile_stop_time", Unsigned(int(stop_s * second)))
            return space(gpu(0), times)

        for name, starts, apart in (("hosts", (100, 101.5, 102.9), 0), ("folder", (100, 110, 105), 2)):
            for at, start in enumerate(starts):
                self.write(f"{name}/{at}.xplane.pb", recorded(start, start + 1))
            for command in ("report", "functions"):
                rows = self.run_json(command, name)["diagnostics"]
                self.assertEqual([row["count"] for row in rows if row["code"] == "files_apart"],
                                 [apart] if apart else [])
                self.assertEqual("recorded at different times" in
                                 " ".join(self.run_ok(command, name).text.split()), apart > 0)
            each = (f"{name}/{at}.xplane.pb" for at in range(3))
            self.assertEqual(self.run_json(*each)["diagnostics"], [])

    def test_directory_without_traces(self):
        (self.at / "bare").mkdir()
        done = run("bare", cwd=self.at)
        self.assertEqual((done.code, done.out), (66, b""))
        self.assertRegex(done.message, r"\Axplane-time: bare: contains no .xplane.pb")

    def damaged_hosts(self):
        """Traces that are empty, truncated, incomplete gzip, or damaged only in their events."""
        late = gpu(1, runs=2)
        late.lines[0].events.append(data(4, b"\x08"))
        whole = self.host("two", 2)
        return {"empty": b"", "cut": whole[:-4], "gzip": gzip.compress(whole)[:-9],
                "text": b"no trace", "late": space(late, hostnames=["two"])}

    def test_a_damaged_host_is_left_out_and_named(self):
        path = f"{RUNS}/2026_01_02_10_00_00/two.xplane.pb"
        for name, content in self.damaged_hosts().items():
            self.write(path, content)
            for command in ("report", "functions", "kernels", "planes", "tree", "events"):
                for form in ("json", "csv", "table"):
                    with self.subTest(name, command=command, form=form):
                        done = run(command, "log", "--format", form, cwd=self.at)
                        self.assertEqual(done.code, 0, done.message)
                        self.assertRegex(done.message, r"\Axplane-time: 1 x a file of the run is "
                                         r"damaged or unreadable and was left out[^\n]*"
                                         r"two.xplane.pb: [^\n]+\n\Z")
                        if form == "json" and (command, name) != ("events", "late"):
                            self.check_only_host_one(done.json, command)

    def check_only_host_one(self, document, command):
        rows = document.get(command, document.get("functions"))
        self.assertEqual({row["host"] for row in rows}, {"one"})
        if command != "events":
            codes = [row["code"] for row in document["diagnostics"]]
            self.assertEqual(codes, ["host_left_out"])

    def test_damage_in_lines_that_are_nested_leaves_a_host_out(self):
        self.write(f"{RUNS}/2026_01_02_10_00_00/two.xplane.pb", self.damaged_hosts()["late"])
        done = run("tree", "log", "--line", ".", "--format", "json", cwd=self.at)
        self.assertEqual({row["host"] for row in done.json["tree"]}, {"one"}, done.message)
        self.assertIn("two.xplane.pb", done.message)

    def test_where_all_hosts_are_damaged_nothing_is_read(self):
        for content in self.damaged_hosts().values():
            for host in ("one", "two"):
                self.write(f"{RUNS}/2026_01_02_10_00_00/{host}.xplane.pb", content + bytes(0))
            done = run("log", cwd=self.at)
            self.assertEqual((done.code, done.out), (65, b""))
            self.assertIn("one.xplane.pb", done.message)

    def test_decisions_are_not_made_on_a_part_of_a_run(self):
        for content in self.damaged_hosts().values():
            self.write(f"{RUNS}/2026_01_02_10_00_00/two.xplane.pb", content)
            done = run("compare", "log", f"{RUNS}/2025_12_31_23_59_59", cwd=self.at)
            self.assertEqual((done.code, done.out), (65, b""), done.message)
            self.assertIn("two.xplane.pb", done.message)


class SuspectOnOneDevice(EndToEndTest):
    """If one of eight GPUs lost events, the combined time uses the other runs."""

    def combined(self, lost, runs=range(1, 7)):
        """The combined times of six runs of four kernels. GPU 3 has only `runs`, without `lost` (run, kernel)."""
        planes = []
        for ordinal in range(8):
            plane = Plane(f"/device:GPU:{ordinal}", id=ordinal + 1)
            stream = plane.line("Stream #1(Kernel)")
            for at in runs if ordinal == 3 else range(1, 7):
                for kernel in range(4):
                    if ordinal != 3 or (at, kernel) not in lost:
                        stream.event(f"k{kernel}", at * 1_000_000 + kernel * 20_000,
                                     10_000 + ordinal * 100, hlo_module="jit_f", program_id=7)
            planes.append(plane)
        [row] = self.run_json(self.write("eight.xplane.pb", space(*planes)))["combined"]
        mean = row["active_ps"] and row["active_ps"]["mean"]
        return row["status"], row["runs"], row["suspect_runs"], mean

    def test_half_a_run_is_left_out(self):
        self.assertEqual(self.combined({(2, 0), (2, 1)}), ("ok", 6, 1, 42_800))

    def test_a_piece_that_no_other_device_has_counts_for_nothing(self):
        self.assertEqual(self.combined({(0, 0), (0, 1)}, range(7)), ("ok", 6, 0, 42_800))

    def test_a_lost_run_beside_half_a_run(self):
        lost = {(2, kernel) for kernel in range(4)} | {(4, 3)}
        self.assertEqual(self.combined(lost), ("ok", 6, 2, 42_800))

    def test_a_lost_run_alone_could_be_any(self):
        lost = {(2, kernel) for kernel in range(4)}
        self.assertEqual(self.combined(lost), ("devices_unmatched", 6, 0, None))


class SeveralTraces(EndToEndTest):
    """Repeated captures of the same program."""

    def test_captures_are_kept_apart_by_input_and_pooled_in_combined(self):
        for at, runs in enumerate((2, 3, 5)):
            self.write(f"{at}.xplane.pb", space(gpu(0, runs=runs), hostnames=[f"h{at}"]))
        report = self.run_json(*[f"{at}.xplane.pb" for at in range(3)])
        self.assertEqual([(row["input"], row["runs"]) for row in report["functions"]],
                         [(0, 2), (1, 3), (2, 5)])
        self.assertEqual([row["capture"] for row in report["inputs"]], [0, 1, 2])
        [combined] = report["combined"]
        self.assertEqual((combined["runs"], combined["active_ps"]["n"]), (10, 10))
        total = sum(row["active_ps"]["mean"] * row["runs"] for row in report["functions"])
        self.assertAlmostEqual(combined["active_ps"]["mean"], total / 10)

    def test_samples_of_captures_are_numbered_each_from_0(self):
        for at in (0, 1):
            self.write(f"{at}.xplane.pb", space(gpu(0, runs=2 + at)))
        samples = self.run_json("functions", "0.xplane.pb", "1.xplane.pb", "--samples")["samples"]
        self.assertEqual([(row["input"], row["run"]) for row in samples],
                         [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)])

    def test_the_same_file_twice_is_noticed_and_counted_once(self):
        self.write("a.xplane.pb", space(gpu(0)))
        self.write("copy.xplane.pb", space(gpu(0)))
        self.write("packed.gz", gzip.compress(space(gpu(0))))
        for other in ("a.xplane.pb", "./a.xplane.pb", "copy.xplane.pb", "packed.gz"):
            with self.subTest(other):
                report = self.run_json("a.xplane.pb", other)
                self.assertEqual(report["functions"][0]["runs"], 3)
                self.assertEqual(len(report["functions"]), 1)
                codes = [row["code"] for row in report["diagnostics"]]
                self.assertEqual(codes, ["duplicate_input"])
                self.assertIn("a.xplane.pb", report["diagnostics"][0]["message"])
                self.assertIn("twice", self.run_ok("a.xplane.pb", other).text)

    def test_concatenated_files_are_one_trace(self):
        """Planes with the same name are separate. A file that is appended to itself counts once."""
        first, second = space(gpu(0, runs=2)), space(gpu(0, runs=3))
        self.write("both.xplane.pb", first + second)
        self.write("self.xplane.pb", first + first)
        report = self.run_json("both.xplane.pb")
        self.assertEqual([row["executions"] for row in report["devices"]], [4, 6])
        self.assertEqual([row["code"] for row in report["diagnostics"]][:1],
                         ["repeated_plane_name"])
        report = self.run_json("self.xplane.pb")
        self.assertEqual([row["executions"] for row in report["devices"]], [4])
        self.assertEqual([row["code"] for row in report["diagnostics"]], ["duplicate_plane"])

    def test_concatenated_hosts_keep_their_names(self):
        self.write("both.xplane.pb", space(gpu(0, runs=2), hostnames=["one"])
                   + space(gpu(1, runs=3), hostnames=["two"]))
        rows = self.run_json("both.xplane.pb")["devices"]
        self.assertEqual([(row["host"], row["executions"]) for row in rows],
                         [("one", 4), ("two", 6)])

    def test_real_captures_with_a_directory_among_them(self):
        names = ("jax_cpu_spmd4", "jax_cpu_async_body")
        (self.at / "directory").mkdir()
        shutil.copy(TESTDATA / f"{names[1]}.xplane.pb", self.at / "directory")
        report = self.run_json(TESTDATA / f"{names[0]}.xplane.pb", "directory")
        alone = [self.run_json(TESTDATA / f"{name}.xplane.pb") for name in names]
        for section in ("devices", "functions", "kernels"):
            for at in (0, 1):
                rows = [{**row, "input": 0} for row in report[section] if row["input"] == at]
                self.assertEqual(sorted(rows, key=str), sorted(alone[at][section], key=str))


class EpochTimes(EndToEndTest):
    def test_epoch_timestamps_give_the_same_times(self):
        start_ns = 1_770_000_000_123_456_789
        self.write("small.xplane.pb", space(gpu(0, timestamp_ns=0)))
        self.write("epoch.xplane.pb", space(gpu(0, timestamp_ns=start_ns)))
        small, epoch = (self.run_json(f"{name}.xplane.pb") for name in ("small", "epoch"))
        self.assertEqual(epoch["functions"], small["functions"])
        self.assertEqual(epoch["kernels"], small["kernels"])
        first = epoch["devices"][0]["first_ps"] + 1000 * epoch["capture"]["base_ns"]
        self.assertEqual(first, 1000 * start_ns)

    def test_lines_count_from_their_own_timestamps(self):
        device = Plane("/device:GPU:0")
        for at, stamp in enumerate((0, 1, 40)):
            device.line(f"Stream #{at}(Kernel)", timestamp_ns=stamp).event(
                "k", 500, 1_000, hlo_module="jit_f", program_id=1)
        row = self.run_json(self.write("lines.xplane.pb", space(device)))["devices"][0]
        self.assertEqual((row["first_ps"], row["last_ps"]), (500, 41_500))
        self.assertEqual((row["sum_ps"], row["busy_ps"]), (3_000, 3_000))


if __name__ == "__main__":
    unittest.main()
