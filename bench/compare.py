#!/usr/bin/env python3
"""Whole processes side by side, in one run: the table of the README.

    bench/compare.py [TRACE...] [--bin build] [--peers PYTHON] [--rounds 7]
    bench/compare.py --scaling [TRACE...]

Without TRACE, a TPU- and a GPU-shaped one of about 80 and 190 MB are made. PYTHON is an
interpreter with jax, tune-jax, xprof or HolisticTraceAnalysis installed, which reads traces of
PyTorch (.json, .json.gz), as only it does. Every row is run once a round; times are medians, memory is
the highest peak. Exit status 1 where a row of ours fails.
"""
import argparse
import json
import os
import pathlib
import resource
import select
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

SHAPES = {"tpu": 80e6, "gpu": 190e6}  # bytes
SCALING_BYTES, SCALING_TIMES = 20e6, 10
SLOW_S = 5  # a slower peer runs once only

PROFILE_DATA = """
import sys
from jax.profiler import ProfileData
spent_ns = {}
for plane in ProfileData.from_file(sys.argv[1]).planes:
    for line in plane.lines:
        for event in line.events:
            spent_ns[event.name] = spent_ns.get(event.name, 0) + event.duration_ns
print(len(spent_ns))
"""
TUNE_JAX = """
import pathlib, sys
from tune_jax import profile_reader as reader
data = reader.parse_profile_from_bytes(pathlib.Path(sys.argv[1]).read_bytes())
find = lambda kind: reader.find_device_plane_ids(data, kind)
for plane in find("tpu") or find("device:gpu") or find("cpu"):
    print(len(reader.get_events_from_plane(data, plane, prefix_filter="jit_")))
"""
HTA = """
import sys
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis({0: sys.argv[1]}, "/")
analysis.get_gpu_kernel_breakdown(visualize=False)
analysis.get_temporal_breakdown(visualize=False)
"""


@dataclass
class Row:
    name: str
    command: list
    ours: bool = False
    maps_file: bool = True  # its peak memory includes the pages of the mapped file
    output_bytes: int = 0
    seconds: list = field(default_factory=list)
    peak_bytes: int = 0
    failure: str = ""

    def due(self):
        slow = bool(self.seconds) and not self.ours and self.seconds[0] > SLOW_S
        return not self.failure and not slow

    @property
    def median_s(self):
        return statistics.median(self.seconds)


def wait(pid, timeout_s):
    """Returns the status and resource usage of a child. It is killed after the timeout (0: no timeout)."""
    if timeout_s:
        watch = os.pidfd_open(pid)
        ended = select.select([watch], [], [], timeout_s)[0]
        os.close(watch)
        if not ended:
            os.kill(pid, 9)
    return os.wait4(pid, 0)[1:]


def measure(row, timeout_s, most_bytes):
    """Runs the row once with output to /dev/null. The memory of peers is limited to the free memory."""
    with tempfile.TemporaryFile() as errors:
        actions = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                   (os.POSIX_SPAWN_DUP2, errors.fileno(), 2)]
        start_s = time.perf_counter()
        pid = os.posix_spawn(row.command[0], row.command, os.environ, file_actions=actions)
        if not row.ours:
            resource.prlimit(pid, resource.RLIMIT_DATA, (most_bytes, most_bytes))
        status, usage = wait(pid, 0 if row.ours else timeout_s)
        taken_s = time.perf_counter() - start_s
        if status:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip().splitlines()
            timed_out = not row.ours and taken_s >= timeout_s
            row.failure = (f"more than {timeout_s} s" if timed_out else
                           said[-1][:100] if said else f"status {status}")
            return
    row.seconds.append(taken_s)
    row.peak_bytes = max(row.peak_bytes, usage.ru_maxrss * 1024)


def rounds_of(rows, arguments):
    """Runs all rows once per round, so that disturbances of the machine affect all rows."""
    available_kb = next(int(line.split()[1]) for line in open("/proc/meminfo")
                        if line.startswith("MemAvailable"))
    for _ in range(arguments.rounds):
        for row in filter(Row.due, rows):
            measure(row, arguments.timeout, available_kb * 1024)


