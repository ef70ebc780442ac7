"""Results: the tables, JSON, text and HTML page of the command of the same name."""

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

# The statuses of functions with times that may be wrong.
UNCERTAIN_STATUSES = ("runs_uncertain", "lost_executions")


_MOST_INLINE_BYTES = 2_000_000  # limit for a page that a notebook stores in its file


def doubts_of(diagnostics: Table) -> tuple[str, ...]:
    return tuple(f"{row['count']} x {row['message']}" for row in diagnostics
                 if row["severity"] != "info")


class Result(HasPage):
    """The result of a method, like that of a command. Each of its tables has the attribute
    `doubts`. Unknown values are None.

    print() shows the text that the command prints. A notebook shows the page that the command
    writes with `-o report.html`.
    """

    __slots__ = ("_doubts", "_result", "_timeline")

    def __init__(self, result: _core.Result, timeline: Callable[[], str] = str) -> None:
        """`timeline()` returns the timeline that the page draws beside the result, as JSON; may be
        empty."""
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
        """All tables by their names in the JSON."""
        return {name: self._table(name) for name in self._result.table_names}

    @property
    def diagnostics(self) -> Table:
        """One row for each kind of doubtful or damaged data in the trace, with its count."""
        return Table(self._result.table("diagnostics"))

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the command line; `schema` is the name of its format."""
        result: dict[str, Any] = json.loads(self._result.json())
        return result

    def to_markdown(self) -> str:
        """The Markdown of the command line."""
        return self._result.markdown()

    def to_sqlite(self, path: PathText, *,
                  if_exists: Literal["fail", "replace"] = "fail") -> None:
        """Writes all tables into a new SQLite database, like `-o report.sqlite` (docs/sqlite.md).

        `if_exists` refers to the file; a file that is not an SQLite database is never replaced.
        Errors: ArgumentError, OSError.
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
        # Allows the frame only to run its own scripts.
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
    """A table of a trace, with the page of the command of the same name."""

    __slots__ = ("_made",)

    def __init__(self, table: Table, result: _core.Result) -> None:
        super().__init__(table._table, table.doubts)
        self._made = result

    def _page(self) -> str:
        return self._made.page("")


# Writes a timeline in pieces, by calling a function.
Perfetto = Callable[[Callable[[bytes], object]], None]


def write_perfetto(perfetto: Perfetto | None, path: PathText) -> None:
    """Writes the file, replacing an earlier one. Errors: ArgumentError, OSError."""
    if perfetto is None:
        raise ArgumentError("INVALID_ARGUMENT", "to_perfetto() requires the events of a trace, "
                                                "but this result was made without one")
    with new_file(path, PERFETTO) as new, new.open("wb") as file:
        perfetto(file.write)


class TraceResult(Result):
    """The result for one trace, or for several captures together."""

    __slots__ = ()

    @property
    def inputs(self) -> Table:
        """One row for each file."""
        return self._table("inputs")


class Report(TraceResult):
    """All tables of Trace.report(). Each has the `doubts` of the whole report."""

    __slots__ = ("_perfetto",)
    _result: _core.Report

    def __init__(self, result: _core.Report, timeline: Callable[[], str],
                 perfetto: Perfetto) -> None:
        super().__init__(result, timeline)
        self._perfetto = perfetto

    def to_perfetto(self, path: PathText) -> None:
        """Writes every execution, run and step for ui.perfetto.dev, like `-o run.pftrace`
        (docs/perfetto.md), as long as its trace is open. Errors: ArgumentError, OSError."""
        write_perfetto(self._perfetto, path)

    def part(self, command: str, table: Table) -> TableWithPage:
        """A table of the report, with the page of this command."""
        return TableWithPage(table, self._result.part(command))

    def _table(self, name: str) -> Table:
        """Returns a table with all of its columns, even if it has no rows."""
        table: _core.Table = getattr(self._result, name)()
        return Table(table, self._doubts)

    @property
    def devices(self) -> Table:
        """One row for each device: executions, busy time, and in steps_* its step time and what
        limits it."""
        return self._table("devices")

    @property
    def functions(self) -> Table:
        """One row for each function and device; columns as in the CSV output."""
        return self._table("functions")

    @property
    def combined(self) -> Table:
        """One row for each function, over all captures. The time of a run is that of its slowest
        device."""
        return self._table("combined")

    @property
    def variants(self) -> Table:
        """One row for each variant id; empty without by_id=True."""
        return self._table("variants")

    @property
    def kernels(self) -> Table:
        """One row for each kernel or op, function and device."""
        return self._table("kernels")

    @property
    def samples(self) -> Table:
        """One row for each run; empty without samples=True."""
        return self._table("samples")

    def __repr__(self) -> str:
        doubts = [f"  {doubt}" for doubt in self._doubts]
        tables = "inputs, devices, functions, combined, variants, kernels, samples, diagnostics"
        return "\n".join([f"Report with tables {tables}", *doubts, f"functions: {self.functions!r}"])


