"""`power run` in Python: calls a function for each record of a data set and measures the energy.

>>> from xplane_time import power
>>> run = power.run(["1 + 1 = ?"], model.generate, model="m")        # doctest: +SKIP
>>> run.records["latency_metrics_total_query_seconds"]               # doctest: +SKIP
>>> run.save_to_disk("answers")      # datasets.load_from_disk("answers")  # doctest: +SKIP
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union, cast

from xplane_time import _core
from xplane_time.datasets import records_of, write_json_lines
from xplane_time.errors import ArgumentError, Error, XplaneTimeWarning
from xplane_time.files import command_path
from xplane_time.power_client import Answer, Question, _answered, _takes_two
from xplane_time.table import Table

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped, unused-ignore]

__all__ = ["Run", "run"]

_PathText = Union[str, "os.PathLike[str]"]
_Client = Callable[..., Union[str, Answer]]
_EXIT_ALL_FAILED = 20
_EXIT_STOPPED = 75


class Run:
    """A directory that run() or the command `power run` wrote."""

    __slots__ = ("path",)

    def __init__(self, path: _PathText) -> None:
        self.path = pathlib.Path(path)

    @property
    def records(self) -> Table:
        """A row for each record, in the order of the answers: the texts, and the metrics by their
        names in records.jsonl, such as energy_metrics_per_query_joules. Unknown is None."""
        return Table(cast(_core.Table, _core.run_rows(str(self.path / "records.jsonl"))))

    @property
    def summary(self) -> dict[str, Any]:
        """The content of summary.json."""
        found: dict[str, Any] = json.loads((self.path / "summary.json").read_text("utf-8"))
        return found

    def to_arrow(self) -> pyarrow.Table:
        """The content of records.jsonl, with the same nesting. A column is null if no record has a
        value for it. If a field of dataset_metadata has different types in different records, it
        becomes JSON text."""
        import pyarrow

        with open(self.path / "records.jsonl", encoding="utf-8") as lines:
            records = [_nothing_is_none(json.loads(line)) for line in lines if line.endswith("\n")]
        names = list(dict.fromkeys(name for record in records for name in record))
        return pyarrow.table({name: _column([record.get(name) for record in records])
                              for name in names})

    def to_parquet(self, path: _PathText) -> None:
        """Writes all records to a Parquet file (pip install pyarrow)."""
        import pyarrow.parquet  # type: ignore[import-untyped, unused-ignore]

        pyarrow.parquet.write_table(self.to_arrow(), _new(path))

    def save_to_disk(self, path: _PathText) -> None:
        """Writes a folder that `datasets.load_from_disk` opens (pip install pyarrow)."""
        import pyarrow

        folder, table = _new(path), self.to_arrow()
        folder.mkdir(parents=True)
        data = folder / "data-00000-of-00001.arrow"
        with pyarrow.ipc.new_stream(str(data), table.schema) as stream:
            stream.write_table(table)
        fingerprint = hashlib.sha256(data.read_bytes()).hexdigest()[:16]
        _write_json(folder / "dataset_info.json", {"description": "Records of xplane-time power run"})
        _write_json(folder / "state.json", {
            "_data_files": [{"filename": data.name}], "_fingerprint": fingerprint,
            "_format_columns": None, "_format_kwargs": {}, "_format_type": None,
            "_output_all_columns": False, "_split": None})

    def __repr__(self) -> str:
        summary = self.summary
        return (f"<Run of {summary['model']!r}: {summary['total_queries']} records, "
                f"{summary['failed_queries']} failed, in {self.path}>")


def run(dataset: Any, client: _Client | str, *, model: str, dataset_name: str | None = None,
        output_dir: _PathText = "runs", limit: int | None = None, shuffle: int | None = None,
        problem_field: str = "problem", answer_field: str = "answer",
        subject_field: str = "subject", sources: Sequence[str] | str = (), resume: bool = False,
        retry_failed: bool = False, overwrite: bool = False, base_url: str | None = None,
        parameters: Mapping[str, Any] | None = None, concurrency: int = 1, sysfs_root: _PathText = "/sys",
        nvml_library: _PathText = "libnvidia-ml.so.1") -> Run:
    """Asks one record after the other, and stores each answer with its energy, like the command.

    `dataset`: an iterable of dicts or texts, a table (pandas, polars, pyarrow), a
    `datasets.Dataset`, or a path (docs/power-run.md). `client`: `f(problem)` or `f(problem,
    question)`, which returns a text or an Answer; if it raises an exception, that record fails.
    `client` can also be a name that `xplane-time power clients` prints. Then the command
    `xplane-time power run` asks, with `base_url`, `parameters` and `concurrency`. `sources`: as in
    record(); with "none" every energy is None. Ctrl-C raises KeyboardInterrupt. The stored records
    stay, and a call with resume=True continues the run. Errors: ArgumentError (the directory
    exists, or belongs to another run), DamagedTraceError (the data set), NothingFoundError (no
    sensor of power or energy), MissingInputError."""
    named = sources.split(",") if isinstance(sources, str) else list(sources)
    name = dataset_name or _name_of(dataset)
    names = {"model": model, "dataset": name, "output_dir": os.fspath(output_dir),
             "problem_field": problem_field, "answer_field": answer_field,
             "subject_field": subject_field, "sysfs_root": os.fspath(sysfs_root),
             "nvml_library": os.fspath(nvml_library)}
    with tempfile.TemporaryDirectory() as folder:
        path = _as_path(dataset, pathlib.Path(folder), None if shuffle is not None else limit)
        try:
            if isinstance(client, str):
                return _run_by_command(path, client, names, limit, shuffle, resume, retry_failed,
                                       overwrite, named, base_url, parameters or {}, concurrency)
            if base_url is not None or parameters or concurrency != 1:
                raise ArgumentError("INVALID_ARGUMENT", "base_url, parameters and concurrency "
                                                        "require the name of a client, not a "
                                                        "callable")
            names["config"] = json.dumps({"client": "callable", "records": name,
                                          "function": _name_of_callable(client),
                                          "limit": limit, "shuffle": shuffle, "sources": named,
                                          "problem_field": problem_field})
            names["python"] = sys.executable
            directory, warning = _core.run_power(
                str(path), _asking(client, model), names, limit, shuffle, resume, retry_failed,
                overwrite, named, dict(os.environ))
        except Error as error:
            message = _in_words_of_python(error.message)
            if not isinstance(dataset, (str, os.PathLike)):
                message = message.replace(str(path), name)
            raise type(error)(error.code, message) from None
    if warning:
        warnings.warn(warning, XplaneTimeWarning, stacklevel=2)
    return Run(directory)


def _asking(client: _Client, model: str) -> Callable[[str, str, str], tuple[Any, ...]]:
    takes_question = _takes_two(client)

    def ask(problem: str, subject: str, metadata: str) -> tuple[Any, ...]:
        question = Question(problem, model, subject, json.loads(metadata))
        got = _answered(client, question, (question,) if takes_question else ())
        counts = [got.get("input_tokens"), got.get("output_tokens")]
        first_ms = got.get("time_to_first_token_ms")
        good = isinstance(got.get("answer", ""), str) and all(
            each is None or isinstance(each, int) and not isinstance(each, bool) and each >= 0
            for each in counts) and (first_ms is None or first_ms >= 0)
        if not good:
            why = "an Answer requires a str, and counts and times of at least 0"
            return "bad_answer", "", why, *[None] * 3
        texts = (got.get("answer", ""), got.get("message", ""))
        answer, message = (text.encode("utf-8", "replace").decode() for text in texts)
        return got["status"], answer, message, *counts, first_ms and float(first_ms)
    return ask


def _as_path(dataset: Any, folder: pathlib.Path, limit: int | None) -> pathlib.Path:
    """Returns the path of the data set, or writes the records to a file.

    An iterable without a length may never end, so only `limit` records are taken from it.
    """
    if isinstance(dataset, (str, os.PathLike)):
        return pathlib.Path(dataset)
    path = folder / "dataset.jsonl"
    records = records_of(dataset)
    with open(path, "w", encoding="utf-8", errors="replace") as file:
        write_json_lines(records if hasattr(dataset, "__len__") else
                         itertools.islice(records, limit), file)
    return path


def _run_by_command(path: pathlib.Path, client: str, names: Mapping[str, str], limit: int | None,
                    shuffle: int | None, resume: bool, retry_failed: bool, overwrite: bool,
                    sources: Sequence[str], base_url: str | None,
                    parameters: Mapping[str, Any], concurrency: int) -> Run:
    command = [command_path(), "power", "run", str(path), "--client", client, "--format", "json"]
    for name, value in names.items():
        command.append(f"--{name.replace('_', '-')}={value}")
    given = {"limit": limit, "shuffle": shuffle, "base-url": base_url,
             "concurrency": None if concurrency == 1 else concurrency, "source": ",".join(sources) or None}
    command += [f"--{name}={value}" for name, value in given.items() if value is not None]
    command += [f"--client-param={name}={value if isinstance(value, str) else json.dumps(value)}"
                for name, value in parameters.items()]
    flags = {"--resume": resume, "--retry-failed": retry_failed, "--overwrite": overwrite}
    command += [flag for flag, is_set in flags.items() if is_set]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "XPLANE_TIME_PYTHON": sys.executable})
    try:
        out, err = process.communicate()
    except KeyboardInterrupt:  # the command was interrupted, too, and stores its records
        process.communicate()
        raise
    if process.returncode == _EXIT_STOPPED:
        raise KeyboardInterrupt
    if process.returncode not in (0, _EXIT_ALL_FAILED):
        lines = err.strip().splitlines() or [f"xplane-time ended with {process.returncode}"]
        raise ArgumentError("INVALID_ARGUMENT", lines[-1].removeprefix("xplane-time: "))
    return Run(json.loads(out)["output_dir"])


def _in_words_of_python(message: str) -> str:
    """Replaces the command's options by arguments: --resume becomes resume=True."""
    message = re.sub(r"--(resume|retry-failed|overwrite)\b", r"\1=True", message)
    message = re.sub(r"--source (\w+)", r'sources="\1"', message)
    message = re.sub(r"--([a-z]+)-(field|dir|url)\b", r"\1_\2", message)
    return message.replace("retry-failed=", "retry_failed=")


def _name_of(dataset: Any) -> str:
    if isinstance(dataset, (str, os.PathLike)):
        path = pathlib.Path(dataset)
        return path.name if path.is_dir() else path.stem
    return "dataset"


def _name_of_callable(client: _Client) -> str:
    return str(getattr(client, "__qualname__", type(client).__qualname__))


def _new(path: _PathText) -> pathlib.Path:
    new = pathlib.Path(path)
    if new.exists():
        raise ArgumentError("FAILED_PRECONDITION", f"{new}: already exists; choose another path")
    return new


def _write_json(path: pathlib.Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", "utf-8")


def _nothing_is_none(value: Any) -> Any:
    """Parquet does not support objects without fields."""
    if isinstance(value, dict):
        return {name: _nothing_is_none(each) for name, each in value.items()} or None
    if isinstance(value, list):
        return [_nothing_is_none(each) for each in value]
    return value


def _column(values: list[Any]) -> Any:
    import pyarrow

    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowException, OverflowError):
        return pyarrow.array([None if each is None else json.dumps(each, ensure_ascii=False)
                              for each in values], pyarrow.string())
