"""Summaries of thousands of traces from many machines (docs/fleet.md).

>>> from xplane_time import fleet
>>> report = fleet.summarize(glob.glob("logs/*.xplane.pb"), folder="summaries")  # doctest: +SKIP
>>> report.outliers.to_polars()                                                  # doctest: +SKIP
>>> report.save("all.xts")                                                       # doctest: +SKIP

A worker reduces each trace to a summary of a few kilobytes; this process merges the summaries as
they arrive. The order of arrival does not matter: the result has the same bytes with every
executor.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, Union

import xplane_time
from xplane_time import _core
from xplane_time.errors import ArgumentError, Error
from xplane_time.files import FileKind, PathText, new_file
from xplane_time.fleet_executors import EXECUTORS, Task
from xplane_time.fleet_tune import Answer, TuneReport, tune
from xplane_time.results import CompareReport, Result
from xplane_time.table import Table

__all__ = ["Answer", "FleetReport", "TuneReport", "compare", "load", "summarize", "tune"]

SUMMARY = FileKind("summary", b"xplane-time.summary.", 2)
Executor = Literal["processes", "ray", "serial"]
Uris = Union[Iterable[PathText], Mapping[str, Iterable[PathText]]]
# Number of finished traces, of all traces, and of failed ones.
Progress = Callable[[int, int, int], None]


class FleetReport(Result):
    """The sums over many captures, and the hosts that are slower than the others. Unknown values
    are None.
    """

    __slots__ = ("summary",)

    def __init__(self, summary: bytes, *, alpha: float = 0.01, min_effect: float = 0.005) -> None:
        """`summary`: the bytes of a summary file. Errors: DamagedTraceError."""
        super().__init__(_core.fleet(summary, alpha, min_effect))
        self.summary = summary
        self._doubts = (*(f"{row['path']}: {row['message']}" for row in self.failures), *self._doubts)

    def save(self, path: PathText) -> None:
        """Writes a summary file (.xts), which can be merged with others. Errors: ArgumentError,
        OSError."""
        with new_file(path, SUMMARY) as file:
            file.write_bytes(self.summary)

    @property
    def hosts(self) -> Table:
        """One row for each host and device (according to `by`): the parts of its time."""
        return self._table("hosts")

    @property
    def functions(self) -> Table:
        """One row for each function, host and device."""
        return self._table("functions")

    @property
    def kernels(self) -> Table:
        """One row for each kernel, function, host and device."""
        return self._table("kernels")

    @property
    def steps(self) -> Table:
        """One row for each host and device: its marked steps."""
        return self._table("steps")

    @property
    def collectives(self) -> Table:
        """One row for each kind of collective, host and device."""
        return self._table("collectives")

    @property
    def waits(self) -> Table:
        """One row for each collective and its last host: the time that all others waited. The host
        is empty if the last one cannot be determined."""
        return self._table("waits")

    @property
    def clocks(self) -> Table:
        """One row for each host: the offset of its clock to that of the first host, from
        collectives alone."""
        return self._table("clocks")

    @property
    def outliers(self) -> Table:
        """One row for each function, host and device, proved outliers first: slow, fast, typical or
        cannot_tell."""
        return self._table("outliers")

    @property
    def captures(self) -> Table:
        """One row for each file that was read."""
        return self._table("captures")

    @property
    def failures(self) -> Table:
        """One row for each file that could not be read, with the reason."""
        return self._table("failures")


def summarize(
    uris: Uris,
    *,
    by: tuple[str, ...] = ("host", "device"),
    executor: Executor = "processes",
    workers: int | None = None,
    folder: PathText | None = None,
    device: str = "",
    skip_runs: int = 0,
    host: Callable[[str], str] | None = None,
    retries: int = 2,
    on_progress: Progress | None = None,
    alpha: float = 0.01,
    min_effect: float = 0.005,
) -> FleetReport:
    """Summarizes all these traces; each is a separate capture.

    `uris`: paths (files, run and log directories), or addresses that fsspec can open (s3://, gs://,
    if it is installed). For Ray, they may be grouped by node: {"10.0.0.7": [paths on it], ...}.
    `executor`: "processes" (this machine), "ray" (a cluster; pip install 'xplane-time[fleet]') or
    "serial" (this process). `workers`: maximum number of concurrent workers [processors; for Ray,
    those of the cluster]. `folder`: keeps each summary there, so that a second call continues where
    a stopped call ended. `host(uri)`: name of the host, for example if a host has several processes
    [the name in the trace, else the name of the file]. `skip_runs`: exclude the first runs of each
    function and device (warm-up). `alpha`: false-alarm rate: probability that any host is called
    slow or fast if all hosts are equal. `min_effect`: ignore differences between hosts up to this
    share.

    A file that cannot be read, or whose worker is still killed after `retries` repetitions, becomes
    a row of `failures`; the others continue. Memory: the rows of the result, and `workers`
    summaries. Errors: ArgumentError; the error of the first file if no file can be read.
    """
    if executor not in EXECUTORS:
        raise ArgumentError("INVALID_ARGUMENT",
                            f"executor: must be one of {', '.join(EXECUTORS)}, not {executor!r}")
    if workers is not None and workers < 1 or retries < 0:
        raise ArgumentError("INVALID_ARGUMENT", "workers must be at least 1, and retries at "
                                                "least 0")
    tasks = list(_tasks(uris, host, {"device": device, "skip_runs": skip_runs}))
    if not tasks:
        raise ArgumentError("INVALID_ARGUMENT", "uris: no trace given")
    merger = _core.FleetMerger(_by_text(by))
    kept = _Kept(folder)
    first_error: Error | None = None
    failed = done = 0

    def take(task: Task, summary: bytes | Error) -> None:
        nonlocal first_error, failed, done
        done += 1
        try:
            if isinstance(summary, Error):
                raise summary
            merger.add(summary, task.uri)
        except Error as error:
            failed += 1
            first_error = first_error or error
            merger.add_failure(task.uri, error.message)
        if on_progress is not None:
            on_progress(done, len(tasks), failed)

    left = []
    for task in tasks:
        summary = kept.get(task)
        if summary is None:
            left.append(task)
        else:
            take(task, summary)
    with contextlib.closing(EXECUTORS[executor](left, workers, retries)) as results:
        for task, answer in results:
            if isinstance(answer, bytes):
                kept.put(task, answer)
            take(task, answer)
    if failed == len(tasks) and first_error is not None:
        raise first_error
    return FleetReport(merger.take(), alpha=alpha, min_effect=min_effect)


def load(*paths: PathText, by: tuple[str, ...] | None = None, alpha: float = 0.01,
         min_effect: float = 0.005) -> FleetReport:
    """Merges summary files.

    `by`: the properties by which rows are separate: "host", "device" or both [the properties by
    which the rows of all files are separate]. Errors: DamagedTraceError, OSError, NothingFoundError
    (the files were summarized with different options).
    """
    summaries = [(pathlib.Path(path).read_bytes(), os.fspath(path)) for path in paths]
    if by is None:
        told = [set(_core.fleet_by(summary).split(",")) for summary, _ in summaries]
        by = tuple({"host", "device"}.intersection(*told))
    merger = _core.FleetMerger(_by_text(by))
    for summary, name in summaries:
        merger.add(summary, name)
    return FleetReport(merger.take(), alpha=alpha, min_effect=min_effect)


def compare(base: FleetReport | PathText, head: FleetReport | PathText, *, function: str = "",
            min_effect: float = 0.01, max_mde: float = 0.05, alpha: float = 0.001,
            paired: bool = False, allow_mismatch: bool = False) -> CompareReport:
    """Decides whether functions became slower, like xplane_time.compare(). The hosts are the
    samples, so a change must exceed the differences between hosts. `paired`: compares each host
    with the host of the same name on the other side. Each side is a report, or a file that
    `xplane-time compare` accepts. Errors: ArgumentError, NothingFoundError."""
    with tempfile.TemporaryDirectory(prefix="xplane-time-") as temporary:
        sides: list[PathText] = []
        for name, side in (("base", base), ("head", head)):
            if isinstance(side, FleetReport):
                path = pathlib.Path(temporary) / f"{name}.xts"
                path.write_bytes(side.summary)
                side = path
            sides.append(side)
        return xplane_time.compare(
            *sides, function=function, min_effect=min_effect, max_mde=max_mde, alpha=alpha,
            paired=paired, allow_mismatch=allow_mismatch)


def _by_text(by: tuple[str, ...]) -> str:
    return ",".join(sorted(by, reverse=True)) or "none"


def _tasks(uris: Uris, host: Callable[[str], str] | None,
           options: dict[str, Any]) -> Iterator[Task]:
    if isinstance(uris, (str, os.PathLike)):
        uris = [uris]
    by_node = uris.items() if isinstance(uris, Mapping) else [("", uris)]
    for node, of_node in by_node:
        for each in of_node:
            uri = os.fspath(each)
            yield Task(uri, host(uri) if host is not None else "", node, options)


class _Kept:
    """Summaries in a folder, named by a hash of their task."""

    def __init__(self, folder: PathText | None) -> None:
        self._folder = None if folder is None else pathlib.Path(folder)
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)

    def _path(self, folder: pathlib.Path, task: Task) -> pathlib.Path:
        told = repr((task.uri, task.host, task.node, sorted(task.options.items()),
                     xplane_time.__version__))
        return folder / (hashlib.sha256(told.encode()).hexdigest()[:32] + ".xts")

    def get(self, task: Task) -> bytes | None:
        """Returns the kept summary; None if it is missing or older than the trace."""
        if self._folder is None:
            return None
        path = self._path(self._folder, task)
        try:
            with contextlib.suppress(OSError):  # an address, or a file on another machine
                if os.stat(task.uri).st_mtime_ns > path.stat().st_mtime_ns:
                    return None
            summary = path.read_bytes()
            _core.FleetMerger("none").add(summary, os.fspath(path))
        except (OSError, Error):
            return None
        return summary

    def put(self, task: Task, summary: bytes) -> None:
        if self._folder is not None:
            with new_file(self._path(self._folder, task), SUMMARY) as file:
                file.write_bytes(summary)
