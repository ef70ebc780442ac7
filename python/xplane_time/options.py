"""Options of the methods that report times; each method accepts some of them.

  def slowest(trace: Trace, **options: Unpack[FunctionOptions]) -> str:
      return trace.functions(**options)["function"][0]
"""

import difflib
import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar

Metric = Literal["active", "span", "sum"]
Clock = Literal["auto", "device", "profile"]
Objective = Literal["time", "energy"]


class FilterOptions(TypedDict, total=False):
    """Filters of all methods that report times or energies."""

    device: str
    function: str
    exclude: str
    prefix: str
    kernel: str
    exclude_kernel: str
    scope: str


class CategoryOptions(TypedDict, total=False):
    """Patterns for collectives and copies, in all methods that report categories."""

    collective_re: str
    copy_re: str


class EnergyOptions(FilterOptions, total=False):
    """Options of Trace.energy: filters, and the sources of power and layers."""

    map: Mapping[int, str]
    layers: str | os.PathLike[str]
    layer_re: str
    fold: bool


class CountOptions(FilterOptions, total=False):
    """Options of all methods that report times: filters, and which executions count."""

    min_duration_ps: int | None
    max_events: int | None
    clock: Clock


class KernelOptions(CountOptions, CategoryOptions, total=False):
    """Options of Trace.kernels: CountOptions, CategoryOptions and the tolerance of nesting."""

    tolerance_ps: int


class HeadroomOptions(CountOptions, CategoryOptions, total=False):
    """Options of Trace.headroom: CountOptions, CategoryOptions and the peaks of the devices."""

    peak_flops_per_s: float
    peak_bytes_per_s: float
    work: str | os.PathLike[str] | Sequence[Mapping[str, object]]


class DiffOptions(CategoryOptions, total=False):
    """Options of diff(): which executions to compare, and how to decide."""

    device: str
    function: str
    exclude: str
    prefix: str
    skip_runs: int
    run: str
    per: Literal["step", "run", "capture"]
    min_effect: float
    alpha: float
    offset_std: float
    paired: bool


class CompareOptions(CountOptions, total=False):
    """Options of compare(): which runs count, and how to decide."""

    id_pattern: str | None
    skip_runs: int
    by_id: bool
    metric: Metric
    trim: str
    run: str
    objective: Objective
    benchmark_time: Literal["real", "cpu"]
    min_effect: float
    max_mde: float
    alpha: float
    offset_std: float
    paired: bool
    allow_mismatch: bool


class SampleOptions(CountOptions, total=False):
    """Options of Trace.samples: CountOptions, and which runs count."""

    id_pattern: str | None
    skip_runs: int


class FunctionOptions(SampleOptions, total=False):
    """Options of Trace.functions: SampleOptions, and how runs are combined."""

    by_id: bool
    metric: Metric
    trim: str
    seed: int


class PickOptions(SampleOptions, total=False):
    """Options of pick(): which runs count, and how to decide."""

    metric: Metric
    trim: str
    run: str
    objective: Objective
    delta: float
    alpha: float
    drift_std: float
    seed: int
    space: str | os.PathLike[str] | Mapping[str, object] | Sequence[Mapping[str, object]]


class ReportOptions(FunctionOptions, CategoryOptions, total=False):
    """Options of Trace.report: FunctionOptions, CategoryOptions, and options for further tables."""

    tolerance_ps: int
    samples: bool
    step_re: str


