"""HolisticTraceAnalysis 0.5.0: its kernel and temporal breakdowns of PyTorch's traces.

>>> from xplane_time.compat import hta
>>> analyzer = hta.TraceAnalysis(trace_dir="traces")                  # doctest: +SKIP
>>> analyzer.get_temporal_breakdown()[0]["idle_time_pctg"]            # doctest: +SKIP
53.56

The same events count as in the original: kernels by their `stream`, launches by correlation,
without the last step. Times are exact, while the original rounds starts up and ends down to whole
microseconds. Rows are dicts with the columns of the original's frames: pandas.DataFrame(rows) makes
a frame.
"""

from __future__ import annotations

import collections
import gzip
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import xplane_time
from xplane_time.errors import ArgumentError, NothingFoundError
from xplane_time.files import PathText

__all__ = ["TraceAnalysis"]

_NONE = -1  # an event without a stream or correlation
_SYNCHRONIZATIONS = ("Event Sync", "Context Sync")  # on the device, on any stream
_TYPES = ("COMPUTATION", "COMMUNICATION", "MEMORY")  # and OTHER, which only takes time
_RANK = re.compile(rb'"rank":\s*(\d+)')


class _Kernel(NamedTuple):
    name: str
    start_ps: int
    end_ps: int


class _Event(NamedTuple):
    kernel: _Kernel
    stream: int
    correlation: int

    @property
    def on_device(self) -> bool:
        return (self.stream >= 0 and self.correlation >= 0
                or self.kernel.name in _SYNCHRONIZATIONS)


