#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Computes what xplane-time has to report for the JAX CPU traces of this folder.

    venv/bin/python testdata/answers_jax_cpu.py [TRACE ...]

(the environment of record_jax_cpu.py.) Without arguments, all jax_cpu_*.xplane.pb
beside this script. Writes answers/<trace>.json beside each trace. Slow and obvious
on purpose, and independent of the C++ code: expected values in tests come from here.

A thunk is an event of plane /host:CPU that has a stat hlo_op and no correlation_id
and whose name does not start with "end: ". The thunks of one (hlo_module, program_id,
device_ordinal, run_id) are one run. All times are integer picoseconds: the line's
timestamp_ns * 1000 + the event's offset_ps; intervals are half-open.

Layout (rows are sorted by their first fields):

  trace, events, planes   file name; number of events and of planes in the file
  functions               a row for each plane, ordinal (device_ordinal), function
                          (hlo_module), program_id (text, unsigned)
    clock                 always "profile"
    runs, suspect_runs    suspect: the ops of the run are a strict sub-multiset of the
                          modal run's, where the mode covers at least 3/4 of at least
                          4 runs
    kernels_total         thunks of all runs, suspect ones included; a while or
                          conditional thunk counts beside the thunks of its body
    active_ps             {n, mean, std, min, max} of the length of the union of a
                          run's thunks; std with ddof 0; suspect runs left out
    span_ps, sum_ps       likewise for last end - first start, and for the plain sum
    envelope_ps           last end - first start over all runs, suspect ones included
  devices                 a row for each plane, ordinal: executions (thunks), busy_ps
                          (union), sum_ps, first_ps (start), last_ps (end)
  kernels                 a row for each plane, ordinal, function, program_id, kernel
                          (event name): clock, count, total_ps
