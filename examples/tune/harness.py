"""An exponential moving average, its loop unrolled by 2, 4, 8 or 16, as a harness of
xplane-time tune:

    xplane-time tune space.json --slot-timeout 5 --prepare-timeout 20 -- python harness.py

Of seven variants one is wrong, one crashes and one hangs.
"""
import os
import signal
import time

import jax
import jax.numpy as jnp
import numpy
from xplane_time.harness import serve_jax

STEPS, WIDTH, DECAY = 16384, 8, 0.9
rows = numpy.random.default_rng(1).standard_normal((STEPS, WIDTH)).astype(numpy.float32)


def build(params):
    unroll, fault = params["unroll"], params.get("fault")
    if fault == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == "hang":
        time.sleep(1000)

    def average(x):
        def step(mean, row):
            mean = DECAY * mean + row
            return mean, mean

        means = jax.lax.scan(step, jnp.zeros(WIDTH, jnp.float32), x, unroll=unroll)[1]
        return means * (2 if fault == "wrong" else 1)

    return average, (jnp.asarray(rows),)


def reference():
    means = numpy.empty_like(rows)
    mean = numpy.zeros(WIDTH, numpy.float32)
    for i, row in enumerate(rows):
        mean = numpy.float32(DECAY) * mean + row
        means[i] = mean
    return means


serve_jax(build, reference=reference, fallback_wall=True)
