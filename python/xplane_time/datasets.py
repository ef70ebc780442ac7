"""Data sets for `power run`: converts records of many kinds to JSON Lines.

  $ python -m xplane_time.datasets test.parquet > test.jsonl

Parquet files and folders of Hugging Face's `save_to_disk` are read with pyarrow (`pip install
pyarrow`). In Python, tables of pandas, polars and pyarrow, and iterables of dicts or texts, are
also accepted. NaN becomes null, bytes (pictures, sound) become their number, and times become ISO
8601 texts.
"""

from __future__ import annotations

import datetime
import itertools
import json
import math
import os
import pathlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

from xplane_time.errors import ArgumentError, DamagedTraceError, Error, NothingFoundError

__all__ = ["records_of", "write_json_lines"]

_EXIT_DAMAGED = 65
_EXIT_NOT_THERE = 69


def records_of(dataset: Any) -> Iterator[dict[str, Any]]:
    """Returns the records of a Parquet file, a `save_to_disk` folder, a table, or an iterable, as
    dicts. An iterable contains dicts, or texts, which are problems. Errors: ArgumentError,
    DamagedTraceError, NothingFoundError (no pyarrow)."""
    if isinstance(dataset, (str, os.PathLike)):
        return _of_path(pathlib.Path(dataset))
    if isinstance(dataset, Mapping):
        keys = ", ".join(map(repr, itertools.islice(dataset, 5)))
        raise ArgumentError("INVALID_ARGUMENT", f"dataset: must not be a dict of {keys}; choose "
                                                "one of its values, or put one record in a list")
    kind = type(dataset)  # an object's own attributes may be columns
    if hasattr(kind, "__arrow_c_stream__") and not hasattr(kind, "features"):
        return _of_batches(_pyarrow().RecordBatchReader.from_stream(dataset))
    if hasattr(kind, "to_dict") and hasattr(kind, "itertuples"):  # an older pandas
        return iter(dataset.to_dict("records"))
    if not isinstance(dataset, Iterable):
        raise ArgumentError("INVALID_ARGUMENT", "dataset: must be a path, a table, or an "
                                                "iterable of dicts or strings, not "
                                                f"{type(dataset).__name__}")
    return map(_record, dataset)


def write_json_lines(records: Iterable[Mapping[str, Any]], to: IO[str]) -> int:
    """Writes one line for each record; returns their number."""
    count = 0
    for count, record in enumerate(records, 1):
        try:
            line = json.dumps(record, allow_nan=False, ensure_ascii=False)
        except (TypeError, ValueError):
            line = json.dumps(_plain(record), allow_nan=False, ensure_ascii=False)
        to.write(line + "\n")
    return count


def _record(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"problem": value}
    if isinstance(value, Mapping):
        return dict(value)
    raise ArgumentError("INVALID_ARGUMENT",
                        f"a record must be a dict or a string, not {type(value).__name__}")


def _plain(value: Any) -> Any:
    """Converts a value to one that JSON supports."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{len(value)} bytes"
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(each) for each in value]
    if hasattr(value, "tolist"):  # a NumPy value
        return _plain(value.tolist())
    return str(value)


def _pyarrow() -> Any:
    try:
        import pyarrow  # type: ignore[import-untyped, unused-ignore]
        import pyarrow.parquet  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise NothingFoundError("FAILED_PRECONDITION",
                                f"{error}: pip install pyarrow") from None
    return pyarrow


def _of_batches(batches: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        for begin in range(0, batch.num_rows, 1024):
            yield from batch.slice(begin, 1024).to_pylist()


def _of_path(path: pathlib.Path) -> Iterator[dict[str, Any]]:
    pyarrow = _pyarrow()
    try:
        if path.is_dir():
            yield from _of_folder(path, pyarrow)
        else:
            yield from _of_batches(pyarrow.parquet.ParquetFile(path).iter_batches(1024))
    except (KeyError, TypeError) as error:  # from the files beside the data
        raise DamagedTraceError("DATA_LOSS", f"{path}: not a folder of save_to_disk: state.json "
                                             f"or dataset_dict.json lacks {error}") from None
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        text = str(error).split("\n", 1)[0] or type(error).__name__
        raise DamagedTraceError("DATA_LOSS", f"{path}: {text}") from None


def _of_folder(path: pathlib.Path, pyarrow: Any) -> Iterator[dict[str, Any]]:
    splits = path / "dataset_dict.json"
    if splits.exists():
        names = json.loads(splits.read_text())["splits"]
        if len(names) != 1:
            raise ValueError(f"has the splits {', '.join(names)}; give one of them, such as "
                             f"{path / names[0]}")
        path /= names[0]
    for each in json.loads((path / "state.json").read_text())["_data_files"]:
        with pyarrow.memory_map(str(path / each["filename"])) as file:
            yield from _of_batches(pyarrow.ipc.open_stream(file))


def _main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m xplane_time.datasets PATH", file=sys.stderr)
        return 64
    try:
        with open(sys.stdout.fileno(), "w", encoding="utf-8", errors="replace",
                  buffering=1 << 20, closefd=False) as out:
            write_json_lines(records_of(arguments[0]), out)
    except NothingFoundError as error:
        print(error, file=sys.stderr)
        return _EXIT_NOT_THERE
    except Error as error:
        print(error.message.removeprefix(f"{arguments[0]}: "), file=sys.stderr)
        return _EXIT_DAMAGED
    except BrokenPipeError:  # the reader closed the pipe
        return _EXIT_DAMAGED
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
