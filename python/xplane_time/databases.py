"""Writes a table to a database: SQLite with Python's own library, DuckDB with its package.

First the columns of an existing table with the same name are checked. Then one transaction or
statement writes all rows.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal, get_args

from xplane_time.errors import ArgumentError
from xplane_time.files import DUCKDB, SQLITE, PathText, target_of

if TYPE_CHECKING:
    import duckdb

    from xplane_time.table import Table

IfExists = Literal["fail", "replace", "append"]

# By Arrow's format.
_SQLITE_TYPES = {"b": "INTEGER", "l": "INTEGER", "L": "INTEGER", "g": "REAL", "U": "TEXT",
                 "i": "TEXT"}
_LARGEST = 2**63 - 1  # the largest integer in SQLite


def quoted(name: str) -> str:
    """Quotes an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _check(where: str, name: str, there: Mapping[str, str], here: Mapping[str, str],
           if_exists: str) -> None:
    """Checks whether a table with the columns `here` (name to type) can be written in place of one
    with `there`, which is empty if there is none. Errors: ArgumentError."""
    if if_exists not in get_args(IfExists):
        raise ArgumentError("INVALID_ARGUMENT", "if_exists: must be 'fail', 'replace' or "
                                                f"'append', not {if_exists!r}")
    if there and if_exists == "fail":
        raise ArgumentError("INVALID_ARGUMENT", f"{where}: table {name!r} already exists; choose "
                                                "another name, or if_exists='replace' or "
                                                "'append'")
    odd = [f"{column} (existing: {there.get(column, 'missing')}, new: {kind})"
           for column, kind in here.items() if there.get(column) != kind]
    if there and if_exists == "append" and odd:
        raise ArgumentError("INVALID_ARGUMENT", f"{where}: table {name!r} has other columns: "
                            f"{', '.join(odd[:3])}{' ...' if len(odd) > 3 else ''}; choose another "
                            "name, or if_exists='replace'")


def to_sqlite(table: Table, formats: Mapping[str, str], path: PathText, name: str,
              if_exists: str) -> None:
    """`formats` has Arrow's format of each column. Errors: those of _check and target_of;
    sqlite3.Error."""
    import sqlite3

    target = target_of(path, SQLITE)
    here = {column: _SQLITE_TYPES[each] for column, each in formats.items()}
    for column, each in formats.items():
        if each == "L" and any(value is not None and value > _LARGEST for value in table[column]):
            here[column] = "TEXT"  # otherwise it would become a rounded REAL
    as_text = [formats[column] == "L" and kind == "TEXT" for column, kind in here.items()]

    def cells(row: Mapping[str, Any]) -> list[Any]:
        return [str(value) if is_text and value is not None else value
                for value, is_text in zip(row.values(), as_text)]

    try:
        # Closing the connection rolls back uncommitted changes.
        with closing(sqlite3.connect(target, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            there = dict(database.execute("SELECT name, type FROM pragma_table_info(?)", (name,)))
            _check(str(path), name, there, here, if_exists)
            if there and if_exists == "replace":
                database.execute(f"DROP TABLE {quoted(name)}")
            declared = ", ".join(f"{quoted(column)} {kind}" for column, kind in here.items())
            database.execute(f"CREATE TABLE IF NOT EXISTS {quoted(name)} ({declared})")
            database.executemany(
                f"INSERT INTO {quoted(name)} ({', '.join(map(quoted, here))}) "
                f"VALUES ({', '.join('?' * len(here))})", map(cells, table))
            database.execute("COMMIT")
    except sqlite3.Error as error:
        error.add_note(f"{path}: table {name!r} was not written")
        raise


def to_duckdb(table: Table, target: PathText | duckdb.DuckDBPyConnection, name: str,
              if_exists: str) -> None:
    """Errors: those of _check and target_of; duckdb.Error."""
    try:
        import duckdb
    except ModuleNotFoundError as error:
        error.add_note("to_duckdb() requires duckdb: pip install duckdb")
        raise
    if isinstance(target, duckdb.DuckDBPyConnection):
        return _into(target, "this connection", table, name, if_exists)
    with duckdb.connect(target_of(target, DUCKDB)) as connection:
        _into(connection, str(target), table, name, if_exists)


def _into(connection: duckdb.DuckDBPyConnection, where: str, table: Table, name: str,
          if_exists: str) -> None:
    rows = f"xplane_time_{secrets.token_hex(8)}"
    connection.register(rows, table)
    try:
        there = dict(connection.execute(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE lower(table_name) = lower(?) "
            "AND schema_name = current_schema() AND database_name = current_database()",
            [name]).fetchall())
        here = {column: str(kind) for column, kind, *_ in
                connection.execute(f"DESCRIBE {rows}").fetchall()}
        _check(where, name, there, here, if_exists)
        connection.execute(
            f"INSERT INTO {quoted(name)} BY NAME FROM {rows}" if there and if_exists == "append"
            else f"CREATE {'OR REPLACE ' if there else ''}TABLE {quoted(name)} AS FROM {rows}")
    finally:
        connection.unregister(rows)