class Tools:
    """The binaries of a build directory."""

    def __init__(self, build):
        self.build = pathlib.Path(build).resolve()
        self.xplane_time = self.find("tools/xplane-time")
        self.make_trace, self.grow_trace, self.parse_only = (
            self.find(f"bench/{name}") for name in ("make_trace", "grow_trace", "parse_only"))

    def find(self, name):
        path = self.build / name
        if not path.exists():
            sys.exit(f"compare.py: no {path}: build with -DXPLANE_TIME_BUILD_BENCH=ON")
        return str(path)

    @staticmethod
    def make(command):
        """Runs a command and exits if it fails. The command prints the reason itself."""
        if status := subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
            sys.exit(status)

    def report(self, trace, threads):
        return [self.xplane_time, str(trace), "--device", "all", "--format", "json",
                "--threads", str(threads)]

    def events(self, trace):
        return [self.xplane_time, "events", str(trace), "--device", "all", "--format", "csv"]

    def grown(self, trace, times, out):
        self.make([self.grow_trace, trace, out, str(times)])
        return out

    def shaped(self, shape, size_bytes, folder):
        seed = folder / f"seed-{shape}.xplane.pb"
        self.make([self.make_trace, shape, seed])
        out = folder / f"{shape}-shaped.xplane.pb"
        seed_bytes = seed.stat().st_size
        more_bytes = self.grown(seed, 2, out).stat().st_size - seed_bytes  # repetition adds events, but no metadata
        return self.grown(seed, 1 + round((size_bytes - seed_bytes) / more_bytes), out)

    def event_count(self, trace):
        done = subprocess.run([self.xplane_time, "planes", trace, "--format", "json"],
                              capture_output=True)
        return "unknown" if done.returncode else json.loads(done.stdout)["capture"]["events"]


def output_size(command):
    size = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        while chunk := process.stdout.read1(1 << 16):
            size += len(chunk)
    return size


def has(python, module):
    done = subprocess.run([python, "-c", f"import {module}"], capture_output=True)
    return done.returncode == 0


def is_kineto(trace):
    return ".json" in trace.suffixes


def peer_rows(python, kineto):
    """Functions from a trace to a row, for each installed peer that can read such a trace."""
    rows, missing = [], []

    def add(there, name, command):
        if there:
            rows.append(lambda trace: Row(name, [*command(str(trace))], maps_file=False))
        else:
            missing.append(name)

    if kineto:
        add(has(python, "hta.trace_analysis"), "HolisticTraceAnalysis",
            lambda trace: (python, "-c", HTA, os.path.abspath(trace)))
        return rows, missing

    xprof = shutil.which("xprof", path=str(pathlib.Path(python).parent))
    add(has(python, "jax.profiler"), "ProfileData loop (jax)",
        lambda trace: (python, "-c", PROFILE_DATA, trace))
    add(has(python, "tune_jax.profile_reader"), "tune-jax profile reader",
        lambda trace: (python, "-c", TUNE_JAX, trace))
    add(xprof, "xprof aggregate_xplane_events",
        lambda trace: (xprof, "aggregate_xplane_events", trace, "--bypass_cache=True"))
    return rows, missing


def our_rows(tools, trace):
    events = tools.events(trace)
    parser = [] if is_kineto(trace) else [
        Row("generated parser, parse only", [tools.parse_only, str(trace)], ours=True)]
    return [Row("xplane-time, 1 thread", tools.report(trace, 1), ours=True),
            Row("xplane-time, 2 threads", tools.report(trace, 2), ours=True),
            Row("xplane-time events --format csv", events, ours=True,
                output_bytes=output_size(events)),
            *parser,
            Row("plain read of the bytes", [tools.parse_only, "--read", str(trace)], ours=True)]


def megabytes(row, less_bytes=0):
    """The peak memory as text. Linux includes the memory before exec, so a peak is never below our own."""
    least_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    sign = "<" if row.peak_bytes <= least_bytes else ""
    return f"{sign}{(row.peak_bytes - less_bytes) / 1e6:.1f}"


def cells(row, first, file_bytes):
    if row.failure:
        return [row.name, "failed", "", "", "", "", row.failure.replace("|", "/")]
    note = "one run" if len(row.seconds) == 1 else ""
    if row.output_bytes:
        note = (f"{row.output_bytes / row.median_s / 1e6:.0f} MB/s of output, "
                f"{row.output_bytes / 1e6:.1f} MB")
    ratio = "" if first.failure else f"{row.median_s / first.median_s:.2f}"
    return [row.name, f"{row.median_s:.4f}", f"{min(row.seconds):.4f} to {max(row.seconds):.4f}",
            ratio, megabytes(row), megabytes(row, file_bytes) if row.maps_file else "", note]


