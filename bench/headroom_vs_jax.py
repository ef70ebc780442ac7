"""FLOPs and bytes of `xplane-time headroom` against jax's own cost_analysis(), on generated programs.

    python3 bench/headroom_vs_jax.py build/tools/xplane-time [PROGRAMS] [SEED]

Needs jax on a CPU; without jax it prints a message and succeeds. A program is one matrix product, for
which the FLOPs are compared, or one chain of element-wise operations, for which the bytes are compared.
For products in 16 bits, jax also counts one FLOP per element that the CPU converts to 32 bits and back.
These are subtracted, because headroom counts products only. jax sums in single precision, so numbers
above 2^24 are compared with that precision. Programs have no loops, because jax counts the body of a
loop once, whatever the number of its iterations.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    sys.exit(print("skipped: jax is not installed"))

UNARY = (jnp.tanh, jnp.exp, jnp.abs, jnp.negative, jnp.sin, jnp.floor)
BINARY = (jnp.add, jnp.multiply, jnp.subtract, jnp.maximum)
TYPES = (jnp.float32, jnp.float16, jnp.bfloat16, jnp.float32)


def product(rng):
    m, k, n, batch = (rng.randrange(1, 200) for _ in range(4))
    kind = rng.choice(TYPES)
    a, b = ((m, k), (k, n)) if rng.random() < 0.7 else ((batch % 8 + 1, m, k), (batch % 8 + 1, k, n))

    def f(x, y):
        return jnp.matmul(x, y)
    return f, [jnp.ones(a, kind), jnp.ones(b, kind)]


def chain(rng):
    shape = tuple(rng.randrange(1, 60) for _ in range(rng.randrange(1, 4)))
    kind = jnp.float32
    steps = [(rng.choice(UNARY), rng.choice(BINARY)) for _ in range(rng.randrange(2, 6))]
    reduces = rng.random() < 0.3

    def f(x, y):
        for unary, binary in steps:
            x = binary(unary(x), y)
        return x.sum(axis=-1) if reduces else x
    return f, [jnp.ones(shape, kind), jnp.full(shape, 2, kind)]


def main(binary, programs, seed):
    rng = random.Random(seed)
    wanted = {}
    with tempfile.TemporaryDirectory() as folder:
        compiled = []
        for i in range(programs):
            kind, make = rng.choice((("flops", product), ("bytes", chain)))
            f, inputs = make(rng)
            f.__name__ = f"case_{i}"
            program = jax.jit(f).lower(*inputs).compile()
            costs = program.cost_analysis()
            costs = costs[0] if isinstance(costs, list) else costs
            want = costs["flops" if kind == "flops" else "bytes accessed"]
            if kind == "flops" and inputs[0].dtype.itemsize == 2:
                want -= inputs[0].size + inputs[1].size + jax.eval_shape(f, *inputs).size
            wanted[f"jit_case_{i}"] = (kind, want)
            compiled.append((program, inputs))
        with jax.profiler.trace(folder):
            for program, inputs in compiled:
                jax.block_until_ready(program(*inputs))
        trace = next(pathlib.Path(folder).rglob("*.xplane.pb"))
        done = subprocess.run([binary, "headroom", trace, "--device", "cpu", "--format", "json"],
                              capture_output=True, check=True)
    rows = {}
    for row in json.loads(done.stdout)["ops"]:
        rows.setdefault(row["function"], []).append(row)
    same, wrong, unknown = 0, [], []
    for name, (kind, want) in wanted.items():
        own = rows.get(name, [])
        known = [row[kind] for row in own if row[kind] is not None]
        # If the number of one op is unknown, that of the program is unknown.
        if kind == "bytes" and (not own or len(known) < len(own)) or not known:
            unknown.append((name, kind, [(row["op"], row["reason"]) for row in own]))
        elif abs(sum(known) - want) <= (want * 2**-22 if want > 2**24 else 0):
            same += 1
        else:
            wrong.append((name, kind, sum(known), want, [row["op"] for row in own]))
    print(f"{same} of {programs} equal, {len(wrong)} differ, {len(unknown)} unknown to us")
    for line in (*wrong[:10], *unknown[:10]):
        print(" ", *line)
    return 1 if wrong or same < programs / 2 else 0


if __name__ == "__main__":
    arguments = [int(each) for each in sys.argv[2:]]
    sys.exit(main(sys.argv[1], *(arguments + [260, 1][len(arguments):])))
