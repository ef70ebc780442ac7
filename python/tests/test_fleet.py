"""Summarizes many traces with every executor. The bytes are equal, even if workers are killed."""
import contextlib
import glob
import importlib.util
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import xplane_time
from xplane_time import fleet, fleet_executors

try:
    import ray
except ImportError:
    ray = None

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
COMMAND = pathlib.Path(sys.executable).parent / "xplane-time"
# Loaded by path, because its directory has test modules with the same names as this one.
XSPACE = importlib.util.spec_from_file_location("xspace", REPOSITORY / "tests/tools/xspace.py")
xspace = importlib.util.module_from_spec(XSPACE)
sys.modules["xspace"] = xspace  # required by its dataclasses
XSPACE.loader.exec_module(xspace)
gpu, space = xspace.gpu, xspace.space


def of_process(pattern):
    """The contents of files in /proc. Processes and threads that have ended are skipped."""
    for path in glob.glob(pattern):
        with contextlib.suppress(OSError):
            yield pathlib.Path(path).read_bytes()


def children(pid):
    return [int(each) for text in of_process(f"/proc/{pid}/task/*/children") for each in text.split()]


def command_of(pid):
    return b"".join(of_process(f"/proc/{pid}/cmdline"))


JAX_WORKER = """
import sys, time
rank, port, sleeper, folder = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
import jax
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=rank)
import jax.numpy as jnp
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(jax.devices(), "x")
x = jax.make_array_from_callback((2, 1000), NamedSharding(mesh, P("x")), lambda at: jnp.ones((1, 1000)))
step = jax.jit(lambda x: (x * 2).sum(0), out_shardings=NamedSharding(mesh, P()))
step(x).block_until_ready()
multihost_utils.sync_global_devices("begin")
with jax.profiler.trace(folder):
    for _ in range(20):
        if rank == sleeper:
            time.sleep(0.02)
        step(x).block_until_ready()
multihost_utils.sync_global_devices("end")
"""


