#!/usr/bin/env python3
"""The cost of the power recorder, measured by itself and from outside, and the accuracy of its schedule.

    python bench/power_overhead.py build/tools/xplane-time build/tests/libfake_nvml.so [SECONDS]

Records simulated sensors: files for RAPL, a library for NVML. `itself` is the CPU time of the reader's
thread in the last line of the log. `outside` is the CPU time of the whole process by wait4. Both are
fractions of one core. Late: time from the deadline of a pass to its start. A skipped deadline
(`missed`) counts as one period late. The exit status is 1 if p99 is one period or more.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time


def fake_sysfs(root):
    package = root / "class/powercap/intel-rapl:0"
    package.mkdir(parents=True)
    (package / "name").write_text("package-0\n")
    (package / "energy_uj").write_text("123456789\n")
    (package / "max_energy_range_uj").write_text("262143328850\n")


def record(binary, arguments, seconds, log, environment):
    begin = time.monotonic()
    process = subprocess.Popen(
        [binary, "power", "record", "--duration", str(seconds), "--log", log, *arguments],
        stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.monotonic() - begin
    if status != 0:
        sys.exit(f"{binary} ended with status {status}")
    return (usage.ru_utime + usage.ru_stime) / elapsed


def lateness(lines, period_ns):
    """The lateness of every deadline, ascending, and the number of skipped ones (each late by one period).

    It repeats the arithmetic of the recorder: after a pass comes the next deadline in the future."""
    passes = [(line["t"], line["t"] + max(start + took for _, start, took, *_ in line["r"]))
              for line in lines if "r" in line]
    del passes[-1]  # the last pass has no deadline, because it follows the end
    first = passes[0][0]
    # The first pass may be late itself, by as much as other passes seem early.
    early = ((first - begin) % period_ns for begin, _ in passes)
    due = first - max(each for each in early if each < period_ns / 10)
    late = []
    for begin, end in passes:
        late.append(begin - due)
        due += period_ns
        if end >= due:
            due += (1 + (end - due) // period_ns) * period_ns
    missed = [line for line in lines if "end" in line][0]["end"]["readers"][0]["missed"]
    return sorted(late + [period_ns] * missed), missed


def quantile(ascending, share):
    return ascending[min(len(ascending) - 1, int(len(ascending) * share))]


def main():
    binary, library = sys.argv[1:3]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 20
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        fake_sysfs(root / "sys")
        eight = root / "eight.json"
        eight.write_text(json.dumps({"devices": [
            {"uuid": f"GPU-{i}", "bus": i + 1} for i in range(8)]}))
        cases = [
            ("NVML, 1 GPU, 20 Hz", 50, ["--source", "nvml", "--nvml-library", library], {}),
            ("NVML, 8 GPUs, 20 Hz", 50, ["--source", "nvml", "--nvml-library", library],
             {"FAKE_NVML_SCRIPT": str(eight)}),
            ("RAPL, 100 Hz", 10, ["--source", "rapl", "--sysfs-root", str(root / "sys")], {}),
            ("RAPL, 1 kHz", 1, ["--source", "rapl", "--sysfs-root", str(root / "sys")], {}),
            ("constant, 1 kHz", 1, ["--source", "constant:100"], {}),
        ]
        print(f"{'sensor':22} {'passes':>7} {'itself':>7} {'outside':>8} {'late p50':>10} "
              f"{'late p99':>10} {'missed':>7}")
        too_late = []
        for name, period_ms, arguments, variables in cases:
            log = str(root / "log.jsonl")
            outside = record(binary, [*arguments, "--period", str(period_ms)], seconds, log,
                             {**os.environ, **variables})
            with open(log) as file:
                lines = [json.loads(line) for line in file]
            own_ns = [line for line in lines if "end" in line][0]["end"]["readers"][0]["own_cpu_ns"]
            late, missed = lateness(lines, period_ms * 1_000_000)
            p50, p99 = quantile(late, 0.5), quantile(late, 0.99)
            print(f"{name:22} {len(late) - missed:7} {own_ns / seconds / 1e9:7.2%} {outside:8.2%} "
                  f"{p50 / 1e3:7.0f} us {p99 / 1e3:7.0f} us {missed:7}")
            if p99 >= period_ms * 1_000_000:
                too_late.append(name)
    if too_late:
        sys.exit("p99 is one period or more: " + "; ".join(too_late))


if __name__ == "__main__":
    main()