_MEANINGS = {
    "device": 'devices: "gpu", "tpu", "cpu", "custom", "all", "gpu:0,2", the name of a plane or '
              '"re:PATTERN" for names (default: accelerators, or the CPU if the trace has no '
              "accelerator plane)",
    "function": "include only functions that match (RE2, unanchored)",
    "exclude": "exclude functions that match",
    "prefix": "include only functions with names that start with this text",
    "kernel": "count only matching kernels as a function's time",
    "exclude_kernel": "do not count matching kernels, such as an L2 flush in the timed range",
    "scope": "count only kernels with a matching name scope, tf_op or source line",
    "collective_re": "treat matching kernels as collectives, whatever their names",
    "copy_re": "treat matching kernels as copies",
    "map": "map devices of the trace, by ordinal, to devices of the log or counters of the trace; "
           'a prefix of the name is enough: {0: "GPU-8f6e"}',
    "layers": "CSV with the times of layers (layer_name, start_time, end_time in UNIX seconds)",
    "layer_re": "layer names: the first group of this pattern in the name scope (default: the "
                "whole scope)",
    "fold": "add up the forward and the backward pass of a layer, jvp(layer) and "
            "transpose(jvp(layer)); layer_re searches the folded scope (default False)",
    "min_duration_ps": "exclude shorter executions, in picoseconds; a note counts them",
    "max_events": "include only the first executions of each device; a note counts the rest, and "
                  "the last run may be incomplete",
    "clock": 'clock of times: "device", "profile" or "auto" (the device\'s clock if the trace has '
             'it) (default "auto")',
    "tolerance_ps": "maximum time by which a nested event may exceed its parent, in picoseconds "
                    "(default 0)",
    "peak_flops_per_s": "peak FLOP/s of the devices (default: from the trace, or a table of GPUs)",
    "peak_bytes_per_s": "peak bandwidth of the main memory in bytes/s (default: from the trace)",
    "work": "FLOPs and bytes per execution of custom kernels: "
            '[{"kernel": "NAME", "flops": 8.6e9, "bytes": 3.3e7}], with "pattern" (RE2) instead of '
            '"kernel" for several; or a JSON file that has this list as its "work"',
    "run": "run of a log directory (default: the latest)",
    "per": 'unit of comparison: "step", "run" (of each function) or "capture" (default: the first '
           "that all captures have)",
    "min_effect": "ignore changes of a row up to this share of its time (default 0.01)",
    "alpha": "maximum probability, over all rows together, of reporting a change in an unchanged "
             "program (default 0.001)",
    "offset_std": "standard deviation between processes, if known; then one capture per side is "
                  "enough for a decision",
    "max_mde": "too little data if a larger slowdown could go undetected (default 0.05)",
    "allow_mismatch": "allow a comparison of different devices or methods, with a note (default "
                      "False)",
    "benchmark_time": 'time of Google Benchmark: "real" or "cpu" (default "real")',
    "objective": 'objective: "time", or "energy" (of files written by xplane-time energy --format '
                 'json) (default "time")',
    "delta": "tie margin: variants within this share of the best count as equal (default 0.005)",
    "drift_std": "allowance for drift if the variants of a single capture did not run in rounds "
                 "(default 0.02)",
    "space": 'parameters to show for each id: [{"id": "0", "params": {"block": 64}}]; or a search '
             "space (docs/space.md) as a dict or a file",
    "paired": "the i-th captures of both sides were recorded together; compare them in pairs "
              "(default False)",
    "id_pattern": "treat matching functions as variants; the first group is the id (default: "
                  "jit_autotune_fn_N and jit_tune_jax_fn_N)",
    "skip_runs": "exclude the first runs of each function and device (warm-up) (default 0)",
    "by_id": "one row per variant id (default False)",
    "metric": 'time of a run for trimming: "active", "span" or "sum" (default "active")',
    "trim": 'runs to exclude: "none", "drop-extremes", "iqr", "mad" or "percent:P" (default '
            '"none")',
    "seed": "seed of the intervals of medians (default 1)",
    "samples": "fill Report.samples (default False)",
    "step_re": "use host events (PyTorch: annotations) with matching names as steps, instead of "
               "the line Steps and events with a step_num",
}

# Where an option means something else than in other methods.
_OWN_MEANINGS: dict[str, dict[str, str]] = {
    "DiffOptions": {
        "skip_runs": "exclude the first runs of each function and device, or the first steps "
                     "(default 0)",
    },
    "CompareOptions": {
        "min_effect": "ignore slowdowns up to this share (default 0.01)",
        "alpha": "maximum probability, over all functions together, of calling an unchanged "
                 "program faster or slower (default 0.001)",
        "id_pattern": "with by_id: treat matching functions as variants; the first group is the id "
                      "(default: jit_autotune_fn_N and jit_tune_jax_fn_N)",
        "metric": 'time of a run: "active", "span" or "sum" (default "active")',
    },
    "PickOptions": {
        "alpha": "maximum probability of a wrong claim (default 0.01)",
        "metric": 'time of a run: "active", "span" or "sum" (default "active")',
        "seed": "seed of the bootstrap for p_best (default 1)",
    },
}

Method = TypeVar("Method", bound=Callable[..., object])


def documented(options: type) -> Callable[[Method], Method]:
    """Adds the options to the docstring of a method, for help()."""

    def with_options(method: Method) -> Method:
        first, _, rest = (method.__doc__ or "").partition("\n")
        meanings = _MEANINGS | _OWN_MEANINGS.get(options.__name__, {})
        lines = [textwrap.fill(f"{name}: {meanings[name]}", 88, initial_indent="    ",
                               subsequent_indent="        ")
                 for name in options.__annotations__]
        method.__doc__ = "\n".join([first, textwrap.dedent(rest).rstrip(), "", "Options:", *lines])
        return method

    return with_options


def checked(method: str, options: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the given options without those that are None. Errors: TypeError for an unknown
    option, as for any unknown argument."""
    known = list(options.__annotations__)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; options: {', '.join(known)}"
            raise TypeError(f"{method}() got an unexpected keyword argument {name!r}{hint}")
    return {name: value for name, value in given.items() if value is not None}