class Fleet(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="xplane-time-")
        self.addCleanup(temporary.cleanup)
        self.at = pathlib.Path(temporary.name)

    def traces(self, hosts, captures=1, runs=4, slow=()):
        paths = []
        for host in range(hosts):
            for capture in range(captures):
                draw = random.Random(1000 * host + capture)
                duration_ps = round(1_000_000 * draw.gauss(1, 0.004) * (1.05 if host in slow else 1))
                path = self.at / f"take{capture}" / f"node{host:04}.xplane.pb"
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(space(gpu(0, runs=runs, duration_ps=duration_ps,
                                           every_ps=10 * duration_ps)))
                paths.append(path)
        return paths

    def of_command(self, traces):
        made = self.at / "command.xts"
        subprocess.run([COMMAND, "summarize", *traces, "-o", made], check=True, capture_output=True)
        return made.read_bytes()

    def test_executors_agree_with_the_command(self):
        traces = self.traces(6, captures=2)
        want = self.of_command(traces)
        told = []
        for executor in ("serial", "processes"):
            report = fleet.summarize(traces, executor=executor, workers=2,
                                     on_progress=lambda *counts: told.append(counts))
            self.assertEqual(report.summary, want)
        self.assertEqual(told[-1], (12, 12, 0))
        self.assertEqual([done for done, _, _ in told], [*range(1, 13)] * 2)
        saved = self.at / "saved.xts"
        report.save(saved)
        self.assertEqual(saved.read_bytes(), want)
        self.assertEqual(fleet.load(saved).to_dict(), report.to_dict())
        of_command = json.loads(subprocess.run([COMMAND, "fleet", saved, "--format", "json"],
                                               check=True, capture_output=True).stdout)
        self.assertEqual(report.to_dict(), of_command)
        self.assertEqual(len(report.hosts), 6)
        self.assertEqual(set(report.functions["function"]), {"jit_step"})
        for table in (report.kernels, report.steps, report.collectives, report.outliers,
                      report.captures, report.failures):
            self.assertIsInstance(table, xplane_time.Table)
        with self.assertRaises(xplane_time.ArgumentError):
            report.save(traces[0])

    def test_rows_are_kept_apart_by(self):
        traces = self.traces(3)
        for by, hosts in ((("device", "host"), 3), (("host",), 3), (("device",), 1), ((), 1)):
            report = fleet.summarize(traces, by=by, executor="serial")
            self.assertEqual(len(report.hosts), hosts, by)
        report = fleet.summarize(traces, executor="serial", host=lambda uri: "all " + uri[-12:-10])
        self.assertEqual(report.hosts["host"], ["all 00", "all 01", "all 02"])

    def test_what_cannot_be_read_is_named(self):
        traces = self.traces(2)
        (self.at / "bad.xplane.pb").write_bytes(traces[0].read_bytes()[:-3])
        lost = [*traces, self.at / "bad.xplane.pb", self.at / "gone.xplane.pb", "nowhere://x/y.pb"]
        for executor in ("serial", "processes"):
            report = fleet.summarize(lost, executor=executor, workers=2)
            self.assertEqual(sorted(os.path.basename(path) for path in report.failures["path"]),
                             ["bad.xplane.pb", "gone.xplane.pb", "y.pb"])
            self.assertEqual(len(report.hosts), 2)
            self.assertEqual(len(report.hosts.doubts), 3)
        with self.assertRaises(xplane_time.DamagedTraceError):
            fleet.summarize([lost[2]], executor="serial")
        for wrong in ({"executor": "slurm"}, {"by": ("rank",)}, {"workers": 0}, {"retries": -1}):
            with self.assertRaises(xplane_time.ArgumentError):
                fleet.summarize(traces, **wrong)
        with self.assertRaises(xplane_time.ArgumentError):
            fleet.summarize([])

    def test_a_folder_keeps_what_is_done(self):
        traces, folder = self.traces(4), self.at / "kept"
        first = fleet.summarize(traces, executor="serial", folder=folder)
        with mock.patch.object(fleet_executors, "summary_of", side_effect=AssertionError):
            again = fleet.summarize(traces, executor="serial", folder=folder)
        self.assertEqual(first.summary, again.summary)
        time.sleep(0.01)
        traces[1].write_bytes(space(gpu(0, runs=9)))
        kept = sorted(folder.iterdir())[0]
        kept.write_bytes(kept.read_bytes()[:-2])  # truncated, so it is made again
        self.assertEqual(fleet.summarize(traces, executor="serial", folder=folder).summary,
                         self.of_command(traces))

    def killed(self, executor, name):
        """Summarizes traces while workers are killed repeatedly, and compares the result."""
        traces = self.traces(40, runs=2000)
        want = self.of_command(traces)
        kills = []

        def kill(done, _all, _failed):
            if done % 5 != 3 or len(kills) == 3:
                return
            workers = [pid for pid in self.descendants(os.getpid()) if name in command_of(pid)]
            with contextlib.suppress(IndexError, ProcessLookupError):  # no worker runs at the moment
                os.kill(workers[-1], signal.SIGKILL)
                kills.append(done)

        report = fleet.summarize(traces, executor=executor, workers=2, retries=5, on_progress=kill)
        self.assertTrue(kills)
        self.assertEqual(len(report.failures), 0)
        self.assertEqual(report.summary, want)

    def descendants(self, pid):
        for child in children(pid):
            yield child
            yield from self.descendants(child)

    def test_a_worker_that_is_killed_loses_nothing(self):
        self.killed("processes", b"spawn_main")

    def test_a_driver_that_is_killed_goes_on(self):
        traces, folder = self.traces(60, runs=500), self.at / "kept"
        script = self.at / "driver.py"
        script.write_text("import glob, sys\nfrom xplane_time import fleet\n"
                          "if __name__ == '__main__':\n"
                          f"    report = fleet.summarize(sorted(glob.glob({str(self.at / 'take0')!r} + '/*')),\n"
                          f"                             workers=2, folder={str(folder)!r})\n"
                          f"    report.save({str(self.at / 'all.xts')!r})\n")
        driver = subprocess.Popen([sys.executable, script], start_new_session=True)
        while len(list(folder.glob("*.xts")) if folder.exists() else ()) < 5:
            time.sleep(0.01)
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        done = len(list(folder.glob("*.xts")))
        self.assertLess(done, 60)
        subprocess.run([sys.executable, script], check=True)
        self.assertEqual((self.at / "all.xts").read_bytes(), self.of_command(traces))

    def test_a_trace_that_ends_its_worker_is_a_failure(self):
        with mock.patch.dict(os.environ, {"PYTHONPATH": str(self.at)}):
            # Like a crash in the reader: the worker ends without a message.
            (self.at / "sitecustomize.py").write_text(
                "import os, sys\n"
                "if 'multiprocessing' in ' '.join(sys.orig_argv):\n"
                "    from xplane_time import fleet_executors\n"
                "    old = fleet_executors._is_address\n"
                "    def is_address(uri):\n"
                "        if 'node0002' in uri: os._exit(9)\n"
                "        return old(uri)\n"
                "    fleet_executors._is_address = is_address\n")
            report = fleet.summarize(self.traces(6), workers=2, retries=1)
        self.assertEqual(len(report.hosts), 5)
        self.assertIn("its worker ended", report.failures["message"][0])

    def test_compare_and_outliers(self):
        base = fleet.summarize(self.traces(8, captures=4), executor="serial")
        self.assertEqual(set(base.outliers["verdict"]), {"typical"})
        slower = fleet.summarize(self.traces(8, captures=4, slow=range(8)), executor="serial")
        self.assertEqual(fleet.compare(base, base, allow_mismatch=True).exit_code, 0)
        compared = fleet.compare(base, slower, paired=True)
        self.assertEqual(compared.exit_code, 10)
        self.assertEqual(compared.rows["verdict"][0], "slower")
        one = fleet.summarize(self.traces(12, captures=4, slow=[5]), executor="serial")
        self.assertEqual([row["host"] for row in one.outliers if row["verdict"] == "slow"],
                         ["node0005"])
        self.assertIn("node0005", repr(one))
        self.assertIn("<!DOCTYPE html>", one.to_html())

    def test_who_a_collective_waited_for(self):
        """Two processes run; one of them sleeps before each step."""
        try:
            import jax  # noqa: F401
        except ImportError:
            self.skipTest("no jax here")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        script = self.at / "worker.py"
        script.write_text(JAX_WORKER)
        for sleeper in (0, 1):
            folder = self.at / f"sleeper{sleeper}"
            workers = [subprocess.Popen(
                [sys.executable, script, str(rank), str(port + sleeper), str(sleeper), folder / str(rank)],
                env={**os.environ, "JAX_PLATFORMS": "cpu"}, stderr=subprocess.PIPE) for rank in (0, 1)]
            for worker in workers:
                told = worker.communicate(timeout=120)[1]
                self.assertEqual(worker.returncode, 0, told.decode()[-2000:])
            traces = sorted(folder.glob("*/plugins/profile/*/*.xplane.pb"))
            self.assertEqual(len(traces), 2)
            report = fleet.summarize(traces, executor="serial",
                                     host=lambda uri: "rank" + pathlib.Path(uri).relative_to(folder).parts[0])
            waits = [row for row in report.waits if row["host"] is not None]
            self.assertEqual(waits[0]["host"], f"rank{sleeper}", report.waits[:5])
            self.assertGreater(waits[0]["waited_ps"], 15 * 20e9)  # at least 20 ms in 15 of 20 steps
            self.assertEqual(report.clocks["host"], ["rank0", "rank1"])
            for clock in report.clocks:  # both ran on one machine
                self.assertFalse(clock["steps"])
                self.assertLess(abs(clock["offset_ps"]), 20e9)

    def test_without_ray_there_is_a_way_out(self):
        with mock.patch.dict(sys.modules, {"ray": None}), \
                self.assertRaisesRegex(xplane_time.ArgumentError, "use executor='processes'"):
            fleet.summarize(self.traces(1), executor="ray")
        with mock.patch.dict(sys.modules, {"fsspec": None}), \
                self.assertRaisesRegex(xplane_time.ArgumentError, "requires fsspec"):
            fleet.summarize(["memory://x.xplane.pb"], executor="serial")

    def test_addresses(self):
        try:
            import fsspec
        except ImportError:
            self.skipTest("no fsspec here")
        trace, = self.traces(1)
        with fsspec.open("memory://node0000.xplane.pb", "wb") as file:
            file.write(trace.read_bytes())
        report = fleet.summarize(["memory://node0000.xplane.pb"], executor="serial")
        self.assertEqual(report.hosts["host"], ["node0000"])
        self.assertEqual(report.functions[0],
                         fleet.summarize([trace], executor="serial").functions[0])

    @unittest.skipIf(ray is None, "no Ray here")
    def test_ray(self):
        probe = "import ray; ray.init(num_cpus=1, include_dashboard=False); ray.shutdown()"
        try:  # Ray also requires shared memory and ports
            subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, timeout=120)
        except subprocess.SubprocessError as error:
            self.skipTest(f"Ray does not start here: {error}")
        try:
            traces = self.traces(20)
            report = fleet.summarize([*traces, self.at / "gone.pb"], executor="ray", workers=2)
            self.assertEqual(len(report.failures), 1)
            self.assertEqual(fleet.summarize(traces, executor="ray").summary, self.of_command(traces))
            node = ray.util.get_node_ip_address()
            self.assertEqual(fleet.summarize({node: traces}, executor="ray").summary,
                             self.of_command(traces))
            self.killed("ray", b"ray::")
        finally:
            ray.shutdown()


if __name__ == "__main__":
    unittest.main()
