"""Tables of typed columns, which Arrow libraries read without a copy."""

from __future__ import annotations

import difflib
import html
import math
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Union, overload

from xplane_time import _core, databases
from xplane_time.databases import IfExists
from xplane_time.files import PARQUET, PathText, new_file

if TYPE_CHECKING:
    import duckdb
    import pandas  # type: ignore[import-untyped, unused-ignore]
    import polars
    import pyarrow  # type: ignore[import-untyped, unused-ignore]

Value = Union[None, bool, int, float, str]

_SHOWN_ROWS = 10
_SHOWN_WIDTH = 100
_SHOWN_COLUMNS = 16
_SHOWN_DOUBTS = 3
# Shown first, in this order.
_TELLING = ("plane", "ordinal", "line", "kernel", "function", "name", "variant_id", "runs",
            "active_ps_median", "active_ps_median_ci95_lo", "active_ps_median_ci95_hi",
            "active_ps_std", "span_ps_median", "status", "count", "self_ps", "share", "total_ps",
            "median_ps", "run", "start_ps", "duration_ps", "active_ps", "span_ps")

# Points in time, not durations. If they were rounded, different ones would look equal.
_INSTANTS = ("start_ps", "first_ps", "last_ps")


class Table:
    """An immutable table with typed columns. Unknown values are None; times are in picoseconds.

    Implements the Arrow PyCapsule protocol: `pyarrow.table(t)`, `polars.DataFrame(t)`,
    `pandas.DataFrame.from_arrow(t)` and `duckdb.sql("from t")` accept it directly.

    >>> len(table), table.columns          # doctest: +SKIP
    >>> table["active_ps_median"]          # a column as a list  # doctest: +SKIP
    >>> table[0]["function"]               # a row as a dict     # doctest: +SKIP
    >>> for row in table: row["function"]                        # doctest: +SKIP
    """

    __slots__ = ("_doubts", "_table")

    def __init__(self, table: _core.Table, doubts: Sequence[str] = ()) -> None:
        self._table = table
        self._doubts = doubts

    @property
    def doubts(self) -> list[str]:
        """The warnings and errors about the trace of this table, as texts with their counts (see
        Report.diagnostics). Empty for tables that do not come from a report."""
        return list(self._doubts)

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in order."""
        return self._table.column_names

    def __len__(self) -> int:
        return self._table.row_count

    @overload
    def __getitem__(self, key: str) -> list[Any]: ...
    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, key: str | int | slice) -> Any:
        """A column's values by its name, a row (a dict) by its number, or rows by a slice. Errors:
        KeyError, IndexError."""
        if isinstance(key, slice):
            return [self._row(row) for row in range(len(self))[key]]
        if not isinstance(key, str):
            return self._row(range(len(self))[key])
        return self._column(key)

    def _row(self, row: int) -> dict[str, Any]:
        return {name: self._table.values(i, row, row + 1)[0]
                for i, name in enumerate(self.columns)}

    def _column(self, column: str) -> list[Any]:
        try:
            index = self.columns.index(column)
        except ValueError:
            near = difflib.get_close_matches(str(column), self.columns, 5, 0.4) or self.columns[:5]
            raise KeyError(f"{column!r}; columns: {', '.join(near)} ... (see the attribute "
                           "columns)") from None
        return self._table.values(index, 0, len(self))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = self.columns
        step = 1024
        for begin in range(0, len(self), step):
            columns = [self._table.values(i, begin, begin + step) for i in range(len(names))]
            for row in zip(*columns):
                yield dict(zip(names, row))

    def __copy__(self) -> Table:
        return self

    def __deepcopy__(self, memo: object) -> Table:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Table cannot be pickled; pickle its to_arrow(), to_pandas() or to_dict()")

    def to_dict(self) -> dict[str, list[Any]]:
        """Returns a dict of the columns by name, each as a list."""
        return {name: self[name] for name in self.columns}

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow PyCapsule protocol; ignores the requested schema."""
        return self._table.stream(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._table.schema()

    def to_arrow(self) -> pyarrow.Table:
        """Returns a pyarrow.Table (pip install pyarrow)."""
        try:
            import pyarrow  # type: ignore[import-untyped, unused-ignore]
        except ModuleNotFoundError as error:
            error.add_note("to_arrow(), to_pandas() and to_parquet() require pyarrow: pip "
                           "install pyarrow")
            raise
        return pyarrow.table(self)

    def to_polars(self) -> polars.DataFrame:
        """Returns a polars.DataFrame (pip install polars)."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a pandas.DataFrame (pip install pandas pyarrow)."""
        arrow = self.to_arrow()
        import pandas  # type: ignore[import-untyped, unused-ignore]
        import pyarrow  # type: ignore[import-untyped, unused-ignore]

        # Integers stay exact if some are unknown.
        types = {pyarrow.int64(): pandas.Int64Dtype(), pyarrow.uint64(): pandas.UInt64Dtype(),
                 pyarrow.bool_(): pandas.BooleanDtype()}
        return arrow.to_pandas(types_mapper=types.get)

    def to_parquet(self, path: PathText, *,
                   if_exists: Literal["fail", "replace"] = "fail") -> None:
        """Writes a Parquet file, as a whole or not at all (pip install pyarrow).

        `if_exists` refers to the file; a file that is not Parquet is never replaced. Errors:
        ArgumentError, OSError.
        """
        table = self.to_arrow()
        import pyarrow.parquet  # type: ignore[import-untyped, unused-ignore]

        with new_file(path, PARQUET, if_exists) as new, new.open("wb") as file:
            pyarrow.parquet.write_table(table, file)

    def to_sqlite(self, path: PathText, name: str, *, if_exists: IfExists = "fail") -> None:
        """Writes the table `name` of an SQLite database, which is created if it does not exist.

        `if_exists` refers to the table; all rows are written or none. "append" requires a table
        with the same column names and types. A column with integers of 2^63 and more becomes TEXT.
        Errors: ArgumentError, sqlite3.Error, OSError.
        """
        formats = dict(zip(self.columns, self._table.column_formats))
        databases.to_sqlite(self, formats, path, name, if_exists)

    def to_duckdb(self, target: PathText | duckdb.DuckDBPyConnection, name: str, *,
                  if_exists: IfExists = "fail") -> None:
        """Writes the table `name` of a DuckDB database: a path or a connection (pip install
        duckdb).

        `if_exists`: as in to_sqlite(). Errors: ArgumentError, duckdb.Error, OSError.
        """
        databases.to_duckdb(self, target, name, if_exists)

    def _head(self) -> list[list[str]]:
        """The columns as texts (the name and the first values of each), the most important
        first."""
        names = sorted(self.columns, key=lambda name: (
            _TELLING.index(name) if name in _TELLING else len(_TELLING)))
        head = []
        for name in names:
            values: list[Any] = list(self._table.values(self.columns.index(name), 0, _SHOWN_ROWS))
            is_time = name.endswith("_ps") or "_ps_" in name and not name.endswith("_n")
            text = _instant_text if name in _INSTANTS else time_text if is_time else _text
            head.append([name, *map(text, values)])
        return head

    def __repr__(self) -> str:
        head = self._head()
        rows = min(len(self), _SHOWN_ROWS)
        # Skip columns that have the same value in all shown rows.
        same = [c for c in head if rows > 1 and len(set(c[1:])) == 1]
        shown: list[list[str]] = []
        width = 0
        for column in head:
            width += max(map(len, column)) + 2
            if column in same or shown and width > _SHOWN_WIDTH:
                width -= max(map(len, column)) + 2
                continue
            shown.append([cell.ljust(max(map(len, column))) for cell in column])
        lines = [f"Table: {_count(len(self), 'row')}, {_count(len(head), 'column')}"]
        lines += ["  ".join(line).rstrip() for line in zip(*shown)]
        if len(self) > rows:
            lines.append(f"... {_count(len(self) - rows, 'more row')}")
        alike = [f"{name}={value}" for name, value, *_ in same[:8] if value != "-"]
        if alike:
            lines.append(_wrapped("equal in all rows: ", alike))
        if len(shown) + len(same) < len(head):
            lines.append(f"and {_count(len(head) - len(shown) - len(same), 'more column')} (see columns)")
        lines += self._doubt_lines()
        return "\n".join(lines)

    def _doubt_lines(self) -> list[str]:
        lines = [_wrapped("doubtful: ", [doubt]) for doubt in self._doubts[:_SHOWN_DOUBTS]]
        if len(self._doubts) > _SHOWN_DOUBTS:
            lines.append(f"{len(self._doubts) - _SHOWN_DOUBTS} more doubts (see doubts)")
        return lines

    def _repr_html_(self) -> str:
        head = self._head()[:_SHOWN_COLUMNS]
        header = "".join(f"<th>{html.escape(column[0])}</th>" for column in head)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in zip(*(column[1:] for column in head)))
        more = f"{_count(len(self), 'row')}, {_count(len(self.columns), 'column')}"
        more = "<br>".join([more, *map(html.escape, self._doubt_lines())])
        return (f"<div style='overflow-x:auto'><table><thead><tr>{header}</tr></thead>"
                f"<tbody>{body}</tbody></table></div><p>{more}</p>")


def _wrapped(title: str, words: list[str]) -> str:
    return textwrap.fill(title + ", ".join(words), _SHOWN_WIDTH, subsequent_indent="  ",
                         break_long_words=False)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def time_text(picoseconds: float | None) -> str:
    """A time with its unit: "1.500 us"; "-" if unknown."""
    if picoseconds is None:
        return "-"
    size = abs(picoseconds)
    for unit, name in ((1e12, "s"), (1e9, "ms"), (1e6, "us"), (1e3, "ns")):
        if size >= unit:
            return f"{picoseconds / unit:.3f} {name}"
    return f"{picoseconds:.0f} ps"


def _instant_text(picoseconds: int | None) -> str:
    """A point in time with all its digits, in one unit: "118027.456789 us"; "-" if unknown."""
    if picoseconds is None:
        return "-"
    microseconds, rest = divmod(abs(picoseconds), 10**6)
    return f"{'-' if picoseconds < 0 else ''}{microseconds}.{rest:06d} us"


def _text(value: Value) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}" if not value.is_integer() or math.fabs(value) >= 1e15 else f"{value:.0f}"
    return str(value) if len(str(value)) <= 40 else str(value)[:37] + "..."
