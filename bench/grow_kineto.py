#!/usr/bin/env python3
"""grow_kineto.py TRACE.json[.gz] COPIES OUT.json: makes a Kineto trace of any length. Its events are repeated.
Each repetition is later by the length of the trace and has new correlation ids and flows. All other bytes stay the same."""
import gzip
import math
import pathlib
import re
import sys

NUMBER = re.compile(rb'("(?:ts|correlation|External id|id)": )(\d+)')


def grown(text, copies):
    begin = text.index(b"[", text.index(b'"traceEvents"')) + 1
    end = text.rindex(b"]")
    times = [float(at) for at in re.findall(rb'"ts": (\d+(?:\.\d+)?)', text[begin:end]) if float(at) > 0]
    length_us = math.ceil(max(times) - min(times)) + 1_000_000
    most_id = max(int(number) for name, number in NUMBER.findall(text[begin:end]) if b"ts" not in name) + 1
    yield text[:begin]
    for copy in range(copies):
        def later(match):
            step = length_us if match[1].startswith(b'"ts"') else most_id
            return match[1] + str(int(match[2]) + copy * step).encode()
        yield b"," * (copy > 0) + NUMBER.sub(later, text[begin:end])
    yield text[end:]


trace, copies, out = sys.argv[1:]
opened = gzip.open if trace.endswith(".gz") else open
with opened(trace, "rb") as file:
    text = file.read()
with pathlib.Path(out).open("wb") as file:
    for part in grown(text, int(copies)):
        file.write(part)
