"""Results of commands: tables, the JSON of the command line, and what it shows people."""

from __future__ import annotations

import html
import json
import shutil
from collections.abc import Callable
from typing import Any, Literal, NoReturn, Self

from xplane_time import _core
from xplane_time.errors import ArgumentError
from xplane_time.files import PERFETTO, SQLITE, PathText, new_file
from xplane_time.pages import HasPage
from xplane_time.table import Table


_MOST_INLINE_BYTES = 2_000_000  # of a page in a notebook, which keeps it in its file


def doubts_of(diagnostics: Table) -> tuple[str, ...]:
    return tuple(f"{row['count']} x {row['message']}" for row in diagnostics
                 if row["severity"] != "info")


class Result(HasPage):
    """What a command found: tables, each with the `doubts`. Unknown is None.

    print() shows what the command prints, a notebook the page of `-o report.html`.
    """

    __slots__ = ("_doubts", "_result", "_timeline")

    def __init__(self, result: _core.Result, timeline: Callable[[], str] = str) -> None:
        """`timeline()`: what the page draws beside the result, as JSON; empty: nothing."""
        self._result = result
        self._timeline = timeline
        self._doubts: tuple[str, ...] = ()
        if "diagnostics" in result.table_names:
            self._doubts = doubts_of(self.diagnostics)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be pickled; pickle its to_dict(), or "
                        "to_arrow(), to_pandas() or to_dict() of its tables")

    def _table(self, name: str) -> Table:
        return Table(self._result.table(name), self._doubts)

    @property
    def tables(self) -> dict[str, Table]:
        """All of them by name, as in the JSON."""
        return {name: self._table(name) for name in self._result.table_names}

    @property
    def diagnostics(self) -> Table:
        """What is doubtful or damaged in the trace, counted."""
        return Table(self._result.table("diagnostics"))

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the command line; its `schema` says which."""
        result: dict[str, Any] = json.loads(self._result.json())
        return result

    def to_markdown(self) -> str:
        """The Markdown of the command line."""
        return self._result.markdown()

    def to_sqlite(self, path: PathText, *,
                  if_exists: Literal["fail", "replace"] = "fail") -> None:
        """All tables as an SQLite database of their own, as of `-o report.sqlite`: docs/sqlite.md.

        `if_exists`: of the file; what is no SQLite database is never replaced. Errors:
        ArgumentError, OSError.
        """
        with new_file(path, SQLITE, if_exists) as file:
            file.write_bytes(self._result.database())

    def _page(self) -> str:
        return self._result.page(self._timeline())

    def _text(self) -> str:
        return self._result.text(shutil.get_terminal_size((100, 24)).columns).rstrip("\n")

    def __repr__(self) -> str:
        return self._text()

    def _repr_html_(self) -> str:
        page = self.to_html()
        # With no right but that to its own scripts.
        frame = ('<iframe sandbox="allow-scripts" style="width: 100%; height: 40em; border: 0" '
                 f'srcdoc="{html.escape(page)}"></iframe>\n'
                 "<p>show() opens this page in a browser, print() shows it as text.</p>")
        size = len(frame.encode())
        if size <= _MOST_INLINE_BYTES:
            return frame
        return (f"<p>The page has {size / 1e6:.1f} MB, too much for a notebook: show() opens it in a "
                f"browser.</p>\n<pre>{html.escape(self._text())}</pre>")

    def _repr_markdown_(self) -> str:
        return self._result.markdown()


class TableWithPage(HasPage, Table):
    """A table of a trace, and the page that the command of its name makes."""

    __slots__ = ("_made",)

    def __init__(self, table: Table, result: _core.Result) -> None:
        super().__init__(table._table, table.doubts)
        self._made = result

    def _page(self) -> str:
        return self._made.page("")


# Writes a timeline, piece by piece, to a function.
Perfetto = Callable[[Callable[[bytes], object]], None]


def write_perfetto(perfetto: Perfetto | None, path: PathText) -> None:
    """In the place of an earlier one. Errors: ArgumentError, OSError."""
    if perfetto is None:
        raise ArgumentError("INVALID_ARGUMENT", "to_perfetto() requires the events of a trace, "
                                                "but this result was made without one")
    with new_file(path, PERFETTO) as new, new.open("wb") as file:
        perfetto(file.write)


class TraceResult(Result):
    """Of one trace, or of several captures together."""

    __slots__ = ()

    @property
    def inputs(self) -> Table:
        """One row a file."""
        return self._table("inputs")


class Report(TraceResult):
    """What one pass over a trace found, as tables. Each has the report's `doubts`."""

    __slots__ = ("_perfetto",)
    _result: _core.Report

    def __init__(self, result: _core.Report, timeline: Callable[[], str],
                 perfetto: Perfetto) -> None:
        super().__init__(result, timeline)
        self._perfetto = perfetto

    def to_perfetto(self, path: PathText) -> None:
        """Writes every execution, run and step for ui.perfetto.dev, as `-o run.pftrace` does
        (docs/perfetto.md), while its trace is open. Errors: ArgumentError, OSError."""
        write_perfetto(self._perfetto, path)

    def part(self, command: str, table: Table) -> TableWithPage:
        """A table of it, with the page of this command."""
        return TableWithPage(table, self._result.part(command))

    def _table(self, name: str) -> Table:
        """With all columns, where it has no row, too."""
        table: _core.Table = getattr(self._result, name)()
        return Table(table, self._doubts)

    @property
    def devices(self) -> Table:
        """One row a device: executions, busy time, and in steps_* its step time and what limits it."""
        return self._table("devices")

    @property
    def functions(self) -> Table:
        """One row a function and device; columns as in the CSV output."""
        return self._table("functions")

    @property
    def combined(self) -> Table:
        """One row a function: per run the slowest device, runs of all captures."""
        return self._table("combined")

    @property
    def variants(self) -> Table:
        """One row a variant id; empty without by_id=True."""
        return self._table("variants")

    @property
    def kernels(self) -> Table:
        """One row a kernel or op, function and device."""
        return self._table("kernels")

    @property
    def samples(self) -> Table:
        """One row a run; empty without samples=True."""
        return self._table("samples")

    def __repr__(self) -> str:
        doubts = [f"  {doubt}" for doubt in self._doubts]
        tables = "inputs, devices, functions, combined, variants, kernels, samples, diagnostics"
        return "\n".join([f"Report with tables {tables}", *doubts, f"functions: {self.functions!r}"])