class WhereReport(TraceResult):
    """The time of each device, split into compute, exposed transfers and idle time
    (docs/where.md)."""

    __slots__ = ()

    @property
    def devices(self) -> Table:
        """One row for each device: the parts of its time add up exactly to span_ps."""
        return self._table("devices")

    @property
    def functions(self) -> Table:
        """One row for each function and device: the sum over its runs, without suspect runs."""
        return self._table("functions")

    @property
    def steps(self) -> Table:
        """One row for each step and device. A step begins at the end of the previous step's work,
        or at its own mark."""
        return self._table("steps")

    @property
    def transfers(self) -> Table:
        """One row for each kind of collective or copy: its exposed time, its hidden time, and its
        time in flight."""
        return self._table("transfers")

    @property
    def gaps(self) -> Table:
        """The longest idle gaps of each device, with the kernels and host events around them."""
        return self._table("gaps")


class HeadroomReport(TraceResult):
    """The time that each op could save, by a roofline (docs/headroom.md)."""

    __slots__ = ()

    @property
    def devices(self) -> Table:
        """One row for each device: its peaks, and the share of its time in ops that their roofs
        limit."""
        return self._table("devices")

    @property
    def ops(self) -> Table:
        """One row for each op, sorted by recoverable_ps. Ops with an unknown value come last and
        have a reason."""
        return self._table("ops")


class BriefReport(TraceResult):
    """The most important findings (docs/brief.md)."""

    __slots__ = ()

    @property
    def findings(self) -> Table:
        """One row for each finding, the largest likely gain first: description, evidence,
        recoverable_ps (None if unknown) and a command that shows details. Findings never count the
        same time twice."""
        return self._table("findings")

    @property
    def ops(self) -> Table:
        """The five largest ops of all devices, with their source lines."""
        return self._table("ops")

    @property
    def devices(self) -> Table:
        """One row for each device: its span, the sum of its findings, and its step time in steps_*.
        """
        return self._table("devices")


class DiffReport(Result):
    """The changes between two sides; the rows add up to the total change (docs/diff.md)."""

    __slots__ = ()

    @property
    def rows(self) -> Table:
        """One row for each kernel, group of matched kernels, or kind of waiting: the largest change
        first."""
        return self._table("rows")

    @property
    def sums(self) -> Table:
        """One row for each kind of row, with its sum: exact, similar, new, gone, ..., and each kind
        of waiting."""
        return self._table("sums")

    @property
    def functions(self) -> Table:
        """One row for each function: the mean span of its runs on both sides."""
        return self._table("functions")


class Decision(Result):
    """The result of pick() or compare(): a verdict on measurements."""

    __slots__ = ("_json",)

    def __init__(self, result: _core.Result) -> None:
        super().__init__(result)
        self._json: dict[str, Any] = json.loads(result.json())

    @property
    def exit_code(self) -> int:
        """The exit code of the command (docs/ci.md); 0: decided."""
        return int(self._json["exit_code"])

    @property
    def explanation(self) -> str:
        """The verdict in one sentence."""
        return str(self._json["explanation"])

    @property
    def reasons(self) -> list[str]:
        """Sentences for people: the reasons, and what would allow a decision."""
        return list(self._json["reasons"])

    @property
    def notes(self) -> list[str]:
        """Remarks on the inputs, as sentences."""
        return list(self._json["notes"])


