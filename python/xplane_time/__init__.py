"""Kernel and function times from XPlane traces (.xplane.pb), exact and fast.

>>> import xplane_time
>>> trace = xplane_time.open("trace.xplane.pb")                      # doctest: +SKIP
>>> trace.functions(device="gpu").to_polars()                        # doctest: +SKIP
>>> for row in trace.kernels(): print(row["kernel"], row["self_ps"])  # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Literal, Union

from xplane_time import _core
from xplane_time.errors import (
    ArgumentError,
    DamagedTraceError,
    Error,
    InputError,
    MissingInputError,
    NothingFoundError,
)
from xplane_time.table import Table

__version__: str = _core.VERSION
__all__ = [
    "ArgumentError",
    "DamagedTraceError",
    "Error",
    "InputError",
    "MissingInputError",
    "NothingFoundError",
    "Report",
    "Table",
    "Trace",
    "open",
]

Metric = Literal["active", "span", "sum"]
Clock = Literal["auto", "device", "profile"]
PathText = Union[str, "os.PathLike[str]"]
Buffer = Union[bytes, bytearray, memoryview]


class Report:
    """What one pass over a trace found, as tables."""

    __slots__ = ("_report",)

    def __init__(self, report: _core.Report) -> None:
        self._report = report

    @property
    def inputs(self) -> Table:
        """One row a file."""
        return Table(self._report.inputs())

    @property
    def devices(self) -> Table:
        """One row a device: executions, busy time."""
        return Table(self._report.devices())

    @property
    def functions(self) -> Table:
        """One row a function and device; columns as in the CSV output."""
        return Table(self._report.functions())

    @property
    def combined(self) -> Table:
        """One row a function: per run the slowest device, runs of all captures."""
        return Table(self._report.combined())

    @property
    def variants(self) -> Table:
        """One row a variant id; empty without by_id=True."""
        return Table(self._report.variants())

    @property
    def kernels(self) -> Table:
        """One row a kernel or op, function and device."""
        return Table(self._report.kernels())

    @property
    def samples(self) -> Table:
        """One row a run; empty without samples=True."""
        return Table(self._report.samples())

    @property
    def diagnostics(self) -> Table:
        """What is doubtful or damaged, counted."""
        return Table(self._report.diagnostics())

    def __repr__(self) -> str:
        doubts = [f"  {row['count']} x {row['message']}" for row in self.diagnostics
                  if row["severity"] != "info"]
        tables = "inputs, devices, functions, combined, variants, kernels, samples, diagnostics"
        return "\n".join([f"Report with tables {tables}", *doubts, f"functions: {self.functions!r}"])


class Trace:
    """One or more opened traces. Made by open(); safe to use from several threads.

    Every method reads the events anew; keep what they return. Options are those of the
    command line: `device` is "gpu", "tpu", "cpu", "all", "gpu:0,2" or "re:PATTERN" (empty:
    the accelerators), patterns are RE2 and search.
    """

    __slots__ = ("_trace",)

    def __init__(self, trace: _core.Trace) -> None:
        self._trace = trace

    @property
    def event_count(self) -> int:
        return self._trace.event_count

    @property
    def inputs(self) -> Table:
        """One row a file."""
        return Table(self._trace.inputs())

    @property
    def planes(self) -> Table:
        """One row a line: what there is, before anything is timed."""
        return Table(self._trace.planes(False))

    @property
    def stats(self) -> Table:
        """One row a stat: which there are, of what type, how often."""
        return Table(self._trace.planes(True))

    def report(
        self,
        *,
        device: str = "",
        function: str = "",
        exclude: str = "",
        kernel: str = "",
        scope: str = "",
        prefix: str = "",
        id_pattern: str | None = None,
        metric: Metric = "active",
        clock: Clock = "auto",
        trim: str = "none",
        skip_runs: int = 0,
        min_duration_ps: int | None = None,
        max_events: int | None = None,
        tolerance_ps: int = 0,
        seed: int = 1,
        samples: bool = False,
        by_id: bool = False,
    ) -> Report:
        """All tables at once, in one pass.

        Times of a function are in columns active_ps_*, span_ps_*, gap_ps_* and sum_ps_*.
        `trim` ("none", "drop-extremes", "iqr", "mad", "percent:P") leaves outliers out, looking
        at `metric`;
        `skip_runs` leaves out each function's first runs. Errors: ArgumentError,
        DamagedTraceError, NothingFoundError.
        """
        options: dict[str, object] = {
            "device": device, "function": function, "exclude": exclude, "kernel": kernel,
            "scope": scope, "prefix": prefix, "metric": metric, "clock": clock, "trim": trim,
            "skip_runs": skip_runs, "tolerance_ps": tolerance_ps, "seed": seed,
            "samples": samples, "by_id": by_id,
        }
        for key, value in (("id_pattern", id_pattern), ("min_duration_ps", min_duration_ps),
                           ("max_events", max_events)):
            if value is not None:
                options[key] = value
        report = Report(self._trace.report(options))
        filters = {"function": function, "exclude": exclude, "kernel": kernel, "scope": scope,
                   "prefix": prefix}
        if any(filters.values()) and not len(report.functions) and not len(report.kernels):
            given = ", ".join(f"{key}={value!r}" for key, value in filters.items() if value)
            raise NothingFoundError("FAILED_PRECONDITION", f"nothing matches {given}; without "
                                    "filters functions() and kernels() show what is there")
        return report

    def functions(
        self,
        *,
        device: str = "",
        function: str = "",
        exclude: str = "",
        prefix: str = "",
        by_id: bool = False,
        id_pattern: str | None = None,
        metric: Metric = "active",
        clock: Clock = "auto",
        trim: str = "none",
        skip_runs: int = 0,
    ) -> Table:
        """One row a function and device; with `by_id` one a variant id."""
        report = self.report(
            device=device, function=function, exclude=exclude, prefix=prefix, by_id=by_id,
            id_pattern=id_pattern, metric=metric, clock=clock, trim=trim, skip_runs=skip_runs)
        return report.variants if by_id else report.functions

    def samples(
        self,
        *,
        device: str = "",
        function: str = "",
        exclude: str = "",
        id_pattern: str | None = None,
        clock: Clock = "auto",
        skip_runs: int = 0,
    ) -> Table:
        """One row a run of each function and device."""
        return self.report(
            device=device, function=function, exclude=exclude, id_pattern=id_pattern,
            clock=clock, skip_runs=skip_runs, samples=True).samples

    def kernels(
        self,
        *,
        device: str = "",
        function: str = "",
        exclude: str = "",
        kernel: str = "",
        scope: str = "",
        clock: Clock = "auto",
    ) -> Table:
        """One row a kernel or op, function and device."""
        return self.report(device=device, function=function, exclude=exclude, kernel=kernel,
                           scope=scope, clock=clock).kernels

    def events(
        self,
        columns: Sequence[str] = (),
        *,
        stats: Sequence[str] = (),
        device: str = "",
        line: str = "",
        name: str = "",
        min_duration_ps: int = 0,
    ) -> Table:
        """Raw events in file order: input, host, plane, line, name, start_ps, duration_ps,
        occurrences, or those of them in `columns`; and a column a stat.

        `start_ps` counts from the beginning of the capture, and is unknown for aggregated
        events. Errors: ArgumentError, DamagedTraceError, NothingFoundError (no such device).
        """
        return Table(self._trace.events({
            "device": device, "line": line, "name": name, "min_duration_ps": min_duration_ps,
            "columns": [columns] if isinstance(columns, str) else list(columns),
            "stats": [stats] if isinstance(stats, str) else list(stats)}))

    def tree(
        self,
        *,
        device: str = "",
        function: str = "",
        line: str = "",
        name: str = "",
        depth: int = 0,
    ) -> Table:
        """Nesting: functions with their kernels, or the events of lines that match `line`."""
        return Table(self._trace.tree({"device": device, "function": function, "line": line,
                                       "name": name, "depth": depth}))

    def __repr__(self) -> str:
        paths = ", ".join(str(path) for path in self.inputs["path"])
        return f"Trace({paths}: {self.event_count:,} events)"


def open(
    source: PathText | Buffer | Iterable[PathText],
    *,
    run: str = "",
    threads: int | None = None,
) -> Trace:
    """Opens a trace, several, or the latest run of a log directory.

    `source`: a path, paths (captures of the same program, kept apart and combined), or the
    bytes of a trace (plain or gzip; not copied, and kept alive by the trace). `threads`:
    all cores unless said otherwise. Errors: InputError, DamagedTraceError.
    """
    count = len(os.sched_getaffinity(0)) if threads is None else threads
    if not isinstance(count, int) or not 1 <= count <= 1024:
        raise ArgumentError("INVALID_ARGUMENT", f"threads: 1 to 1024, not {threads!r}")
    if isinstance(source, (bytes, bytearray, memoryview)):
        return Trace(_core.open_buffer(source, "bytes", count))
    paths = [source] if isinstance(source, (str, os.PathLike)) else source
    try:
        texts = [os.fspath(path) for path in paths]
    except TypeError:
        raise ArgumentError("INVALID_ARGUMENT", "source: a path, several, or the bytes of a "
                            f"trace, not {type(source).__name__}") from None
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ArgumentError("INVALID_ARGUMENT", "source: paths as str, at least one")
    return Trace(_core.open_paths(texts, run, count))
