"""Writes output files completely or not at all, and never replaces a file of another kind. Also
finds the command."""

from __future__ import annotations

import os
import pathlib
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Union

from xplane_time.errors import ArgumentError, InputError

PathText = Union[str, "os.PathLike[str]"]


class FileKind(NamedTuple):
    name: str
    magic: bytes
    offset: int = 0


PARQUET = FileKind("Parquet file", b"PAR1")
SQLITE = FileKind("SQLite database", b"SQLite format 3\0")
DUCKDB = FileKind("DuckDB database", b"DUCK", 8)
HTML = FileKind("HTML page", b"<!DOCTYPE html>")
PERFETTO = FileKind("Perfetto trace", b"\n")


def command_path() -> str:
    """The path of the command of this installation, otherwise of the one in PATH. Errors:
    InputError."""
    beside = pathlib.Path(sys.executable).parent / "xplane-time"
    program = str(beside) if beside.exists() else shutil.which("xplane-time")
    if program is None:
        raise InputError("UNAVAILABLE", "the command xplane-time is not in PATH; install "
                                        "xplane-time, or add its folder to PATH")
    return program


def target_of(path: PathText, kind: FileKind) -> pathlib.Path:
    """Returns the path with its links resolved, if there is no file, an empty file, or a file of
    this kind. Errors: ArgumentError if there is another kind of file, such as a trace; OSError."""
    target = pathlib.Path(path).resolve()
    if target.is_file():
        with target.open("rb") as file:
            head = file.read(kind.offset + len(kind.magic))
        fits = not head or head[kind.offset:] == kind.magic
    else:
        fits = not target.exists()
    if not fits:
        raise ArgumentError("INVALID_ARGUMENT",
                            f"{path}: the existing file is not a valid {kind.name}; "
                            "choose another name")
    return target


@contextmanager
def new_file(path: PathText, kind: FileKind, if_exists: str = "replace") -> Iterator[pathlib.Path]:
    """Yields the path of a temporary file, which replaces `path` at the end. The new file has no
    permission that an existing file at `path` lacks. `if_exists`: "fail" or "replace". Errors:
    those of target_of; ArgumentError, also if an SQLite journal exists beside `path`, because it
    would be applied to the new file; OSError, which names `path`."""
    if if_exists not in ("fail", "replace"):
        raise ArgumentError("INVALID_ARGUMENT",
                            f"if_exists: must be 'fail' or 'replace', not {if_exists!r}")
    target = target_of(path, kind)
    if if_exists == "fail" and target.exists():
        raise ArgumentError("INVALID_ARGUMENT", f"{path}: already exists; choose another name, "
                                                "or if_exists='replace'")
    for suffix in ("-wal", "-journal") if kind is SQLITE else ():
        journal = target.with_name(target.name + suffix)
        if journal.exists() and journal.stat().st_size > 0:
            raise ArgumentError("INVALID_ARGUMENT", f"{path}: {journal.name} is a journal that "
                                "SQLite would apply to the new file; close the database in every "
                                "program that uses it, or choose another name")
    new = target.with_name(f"{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield new
        if target.is_file():
            new.chmod(stat.S_IMODE(new.stat().st_mode) & stat.S_IMODE(target.stat().st_mode))
        new.replace(target)
    except OSError as error:
        if error.filename is not None:
            error.filename, error.filename2 = os.fspath(path), None
        raise
    finally:
        new.unlink(missing_ok=True)