class TraceAnalysis:
    """The breakdowns of the traces of all ranks.

    `trace_files`: the trace of each rank, or several traces that contain their ranks; without it,
    all traces in `trace_dir`. Relative names are relative to `trace_dir`.

    With at most one ProfilerStep, all kernels count. With more (over all ranks), only kernels that
    were launched before the last step begins count; with `include_last_profiler_step`, kernels
    that were launched at any time. Errors: ArgumentError, NothingFoundError, those of
    xplane_time.open().
    """

    def __init__(self, trace_files: Mapping[int, PathText] | Sequence[PathText] | None = None,
                 trace_dir: PathText = "", include_last_profiler_step: bool = False) -> None:
        if trace_files is None:
            trace_files = [name for name in sorted(os.listdir(trace_dir or "."))
                           if name.endswith((".json", ".gz"))]
        if not isinstance(trace_files, Mapping):
            trace_files = _by_rank(os.path.join(trace_dir, name) for name in trace_files)
        events = {rank: _events(os.path.join(trace_dir, trace_files[rank]))
                  for rank in sorted(trace_files)}
        steps = {event.kernel.name for of_rank in events.values() for event in of_rank
                 if "ProfilerStep" in event.kernel.name}
        self._kernels = {rank: _counted(of_rank, steps, include_last_profiler_step)
                         for rank, of_rank in events.items()}
        if not self._kernels:
            raise ArgumentError("INVALID_ARGUMENT", f"no trace (.json, .gz) in {trace_dir!r}")
        for rank, kernels in self._kernels.items():
            if not kernels:
                raise NothingFoundError(
                    "FAILED_PRECONDITION", f"{trace_files[rank]}: no kernel that this definition "
                    "counts; kernels() of xplane_time.open() lists the kernels")

    def get_gpu_kernel_breakdown(
        self,
        visualize: bool = False,
        duration_ratio: float = 0.8,
        num_kernels: int = 10,
        include_memory_kernels: bool = True,
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Time by kernel type over all ranks, and by kernel and rank.

        If a type and rank has more than `num_kernels` names, the names after that number, or beyond
        the quantile `duration_ratio` of running sums, become "others"; its max, min and mean are
        those of the sums, as in the original. Errors: ArgumentError (`visualize`, because there are
        no pictures).
        """
        _refuse_pictures(visualize)
        types = _TYPES if include_memory_kernels else _TYPES[:2]
        by_type: collections.Counter[str] = collections.Counter()
        rows = []
        for rank, kernels in self._kernels.items():
            of_type: dict[str, list[_Kernel]] = {kind: [] for kind in types}
            for kernel in kernels:
                of_type.get(_type_of(kernel.name), []).append(kernel)
            by_type.update(_time_by_type(of_type))
            for kind, its in of_type.items():
                rows += [{**row, "kernel_type": kind, "rank": rank}
                         for row in _by_name(its, duration_ratio, num_kernels)]
        rows.sort(key=lambda row: (row["kernel_type"], row["name"], row["rank"]))
        total_ps = by_type.total()
        return [{"kernel_type": kind, "sum": _us(time_ps),
                 "percentage": _rounded(time_ps / total_ps * 100, 1)}
                for kind, time_ps in by_type.most_common()], rows

    def get_temporal_breakdown(self, visualize: bool = False) -> list[dict[str, Any]]:
        """Each rank's time from its first kernel to the end of its last one: idle, with
        computation, and without computation. Errors: ArgumentError (`visualize`)."""
        _refuse_pictures(visualize)
        rows = []
        for rank, kernels in self._kernels.items():
            busy = _union(kernels)
            total_ps = busy[-1][1] - busy[0][0]
            idle_ps = total_ps - _length(busy)
            compute_ps = _length(_union(
                kernel for kernel in kernels if _type_of(kernel.name) == "COMPUTATION"))
            parts = {"idle_time": idle_ps, "compute_time": compute_ps,
                     "non_compute_time": total_ps - idle_ps - compute_ps}
            rows.append({
                "rank": rank, **{f"{name}(us)": _us(time_ps) for name, time_ps in parts.items()},
                "kernel_time(us)": _us(total_ps),
                **{f"{name}_pctg": _rounded(100 * (time_ps / total_ps), 2) if total_ps else None
                   for name, time_ps in parts.items()}})
        return rows


def _by_rank(paths: Iterable[str]) -> dict[int, PathText]:
    """The traces by rank; rank 0 if a trace has no rank."""
    found: dict[int, PathText] = {}
    for path in paths:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as lines:
            rank = next((int(match[1]) for match in map(_RANK.search, lines) if match), 0)
        if rank in found:
            raise ArgumentError("INVALID_ARGUMENT", f"{path} and {found[rank]} are both of rank "
                                f"{rank}; give trace_files={{0: ..., 1: ...}}")
        found[rank] = path
    return found


def _events(path: PathText) -> list[_Event]:
    with xplane_time.open(path) as trace:
        known = set(trace.stats["name"])
        if "category" not in known:
            raise NothingFoundError("FAILED_PRECONDITION", f"{os.fspath(path)}: its events have no "
                                    "category; give a trace that torch.profiler wrote (Kineto)")
        stats = ["category", *sorted(known & {"stream", "correlation", "correlation_id"})]
        table = trace.events(["name", "start_ps", "duration_ps"], device="all", stats=stats)
    absent = [None] * len(table)
    columns = (table[name] if name in ("name", "start_ps", "duration_ps", *stats) else absent
               for name in ("name", "start_ps", "duration_ps", "category", "stream",
                            "correlation", "correlation_id"))
    return [
        _Event(_Kernel(name, start_ps, start_ps + duration_ps), _whole(stream),
               _whole(its_id if of_launch is None else of_launch))
        for name, start_ps, duration_ps, category, stream, its_id, of_launch in zip(*columns)
        if category not in ("", "Trace")]


def _whole(value: object) -> int:
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError):
        return _NONE


def _counted(events: list[_Event], steps: set[str], with_last: bool) -> list[_Kernel]:
    """A kernel counts once for each event that launches it."""
    if len(steps) < 2:
        return [event.kernel for event in events if event.stream != _NONE]
    host = [event for event in events if not event.on_device]
    starts_ps = [event.kernel.start_ps for event in host if event.kernel.name in steps]
    if not starts_ps:
        return []
    # With the last step, the original tests whether events start before that step's end. But the
    # events are relative to the first event, and the end is on the clock of the trace, which is
    # later than all of them; so the test always holds.
    if not with_last:
        last_ps = max(starts_ps)
        host = [event for event in host if event.kernel.start_ps < last_ps]
    launches = collections.Counter(event.correlation for event in host)
    counted = [event.kernel for event in host if event.stream != _NONE]
    for event in events:
        if event.on_device and event.stream != _NONE:
            counted += [event.kernel] * launches[event.correlation]
    return counted


def _type_of(name: str) -> str:
    if name.startswith("nccl") and "Kernel" in name:
        return "COMMUNICATION"
    if name.startswith(("Memcpy", "Memset", "dma")):
        return "MEMORY"
    return "OTHER" if "Memcpy" in name or "Sync" in name else "COMPUTATION"


def _union(kernels: Iterable[_Kernel]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start_ps, end_ps in sorted((kernel.start_ps, kernel.end_ps) for kernel in kernels):
        if merged and start_ps <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end_ps))
        else:
            merged.append((start_ps, end_ps))
    return merged


def _length(intervals: Iterable[tuple[int, int]]) -> int:
    return sum(end_ps - start_ps for start_ps, end_ps in intervals)


def _time_by_type(of_type: Mapping[str, list[_Kernel]]) -> dict[str, int]:
    """Each moment counts to one row: the only type that runs then, or the combination of types."""
    edges = []
    for place, kernels in enumerate(of_type.values()):
        for start_ps, end_ps in _union(kernels):
            edges += [(start_ps, 1 << place), (end_ps, -1 << place)]
    edges.sort()
    time_ps: collections.Counter[int] = collections.Counter()
    running = 0
    for (begin_ps, change), (next_ps, _) in zip(edges, edges[1:]):
        running += change
        if running and next_ps > begin_ps:
            time_ps[running] += next_ps - begin_ps
    return {" overlapping ".join(kind for place, kind in enumerate(of_type) if mask >> place & 1):
            its_ps for mask, its_ps in time_ps.items()}


def _by_name(kernels: Iterable[_Kernel], ratio: float, most: int) -> list[dict[str, Any]]:
    of_name: dict[str, list[int]] = {}
    for name, start_ps, end_ps in kernels:
        of_name.setdefault(name, []).append(end_ps - start_ps)
    if len(of_name) > most:
        of_name = _with_others(of_name, ratio, most)
    return [_summary(name, times_ps) for name, times_ps in of_name.items()]


def _with_others(of_name: Mapping[str, list[int]], ratio: float, most: int) -> dict[str, list[int]]:
    """The sum of each name; the names of "others" are combined. The quantile is interpolated
    between two running sums."""
    ranked = sorted(((name, sum(times_ps)) for name, times_ps in of_name.items()),
                    key=lambda each: (-each[1], each[0]))
    running_ps, all_ps = [], 0
    for _, sum_ps in ranked:
        all_ps += sum_ps
        running_ps.append(all_ps)
    share, below = math.modf((len(ranked) - 1) * ratio)
    low_ps, high_ps = running_ps[int(below)], running_ps[min(int(below) + 1, len(ranked) - 1)]
    quantile_ps = low_ps + (high_ps - low_ps) * share
    sums: dict[str, list[int]] = {}
    for place, (name, sum_ps) in enumerate(ranked):
        is_other = place >= most or running_ps[place] > quantile_ps
        sums.setdefault("others" if is_other else name, []).append(sum_ps)
    return sums


def _summary(name: str, times_ps: Sequence[int]) -> dict[str, Any]:
    count, sum_ps = len(times_ps), sum(times_ps)
    squares = count * sum(time_ps * time_ps for time_ps in times_ps) - sum_ps * sum_ps
    variance = squares / (count * (count - 1)) if count > 1 else 0.0
    return {"name": name, "sum (us)": _us(sum_ps), "max (us)": _us(max(times_ps)),
            "min (us)": _us(min(times_ps)), "stddev": math.sqrt(variance) / 1e6,
            "mean (us)": sum_ps / (count * 1_000_000)}


def _us(time_ps: int) -> float:
    return time_ps / 1_000_000


def _rounded(value: float, digits: int) -> float:
    """Rounds like numpy."""
    scale: int = 10**digits
    return round(value * scale) / scale


def _refuse_pictures(visualize: bool) -> None:
    if visualize:
        raise ArgumentError("INVALID_ARGUMENT", "visualize: pictures are not supported; report() of "
                            "xplane_time.open() has to_html()")
