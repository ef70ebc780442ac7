"""Kernel and function times from XPlane traces (.xplane.pb), exact and fast.

>>> import xplane_time
>>> trace = xplane_time.open("trace.xplane.pb")                      # doctest: +SKIP
>>> trace.functions(device="gpu").to_polars()                        # doctest: +SKIP
>>> for row in trace.kernels(): print(row["kernel"], row["self_ps"])  # doctest: +SKIP
"""

from __future__ import annotations

import json
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
    CompareOptions,
    DiffOptions,
    EnergyOptions,
    FunctionOptions,
    HeadroomOptions,
    KernelOptions,
    PickOptions,
    ReportOptions,
    SampleOptions,
    checked,
    documented,
)
from xplane_time.results import (
    UNCERTAIN_STATUSES,
    BriefReport,
    CompareReport,
    DiffReport,
    EnergyReport,
    HeadroomReport,
    PickReport,
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
    "CompareOptions",
    "CompareReport",
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
    "PickOptions",
    "PickReport",
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
    "compare",
    "diff",
    "energy_of_layers",
    "open",
    "pick",
    "tuned",
]

Buffer = Union[bytes, bytearray, memoryview]

_LEFT_OUT, _WITHOUT_VALUE = "host_left_out", "stat_without_value"

_FILTERS = ("function", "exclude", "prefix", "kernel", "exclude_kernel", "scope")


def _messages(diagnostics: Table, *codes: str) -> list[str]:
    return [row["message"] for row in diagnostics if row["code"] in codes]


class _Closed:
    """Replaces the trace of a closed Trace."""

    def __getattr__(self, name: str) -> NoReturn:
        raise ArgumentError("INVALID_ARGUMENT", "the trace is closed; open it again")


