"""Runs a callable as a harness program: `python -P -m xplane_time.fleet_harness FILE`. FILE (or
standard input) contains two pickles: the import path and the callable. HarnessProcess is the
driver's side of any harness: a process with a pipe in each direction."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import os
import pickle
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

from xplane_time.errors import ArgumentError, InputError
from xplane_time.harness import CODE_HASH, code_hash_of

__all__ = ["Harness", "HarnessProcess", "module_command", "program_of"]

_LAST_WORDS = 2000  # bytes

# A command, or a callable that calls serve() or serve_jax().
Harness = Union[Sequence[str], Callable[[], object]]


class Program:
    """The description of a harness, which can start it on any machine with its command or its
    modules."""

    def __init__(self, command: list[str], pickled: bytes, code_hash: str) -> None:
        self.command, self.pickled, self.code_hash = command, pickled, code_hash

    def write(self, folder: str) -> list[str]:
        """Returns a command that needs no other files, as long as the folder exists."""
        if not self.pickled:
            return self.command
        path = os.path.join(folder, "harness.pickle")
        with open(path, "wb") as file:
            file.write(_import_path() + self.pickled)
        return module_command(__name__, path)

    def start(self, device: str) -> HarnessProcess:
        command = module_command(__name__) if self.pickled else self.command
        return HarnessProcess(command, {**self.environment(), "XPLANE_TIME_DEVICE": device},
                              _import_path() + self.pickled if self.pickled else b"")

    def environment(self) -> dict[str, str]:
        return {CODE_HASH: self.code_hash} if self.pickled else {}


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that starts a module of this package. -P: Python does not import from the current
    directory, which may contain a json.py."""
    return [sys.executable, "-P", "-m", module, *arguments]


def _import_path() -> bytes:
    """The pickled import path, so that the other process finds the modules of the callable."""
    return pickle.dumps(sys.path)


def program_of(harness: Harness) -> Program:
    """Errors: ArgumentError (neither a command nor a callable, or one that cannot be pickled)."""
    if not callable(harness):
        command = [] if isinstance(harness, str) else [str(each) for each in harness]
        if not command:
            raise ArgumentError("INVALID_ARGUMENT", "harness: must be a command as a list of "
                                                    "strings, or a function without parameters "
                                                    f"that calls serve(), not {harness!r}")
        return Program(command, b"", "")
    source = None
    with contextlib.suppress(TypeError):
        source = inspect.getsourcefile(inspect.unwrap(harness))
    code_hash = code_hash_of(source) if source is not None and os.path.exists(source) else ""
    return Program([], _pickled(harness), code_hash)


def _pickled(harness: Callable[[], object]) -> bytes:
    # Pickles functions of notebooks and scripts by value.
    for name in ("cloudpickle", "ray.cloudpickle"):
        with contextlib.suppress(ImportError):
            by_value: bytes = importlib.import_module(name).dumps(harness)
            return by_value
    if getattr(harness, "__module__", "") == "__main__":
        raise ArgumentError("INVALID_ARGUMENT", "harness: a function of a script or a notebook "
                                                "requires cloudpickle (pip install "
                                                "cloudpickle); or use a top-level function of "
                                                "a module that can be imported")
    try:
        return pickle.dumps(harness)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ArgumentError("INVALID_ARGUMENT", f"harness: {error}; use a top-level function of "
                            "a module that can be imported") from None


def ending_with_us(command: Sequence[str], signal_name: str) -> list[str]:
    """Wraps the command, so that it receives the signal when the thread that started it ends."""
    setpriv = shutil.which("setpriv")
    return [*([setpriv, "--pdeathsig", signal_name] if setpriv else []), *command]


def write_all(pipe: int, data: bytes) -> None:
    """Errors: OSError."""
    while data:
        data = data[os.write(pipe, data):]


class HarnessProcess:
    """Exchanges bytes of whole lines with a harness. One thread sends, one receives."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str],
                 stdin: bytes = b"") -> None:
        """Starts the process. It is killed when the thread that started it ends, for any reason."""
        command = ending_with_us(command, "KILL")
        its_in, self._to = os.pipe()
        self._from, its_out = os.pipe()
        self._printed = tempfile.TemporaryFile()
        self._received = b""
        try:
            with tempfile.TemporaryFile() as given:
                given.write(stdin)
                given.seek(0)
                self.process = subprocess.Popen(
                    command, pass_fds=(its_in, its_out), stdin=given, stdout=self._printed,
                    stderr=subprocess.STDOUT, start_new_session=True,
                    env={**os.environ, **environment, "XPLANE_TIME_HARNESS_IN": str(its_in),
                         "XPLANE_TIME_HARNESS_OUT": str(its_out)})
        except OSError as error:
            os.close(self._to)
            os.close(self._from)
            self._printed.close()
            raise InputError("UNAVAILABLE", f"{command[0]}: {error.strerror}") from None
        finally:
            os.close(its_in)
            os.close(its_out)

    def send(self, data: bytes) -> None:
        """Errors: OSError if the process has ended."""
        write_all(self._to, data)

    def receive(self, wait_s: float) -> bytes | None:
        """Returns complete lines; b"" if no line arrived in time; None if the process closed its
        end."""
        ready, _, _ = select.select([self._from], [], [], wait_s)
        if not ready:
            return b""
        got = os.read(self._from, 1 << 20)
        if not got:
            return None
        whole, newline, rest = (self._received + got).rpartition(b"\n")
        self._received = rest
        return whole + newline

    def end(self, wait_s: float = 0) -> tuple[int, str]:
        """Ends the process and its descendants. Returns its exit code (negative for a signal) and
        its last output."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(wait_s)
        with contextlib.suppress(OSError):  # the whole group, including its descendants
            os.killpg(self.process.pid, signal.SIGKILL)
        for pipe in (self._to, self._from):
            with contextlib.suppress(OSError):
                os.close(pipe)
        self._to = self._from = -1
        with self._printed:
            size = self._printed.seek(0, os.SEEK_END)
            self._printed.seek(max(0, size - _LAST_WORDS))
            return self.process.wait(), self._printed.read().decode(errors="replace").strip()


def hello_of(process: HarnessProcess, timeout_s: float) -> dict[str, Any]:
    """Returns the harness's answer to hello, and ends the process. Errors: InputError."""
    until, lines = time.monotonic() + timeout_s, b""
    try:
        process.send(b'{"v": 1, "type": "hello", "session": "", "workloads": []}\n')
        while b"\n" not in lines and time.monotonic() < until:
            got = process.receive(until - time.monotonic())
            if got is None:
                break
            lines += got
        said = json.loads(lines.split(b"\n")[0])
        if not isinstance(said, dict) or said.get("type") != "hello":
            raise ValueError
        process.send(b'{"v": 1, "type": "bye"}\n')
        process.end(2)
        return said
    except (OSError, ValueError):
        _, words = process.end()
        raise InputError("UNAVAILABLE", "the harness did not send hello: "
                         + (f"it printed last: {words}" if words else "it ended, or sent another message")
                         ) from None


def _main(*paths: str) -> None:
    with open(paths[0], "rb") if paths else os.fdopen(0, "rb") as opened:
        sys.path[:] = pickle.load(opened)
        harness = pickle.load(opened)
    harness()
    print(f"{getattr(harness, '__qualname__', harness)!s} returned; it must call serve() or "
          "serve_jax(), which return when the tuning is over")


if __name__ == "__main__":
    _main(*sys.argv[1:])
