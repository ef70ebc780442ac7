#!/usr/bin/env python3
"""Checks that a trace grown N times by grow_trace gives N times the counts and sums.

    bench/check_grown.py [TRACE] [--times N] [--bin build] [--keep PATH]

Without TRACE, a TPU-shaped trace is made and grown beyond 4 GiB. The small trace is read with the
reference reader (the generated parser), and the grown one with the wire reader. The exit status is
1 if a figure differs. Uses the standard library only.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

MOST_SHOWN = 20


def report(binary, trace, *options):
    command = [binary, trace, "--device", "all", "--format", "json", *options]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def key(row, *names):
    return tuple(str(row[name]) for name in ("plane", "ordinal", *names))


def figures(out, times):
    """Expected figures of the grown trace by name: those that grow are multiplied by `times`."""
    sums = {"events": out["capture"]["events"] * times}
    kinds = {key(row): row["kind"] for row in out["devices"]}
    for row in out["devices"]:
        for name in ("executions", "busy_ps", "sum_ps"):
            sums[(name, *key(row))] = row[name] * times
    for row in out["kernels"]:
        for name in ("count", "total_ps", "self_ps"):
            value = row[name]
            at = (name, *key(row, "kernel", "function", "program_id"))
            sums[at] = None if value is None else value * times
        for name in ("median_ps", "min_ps", "max_ps"):  # repetition does not change these
            sums[(name, *key(row, "kernel", "function", "program_id"))] = row[name]
    for row in out["functions"]:
        if kinds[key(row)] != "tpu":  # on other devices repetition changes the split into runs
            continue
        at = key(row, "function", "program_id")
        sums[("runs", *at)] = row["runs"] * times
        sums[("kernels_total", *at)] = row["kernels_total"] * times
        for metric in ("active_ps", "span_ps", "sum_ps"):
            for name in ("min", "max", "median"):
                sums[(metric, name, *at)] = row[metric] and row[metric][name]
    return sums


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", nargs="?")
    parser.add_argument("--times", type=int)
    parser.add_argument("--bin", default="build")
    parser.add_argument("--keep", help="where to leave the grown trace")
    options = parser.parse_args()
    tools = pathlib.Path(options.bin)
    with tempfile.TemporaryDirectory() as folder:
        small = options.trace
        if small is None:
            small = f"{folder}/seed.xplane.pb"
            subprocess.run([tools / "bench/make_trace", "tpu", small], check=True)
        size = pathlib.Path(small).stat().st_size
        times = options.times or (9 << 29) // size
        large = options.keep or f"{folder}/grown.xplane.pb"
        subprocess.run([tools / "bench/grow_trace", small, large, str(times)], check=True)
        binary = tools / "tools/xplane-time"
        expected = figures(report(binary, small, "--reader", "protobuf"), times)
        found = figures(report(binary, large), 1)
    wrong = [name for name in expected.keys() | found.keys()
             if expected.get(name, "missing") != found.get(name, "missing")]
    for name in sorted(wrong, key=str)[:MOST_SHOWN]:
        print(f"{name}: {found.get(name, 'missing')}, not {expected.get(name, 'missing')}")
    print(f"{len(expected) - len(wrong)} of {len(expected)} figures of {times} times {small} hold")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
