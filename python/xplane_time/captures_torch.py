"""Captures of PyTorch models with torch.profiler, for xplane_time.torch."""

from __future__ import annotations

import importlib
import pathlib
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from xplane_time.captures import CaptureError, Profile, check_counts, read_profile
from xplane_time.errors import NothingFoundError

__all__ = ["call_with", "capture", "profile", "synchronizer"]


def call_with(function: Callable[..., object], inputs: Any, **options: Any) -> None:
    """Calls `function`. A dict contains keyword arguments, a tuple or list positional arguments."""
    if isinstance(inputs, Mapping):
        function(**inputs, **options)
    elif isinstance(inputs, (tuple, list)):
        function(*inputs, **options)
    else:
        function(inputs, **options)


def synchronizer(model: Any) -> Callable[[], None]:
    """Returns a function that waits for the model's GPUs; without CUDA it does not wait."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return lambda: None
    parameters = model.parameters() if hasattr(model, "parameters") else ()
    devices = {each.device for each in parameters if each.device.type == "cuda"}
    if not devices and torch.cuda.is_initialized():
        devices = {torch.cuda.current_device()}

    def synchronize() -> None:
        for device in devices:
            torch.cuda.synchronize(device)

    return synchronize


def capture(closure: Callable[[], object], *, python_frames: bool = False) -> bytes:
    """Profiles one call with torch.profiler; returns the bytes of its trace, for
    xplane_time.open().

    The closure must wait for the GPUs that it uses (torch.cuda.synchronize()). `python_frames`:
    also records the calls of Python functions and of modules, which slows the host down. Errors:
    CaptureError, and everything that the closure raises.
    """
    profiler = importlib.import_module("torch").profiler.profile(with_stack=python_frames)
    try:
        profiler.start()
    except Exception as error:
        raise CaptureError(f"torch cannot profile now: {error}; only one trace at a time is "
                           "possible, so end the other one first") from error
    try:
        closure()
    finally:
        profiler.stop()
    with tempfile.TemporaryDirectory(prefix="xplane_time_") as folder:
        path = pathlib.Path(folder, "capture.pt.trace.json")
        profiler.export_chrome_trace(str(path))
        return path.read_bytes()


def profile(
    model: Callable[..., object],
    inputs: Any = (),
    *,
    repeats: int = 5,
    warmup: int = 1,
    device: str = "gpu",
    python_frames: bool = False,
) -> Profile:
    """Calls `model` `warmup` times, then `repeats` times in one capture, as ProfilerStep#0, #1, ...

    `inputs`: a dict contains keyword arguments, a tuple or list positional arguments. The mode of
    the model and gradients are not changed. `device`: as in xplane_time.Trace.report.
    `python_frames`: as in capture(); modules are then functions too. Errors: CaptureError,
    NothingFoundError (no execution on that device), ArgumentError, and everything that the model
    raises.
    """
    check_counts(repeats=repeats, warmup=warmup)
    torch = importlib.import_module("torch")
    for _ in range(warmup):
        call_with(model, inputs)
    synchronize = synchronizer(model)
    synchronize()

    def run() -> None:
        for number in range(repeats):
            with torch.profiler.record_function(f"ProfilerStep#{number}"):
                call_with(model, inputs)
        synchronize()

    try:
        return read_profile(capture(run, python_frames=python_frames), device=device)
    except NothingFoundError as error:
        raise NothingFoundError(error.code, f"{error.message} (torch {torch.__version__}; for a "
                                            "model on the CPU, use capture())") from None