class Trace:
    """One or more opened traces, as open() returns them; safe to use from several threads.

    Every method reads the events of the trace again, so keep the results. Options have the names
    and meanings of the command's options; help() of each method lists them.

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
        """Releases the file or bytes. Tables that were made before remain valid."""
        self._trace = cast(_core.Trace, _Closed())

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Trace cannot be pickled; open it where it is used, or pickle "
                        "to_arrow(), to_pandas() or to_dict() of its tables")

    @property
    def event_count(self) -> int:
        return self._trace.event_count

    @property
    def inputs(self) -> Table:
        """One row for each file."""
        return Table(self._trace.inputs())

    @property
    def planes(self) -> Table:
        """One row for each line of each plane: the content of the trace, without timing."""
        return self._table(self._trace.planes(False))

    @property
    def stats(self) -> Table:
        """One row for each stat: its name, its type and its number of values."""
        return self._table(self._trace.planes(True))

    def _table(self, made: tuple[_core.Table, _core.Table]) -> Table:
        """Adds the doubts; only for methods that the user calls directly."""
        diagnostics = Table(made[1])
        self._warn_of_missing(diagnostics, 4)
        return Table(made[0], doubts_of(diagnostics))

    def _warn_of_missing(self, diagnostics: Table, level: int) -> None:
        """Warns of missing data that opening did not report already."""
        for message in _messages(diagnostics, _LEFT_OUT, _WITHOUT_VALUE):
            if message not in self._left_out:
                warnings.warn(message, XplaneTimeWarning, stacklevel=level)

    @documented(ReportOptions)
    def report(self, **options: Unpack[ReportOptions]) -> Report:
        """Returns all tables, from a single pass over the events.

        Times of a function are in columns active_ps_*, span_ps_*, gap_ps_* and sum_ps_*, in
        picoseconds. Errors: ArgumentError, DamagedTraceError, NothingFoundError.
        """
        # Launches for the tables; parts for the page only: how each device's time was spent.
        return self._report("report", ReportOptions, options, parts=True, launches=True)

    @documented(FunctionOptions)
    def functions(self, **options: Unpack[FunctionOptions]) -> TableWithPage:
        """One row for each function and device; with `by_id`, one row for each variant id.

        Issues an XplaneTimeWarning if the times of a function may be wrong: the trace does not show
        where its runs begin and end, or executions of its runs were lost. Errors: as report().
        """
        report = self._report("functions", FunctionOptions, options)
        table = report.variants if options.get("by_id") else report.functions
        _warn_of_uncertain(table, report)
        return report.part("functions", table)

    @documented(SampleOptions)
    def samples(self, **options: Unpack[SampleOptions]) -> TableWithPage:
        """One row for each run of each function on each device. Warnings and errors: as
        functions()."""
        report = self._report("samples", SampleOptions, options, samples=True)
        _warn_of_uncertain(report.functions, report)
        return report.part("samples", report.samples)

    @documented(KernelOptions)
    def kernels(self, **options: Unpack[KernelOptions]) -> TableWithPage:
        """One row for each kernel or op, function and device, with its launch configuration.
        Errors: as report()."""
        report = self._report("kernels", KernelOptions, options, launches=True)
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
        """The timeline that pages draw, as long as the trace is open."""
        def timeline() -> str:
            closed = isinstance(self._trace, _Closed)
            return "" if closed else self._trace.timeline(dict(given))
        return timeline

    def _perfetto(self, given: Mapping[str, object],
                  energy: _core.EnergyReport | None = None) -> Callable[..., None]:
        """Writes the devices' timeline, as long as the trace is open."""
        device = str(given.get("device", ""))
        return lambda write: self._trace.perfetto(device, energy, write)

    @documented(EnergyOptions)
    def energy(self, power_log: PathText = "", **options: Unpack[EnergyOptions]) -> EnergyReport:
        """The energy of kernels, functions and layers, from a log of `power record`.

        Without a log, the power comes from counters in the trace. Filters choose rows and do not
        change numbers. Errors: those of report(); NothingFoundError, with the reason, if no device
        has numbers; DamagedTraceError if `power_log` is not a power log.
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
        """The largest causes of lost time, with the possible saving, the evidence and details.

        `limit`: the maximum number of findings. Peaks and patterns: as in headroom(). `step_re`: as
        in where(). Errors: as report().
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
              copy_re: str = "", gaps: int = 3) -> WhereReport:
        """How each device's time was spent: work, exposed transfers, waiting.

        `step_re`: use host events (PyTorch: annotations) with matching names as steps, instead of
        the line Steps and events with a step_num. `gaps`: number of idle gaps to list per device,
        the longest first. The other patterns: as in headroom(). Errors: as report().
        """
        given: dict[str, object] = {"device": device, "step_re": step_re,
                                    "collective_re": collective_re, "copy_re": copy_re}
        report = WhereReport(self._trace.where({**given, "gaps": gaps}), self._timeline(given))
        self._warn_of_missing(report.diagnostics, 3)
        return report

    @documented(HeadroomOptions)
    def headroom(self, **options: Unpack[HeadroomOptions]) -> HeadroomReport:
        """The maximum time that each op could save, according to a roofline model. Errors: as
        report()."""
        given = checked("headroom", HeadroomOptions, options)
        work = given.pop("work", None)
        if isinstance(work, (str, os.PathLike)):
            given["work"] = os.fspath(work)
        elif work is not None:
            given["work_json"] = json.dumps({"work": list(work)})
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
        """Raw events in file order: input, host, plane, line, name, start_ps, duration_ps and
        occurrences (or only those in `columns`), and a column for each of `stats`.

        `start_ps` counts from the beginning of the capture; it is unknown for aggregated events.
        Issues an XplaneTimeWarning for each requested stat that none of these events has. Errors:
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
        fold: bool = False,
    ) -> TableWithPage:
        """The tree of functions and kernels, or of the nested events of lines that match `line`.

        `by` instead groups the self time of ops by "scope" (name scope), "source" (file and line,
        below the lines of their callers) or "module" (PyTorch's nn.Module). `fold` (with
        by="scope"): adds up the forward and the backward pass of a layer.
        """
        result = self._trace.tree({"device": device, "function": function, "line": line,
                                   "name": name, "depth": depth, "by": by, "fold": fold})
        table = self._table((result.table("tree"), result.table("diagnostics")))
        return TableWithPage(table, result)

    def __repr__(self) -> str:
        if isinstance(self._trace, _Closed):
            return "Trace(closed)"
        paths = ", ".join(str(path) for path in self.inputs["path"])
        return f"Trace({paths}: {self.event_count:,} events)"


def _refuse_filters(given: Mapping[str, object]) -> None:
    """Raises an error that names the filters, for results without rows."""
    filters = {name: given[name] for name in _FILTERS if given.get(name)}
    if filters:
        texts = ", ".join(f"{name}={value!r}" for name, value in filters.items())
        raise NothingFoundError("FAILED_PRECONDITION", f"no execution matches {texts}; list all "
                                                       "with functions() and kernels() without "
                                                       "filters")


def _path(path: PathText) -> str:
    """Converts a path to the library's form. Errors: ArgumentError."""
    text = os.fspath(path)
    if not isinstance(text, str) or "\0" in text:
        raise ArgumentError("INVALID_ARGUMENT", "path: must be a str without a zero byte, not "
                                                f"{text!r}")
    return text


def _warn_of_uncertain(functions: Table, report: Report) -> None:
    """Warns that times of functions with uncertain runs or lost executions may be wrong.

    The warning points to the caller of the method that calls this function.
    """
    uncertain = [name for name, status in zip(functions["function"], functions["status"])
                 if status in UNCERTAIN_STATUSES]
    if uncertain:
        why = "; ".join(dict.fromkeys(
            row["message"] for row in report.diagnostics
            if row["code"] in ("runs_uncertain", "launch_without_execution")))
        warnings.warn(f"times may be wrong: {why}",
                      XplaneTimeWarning, stacklevel=3)