def print_table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("| --- |" + " ---: |" * (len(head) - 2) + " --- |")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def print_machine(tools):
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo")
                  if line.startswith("model name")), os.uname().machine)
    print(f"machine: {model}, {len(os.sched_getaffinity(0))} cores")
    cache = {}
    for line in open(tools.build / "CMakeCache.txt"):
        key, _, value = line.strip().partition("=")
        cache[key.partition(":")[0]] = value
    compiler = cache.get("CMAKE_CXX_COMPILER", "")
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
    parts = [(version.splitlines() or ["unknown compiler"])[0], cache.get("CMAKE_BUILD_TYPE", ""),
             cache.get("CMAKE_CXX_FLAGS", "")]
    print("build:", ", ".join(part for part in parts if part))
    print("command:", shlex.join(["bench/compare.py", *sys.argv[1:]]), "\n", flush=True)


def compare(tools, traces, arguments):
    missing, failed = {}, False
    for trace in traces:
        peers, lacking = peer_rows(arguments.peers, is_kineto(trace)) if arguments.peers else ([], [])
        missing.update(dict.fromkeys(lacking))
        file_bytes = trace.stat().st_size  # output_size() below also warms the page cache
        rows = our_rows(tools, trace) + [peer(trace) for peer in peers]
        rounds_of(rows, arguments)
        print(f"{trace.name}: {file_bytes / 1e6:.1f} MB, {tools.event_count(trace)} events\n")
        print_table(["", "median s", "range s", "x 1 thread", "peak MB", "beyond the file MB", ""],
                    [cells(row, rows[0], file_bytes) for row in rows])
        failed |= any(row.ours and row.failure for row in rows)
    if missing:
        print("not installed:", ", ".join(missing))
    return failed


def scaling(tools, traces, arguments, folder):
    table, failed = [], False
    for trace in traces:
        longer = tools.grown(trace, SCALING_TIMES, folder / "longer.xplane.pb")
        sizes = [path.stat().st_size for path in (trace, longer)]
        rows = [Row(path.name, tools.report(path, 1), ours=True) for path in (trace, longer)]
        rounds_of(rows, arguments)
        longer.unlink()
        if any(row.failure for row in rows):
            failed = True
            table.append([trace.name, "failed", "", "", "", "", rows[0].failure or rows[1].failure])
            continue
        beyond = [megabytes(row, size) for row, size in zip(rows, sizes)]
        table.append([trace.name, *(f"{size / 1e6:.1f}: {row.median_s:.4f}"
                                    for row, size in zip(rows, sizes)),
                      f"{sizes[1] / sizes[0]:.2f}", f"{rows[1].median_s / rows[0].median_s:.2f}",
                      " to ".join(beyond), ""])
    print_table(["", "MB: median s", f"{SCALING_TIMES} x longer", "bytes x", "time x",
                 "beyond the file MB", ""], table)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", metavar="TRACE", type=pathlib.Path)
    parser.add_argument("--bin", default="build", metavar="DIR", help="build directory [build]")
    parser.add_argument("--peers", metavar="PYTHON",
                        type=lambda name: os.path.abspath(shutil.which(name) or name))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--timeout", type=int, default=600, metavar="S", help="of a peer [600]")
    parser.add_argument("--scaling", action="store_true",
                        help=f"ours on each trace and on one {SCALING_TIMES} x longer")
    arguments = parser.parse_args()
    for trace in arguments.traces:
        if not trace.is_file():
            parser.error(f"no file {trace}")
    if arguments.peers and not os.access(arguments.peers, os.X_OK):
        parser.error(f"no interpreter {arguments.peers}")
    if arguments.rounds < 1 or arguments.timeout < 1:
        parser.error("--rounds and --timeout are at least 1")
    tools = Tools(arguments.bin)
    print_machine(tools)
    with tempfile.TemporaryDirectory(prefix="xplane-time-bench-") as name:
        folder = pathlib.Path(name)
        traces = arguments.traces or [
            tools.shaped(shape, SCALING_BYTES if arguments.scaling else size, folder)
            for shape, size in SHAPES.items()]
        if arguments.scaling:
            return scaling(tools, traces, arguments, folder)
        return compare(tools, traces, arguments)


if __name__ == "__main__":
    sys.exit(main())
