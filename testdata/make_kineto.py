#!/usr/bin/env python3
"""make_kineto.py > kineto_training.json: three steps of a network of two layers, in the format of PyTorch's profiler.

Made, not recorded: a GPU is wanted for that. Times are drawn (seed 1); the format is that of torch 2.8: nanoseconds from a
base, modules of with_modules=True, the backward pass launched from a thread of its own, a collective on a stream of its
own, and two kernels that were launched before the profiler was.
"""
import json
import random

BASE_NS = 1_756_000_000_000_000_000
HOST, MAIN, AUTOGRAD, COMPUTE, COMM = 4711, 4711, 4790, 7, 20
events, draw = [], random.Random(1)
gpu_free_us = {COMPUTE: 40.0, COMM: 0.0}
correlation = 100


def us(value):
    return round(value, 3)


def add(cat, name, pid, tid, ts, dur, **args):
    events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": us(ts), "dur": us(dur),
                   "args": args})


def launch(at, tid, kernel, dur, stream=COMPUTE, cat="kernel"):
    """From the host at `at`; when the next launch may come."""
    global correlation
    correlation += 1
    add("cuda_runtime", "cudaLaunchKernel", HOST, tid, at, 4, correlation=correlation)
    start = max(at + 6, gpu_free_us[stream] + 1.2)
    length = dur * draw.uniform(0.98, 1.02)
    add(cat, kernel, 0, stream, start, length, device=0, stream=stream, correlation=correlation)
    gpu_free_us[stream] = start + length
    return at + draw.uniform(8, 12)


def layer(at, name, kernel, dur):
    begin = at
    at = launch(at + 5, MAIN, kernel, dur)
    at = launch(at, MAIN, "relu_kernel", dur / 8)
    add("python_function", f"nn.Module: {name}", HOST, MAIN, begin, at + 3 - begin)
    return at + 6


def step(number, at):
    begin = at
    forward = at + 4
    at = layer(layer(forward + 3, "Linear_0", "gemm_128x128", 60), "Linear_1", "gemm_64x64", 25)
    add("python_function", "nn.Module: Net_0", HOST, MAIN, forward + 1, at - forward)
    add("user_annotation", "forward", HOST, MAIN, forward, at + 2 - forward)
    backward = at + 6
    at = backward
    for kernel, dur in (("gemm_64x64_bwd", 50), ("gemm_128x128_bwd", 120)):
        at = launch(at + 4, AUTOGRAD, kernel, dur)
    gpu_free_us[COMM] = gpu_free_us[COMPUTE]
    at = launch(at, AUTOGRAD, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 80, stream=COMM)
    gpu_free_us[COMPUTE] = gpu_free_us[COMM]
    add("user_annotation", "backward", HOST, MAIN, backward, at - backward)
    at = launch(at + 8, MAIN, "Memcpy DtoH (Device -> Pinned)", 3, cat="gpu_memcpy")
    at = max(at, gpu_free_us[COMPUTE]) + 5
    add("user_annotation", f"ProfilerStep#{number}", HOST, MAIN, begin, at - begin)
    return at + 40


add("kernel", "gemm_128x128", 0, COMPUTE, 3, 15, device=0, stream=COMPUTE, correlation=7)
add("kernel", "relu_kernel", 0, COMPUTE, 20, 7, device=0, stream=COMPUTE, correlation=8)
at_us = 50.0
for number in range(5, 8):
    at_us = step(number, at_us)
print(json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9,
                                                            "computeMinor": 0, "numSms": 132}],
                  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},
                  "displayTimeUnit": "ms", "baseTimeNanoseconds": BASE_NS, "traceName": "kineto_training.json",
                  "traceEvents": events}, indent=1))