def open(
    source: PathText | Buffer | IO[bytes] | Iterable[PathText],
    *,
    run: str = "",
    threads: int | None = None,
) -> Trace:
    """Opens a trace, several traces, or the latest run of a log directory.

    `source`: a path; several paths (captures of the same program; rows distinguish them, and
    Report.combined combines them); the bytes of a trace (plain or gzip; they are not copied, and
    the trace keeps them alive); or a binary file, which is read to its end. `run`: the run of a log
    directory [the latest]. `threads`: number of threads [one for each core].

    If a file in a run directory is damaged, its host is skipped with a warning (XplaneTimeWarning),
    as long as another host is undamaged. Errors: InputError, DamagedTraceError.
    """
    trace = Trace(_opened(source, run, threads))
    for message in trace._left_out:
        warnings.warn(message, XplaneTimeWarning, stacklevel=2)
    return trace


@documented(DiffOptions)
def diff(base: PathText | Iterable[PathText], head: PathText | Iterable[PathText],
         **options: Unpack[DiffOptions]) -> DiffReport:
    """The changes from `base` to `head`, kernel by kernel; the rows add up to the total change.

    Each side is the path of a trace, or a list of paths: several captures of one program. If each
    side has at least two captures, rows have intervals and verdicts. Errors: those of open();
    NothingFoundError if the two sides have no comparable executions.
    """
    given = checked("diff", DiffOptions, options)
    report = DiffReport(_core.diff((_encoded(base), _encoded(head)), given, _processors()))
    for message in _messages(report.diagnostics, _LEFT_OUT):
        warnings.warn(message, XplaneTimeWarning, stacklevel=2)
    return report


@documented(CompareOptions)
def compare(base: PathText | Iterable[PathText], head: PathText | Iterable[PathText],
            **options: Unpack[CompareOptions]) -> CompareReport:
    """Decides whether functions are slower in `head` than in `base`, like the command.

    Each side is a capture or several: paths of traces (a folder is one capture), summaries of a
    fleet, Google Benchmark JSON, or JSON of xplane-time with samples. Each capture should come from
    a separate process. About ten captures per side are usually enough (docs/ci.md).

    >>> comparison = compare(glob("base/*.xplane.pb"), glob("head/*.xplane.pb"))  # doctest: +SKIP
    >>> comparison.outcome                                                        # doctest: +SKIP
    'no_regression'

    An undecided comparison raises no exception; see `outcome` and `reasons`. Errors: ArgumentError;
    MissingInputError; DamagedTraceError; NothingFoundError if the sides have no common functions,
    or were measured in different ways.
    """
    given = checked("compare", CompareOptions, options)
    if "id_pattern" in given and not given.get("by_id"):
        raise ArgumentError("INVALID_ARGUMENT", "id_pattern: has no effect without by_id=True")
    return CompareReport(_core.compare((_encoded(base), _encoded(head)), given, _processors()))


@documented(PickOptions)
def pick(captures: PathText | Iterable[PathText], **options: Unpack[PickOptions]) -> PickReport:
    """Picks the fastest variant of one capture or several, like the command.

    `captures`: paths of traces (a folder is one capture), Google Benchmark JSON, or JSON of
    xplane-time with samples. Variants are functions that match `id_pattern`. The claim is wrong
    with a probability of at most `alpha`.

    >>> choice = pick("tuning.xplane.pb", delta=0.01)                             # doctest: +SKIP
    >>> choice.claim, choice.pick, choice.regret                                  # doctest: +SKIP
    ('winner', '3', 0.0)

    An undecided choice raises no exception; see `claim`, `reasons` and `exit_code`. Errors:
    ArgumentError; MissingInputError; DamagedTraceError; NothingFoundError if no function is a
    variant, or if captures were measured in different ways.
    """
    given = checked("pick", PickOptions, options)
    space = given.pop("space", None)
    if isinstance(space, (str, os.PathLike)):
        given["space"] = _path(space)
    elif space is not None:
        whole = space if isinstance(space, Mapping) else {"variants": list(space)}
        given["space_json"] = json.dumps(whole)
    return PickReport(_core.pick(_encoded(captures), given, _processors()))


def _encoded(paths: PathText | Iterable[PathText]) -> list[bytes]:
    return [os.fsencode(path) for path in _paths(paths)]


def _processors() -> int:
    return len(os.sched_getaffinity(0))


def _opened(source: PathText | Buffer | IO[bytes] | Iterable[PathText], run: str,
            threads: int | None) -> _core.Trace:
    count = _processors() if threads is None else threads
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
    """Converts a path or several paths to a list. Errors: ArgumentError."""
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
    """The energy of marked layers, without a trace.

    `layers`: tuples (name, start_ns, end_ns) of time.monotonic_ns() on the machine of the log, or a
    CSV file (layer_name, start_time, end_time in UNIX seconds). Before you take the start or end
    time of a layer, wait for the device, so that it works only on this layer between the two times.
    `device`: the device that ran them, "gpu:1" or "cpu" [a GPU if the log has one]. `map` and
    errors: as in Trace.energy.
    """
    is_file = isinstance(layers, (str, os.PathLike))
    runs = _path(cast(PathText, layers)) if is_file else list(
        cast("Iterable[tuple[str, int, int]]", layers))
    return EnergyReport(_core.energy_of_layers(
        runs, {"power_log": _path(power_log), "device": device, "map": map or {}}))