class WhereReport(TraceResult):
    """What each device's time went to (docs/where.md)."""

    __slots__ = ()

    @property
    def devices(self) -> Table:
        """One row a device: the parts add up to span_ps, to the picosecond."""
        return self._table("devices")

    @property
    def functions(self) -> Table:
        """One row a function and device: its runs that are not suspect, together."""
        return self._table("functions")

    @property
    def steps(self) -> Table:
        """One row a step and device: from the end of the previous step's work, or from its mark."""
        return self._table("steps")

    @property
    def transfers(self) -> Table:
        """One row a kind of collective or copy: exposed, hidden, in flight."""
        return self._table("transfers")

    @property
    def gaps(self) -> Table:
        """A device's three largest idle gaps, with what the host did."""
        return self._table("gaps")


class HeadroomReport(TraceResult):
    """What each op could give back, by a roofline (docs/headroom.md)."""

    __slots__ = ()

    @property
    def devices(self) -> Table:
        """One row a device: its peaks, and what share of its time has a roof."""
        return self._table("devices")

    @property
    def ops(self) -> Table:
        """One row an op, by recoverable_ps; what is unknown comes last, with its reason."""
        return self._table("ops")


class BriefReport(TraceResult):
    """What to look at first (docs/brief.md)."""

    __slots__ = ()

    @property
    def findings(self) -> Table:
        """One row a finding, the largest first: what, evidence, recoverable_ps (None: nobody can
        tell) and the command that shows it. No picosecond is in two of them."""
        return self._table("findings")

    @property
    def devices(self) -> Table:
        """One row a device: its span, what all findings have of it, and its step time in steps_*."""
        return self._table("devices")


class DiffReport(Result):
    """What changed between two sides, as a sum that comes out (docs/diff.md)."""

    __slots__ = ()

    @property
    def rows(self) -> Table:
        """One row a kernel, or what of both sides belongs together: the largest change first."""
        return self._table("rows")

    @property
    def sums(self) -> Table:
        """Rows of one kind together: exact, similar, new, gone, ..., and each kind of waiting."""
        return self._table("sums")

    @property
    def functions(self) -> Table:
        """One row a function: a run's span on both sides."""
        return self._table("functions")


class EnergyReport(TraceResult):
    """The energy of kernels and what they are of; unknown is None, with a `reason`.
    Definitions: docs/energy.md."""

    __slots__ = ("_perfetto",)
    _result: _core.EnergyReport

    def __init__(self, result: _core.EnergyReport, perfetto: Perfetto | None = None) -> None:
        super().__init__(result)
        self._perfetto = perfetto
        told = [row["message"] for row in self.findings if row["severity"] != "info"]
        self._doubts = (*told, *self._doubts)

    @property
    def devices(self) -> Table:
        """One row a device: its sensor, and measured_j = active_j + idle_j + residual_j."""
        return self._table("devices")

    @property
    def kernels(self) -> Table:
        """One row a kernel, function and device: energy_j, its interval, mean_w."""
        return self._table("kernels")

    @property
    def functions(self) -> Table:
        """One row a function and device."""
        return self._table("functions")

    @property
    def layers(self) -> Table:
        """One row a name scope, or a layer that was marked."""
        return self._table("layers")

    @property
    def sources(self) -> Table:
        """One row a source line, where the trace has them."""
        return self._table("sources")

    @property
    def groups(self) -> Table:
        """One row a group of which only the sum is known: rows whose `group` is its number."""
        return self._table("groups")

    @property
    def findings(self) -> Table:
        """What is doubtful of the energies, with the way out."""
        return Table(self._result.table("findings"))

    def to_perfetto(self, path: PathText) -> None:
        """As of a report, with power over time. Errors: ArgumentError, OSError."""
        write_perfetto(self._perfetto, path)

    def svg(self) -> str:
        """Power over time, and when layers ran, as a picture by itself."""
        return self._result.svg()
