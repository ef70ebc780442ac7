"""The executors that make the summaries: this process, other processes, or a Ray cluster.

An executor is `run(tasks, workers, retries)`, a generator. It yields each task with its summary, or
with an error if there is no summary, in any order. The number of submitted tasks is at most the
number of workers; the other tasks wait in this process.
"""

from __future__ import annotations

import importlib
import os
import urllib.parse
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Union

from xplane_time import _core
from xplane_time.errors import ArgumentError, Error, InputError

__all__ = ["EXECUTORS", "Task"]


class Task(NamedTuple):
    uri: str
    host: str
    node: str  # of a cluster; empty: any
    options: dict[str, Any]  # options of Trace summaries: device, skip_runs


Answer = Union[bytes, Error]
Answers = Iterator[tuple[Task, Answer]]


def summary_of(task: Task) -> Answer:
    """Summarizes the trace of a task. An error in the file is returned as the answer."""
    try:
        if _is_address(task.uri):
            trace = _core.open_buffer(_fetched(task.uri), task.uri, 1)
        else:
            trace = _core.open_paths([os.fsencode(task.uri)], "", 1)
        return trace.summarize(task.options, task.host)
    except Error as error:
        return error
    except Exception as error:  # files of fsspec have their own exceptions
        return InputError("UNAVAILABLE", f"{task.uri}: {type(error).__name__}: {error}")


def _is_address(uri: str) -> bool:
    return len(urllib.parse.urlsplit(uri).scheme) > 1 and "://" in uri


def _fetched(uri: str) -> bytes:
    try:
        fsspec: Any = importlib.import_module("fsspec")
    except ImportError:
        raise ArgumentError("INVALID_ARGUMENT", f"{uri}: requires fsspec (pip install "
                                                "'xplane-time[fleet]'), with s3fs for s3:// or "
                                                "gcsfs for gs://") from None
    with fsspec.open(uri, "rb") as file:
        content: bytes = file.read()
    return content


def _died(task: Task, times: int) -> Error:
    return Error("ABORTED", f"{task.uri}: its worker ended {times} times before the end: killed, "
                            "out of memory, or a crash; try this file alone")


def _serial(tasks: Sequence[Task], workers: int | None, retries: int) -> Answers:
    for task in tasks:
        yield task, summary_of(task)


def _processes(tasks: Sequence[Task], workers: int | None, retries: int) -> Answers:
    import multiprocessing
    from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
    from concurrent.futures.process import BrokenProcessPool

    count = min(workers or len(os.sched_getaffinity(0)), max(len(tasks), 1))
    # If one worker is killed, the whole pool ends, and the responsible trace is unknown. So all
    # traces that were running are repeated, each alone.
    waiting, suspects = deque(tasks), deque[Task]()
    ends: dict[tuple[str, str, str], int] = {}
    context = multiprocessing.get_context("spawn")  # a fork would copy locks that threads hold
    while waiting or suspects:
        alone = not waiting
        queue = suspects if alone else waiting
        running: dict[Future[Answer], Task] = {}
        with ProcessPoolExecutor(1 if alone else count, mp_context=context) as pool:
            try:
                while queue or running:
                    while queue and len(running) < (1 if alone else count):
                        task = queue.popleft()
                        running[pool.submit(summary_of, task)] = task
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        answer = future.result()
                        yield running.pop(future), answer
            except BrokenProcessPool:
                for task in running.values():
                    key = (task.uri, task.host, task.node)
                    ends[key] = ends.get(key, 0) + 1
                    if alone and ends[key] > retries:
                        yield task, _died(task, ends[key])
                    else:
                        suspects.append(task)
            except GeneratorExit:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def connected_ray(**options: Any) -> Any:
    """Returns Ray, connected to a cluster: the one that this process already uses, otherwise a new
    one with `options`. Errors: ArgumentError if Ray is not installed."""
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise ArgumentError("INVALID_ARGUMENT", "executor='ray' requires Ray: pip install "
                                                "'xplane-time[fleet]'; or use "
                                                "executor='processes'") from None
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, **options)
    return ray


def _ray(tasks: Sequence[Task], workers: int | None, retries: int) -> Answers:
    ray = connected_ray(num_cpus=workers)
    remote = ray.remote(max_retries=retries)(summary_of)
    most = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
    waiting, running = deque(tasks), dict[Any, Task]()
    while waiting or running:
        while waiting and len(running) < most:
            task = waiting.popleft()
            # A tiny share of a resource that only that node has moves the task to the node of its
            # file.
            place = {"resources": {f"node:{task.node}": 0.001}} if task.node else {}
            running[remote.options(**place).remote(task)] = task
        done, _ = ray.wait(list(running), num_returns=1)
        for each in done:
            task = running.pop(each)
            try:
                yield task, ray.get(each)
            except ray.exceptions.RayError as error:
                ended = isinstance(error, (ray.exceptions.WorkerCrashedError,
                                           ray.exceptions.NodeDiedError))
                told = _died(task, retries + 1) if ended else Error(
                    "ABORTED", f"{task.uri}: Ray: {str(error).splitlines()[0]}")
                yield task, told


EXECUTORS: dict[str, Callable[[Sequence[Task], int | None, int], Any]] = {
    "processes": _processes, "ray": _ray, "serial": _serial}
