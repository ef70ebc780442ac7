"""Tables: typed columns that every Arrow library takes without a copy."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Union

from xplane_time import _core

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped, unused-ignore]
    import polars
    import pyarrow  # type: ignore[import-untyped, unused-ignore]

Value = Union[None, bool, int, float, str]

_SHOWN_ROWS = 10
_SHOWN_WIDTH = 100


class Table:
    """Rows and typed columns, immutable. None is unknown; times are in picoseconds.

    Implements the Arrow PyCapsule protocol: `pyarrow.table(t)`, `polars.DataFrame(t)`,
    `pandas.DataFrame.from_arrow(t)` and `duckdb.sql("from t")` take it as it is.

    >>> len(table), table.columns          # doctest: +SKIP
    >>> table["median"]                    # a column as a list  # doctest: +SKIP
    >>> for row in table: row["function"]  # rows as dicts       # doctest: +SKIP
    """

    __slots__ = ("_table",)

    def __init__(self, table: _core.Table) -> None:
        self._table = table

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in order."""
        return self._table.column_names

    def __len__(self) -> int:
        return self._table.row_count

    def __getitem__(self, column: str) -> list[Any]:
        """The column's values. Errors: KeyError."""
        try:
            index = self.columns.index(column)
        except ValueError:
            raise KeyError(f"{column!r}; there are: {', '.join(self.columns)}") from None
        return self._table.values(index, 0, len(self))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = self.columns
        step = 1024
        for begin in range(0, len(self), step):
            columns = [self._table.values(i, begin, begin + step) for i in range(len(names))]
            for row in zip(*columns):
                yield dict(zip(names, row))

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns by name."""
        return {name: self[name] for name in self.columns}

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow PyCapsule protocol; a requested schema is not converted to."""
        return self._table.stream(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._table.schema()

    def to_arrow(self) -> pyarrow.Table:
        """As a pyarrow.Table (pip install pyarrow)."""
        import pyarrow  # type: ignore[import-untyped, unused-ignore]

        return pyarrow.table(self)

    def to_polars(self) -> polars.DataFrame:
        """As a polars.DataFrame (pip install polars)."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """As a pandas.DataFrame (pip install pandas pyarrow)."""
        return self.to_arrow().to_pandas()

    def _head(self) -> tuple[list[str], list[list[str]]]:
        names = self.columns
        columns = [self._table.values(i, 0, _SHOWN_ROWS) for i in range(len(names))]
        return names, [[_text(value) for value in row] for row in zip(*columns)]

    def __repr__(self) -> str:
        names, rows = self._head()
        cells = [[name, *(row[i] for row in rows)] for i, name in enumerate(names)]
        # What is the same in all rows that are shown tells little.
        same = [c for c in cells if len(rows) > 1 and len(set(c[1:])) == 1]
        differing = [c for c in cells if c not in same]
        shown: list[list[str]] = []
        width = 0
        for column in differing:
            width += max(map(len, column)) + 2
            if shown and width > _SHOWN_WIDTH:
                break
            shown.append([cell.ljust(max(map(len, column))) for cell in column])
        lines = [f"Table: {_count(len(self), 'row')}, {_count(len(names), 'column')}"]
        lines += ["  ".join(line).rstrip() for line in zip(*shown)]
        if len(self) > len(rows):
            lines.append(f"... {_count(len(self) - len(rows), 'more row')}")
        if same:
            lines.append(_wrapped("the same in all of these: ",
                                  [f"{name}={value}" for name, value, *_ in same]))
        if len(shown) < len(differing):
            lines.append(_wrapped("more columns: ", [c[0] for c in differing[len(shown):]]))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        names, rows = self._head()
        header = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in rows)
        more = f"{_count(len(self), 'row')}, {_count(len(names), 'column')}"
        return (f"<div style='overflow-x:auto'><table><thead><tr>{header}</tr></thead>"
                f"<tbody>{body}</tbody></table></div><p>{more}</p>")


def _wrapped(title: str, words: list[str]) -> str:
    return textwrap.fill(title + ", ".join(words), _SHOWN_WIDTH, subsequent_indent="  ",
                         break_long_words=False)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _text(value: Value) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}" if not value.is_integer() or math.fabs(value) >= 1e15 else f"{value:.0f}"
    return str(value) if len(str(value)) <= 40 else str(value)[:37] + "..."