class PickReport(Decision):
    """The fastest of several variants, or why it is undecided (docs/ci.md).

    >>> choice = xplane_time.pick("trace.xplane.pb")                   # doctest: +SKIP
    >>> choice.pick if choice.is_decided else choice.reasons           # doctest: +SKIP
    """

    __slots__ = ()

    @property
    def claim(self) -> str:
        """"winner" (all others are proved slower), "tie" (the tied variants are proved to be within
        `delta` of each other), "pick" (no other is faster by more than `delta`, or no other ran),
        "undecided", "too_little_data" or "all_failed"."""
        return str(self._json["claim"])

    @property
    def is_decided(self) -> bool:
        """Whether the claim is a winner, a tie or a pick."""
        return self.exit_code == 0

    @property
    def pick(self) -> str | None:
        """The id of the variant. If undecided: the variant that leads. None: no variant leads, or a
        variant that ran cannot be judged."""
        pick: str | None = self._json["pick"]
        return pick

    @property
    def params(self) -> dict[str, Any] | None:
        """The parameters of the pick; None without `space`."""
        for row in self._json["variants"]:
            if row["variant_id"] == self.pick:
                params: dict[str, Any] | None = row["params"]
                return params
        return None

    @property
    def regret(self) -> float | None:
        """The largest possible loss with the pick, as a share of its time (0.01: 1 %); None:
        unknown."""
        regret: float | None = self._json["regret"]
        return regret

    @property
    def tied(self) -> list[str]:
        """The ids of the tied variants, including the pick; empty without a tie."""
        return list(self._json["tied"])

    @property
    def doubts(self) -> list[str]:
        """Reasons for no claim that do not depend on the numbers."""
        return list(self._json["doubts"])

    @property
    def needed(self) -> tuple[int, str] | None:
        """If undecided: the total number of rounds or captures that would decide with a probability
        of 80 %, and their unit: (40, "round") or (6, "capture"). None: unknown."""
        return self._units("needed_units")

    @property
    def needed_least(self) -> tuple[int, str] | None:
        """If undecided: the total number of rounds or captures that would decide if difference and
        noise are as measured, and their unit. None: unknown."""
        return self._units("needed_units_least")

    @property
    def may_be_equal(self) -> bool:
        """Whether the pick and its nearest rival may be equal: the 95 % interval of their
        difference includes 0. Then no number of rounds is known to decide."""
        return bool(self._json["may_be_equal"])

    def _units(self, field: str) -> tuple[int, str] | None:
        number = self._json[field]
        return None if number is None else (number, self._json["needed_unit"])

    def _table(self, name: str) -> Table:
        """Returns parameters as text, like the CSV. In JSON, they are objects."""
        return Table(self._result.csv()) if name == "variants" else super()._table(name)

    @property
    def variants(self) -> Table:
        """One row for each variant, fastest first: its status, `centre_ps` (typical time in
        picoseconds) or `energy_j` with its interval, and `ratio` to the pick with a simultaneous
        interval."""
        return self._table("variants")


class CompareReport(Decision):
    """Whether functions became slower (docs/ci.md).

    >>> comparison = xplane_time.compare(base, head)                   # doctest: +SKIP
    >>> comparison.outcome, comparison.rows["verdict"]                 # doctest: +SKIP
    """

    __slots__ = ()

    @property
    def outcome(self) -> str:
        """"no_regression", "slower" ("more" for energies), "cannot_tell", "too_little_data" or
        "all_failed"."""
        return str(self._json["outcome"])

    @property
    def rows(self) -> Table:
        """One row for each function and device, the worst verdict first: `verdict`, `ratio` (head
        over base; above 1: slower) with its interval `ratio_ci_lo`, `ratio_ci_hi`, `p_value`, `mde`
        (detectable slowdown), and the typical time of each side."""
        return self._table("rows")


class EnergyReport(TraceResult):
    """The energy of kernels, functions and layers. An unknown energy is None and has a `reason`.
    docs/energy.md has the definitions."""

    __slots__ = ("_perfetto",)
    _result: _core.EnergyReport

    def __init__(self, result: _core.EnergyReport, perfetto: Perfetto | None = None) -> None:
        super().__init__(result)
        self._perfetto = perfetto
        told = [row["message"] for row in self.findings if row["severity"] != "info"]
        self._doubts = (*told, *self._doubts)

    @property
    def devices(self) -> Table:
        """One row for each device: its sensor, and measured_j = active_j + idle_j + residual_j."""
        return self._table("devices")

    @property
    def kernels(self) -> Table:
        """One row for each kernel, function and device: energy_j with its interval, and mean_w."""
        return self._table("kernels")

    @property
    def functions(self) -> Table:
        """One row for each function and device."""
        return self._table("functions")

    @property
    def layers(self) -> Table:
        """One row for each name scope, or for each marked layer."""
        return self._table("layers")

    @property
    def sources(self) -> Table:
        """One row for each source line, if the trace has source lines."""
        return self._table("sources")

    @property
    def groups(self) -> Table:
        """One row for each group of kernels for which only the sum of energies is known. The column
        `group` of other tables refers to it."""
        return self._table("groups")

    @property
    def findings(self) -> Table:
        """Doubts about the energies, with advice."""
        return Table(self._result.table("findings"))

    def to_perfetto(self, path: PathText) -> None:
        """Like Report.to_perfetto(); the timeline also has the power over time. Errors:
        ArgumentError, OSError."""
        write_perfetto(self._perfetto, path)

    def svg(self) -> str:
        """A standalone SVG picture of the power over time, with the times at which layers ran."""
        return self._result.svg()