"""

import json
import pathlib
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tune_jax.profile_reader import xplane_pb2

HOST_PLANE = "/host:CPU"
Row = dict[str, Any]


class Thunk(NamedTuple):
    """One thunk event: what it belongs to, and its interval [start, end)."""

    plane: str
    ordinal: int
    function: str
    program_id: str
    run_id: int
    kernel: str
    start_ps: int
    end_ps: int


def stats_of(plane, event) -> Row:
    """The stats of an event by name, references resolved."""
    stats = {}
    for stat in event.stats:
        kind = stat.WhichOneof("value")
        value = getattr(stat, kind) if kind else None
        if kind == "ref_value":
            value = plane.stat_metadata[value].name
        stats[plane.stat_metadata[stat.metadata_id].name] = value
    return stats


def thunks_of(space) -> list[Thunk]:
    """All thunk events of a trace."""
    thunks = []
    for plane in space.planes:
        if plane.name != HOST_PLANE:
            continue
        for line in plane.lines:
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                stats = stats_of(plane, event)
                if "hlo_op" not in stats or "correlation_id" in stats:
                    continue
                if name.startswith("end: "):
                    continue
                program_id = str(stats["program_id"] % 2**64)
                owner = stats["device_ordinal"], stats["hlo_module"], program_id
                start = line.timestamp_ns * 1000 + event.offset_ps
                end = start + event.duration_ps
                row = (plane.name, *owner, stats["run_id"], name, start, end)
                thunks.append(Thunk(*row))
    return thunks


def group(thunks: Iterable[Thunk], key: Callable) -> dict[Any, list[Thunk]]:
    """The thunks by key, keys in ascending order."""
    groups = defaultdict(list)
    for thunk in thunks:
        groups[key(thunk)].append(thunk)
    return dict(sorted(groups.items()))


def union_ps(thunks: list[Thunk]) -> int:
    """The time that at least one thunk covers."""
    total, covered_to = 0, None
    for start, end in sorted((t.start_ps, t.end_ps) for t in thunks):
        if covered_to is None or start > covered_to:
            covered_to = start
        total += max(0, end - covered_to)
        covered_to = max(covered_to, end)
    return total


def span_ps(thunks: list[Thunk]) -> int:
    """From the first start to the last end."""
    return max(t.end_ps for t in thunks) - min(t.start_ps for t in thunks)


def sum_ps(thunks: list[Thunk]) -> int:
    """The plain sum of the durations."""
    return sum(t.end_ps - t.start_ps for t in thunks)


def is_suspect(runs: list[list[Thunk]]) -> list[bool]:
    """For each run of one function, whether it seems to have lost thunks."""
    ops = [Counter(t.kernel for t in run) for run in runs]
    shapes = Counter(frozenset(c.items()) for c in ops)
    mode, covered = max(shapes.items(), key=lambda s: (s[1], sum(n for _, n in s[0])))
    if len(runs) < 4 or 4 * covered < 3 * len(runs):
        return [False] * len(runs)
    modal = Counter(dict(mode))
    return [c < modal for c in ops]


def summary(values: list[int]) -> Row:
    """Statistics of the samples of one function."""
    return {
        "n": len(values),
        "mean": sum(values) / len(values),
        "std": statistics.pstdev(values),
        "min": min(values),
        "max": max(values),
    }


def function_rows(thunks: list[Thunk]) -> list[Row]:
    """One row for each function, program and device."""
    rows = []
    key = lambda t: (t.plane, t.ordinal, t.function, t.program_id)
    for (plane, ordinal, function, program_id), members in group(thunks, key).items():
        runs = list(group(members, lambda t: t.run_id).values())
        suspect = is_suspect(runs)
        sound = [run for run, bad in zip(runs, suspect) if not bad]
        rows.append(
            {
                "plane": plane,
                "ordinal": ordinal,
                "function": function,
                "program_id": program_id,
                "clock": "profile",
                "runs": len(runs),
                "suspect_runs": sum(suspect),
                "kernels_total": len(members),
                "active_ps": summary([union_ps(run) for run in sound]),
                "span_ps": summary([span_ps(run) for run in sound]),
                "sum_ps": summary([sum_ps(run) for run in sound]),
                "envelope_ps": span_ps(members),
            }
        )
    return rows


def device_rows(thunks: list[Thunk]) -> list[Row]:
    """One row for each device."""
    return [
        {
            "plane": plane,
            "ordinal": ordinal,
            "executions": len(members),
            "busy_ps": union_ps(members),
            "sum_ps": sum_ps(members),
            "first_ps": min(t.start_ps for t in members),
            "last_ps": max(t.end_ps for t in members),
        }
        for (plane, ordinal), members in group(
            thunks, lambda t: (t.plane, t.ordinal)
        ).items()
    ]


def kernel_rows(thunks: list[Thunk]) -> list[Row]:
    """One row for each kernel of each function, program and device."""
    key = lambda t: (t.plane, t.ordinal, t.function, t.program_id, t.kernel)
    return [
        {
            "plane": plane,
            "ordinal": ordinal,
            "kernel": kernel,
            "function": function,
            "program_id": program_id,
            "clock": "profile",
            "count": len(members),
            "total_ps": sum_ps(members),
        }
        for (plane, ordinal, function, program_id, kernel), members in group(
            thunks, key
        ).items()
    ]


def answers(trace: pathlib.Path) -> Row:
    """Everything that is expected of one trace."""
    space = xplane_pb2.XSpace.FromString(trace.read_bytes())
    thunks = thunks_of(space)
    return {
        "trace": trace.name,
        "events": sum(len(line.events) for p in space.planes for line in p.lines),
        "planes": len(space.planes),
        "functions": function_rows(thunks),
        "devices": device_rows(thunks),
        "kernels": kernel_rows(thunks),
    }


def main() -> None:
    """Writes the answers of the named traces."""
    here = pathlib.Path(__file__).parent
    named = [pathlib.Path(name) for name in sys.argv[1:]]
    for trace in named or sorted(here.glob("jax_cpu_*.xplane.pb")):
        stem = trace.name.removesuffix(".xplane.pb")
        target = trace.parent / "answers" / f"{stem}.json"
        target.parent.mkdir(exist_ok=True)
        target.write_text(json.dumps(answers(trace), indent=1) + "\n")
        print(f"{target.parent.name}/{target.name}")


if __name__ == "__main__":
    main()
