"""Kernel and function times from XPlane traces (.xplane.pb), exact and fast.

>>> import xplane_time
>>> trace = xplane_time.open("trace.xplane.pb")                      # doctest: +SKIP
>>> trace.functions(device="gpu").to_polars()                        # doctest: +SKIP
>>> for row in trace.kernels(): print(row["kernel"], row["self_ps"])  # doctest: +SKIP
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import IO, Any, NoReturn, Union, Unpack, cast

from xplane_time import _core
from xplane_time.errors import (
    ArgumentError,
    DamagedTraceError,
    Error,
    InputError,
    MissingInputError,
    NothingFoundError,
    XplaneTimeWarning,
)
from xplane_time.files import PathText
from xplane_time.options import (
    DiffOptions,
    EnergyOptions,
    FunctionOptions,
    HeadroomOptions,
    KernelOptions,
    ReportOptions,
    SampleOptions,
    checked,
    documented,
)
from xplane_time.results import (
    BriefReport,
    DiffReport,
    EnergyReport,
    HeadroomReport,
    Report,
    Result,
    TableWithPage,
    WhereReport,
    doubts_of,
)
from xplane_time.table import Table
from xplane_time.tuned_table import TunedMatch, TunedTable, tuned

__version__: str = _core.VERSION
__all__ = [
    "ArgumentError",
    "BriefReport",
    "DamagedTraceError",
    "DiffOptions",
    "DiffReport",
    "EnergyOptions",
    "EnergyReport",
    "Error",
    "FunctionOptions",
    "HeadroomOptions",
    "HeadroomReport",
    "InputError",
    "KernelOptions",
    "MissingInputError",
    "NothingFoundError",
    "Report",
    "ReportOptions",
    "Result",
    "SampleOptions",
    "Table",
    "TableWithPage",
    "Trace",
    "TunedMatch",
    "TunedTable",
    "WhereReport",
    "XplaneTimeWarning",
    "diff",
    "energy_of_layers",
    "open",
    "tuned",
]

Buffer = Union[bytes, bytearray, memoryview]

_LEFT_OUT, _WITHOUT_VALUE = "host_left_out", "stat_without_value"

_FILTERS = ("function", "exclude", "prefix", "kernel", "exclude_kernel", "scope")


def _messages(diagnostics: Table, *codes: str) -> list[str]:
    return [row["message"] for row in diagnostics if row["code"] in codes]


class _Closed:
    """In the place of a trace that is closed."""

    def __getattr__(self, name: str) -> NoReturn:
        raise ArgumentError("INVALID_ARGUMENT", "the trace is closed; open it again")


class Trace:
    """One or more opened traces. Made by open(); safe to use from several threads.

    Every method reads the events anew; keep what they return. Options are those of the
    command line; help() of each method lists them.

    >>> with xplane_time.open("trace.xplane.pb") as trace:  # doctest: +SKIP
    ...     table = trace.functions()
    """

    __slots__ = ("_left_out", "_trace")

    def __init__(self, trace: _core.Trace) -> None:
        self._trace = trace
        self._left_out = _messages(Table(trace.diagnostics()), _LEFT_OUT)

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the file or bytes. Tables that were made stay as they are."""
        self._trace = cast(_core.Trace, _Closed())

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Trace cannot be pickled; open it where it is used, or pickle "
                        "to_arrow(), to_pandas() or to_dict() of its tables")

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
        return self._table(self._trace.planes(False))

    @property
    def stats(self) -> Table:
        """One row a stat: which there are, of what type, how often."""
        return self._table(self._trace.planes(True))

    def _table(self, made: tuple[_core.Table, _core.Table]) -> Table:
        """With its doubts; for a method that the user calls."""
        diagnostics = Table(made[1])
        self._warn_of_missing(diagnostics, 4)
        return Table(made[0], doubts_of(diagnostics))

    def _warn_of_missing(self, diagnostics: Table, level: int) -> None:
        """Of what opening did not tell already."""
        for message in _messages(diagnostics, _LEFT_OUT, _WITHOUT_VALUE):
            if message not in self._left_out:
                warnings.warn(message, XplaneTimeWarning, stacklevel=level)

    @documented(ReportOptions)
    def report(self, **options: Unpack[ReportOptions]) -> Report:
        """All tables at once, in one pass.

        Times of a function are in columns active_ps_*, span_ps_*, gap_ps_* and sum_ps_*.
        Errors: ArgumentError, DamagedTraceError, NothingFoundError.
        """
        # What only the page shows: where each device's time went.
        return self._report("report", ReportOptions, options, parts=True)

    @documented(FunctionOptions)
    def functions(self, **options: Unpack[FunctionOptions]) -> TableWithPage:
        """One row a function and device; with `by_id` one a variant id.

        Warns (XplaneTimeWarning) where the trace does not tell how a function splits into
        runs: its times may be wrong. Errors: as report().
        """
        report = self._report("functions", FunctionOptions, options)
        table = report.variants if options.get("by_id") else report.functions
        _warn_of_uncertain(table, report)
        return report.part("functions", table)

    @documented(SampleOptions)
    def samples(self, **options: Unpack[SampleOptions]) -> TableWithPage:
        """One row a run of each function and device. Warnings and errors: as functions()."""
        report = self._report("samples", SampleOptions, options, samples=True)
        _warn_of_uncertain(report.functions, report)
        return report.part("samples", report.samples)

    @documented(KernelOptions)
    def kernels(self, **options: Unpack[KernelOptions]) -> TableWithPage:
        """One row a kernel or op, function and device. Errors: as report()."""
        report = self._report("kernels", KernelOptions, options)
        return report.part("kernels", report.kernels)

    def _report(self, method: str, known: type, options: Mapping[str, object],
                **more: object) -> Report:
        given = checked(method, known, options)
        report = Report(self._trace.report({**given, **more}), self._timeline(given),
                        self._perfetto(given))
        self._warn_of_missing(report.diagnostics, 4)
        if not len(report.functions) and not len(report.kernels):
            _refuse_filters(given)
        return report

    def _timeline(self, given: Mapping[str, object]) -> Callable[[], str]:
        """What pages draw of the devices, while the trace is open."""
        def timeline() -> str:
            closed = isinstance(self._trace, _Closed)
            return "" if closed else self._trace.timeline(dict(given))
        return timeline

    def _perfetto(self, given: Mapping[str, object],
                  energy: _core.EnergyReport | None = None) -> Callable[..., None]:
        """Writes the devices' timeline, while the trace is open."""
        device = str(given.get("device", ""))
        return lambda write: self._trace.perfetto(device, energy, write)

    @documented(EnergyOptions)
    def energy(self, power_log: PathText = "", **options: Unpack[EnergyOptions]) -> EnergyReport:
        """The energy of kernels, functions and layers, from a log of `power record`.

        Without a log the power is that of counters in the trace. Filters choose rows and change no
        number. Errors: those of report(); NothingFoundError where no device has a number, with the
        reason; DamagedTraceError of a log that is none.
        """
        given = checked("energy", EnergyOptions, options)
        given["layers"] = _path(given.get("layers", ""))
        made = self._trace.energy({"power_log": _path(power_log), **given})
        report = EnergyReport(made, self._perfetto(given, made))
        self._warn_of_missing(report.diagnostics, 3)
        if not len(report.kernels):
            _refuse_filters(given)
        return report

    def brief(self, *, device: str = "", limit: int = 5, peak_flops_per_s: float | None = None,
              peak_bytes_per_s: float | None = None, step_re: str = "", collective_re: str = "",
              copy_re: str = "") -> BriefReport:
        """What to look at first: findings, what each could give back, and why.

        `limit`: at most so many. The peaks and patterns: as of headroom(); `step_re`: as of
        where(). Errors: as report().
        """
        peaks = {"peak_flops_per_s": peak_flops_per_s, "peak_bytes_per_s": peak_bytes_per_s}
        given: dict[str, object] = {
            name: peak for name, peak in peaks.items() if peak is not None}
        given |= {"device": device, "step_re": step_re, "collective_re": collective_re,
                  "copy_re": copy_re}
        report = BriefReport(self._trace.brief(given, limit))
        self._warn_of_missing(report.diagnostics, 3)
        return report

    def where(self, *, device: str = "", step_re: str = "", collective_re: str = "",
              copy_re: str = "") -> WhereReport:
        """What each device's time went to: work, exposed transfers, waiting.

        `step_re`: host events (of PyTorch: annotations) whose names match mark the steps. The other
        patterns: as of headroom(). Errors: as report().
        """
        given: dict[str, object] = {"device": device, "step_re": step_re,
                                    "collective_re": collective_re, "copy_re": copy_re}
        report = WhereReport(self._trace.where(given), self._timeline(given))
        self._warn_of_missing(report.diagnostics, 3)
        return report

    @documented(HeadroomOptions)
    def headroom(self, **options: Unpack[HeadroomOptions]) -> HeadroomReport:
        """What each op's time could give back, by a roofline. Errors: as report()."""
        given = checked("headroom", HeadroomOptions, options)
        report = HeadroomReport(self._trace.headroom(given))
        self._warn_of_missing(report.diagnostics, 3)
        if not len(report.ops):
            _refuse_filters(given)
        return report

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
        events. Warns (XplaneTimeWarning) of a stat that none of these events has. Errors:
        ArgumentError, DamagedTraceError, NothingFoundError (no such device, no such stat).
        """
        return self._table(self._trace.events({
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
        by: str = "nesting",
    ) -> TableWithPage:
        """Nesting: functions with their kernels, or the events of lines that match `line`.

        `by`: "scope" (name scopes of ops), "source" (files and lines, under the calls around
        them) or "module" (of PyTorch, around the launch): the own time of each op, instead.
        """
        result = self._trace.tree({"device": device, "function": function, "line": line,
                                   "name": name, "depth": depth, "by": by})
        table = self._table((result.table("tree"), result.table("diagnostics")))
        return TableWithPage(table, result)

    def __repr__(self) -> str:
        if isinstance(self._trace, _Closed):
            return "Trace(closed)"
        paths = ", ".join(str(path) for path in self.inputs["path"])
        return f"Trace({paths}: {self.event_count:,} events)"


def _refuse_filters(given: Mapping[str, object]) -> None:
    """Where nothing is left: for what they left out."""
    filters = {name: given[name] for name in _FILTERS if given.get(name)}
    if filters:
        texts = ", ".join(f"{name}={value!r}" for name, value in filters.items())
        raise NothingFoundError("FAILED_PRECONDITION", f"no execution matches {texts}; list all "
                                                       "with functions() and kernels() without "
                                                       "filters")


def _path(path: PathText) -> str:
    """As the library takes them. Errors: ArgumentError."""
    text = os.fspath(path)
    if not isinstance(text, str) or "\0" in text:
        raise ArgumentError("INVALID_ARGUMENT", "path: must be a str without a zero byte, not "
                                                f"{text!r}")
    return text


def _warn_of_uncertain(functions: Table, report: Report) -> None:
    """For the caller of the method that calls this."""
    uncertain = [name for name, status in zip(functions["function"], functions["status"])
                 if status == "runs_uncertain"]
    if uncertain:
        why = "; ".join(dict.fromkeys(row["message"] for row in report.diagnostics
                                      if row["code"] == "runs_uncertain"))
        warnings.warn(f"times may be wrong: {why}",
                      XplaneTimeWarning, stacklevel=3)


def open(
    source: PathText | Buffer | IO[bytes] | Iterable[PathText],
    *,
    run: str = "",
    threads: int | None = None,
) -> Trace:
    """Opens a trace, several, or the latest run of a log directory.

    `source`: a path, paths (captures of the same program, kept apart and combined), the
    bytes of a trace (plain or gzip; not copied, and kept alive by the trace), or a binary file,
    which is read to its end. `threads`: all cores unless said otherwise.

    Of a run directory the hosts whose file is damaged are left out, with a warning
    (XplaneTimeWarning), as long as one is sound. Errors: InputError, DamagedTraceError.
    """
    trace = Trace(_opened(source, run, threads))
    for message in trace._left_out:
        warnings.warn(message, XplaneTimeWarning, stacklevel=2)
    return trace


@documented(DiffOptions)
def diff(base: PathText | Iterable[PathText], head: PathText | Iterable[PathText],
         **options: Unpack[DiffOptions]) -> DiffReport:
    """What changed from `base` to `head`, kernel by kernel, as a sum that comes out.

    Each side is a trace or several captures of one program, as paths; with enough of them rows have
    intervals and verdicts. Errors: those of open(); NothingFoundError where nothing of both sides
    can be set against each other.
    """
    given = checked("diff", DiffOptions, options)
    sides = tuple([os.fsencode(path) for path in _paths(side)] for side in (base, head))
    report = DiffReport(_core.diff(sides, given, len(os.sched_getaffinity(0))))
    for message in _messages(report.diagnostics, _LEFT_OUT):
        warnings.warn(message, XplaneTimeWarning, stacklevel=2)
    return report


def _opened(source: PathText | Buffer | IO[bytes] | Iterable[PathText], run: str,
            threads: int | None) -> _core.Trace:
    count = len(os.sched_getaffinity(0)) if threads is None else threads
    if not isinstance(count, int) or not 1 <= count <= 1024:
        raise ArgumentError("INVALID_ARGUMENT", f"threads: must be 1 to 1024, not {threads!r}")
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _core.open_buffer(source, "bytes", count)
    read = getattr(source, "read", None)
    if read is not None:
        content = read()
        if not isinstance(content, bytes):
            raise ArgumentError("INVALID_ARGUMENT", "source: a file in text mode; open it with "
                                'mode "rb", or give its path')
        return _core.open_buffer(content, "bytes", count)
    return _core.open_paths([os.fsencode(path) for path in _paths(source)], run, count)


def _paths(source: PathText | Buffer | IO[bytes] | Iterable[PathText]) -> list[str]:
    """One or several. Errors: ArgumentError."""
    single = isinstance(source, (str, os.PathLike))
    paths = cast("Iterable[PathText]", [source] if single else source)
    try:
        texts = [os.fspath(path) for path in paths]
    except TypeError:
        raise ArgumentError("INVALID_ARGUMENT", "source: must be a path, several paths, or the "
                                                f"bytes of a trace, not {type(source).__name__}") from None
    if not texts or not all(isinstance(text, str) for text in texts):
        odd = next((text for text in texts if not isinstance(text, str)), None)
        what = "no path" if odd is None else f"{type(odd).__name__} among the paths"
        raise ArgumentError("INVALID_ARGUMENT", f"source: {what}; give at least one path as str, "
                                                "or the bytes of one trace")
    if any("\0" in text for text in texts):
        raise ArgumentError("INVALID_ARGUMENT", "source: a path contains a zero byte")
    return texts


def energy_of_layers(
    layers: PathText | Iterable[tuple[str, int, int]],
    power_log: PathText,
    *,
    device: str = "",
    map: Mapping[int, str] | None = None,
) -> EnergyReport:
    """The energy of layers that were marked, without a trace.

    `layers`: (name, start_ns, end_ns) of time.monotonic_ns() on the machine of the log, or a CSV
    file (layer_name, start_time, end_time in UNIX seconds). Wait for the device before each mark:
    it did the layer's work, and no other's, between the two. `device`: where they ran, "gpu:1" or
    "cpu" [a GPU where the log has one]. `map`: as of Trace.energy. Errors: as there.
    """
    is_file = isinstance(layers, (str, os.PathLike))
    runs = _path(cast(PathText, layers)) if is_file else list(
        cast("Iterable[tuple[str, int, int]]", layers))
    return EnergyReport(_core.energy_of_layers(
        runs, {"power_log": _path(power_log), "device": device, "map": map or {}}))
