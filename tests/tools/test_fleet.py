"""Tests of fleet, summarize and merge on many captures."""
import os
import random
import subprocess
import unittest
import zlib

from harness import BINARY, EndToEndTest, TESTDATA, environment, run
from xspace import Plane, Ref, data, gpu, number, space

START_NS = 1_700_000_000_000_000_000


class Fleet(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.traces = []
        for host in range(6):
            for take in range(2):
                draw = random.Random(10 * host + take)
                planes = [gpu(device, runs=4, duration_ps=10_000 + draw.randrange(200))
                          for device in range(2)]
                # The names are like those of profilers: one folder per capture, one file per host.
                self.traces.append(self.write(f"take{take}/node{host}.xplane.pb", space(*planes)))

    def ok(self, *arguments):
        done = run(*arguments, cwd=self.at)
        self.assertEqual(done.code, 0, done.message)
        return done

    def summary(self, name, *inputs):
        self.ok("summarize", *inputs, "-o", name)
        return self.at / name

    def test_order_and_grouping_make_no_difference(self):
        each = [self.summary(f"{n}.xts", trace) for n, trace in enumerate(self.traces)]
        whole = self.summary("whole.xts", *self.traces).read_bytes()
        draw = random.Random(1)
        for name in ("a", "b", "c"):
            draw.shuffle(each)
            cut = draw.randrange(1, len(each))
            self.ok("merge", *each[:cut], "-o", "left.xts")
            self.ok("merge", "left.xts", *each[cut:], "-o", f"{name}.xts")
            self.assertEqual((self.at / f"{name}.xts").read_bytes(), whole)
        for by in ("host", "device", "none"):
            self.ok("merge", *each, "--by", by, "-o", "less.xts")
            self.ok("merge", "whole.xts", "--by", by, "-o", "later.xts")
            self.assertEqual((self.at / "less.xts").read_bytes(), (self.at / "later.xts").read_bytes())

    def test_sums_are_those_of_the_reports(self):
        fleet = self.ok("fleet", *self.traces, "--format", "json").json
        same = self.ok("fleet", self.summary("all.xts", *self.traces), "--format", "json").json
        self.assertEqual(fleet, same)
        busy, kernels, active, executions = 0, {}, 0, 0
        for trace in self.traces:
            report = self.ok(trace, "--format", "json", "--samples").json
            busy += sum(row["busy_ps"] for row in report["devices"])
            executions += sum(row["executions"] for row in report["devices"])
            active += sum(row["active_ps"] for row in report["samples"])
            for row in report["kernels"]:
                key = kernels.setdefault(row["kernel"], [0, 0, row["min_ps"], row["max_ps"]])
                key[:2] = key[0] + row["count"], key[1] + row["total_ps"]
                key[2:] = min(key[2], row["min_ps"]), max(key[3], row["max_ps"])
        self.assertEqual(sum(row["busy_ps"] for row in fleet["hosts"]), busy)
        self.assertEqual(sum(row["executions"] for row in fleet["hosts"]), executions)
        self.assertEqual(sum(row["total_ps"] for row in fleet["functions"]), active)
        for row in fleet["hosts"]:
            parts = ("compute_ps", "collective_exposed_ps", "copy_exposed_ps", "other_ps", "idle_ps")
            self.assertEqual(sum(row[part] for part in parts), row["span_ps"])
        self.assertEqual(len(fleet["hosts"]), 12)
        total = self.ok("fleet", *self.traces, "--by", "none", "--format", "json").json
        self.assertEqual({row["kernel"]: [row["count"], row["total_ps"], row["min_ps"], row["max_ps"]]
                          for row in total["kernels"]}, kernels)
        self.assertEqual([row["host"] for row in total["hosts"]], [None])

    def test_hosts_are_named_by_trace_option_or_file(self):
        named = self.write("x.xplane.pb", space(gpu(0), hostnames=["told"]))
        for options, host in (((named,), "told"), ((self.traces[0],), "node0"),
                              ((self.traces[0], "--host", "mine"), "mine"),
                              ((named, "--host", "mine"), "mine")):
            fleet = self.ok("fleet", self.summary("s.xts", *options), "--format", "json").json
            self.assertEqual({row["host"] for row in fleet["hosts"]}, {host})

    def test_a_file_that_cannot_be_read_is_named_and_the_rest_goes_on(self):
        bad = self.write("bad.xplane.pb", b"\x0a\xff")
        done = self.ok("summarize", self.traces[0], bad, "missing.xplane.pb", "-o", "s.xts")
        self.assertEqual(done.message.count("skipped: "), 2)
        fleet = self.ok("fleet", "s.xts", "--format", "json").json
        self.assertEqual(sorted(os.path.basename(row["path"]) for row in fleet["failures"]),
                         ["bad.xplane.pb", "missing.xplane.pb"])
        self.assertIn("could not be read", self.ok("fleet", "s.xts").text)
        for nothing in ((bad,), (bad, bad)):
            done = run("summarize", *nothing, "-o", "t.xts", cwd=self.at)
            self.assertEqual(done.code, 65, done.message)
            self.assertFalse((self.at / "t.xts").exists())

    def test_what_is_there_twice_is_told(self):
        one = self.summary("one.xts", self.traces[0])
        self.assertIn("more than once", self.ok("merge", one, one, "-o", "two.xts").message)
        copy = self.write("elsewhere/node0.xplane.pb", self.traces[0].read_bytes())
        self.assertIn("more than once", self.ok("fleet", one, copy).message)
        self.assertEqual(self.ok("fleet", *self.traces[:2]).message, "")

    def test_what_was_measured_otherwise_is_refused(self):
        self.ok("summarize", self.traces[0], "--skip-runs", "1", "-o", "skip.xts")
        self.summary("plain.xts", self.traces[1])
        for pair in (("plain.xts", "skip.xts"), ("skip.xts", "plain.xts")):
            done = run("merge", *pair, "-o", "both.xts", cwd=self.at)
            self.assertEqual(done.code, 65, done.message)
            self.assertIn("other options", done.message)
            self.assertFalse((self.at / "both.xts").exists())

    def test_rows_are_kept_apart_as_the_summaries_do(self):
        self.ok("summarize", *self.traces, "--by", "host", "-o", "hosts.xts")
        whole = self.summary("whole.xts", *self.traces)
        for inputs in (("hosts.xts",), ("hosts.xts", whole), (whole, "hosts.xts")):
            fleet = self.ok("fleet", *inputs, "--format", "json").json
            self.assertEqual(fleet["by"], "host")
        done = run("fleet", "hosts.xts", "--by", "device", cwd=self.at)
        self.assertEqual(done.code, 65, done.message)

    def test_a_summary_through_a_pipe(self):
        whole = self.summary("whole.xts", *self.traces)
        want = self.ok("fleet", whole).text
        for line in (f"cat {whole} | {BINARY} fleet -", f"{BINARY} fleet <(cat {whole})",
                     f"{BINARY} summarize {' '.join(map(str, self.traces))} -o - | {BINARY} fleet -"):
            done = subprocess.run(["bash", "-c", line], capture_output=True, env=environment(), check=True)
            self.assertEqual(done.stdout.decode(), want)

    def test_hosts_from_names_of_files(self):
        content = space(gpu(0))
        for name, host in (("10.0.0.7.xplane.pb", "10.0.0.7"), ("a.dc2.example.com.xplane.pb", "a.dc2.example.com"),
                           ("h.pb", "h"), ("plain", "plain")):
            fleet = self.ok("fleet", self.write(name, content), "--format", "json").json
            self.assertEqual([row["host"] for row in fleet["hosts"]], [host])
        kineto = (TESTDATA / "kineto_training.json").read_bytes()
        fleet = self.ok("fleet", self.write("n1_4711.1700000000.pt.trace.json", kineto), "--format", "json").json
        self.assertLessEqual({row["host"] for row in fleet["captures"]}, {"n1", "node7"})

    def test_damaged_hosts_of_a_run_are_named(self):
        (self.at / "take0" / "node3.xplane.pb").write_bytes(b"\x0a\xff")
        done = self.ok("fleet", "take0", "--format", "json")
        self.assertIn("node3", done.message)
        self.assertIn("node3", done.json["failures"][0]["message"])
        self.assertIn("could not be read", self.ok("fleet", "take0").text)

    def test_outputs_have_their_own_names(self):
        one = self.summary("one.xts", self.traces[0])
        for line in (("fleet", one, "-o", "two.xts"), ("merge", one, "-o", "two.json"),
                     ("summarize", self.traces[0], "-o", "two.pb"), ("fleet", one, "--device", "gpu"),
                     ("fleet", one, "--top", "1", "--format", "json")):
            done = run(*line, cwd=self.at)
            self.assertEqual(done.code, 64, (line, done.message))
        done = run(one, cwd=self.at)
        self.assertIn("xplane-time fleet", done.message)

    def test_damaged_summaries(self):
        whole = self.summary("whole.xts", self.traces[0]).read_bytes()
        for size in (0, 1, 30, len(whole) // 2, len(whole) - 1):
            self.write("cut.xts", whole[:size])
            done = run("merge", "cut.xts", "-o", "out.xts", cwd=self.at)
            self.assertEqual(done.code, 65, done.message)
            self.assertIn("cut.xts", done.message)

    def with_diagnostic(self, code, severity):
        """A summary with an additional diagnostic and a correct checksum."""
        whole = self.summary("plain.xts", self.traces[0]).read_bytes()
        end = next(size for size in range(len(whole) - 7, len(whole))
                   if whole[size:] == number(16, zlib.crc32(whole[:size])))
        at = whole.index(by := data(2, "host,device")) + len(by)
        content = whole[:at] + data(6, data(1, code) + data(2, severity) + number(3, 3)) + whole[at:end]
        return self.write("crafted.xts", content + number(16, zlib.crc32(content)))

    def test_enumerations_of_a_crafted_summary_are_checked(self):
        evil = "\x1b]0;pwned\x07\x1b[2J"
        for code, severity in (("unsorted_line", evil), (evil, "error"), ("later_code", evil),
                               ("later_code", "fatal"), ("", "info"), ("a" * 65, "info")):
            crafted = self.with_diagnostic(code, severity)
            for command in (("fleet", crafted), ("merge", crafted, "-o", "out.xts")):
                done = run(*command, cwd=self.at)
                self.assertNotIn(b"\x1b", done.out + done.err)
                if code == "unsorted_line":  # a known code determines its severity
                    self.assertEqual(done.code, 0, done.message)
                else:
                    self.assertEqual((done.code, done.out), (65, b""), (code, severity))
                    self.assertIn("crafted.xts: damaged summary: a ", done.message)
        rows = self.ok("fleet", self.with_diagnostic("unsorted_line", evil), "--format",
                       "json").json["diagnostics"]
        self.assertIn(("unsorted_line", "info", 3),
                      [(row["code"], row["severity"], row["count"]) for row in rows])
        self.ok("fleet", self.with_diagnostic("later_code", "warning"))

    def test_an_input_is_never_the_output(self):
        one = self.summary("one.xts", self.traces[0])
        done = run("merge", one, "-o", one, cwd=self.at)
        self.assertEqual(done.code, 64, done.message)

    def test_a_trace_through_a_pipe(self):
        done = subprocess.run(["bash", "-c", f"{BINARY} fleet <(cat {self.traces[0]}) --by none --format json"],
                              capture_output=True, env=environment(), check=True)
        self.assertIn(b"add.kd", done.stdout)

    def test_recorded_traces(self):
        fleet = self.ok("fleet", *sorted(TESTDATA.glob("*.xplane.pb")), TESTDATA / "kineto_training.json",
                        "--format", "json").json
        self.assertTrue(any(row["is_range"] for row in fleet["functions"]))
        self.assertTrue(fleet["steps"])
        self.assertEqual(fleet["failures"], [])

    def test_a_slow_host_is_found(self):
        traces = []
        for host in range(12):
            for take in range(4):
                draw = random.Random(100 * host + take)
                factor = (1.1 if host == 7 else 1) * draw.gauss(1, 0.004)
                duration_ps = round(1_000_000 * factor)
                traces.append(self.write(f"s{take}/host{host}.xplane.pb", space(
                    gpu(0, runs=5, duration_ps=duration_ps, every_ps=10 * duration_ps))))
        fleet = self.ok("fleet", *traces, "--format", "json").json
        self.assertEqual([row["host"] for row in fleet["outliers"] if row["verdict"] != "typical"],
                         ["host7"])
        text = self.ok("fleet", *traces).text
        self.assertIn("host7", text.split("use of time")[0])

    def gang(self, slow, hosts=12, runs=8, start_ns=lambda take, host: START_NS + take * 10**12,
             collective=("jit_train", 7)):
        """Runs of hosts that meet in an all-reduce. `slow(host)`: the extra time of one host, as
        compute, as idle time before its collective and as idle time before its run. `collective`:
        the function of the all-reduce, and its program."""
        collective_ps = 50_000_000
        traces = []
        for take in range(3):
            draw = random.Random(take)
            planes = [Plane("/device:GPU:0") for _ in range(hosts)]
            streams = [plane.line("Stream #1(Kernel)", start_ns(take, host))
                       for host, plane in enumerate(planes)]
            ends = [0] * hosts
            for run in range(runs):
                enters = []
                for host in range(hosts):
                    compute, within, before = slow(host)
                    start = ends[host] + 20_000_000 + before
                    took = round(1_000_000_000 * draw.gauss(1, 0.002)) + compute
                    streams[host].event("gemm", start, took, hlo_module=Ref("jit_train"),
                                        hlo_op=Ref("dot.1"), program_id=7)
                    enters.append(start + took + 1_000_000 + within)
                leave = max(enters) + collective_ps
                for host in range(hosts):
                    streams[host].event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", enters[host],
                                        leave - enters[host], hlo_module=Ref(collective[0]),
                                        hlo_op=Ref("all-reduce.2"), program_id=collective[1])
                    ends[host] = leave
            for host in range(hosts):
                traces.append(self.write(f"g{take}/host{host}.xplane.pb", space(planes[host])))
        return traces

    def test_the_host_that_others_wait_for_is_slow(self):
        extra_ps = 100_000_000
        for kind in range(3):
            traces = self.gang(lambda host: [extra_ps * (host == 7 and at == kind) for at in range(3)])
            fleet = self.ok("fleet", *traces, "--format", "json").json
            found = [(row["host"], row["verdict"]) for row in fleet["outliers"]
                     if row["verdict"] != "typical"]
            self.assertEqual(found, [("host7", "slow")], kind)
            self.assertEqual({row["measure"] for row in fleet["outliers"]}, {"without_collectives"})
            ratio = fleet["outliers"][0]["ratio"]
            self.assertAlmostEqual(ratio, 1.1, delta=0.01)
            self.assertEqual(fleet["waits"][0]["host"], "host7")
            text = self.ok("fleet", *traces).text
            self.assertIn("compared by their time outside of collectives", " ".join(text.split()))

    def test_the_host_that_computes_less_is_fast(self):
        traces = self.gang(lambda host: (-100_000_000 * (host == 3), 0, 0))
        fleet = self.ok("fleet", *traces, "--format", "json").json
        self.assertEqual([(row["host"], row["verdict"]) for row in fleet["outliers"]
                          if row["verdict"] != "typical"], [("host3", "fast")])

    def test_the_host_that_idles_less_is_not_called_fast(self):
        traces = self.gang(lambda host: (0, 100_000_000 * (host != 3), 0))
        fleet = self.ok("fleet", *traces, "--format", "json").json
        self.assertEqual({row["verdict"] for row in fleet["outliers"]}, {"typical"})

    def late(self, late_host, **options):
        return self.gang(lambda host: (0, 0, 100_000_000 * (host == late_host)), **options)

    def test_a_late_host_is_slow_in_a_function_of_only_collectives(self):
        for kind in (0, 2):  # slow compute, or idle time before the run
            for hosts in (4, 12):
                traces = self.gang(lambda host: [100_000_000 * (host == 2 and at == kind) for at in range(3)],
                                   hosts=hosts, collective=("jit_sync", 8))
                fleet = self.ok("fleet", *traces, "--format", "json").json
                slow = {row["function"]: row for row in fleet["outliers"] if row["verdict"] == "slow"}
                self.assertEqual(set(slow), {"jit_sync", "jit_train"} if kind == 0 else {"jit_sync"})
                self.assertEqual({row["host"] for row in slow.values()}, {"host2"})
                self.assertEqual(slow["jit_sync"]["measure"], "without_collectives")
                self.assertAlmostEqual(slow["jit_sync"]["ratio"], 1.1, delta=0.01)
        traces = self.gang(lambda host: (0, 0, 0), collective=("jit_sync", 8))
        fleet = self.ok("fleet", *traces, "--format", "json").json
        self.assertEqual({row["verdict"] for row in fleet["outliers"]}, {"typical"})

    def test_the_reason_of_an_undecided_row(self):
        def reasons(traces):
            fleet = self.ok("fleet", *traces, "--format", "json").json
            for row in fleet["outliers"]:
                self.assertEqual(row["reason"] is None, row["verdict"] != "cannot_tell")
            return {row["host"]: row["reason"] for row in fleet["outliers"]}, " ".join(
                self.ok("fleet", *traces).text.split())

        found, text = reasons(self.late(1, hosts=3))
        self.assertEqual(set(found.values()), {"fewer than 3 other devices of the model run the function"})
        self.assertIn("undecided in 3 rows: fewer than 3 other devices of the model run the function", text)
        found, text = reasons(self.late(1, hosts=4))
        remain = "fewer than 3 other devices of the model remain without the outliers"
        self.assertEqual(found, {"host0": remain, "host1": None, "host2": remain, "host3": remain})
        self.assertIn(f"undecided in 3 rows: {remain}", text)
        self.assertNotIn("run the function", text)
        found, text = reasons(self.gang(lambda host: (100_000_000 * (host < 3), 0, 0), hosts=6))
        self.assertEqual(len(found), 6)
        self.assertTrue(all("differ so much" in reason for reason in found.values()))

    def waits(self, *inputs):
        return self.ok("fleet", *inputs, "--format", "json").json["waits"]

    def test_captures_without_start_times_are_counted(self):
        traces = self.late(7, start_ns=lambda take, host: 5)
        row, = self.waits(*traces)
        self.assertEqual((row["count"], row["devices"]), (24, 12))
        for unknown in ("host", "device", "waited_ps", "transfer_ps"):
            self.assertIsNone(row[unknown])
        self.assertIn("lacks a UNIX start time", row["reason"])
        text = " ".join(self.ok("fleet", *traces).text.split())
        self.assertIn("no times of 24 collectives: a capture of host0 lacks a UNIX start time", text)
        # All groupings of merges give the same bytes.
        each = [self.summary(f"{n}.xts", trace) for n, trace in enumerate(traces)]
        whole = self.summary("whole.xts", *traces).read_bytes()
        random.Random(1).shuffle(each)
        self.ok("merge", *each[:17], "-o", "left.xts")
        self.ok("merge", "left.xts", *each[17:], "-o", "again.xts")
        self.assertEqual((self.at / "again.xts").read_bytes(), whole)
        self.assertEqual(self.waits("again.xts"), [row])
        # The advice: one capture of each host.
        self.assertIn("give one capture of each host", text)
        one, = self.waits(*traces[:12])
        self.assertEqual((one["host"], one["count"], one["reason"]), ("host7", 8, None))
        self.assertAlmostEqual(one["waited_ps"], 8 * 11 * 100_000_000, delta=8 * 11 * 10_000_000)

    def test_captures_that_only_some_hosts_can_order(self):
        def start_ns(take, host):
            return 0 if host == 3 else START_NS + take * 10**12

        traces = self.late(1, hosts=4, start_ns=start_ns)
        row, = self.waits(*traces)
        self.assertEqual((row["count"], row["waited_ps"]), (24, None))
        self.assertIn("a capture of host3 lacks", row["reason"])
        # One capture of each host has an order, and the offset of its clock is stated as unknown.
        one, = self.waits(*traces[:4])
        self.assertEqual((one["host"], one["count"]), ("host1", 8))
        self.assertIn("the clock offset of host3 is unknown",
                      " ".join(self.ok("fleet", *traces[:4]).text.split()))
        # Each of the two captures of host3 may belong to either of the other hosts' captures.
        self.assertEqual([wait["waited_ps"] for wait in self.waits(*traces[:8])], [None])
        same = self.late(1, hosts=4, start_ns=lambda take, host: START_NS)
        row, = self.waits(*same)
        self.assertEqual((row["count"], row["waited_ps"]), (24, None))
        self.assertIn("a capture of host0 has the start time of another one", row["reason"])

    def test_a_capture_that_is_given_twice_counts_twice(self):
        traces = self.late(1, hosts=4)
        once, = self.waits(*traces)
        twice, = self.waits(*traces, *traces)
        self.assertEqual((once["host"], once["count"]), ("host1", 24))
        self.assertEqual(twice, once | {name: 2 * once[name] for name in ("count", "waited_ps", "transfer_ps")})
        without = self.late(1, hosts=4, start_ns=lambda take, host: 0)[:4]
        row, = self.waits(*without, *without)
        self.assertEqual((row["count"], row["waited_ps"]), (16, None))

    def test_devices_of_one_host_need_no_start_times(self):
        traces = []
        for take in range(2):
            planes = [Plane(f"/device:GPU:{at}", id=at + 1) for at in range(2)]
            for at, plane in enumerate(planes):
                stream = plane.line("Stream #1(Kernel)", 5)
                for step in range(3):
                    leave = 10_000_000 * (step + 1) + take
                    enter = leave - (1_000_000 if at == 1 else 4_000_000)
                    stream.event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", enter, leave - enter,
                                 hlo_module=Ref("jit_train"), hlo_op=Ref("all-reduce.2"), program_id=7)
            traces.append(self.write(f"d{take}/host0.xplane.pb", space(*planes)))
        row, = self.waits(*traces)
        self.assertEqual((row["host"], row["device"], row["count"], row["waited_ps"], row["reason"]),
                         ("host0", "GPU:1", 6, 6 * 3_000_000, None))

    def side(self, name, factor, hosts=range(8)):
        traces = []
        for host in hosts:
            for take in range(3):
                draw = random.Random(f"{name}{host}{take}")
                duration_ps = round(1_000_000 * factor * draw.gauss(1, 0.002))
                traces.append(self.write(f"{name}{take}/host{host}.xplane.pb", space(
                    gpu(0, runs=5, duration_ps=duration_ps, every_ps=10 * duration_ps))))
        return self.summary(f"{name}.xts", *traces)

    def test_compare_takes_hosts_as_what_is_drawn(self):
        base, same, slower = self.side("base", 1), self.side("same", 1), self.side("slower", 1.05)
        for head, code in ((same, 0), (slower, 10)):
            for options in ((), ("--paired",)):
                done = run("compare", base, head, "--format", "json", *options)
                self.assertEqual(done.code, code, done.message)
                row, = done.json["rows"]
                self.assertEqual((row["base"]["captures"], row["base"]["samples"]), (8, 24))
        one = self.side("one", 1, hosts=[3])  # with one host, the captures are compared
        row, = run("compare", base, one, "--format", "json").json["rows"]
        self.assertEqual(row["head"]["captures"], 3)
        away = self.side("away", 1, hosts=range(1, 9))
        trace = TESTDATA / "jax_cpu_spmd4.xplane.pb"
        for sides, wanted in (((base, trace), "is no summary"), ((trace, base), "is a summary")):
            done = run("compare", *sides)
            self.assertEqual(done.code, 65, done.message)
            self.assertIn(wanted, done.message)
            self.assertIn("give summaries on both sides (xplane-time summarize), or traces on both",
                          done.message)
        done = run("compare", base, away, "--paired")
        self.assertEqual(done.code, 65, done.message)
        self.assertIn("only in base: host0; only in head: host8", done.message)
        done = run("compare", base, one, "--kernel", "add")
        self.assertEqual(done.code, 64, done.message)
        done = run("compare", base, one, "--function", "nothing")
        self.assertEqual(done.code, 65, done.message)
        done = run("pick", base)
        self.assertEqual(done.code, 65, done.message)
        self.assertIn("give traces", done.message)


if __name__ == "__main__":
    unittest.main()
