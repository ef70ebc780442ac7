"""Attention that drops weak edges, against softmax attention, as a harness of xplane-time grid:

    xplane-time grid space.json --samples 1000 --baseline softmax -o results -- python harness.py

`l` (lambda): edges below l times the row's mean score are cut; `t` (tau): the last t keys always
stay. It needs numpy. Each sample has its latency, and as metrics how near the result is to
softmax's (`coherence`), how often the strongest value is the same (`accuracy`), and its memory:
the keys and values that a row still reads are `kv_cache_bytes`.
"""
import os
import pathlib

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy reads it: threads that wait are noise
import numpy
from xplane_time.harness import serve

LENGTH, WIDTH = 128, 64
random = numpy.random.default_rng(1)
query, key, value = (random.standard_normal((LENGTH, WIDTH)).astype(numpy.float32)
                     for _ in range(3))
last = {}  # what each setting computed, and how many edges it kept


def scores():
    logits = query @ key.T / numpy.sqrt(WIDTH)
    weights = numpy.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


exact = scores() @ value


def build(params):
    name = str(params)

    def run():
        weights = scores()
        if params:
            keep = weights >= params["l"] * weights.mean(axis=1, keepdims=True)
            keep[:, LENGTH - params["t"]:] = True
            weights = weights * keep
            weights /= weights.sum(axis=1, keepdims=True)
        last[name] = weights @ value, numpy.count_nonzero(weights)

    return run


def resident_bytes():
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return None


def metrics(params):
    result, edges = last[str(params)]
    same = (result.argmax(axis=1) == exact.argmax(axis=1)).mean()
    norms = numpy.linalg.norm(result, axis=1) * numpy.linalg.norm(exact, axis=1)
    return {"accuracy": float(same), "coherence": float(((result * exact).sum(1) / norms).mean()),
            "peak_rss_bytes": resident_bytes(), "kv_cache_bytes": 2 * edges // LENGTH * WIDTH * 4,
            "activation_bytes": result.nbytes, "temp_buffer_bytes": edges * 4,
            "seq_len": LENGTH, "edges": edges}


serve(build, metrics=metrics)
