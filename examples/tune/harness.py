"""A matrix multiplication in panels of rows, as a harness of xplane-time tune:

    xplane-time tune space.json --slot-timeout 5 -- python harness.py

Of seven variants one is wrong, one crashes and one hangs.
"""
import os
import signal
import time

import jax.numpy as jnp
import numpy
from xplane_time.harness import serve_jax

SIZE = 256
random = numpy.random.default_rng(1)
a, b = (jnp.asarray(random.standard_normal((SIZE, SIZE)), jnp.float32) for _ in range(2))


def build(params):
    panel, fault = params["panel"], params.get("fault")
    if fault == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == "hang":
        time.sleep(1000)

    def matmul(x, y):
        rows = [x[i:i + panel] @ y for i in range(0, SIZE, panel)]
        return jnp.concatenate(rows) * (2 if fault == "wrong" else 1)

    return matmul, (a, b)


serve_jax(build, reference=lambda: numpy.asarray(a) @ numpy.asarray(b), fallback_wall=True)
