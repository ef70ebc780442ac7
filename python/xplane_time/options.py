"""Options of the methods that report times: one list; each method has a part of it.

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
    """Filters, and the sources of power and layers, of Trace.energy."""

    map: Mapping[int, str]
    layers: str | os.PathLike[str]
    layer_re: str
    fold: bool


class CountOptions(FilterOptions, total=False):
    """Filters, and which executions count, in all methods that report times."""

    min_duration_ps: int | None
    max_events: int | None
    clock: Clock


class KernelOptions(CountOptions, CategoryOptions, total=False):
    """The same, and the tolerance of nesting, of Trace.kernels."""

    tolerance_ps: int


class HeadroomOptions(CountOptions, CategoryOptions, total=False):
    """The same, and the peaks of the devices, of Trace.headroom."""

    peak_flops_per_s: float
    peak_bytes_per_s: float
    work: str | os.PathLike[str] | Sequence[Mapping[str, object]]


class DiffOptions(CategoryOptions, total=False):
    """The executions to compare, and the decision, of diff()."""

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


class SampleOptions(CountOptions, total=False):
    """The same, and which runs count, of Trace.samples."""

    id_pattern: str | None
    skip_runs: int


class FunctionOptions(SampleOptions, total=False):
    """The same, and how runs are combined, of Trace.functions."""

    by_id: bool
    metric: Metric
    trim: str
    seed: int


class ReportOptions(FunctionOptions, CategoryOptions, total=False):
    """The same, and which tables are made, of Trace.report."""

    tolerance_ps: int
    samples: bool
    step_re: str


_MEANINGS = {
    "device": '"gpu", "tpu", "cpu", "custom", "all", "gpu:0,2" or "re:PATTERN" on plane names [the '
              "accelerators; the CPU where there are none]",
    "function": "only functions that match (patterns are RE2 and search)",
    "exclude": "not functions that match",
    "prefix": "only functions whose name starts so",
    "kernel": "only kernels that match count as a function's time",
    "exclude_kernel": "kernels that match do not count",
    "scope": "only kernels count whose name scope, tf_op or source line matches",
    "collective_re": "kernels that match are collectives, whatever they are called",
    "copy_re": "kernels that match are copies",
    "map": 'ordinal of the trace to a device of the log (or a counter of the trace), or what '
           'begins so: {0: "GPU-8f6e"}',
    "layers": "a CSV file of when layers ran: layer_name, start_time, end_time in UNIX seconds",
    "layer_re": "a layer is what the first group matches in a name scope [all of the scope]",
    "fold": "the forward and the backward pass of a layer as one [False]",
    "min_duration_ps": "shorter executions are left out, and counted as a doubt",
    "max_events": "only a device's first executions; the last run may be cut short",
    "clock": '"auto" (the device\'s own where there is one), "device" or "profile" ["auto"]',
    "tolerance_ps": "how far a nested event may stick out of its parent [0]",
    "peak_flops_per_s": "FLOP/s that the devices are capable of [what the trace, or a table of "
                        "GPUs, says]",
    "peak_bytes_per_s": "bytes a second of their main memory [what the trace says]",
    "work": "FLOPs and bytes of one execution of custom kernels: "
            '[{"kernel": "NAME", "flops": 8.6e9, "bytes": 3.3e7}], with "pattern" (RE2) instead of '
            '"kernel" for several; or a JSON file that has this list as its "work"',
    "run": "of log directories [the latest]",
    "per": 'what is compared: "step", "run" (of each function) or "capture" [the first that all '
           "captures have]",
    "min_effect": "changes of a row up to this share of its time do not count [0.01]",
    "alpha": "how often, over all rows together, a program that did not change may be said to have "
             "[0.001]",
    "offset_std": "how much processes differ (standard deviation), where it is known: then one "
                  "capture a side can decide",
    "paired": "the i-th captures of both sides were taken side by side [False]",
    "id_pattern": "functions that match are variants, the first group their id "
                  "[jit_autotune_fn_N and jit_tune_jax_fn_N]",
    "skip_runs": "the first runs of each function and device are left out, as warm-up [0]",
    "by_id": "one row a variant id [False]",
    "metric": 'what trimming looks at: "active", "span" or "sum" ["active"]',
    "trim": 'samples that are left out: "none", "drop-extremes", "iqr", "mad", "percent:P" '
            '["none"]',
    "seed": "of the intervals of medians [1]",
    "samples": "fill Report.samples [False]",
    "step_re": "host events (of PyTorch: annotations) whose names match mark the steps [the line "
               "Steps, or events with a step_num]",
}

Method = TypeVar("Method", bound=Callable[..., object])


def documented(options: type) -> Callable[[Method], Method]:
    """Adds the options to the docstring of a method, for help()."""

    def with_options(method: Method) -> Method:
        first, _, rest = (method.__doc__ or "").partition("\n")
        lines = [textwrap.fill(f"{name}: {_MEANINGS[name]}", 88, initial_indent="    ",
                               subsequent_indent="        ")
                 for name in options.__annotations__]
        method.__doc__ = "\n".join([first, textwrap.dedent(rest).rstrip(), "", "Options:", *lines])
        return method

    return with_options


def checked(method: str, options: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given options, without those that are None. Errors: TypeError for an unknown option, like
    any call with an unknown argument."""
    known = list(options.__annotations__)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
            raise TypeError(f"{method}() got an unexpected keyword argument {name!r}{hint}")
    return {name: value for name, value in given.items() if value is not None}
