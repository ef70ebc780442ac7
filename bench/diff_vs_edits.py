"""`xplane-time diff` on pairs of jax programs that differ by one edit: is the edited op in the first rows?

    python3 bench/diff_vs_edits.py build/tools/xplane-time [RUNS]

Needs jax on a CPU; without jax it prints a message and succeeds. A pair is a program and a copy with one
edited line, flag or dtype. Both are compiled, run RUNS times (20) and traced. The ops that the edit affects
are known independently: those of the compiled program with an edited source line, and those that fuse such
an op. A pair is a hit if one of these ops is in the first three rows. Prints the misses and, for a program
of each pair that is traced twice, the share of its time that is matched exactly.
"""
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import jax
except ImportError:
    sys.exit(print("skipped: jax is not installed"))

MLP = """import jax, jax.numpy as jnp
K = jax.random.split(jax.random.key(0), 8)
N, D, H = 256, 256, 512
args = (jax.random.normal(K[0], (N, D)), jax.random.normal(K[1], (D, H)),
        jax.random.normal(K[2], (H, H)), jax.random.normal(K[3], (H, D)))
def f(x, w1, w2, w3):
    h = x @ w1
    h = jnp.tanh(h)
    h = h @ w2
    h = jax.nn.softmax(h, axis=-1)
    h = jnp.maximum(h, 0.01)
    y = h @ w3
    return jnp.sort(y, axis=-1)
"""
ATTENTION = """import jax, jax.numpy as jnp
K = jax.random.split(jax.random.key(0), 8)
B, T, D = 8, 128, 64
args = tuple(jax.random.normal(K[i], (B, T, D)) for i in range(3)) + (jax.random.normal(K[4], (D, D)),)
causal = False
def f(q, k, v, w):
    q = q @ w
    s = jnp.einsum("btd,bsd->bts", q, k)
    s = s * 0.125
    s = jnp.where(jnp.tril(jnp.ones((T, T), bool)), s, -1e9) if causal else s
    p = jax.nn.softmax(s, axis=-1)
    o = jnp.einsum("bts,bsd->btd", p, v)
    o = jnp.cumsum(o, axis=1)
    return jnp.fft.fft(o, axis=-1).real
"""
NORM = """import jax, jax.numpy as jnp
K = jax.random.split(jax.random.key(0), 8)
args = (jax.random.normal(K[0], (512, 512)), jax.random.normal(K[1], (512,)), jax.random.normal(K[2], (512, 512)))
def f(x, g, w):
    m = x.mean(axis=-1, keepdims=True)
    v = ((x - m) ** 2).mean(axis=-1, keepdims=True)
    x = (x - m) * jax.lax.rsqrt(v + 1e-5) * g
    x = jax.lax.optimization_barrier(x)
    y = jnp.dot(x, w)
    y = jax.nn.gelu(y)
    z = jnp.argsort(y, axis=-1)
    return y[:, ::2], z
"""
SCAN = """import jax, jax.numpy as jnp
K = jax.random.split(jax.random.key(0), 8)
args = (jax.random.normal(K[0], (16, 128, 128)), jax.random.normal(K[1], (128, 128)))
unroll = 1
def f(xs, w):
    def step(c, x):
        c = c @ w
        c = jnp.sin(c) + x
        return c, c.sum(axis=0)
    c, ys = jax.lax.scan(step, xs[0], xs, unroll=unroll)
    ys = jnp.exp(ys)
    top = jax.lax.top_k(ys, 8)[0]
    return jnp.linalg.norm(c, axis=0), top
"""
GRAD = """import jax, jax.numpy as jnp
K = jax.random.split(jax.random.key(0), 8)
args = (jax.random.normal(K[0], (128, 256)), jax.random.normal(K[1], (256, 256)), jax.random.normal(K[2], (256, 64)))
remat = False
def loss(x, w1, w2):
    h = x @ w1
    h = jax.nn.gelu(h)
    h = h / jnp.linalg.norm(h, axis=-1, keepdims=True)
    y = h @ w2
    return (y ** 2).mean()
def f(x, w1, w2):
    l = jax.checkpoint(loss) if remat else loss
    g1, g2 = jax.grad(l, argnums=(1, 2))(x, w1, w2)
    w1 = w1 - 0.1 * g1
    w2 = w2 - 0.1 * jnp.sign(g2)
    return w1, w2
"""
CONV = """import jax, jax.numpy as jnp
K = jax.random.split(jax.random.key(0), 8)
args = (jax.random.normal(K[0], (4, 32, 32, 16)), jax.random.normal(K[1], (3, 3, 16, 32)), jax.random.normal(K[2], (32, 10)))
DN = ("NHWC", "HWIO", "NHWC")
def f(x, k, w):
    y = jax.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=DN)
    y = jax.nn.relu(y)
    y = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    y = jnp.pad(y, ((0, 0), (1, 1), (1, 1), (0, 0)))
    y = y.mean(axis=(1, 2))
    y = y @ w
    return jax.nn.log_softmax(y)
"""
TABLE = """import jax, jax.numpy as jnp
K = jax.random.split(jax.random.key(0), 8)
args = (jax.random.normal(K[0], (4096, 64)), jax.random.randint(K[1], (2048,), 0, 4096), jax.random.normal(K[2], (64, 64)))
dtype = jnp.float32
def f(table, ids, w):
    e = table[ids]
    e = e.astype(dtype) @ w.astype(dtype)
    e = jnp.cos(e.astype(jnp.float32))
    s = jax.ops.segment_sum(e, ids % 64, num_segments=64)
    c = jnp.cumsum(s, axis=0)
    u = jnp.unique(ids, size=128)
    return c, u, e.at[ids[:32] % 2048].set(0.0)
"""
# A program and its edit (base text, head text). The lines of both texts are the edited lines.
PAIRS = [
    (MLP, "h = jnp.tanh(h)", "h = jnp.sin(h)"),
    (MLP, "h = jnp.tanh(h)", "h = jnp.exp(jnp.tanh(h))"),
    (MLP, "    h = jnp.tanh(h)\n", ""),
    (MLP, "axis=-1)\n    h = jnp.max", "axis=0)\n    h = jnp.max"),
    (MLP, "h = jnp.maximum(h, 0.01)", "h = jnp.maximum(h, 0.02)"),
    (MLP, "y = h @ w3", "y = (h.astype(jnp.bfloat16) @ w3.astype(jnp.bfloat16)).astype(jnp.float32)"),
    (MLP, "return jnp.sort(y, axis=-1)", "return jnp.sort(y, axis=0)"),
    (MLP, "return jnp.sort(y, axis=-1)", "return jnp.sort(y.astype(jnp.float16), axis=-1)"),
    (MLP, "h = h @ w2", "h = h @ w2.T"),
    (MLP, "h = h @ w2", "h = h[:, :256] @ w2[:256]"),
    (MLP, "    y = h @ w3\n", "    h = jnp.cumsum(h, axis=0)\n    y = h @ w3\n"),
    (ATTENTION, "causal = False", "causal = True"),
    (ATTENTION, "s = s * 0.125", "s = s * 0.25"),
    (ATTENTION, "s = s * 0.125", "s = jnp.tanh(s * 0.125)"),
    (ATTENTION, "p = jax.nn.softmax(s, axis=-1)", "p = jax.nn.sigmoid(s)"),
    (ATTENTION, "p = jax.nn.softmax(s, axis=-1)", "p = jax.nn.softmax(s.astype(jnp.bfloat16), axis=-1).astype(jnp.float32)"),
    (ATTENTION, "o = jnp.cumsum(o, axis=1)", "o = jnp.cumsum(o, axis=2)"),
    (ATTENTION, "    o = jnp.cumsum(o, axis=1)\n", ""),
    (ATTENTION, "return jnp.fft.fft(o, axis=-1).real", "return jnp.fft.fft(o, axis=1).real"),
    (ATTENTION, "q = q @ w", "q = (q @ w) @ w"),
    (NORM, "x = (x - m) * jax.lax.rsqrt(v + 1e-5) * g", "x = (x - m) * jax.lax.rsqrt(v + 1e-5) * jnp.exp(g)"),
    (NORM, "m = x.mean(axis=-1, keepdims=True)", "m = x.max(axis=-1, keepdims=True)"),
    (NORM, "    y = jax.nn.gelu(y)\n", "    y = jax.lax.optimization_barrier(y * 2)\n    y = jax.nn.gelu(y)\n"),
    (NORM, "y = jax.nn.gelu(y)", "y = jax.nn.gelu(y, approximate=False)"),
    (NORM, "y = jax.nn.gelu(y)", "y = jax.nn.relu(y)"),
    (NORM, "y = jnp.dot(x, w)", "y = jnp.dot(x.astype(jnp.bfloat16), w.astype(jnp.bfloat16), preferred_element_type=jnp.float32)"),
    (NORM, "z = jnp.argsort(y, axis=-1)", "z = jnp.argsort(y, axis=0)"),
    (NORM, "z = jnp.argsort(y, axis=-1)", "z = jnp.argmax(y, axis=-1)"),
    (SCAN, "c = jnp.sin(c) + x", "c = jnp.tanh(c) + x"),
    (SCAN, "c = c @ w", "c = c @ w @ w"),
    (SCAN, "unroll = 1", "unroll = 2"),
    (SCAN, "ys = jnp.exp(ys)", "ys = jnp.exp(jnp.exp(ys))"),
    (SCAN, "top = jax.lax.top_k(ys, 8)[0]", "top = jax.lax.top_k(ys, 32)[0]"),
    (SCAN, "return jnp.linalg.norm(c, axis=0), top", "return jnp.linalg.norm(c, axis=1), top"),
    (SCAN, "return c, c.sum(axis=0)", "return c, c.max(axis=0)"),
    (GRAD, "remat = False", "remat = True"),
    (GRAD, "h = jax.nn.gelu(h)", "h = jax.nn.silu(h)"),
    (GRAD, "    h = h / jnp.linalg.norm(h, axis=-1, keepdims=True)\n", ""),
    (GRAD, "return (y ** 2).mean()", "return jnp.abs(y).mean()"),
    (GRAD, "w2 = w2 - 0.1 * jnp.sign(g2)", "w2 = w2 - 0.1 * jnp.tanh(g2)"),
    (GRAD, "w1 = w1 - 0.1 * g1", "w1 = w1 - 0.2 * g1"),
    (CONV, "(1, 1), \"SAME\", dim", "(1, 1), \"VALID\", dim"),
    (CONV, "y = jax.nn.relu(y)", "y = jax.nn.silu(y)"),
    (CONV, "(1, 2, 2, 1), (1, 2, 2, 1), \"VALID\")", "(1, 4, 4, 1), (1, 2, 2, 1), \"VALID\")"),
    (CONV, "    y = jnp.pad(y, ((0, 0), (1, 1), (1, 1), (0, 0)))\n", ""),
    (CONV, "y = y.mean(axis=(1, 2))", "y = y.max(axis=(1, 2))"),
    (TABLE, "dtype = jnp.float32", "dtype = jnp.bfloat16"),
    (TABLE, "e = jnp.cos(e.astype(jnp.float32))", "e = jnp.cos(e.astype(jnp.float32)) + 1.0"),
    (TABLE, "s = jax.ops.segment_sum(e, ids % 64, num_segments=64)", "s = jax.ops.segment_max(e, ids % 64, num_segments=64)"),
    (TABLE, "u = jnp.unique(ids, size=128)", "u = jnp.unique(ids, size=256)"),
]
# Flags of the program, and the lines that they affect.
CHOSEN = {"causal = ": "s = jnp.where", "remat = ": "l = jax.checkpoint", "dtype = ": "e = e.astype(dtype)",
          "unroll = ": "jax.lax.scan"}
# Calls whose compiled op has no source line, with the opcode of the op.
WITHOUT_LINE = {"cumsum": "reduce-window"}


def lines_of(source, text):
    """The line numbers of the edited text; for a flag, of the lines that it affects."""
    for flag, chosen in CHOSEN.items():
        if text.startswith(flag):
            text = next(line for line in source.splitlines() if chosen in line)
            if flag == "unroll = ":  # the body of the loop
                first = source[:source.index("def step")].count("\n") + 1
                return set(range(first, source[:source.index("return c, c.")].count("\n") + 3))
            if flag == "remat = ":  # the part that is recomputed
                first = source[:source.index("def loss")].count("\n") + 1
                return set(range(first, source[:source.index("return (y")].count("\n") + 2))
            break
    if not text.strip():
        return set()
    first = source[:source.index(text)].count("\n") + 1
    kept = [i for i, line in enumerate(text.rstrip("\n").split("\n")) if line.strip()]
    return {first + i for i in kept}


def differing(base, head, base_lines, head_lines):
    """The edited lines of both texts without lines that are equal in both."""
    of_base, of_head = base.splitlines(), head.splitlines()
    same_base = {of_base[i - 1] for i in base_lines}
    same_head = {of_head[i - 1] for i in head_lines}
    if same_base == same_head:
        return base_lines, head_lines
    return ({i for i in base_lines if of_base[i - 1] not in same_head},
            {i for i in head_lines if of_head[i - 1] not in same_base})


def touched(hlo, path, lines, text):
    """Names of the ops that have one of the source lines, or that fuse such an op."""
    opcodes = [opcode for call, opcode in WITHOUT_LINE.items() if call in text]

    def table(title):
        """The lines of a table in the HLO text, as {id: rest of the line}."""
        found = re.search(rf"^{title}\n((?:\d+ .*\n)*)", hlo, re.MULTILINE)
        return {int(at): text for at, text in re.findall(r"(\d+) (.*)\n", found.group(1))} if found else {}

    def number(what, text):
        return int(re.search(rf"{what}=(\d+)", text).group(1))

    files, locations, frames = table("FileNames"), table("FileLocations"), table("StackFrames")
    sources = {}
    for frame, text in frames.items():
        location = locations[number("file_location_id", text)]
        sources[frame] = (files[number("file_name_id", location)].strip('"'), number(" line", location))
    computations, name = {}, None
    for line in hlo.splitlines():
        head = re.match(r"(?:ENTRY )?%?([\w.\-]+) (?:\(.*\) -> .*)?\{$", line.strip())
        if head and not line.startswith("  "):
            name = head.group(1)
            computations[name] = []
            continue
        op = re.match(r"\s+(?:ROOT )?%?([\w.\-]+) = ", line)
        if op and name:
            computations[name].append((op.group(1), line))

    def within(line, depth=0):
        frame = re.search(r"stack_frame_id=(\d+)", line)
        old = re.search(r'source_file="([^"]*)" source_line=(\d+)', line)
        file, at = (sources.get(int(frame.group(1)), ("", 0)) if frame else
                    (old.group(1), int(old.group(2))) if old else ("", 0))
        if file == str(path) and at in lines or any(f" {opcode}(" in line for opcode in opcodes):
            return True
        return depth < 5 and any(within(inner, depth + 1) for called in re.findall(r"(?:calls|to_apply)=%?([\w.\-]+)", line)
                                 for _, inner in computations.get(called, ()))
    return {op for ops in computations.values() for op, line in ops if within(line)}


def record(folder, name, source, runs):
    """Compiles, runs and traces a program. Returns the path of the source, the compiled program and the trace."""
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    compiled = jax.jit(module.f).lower(*module.args).compile()
    for _ in range(3):
        jax.block_until_ready(compiled(*module.args))
    traces = []
    for take in range(2):
        with jax.profiler.trace(folder / f"{name}{take}"):
            for _ in range(runs):
                jax.block_until_ready(compiled(*module.args))
        traces.append(next((folder / f"{name}{take}").rglob("*.xplane.pb")))
    return path, compiled.as_text(), traces


def diff(binary, base, head):
    done = subprocess.run([binary, "diff", base, head, "--format", "json"], capture_output=True, check=True)
    return json.loads(done.stdout)


def main(binary, runs):
    hits, misses, ranks = 0, [], []
    exact_ps = all_ps = 0
    with tempfile.TemporaryDirectory() as name:
        for i, (source, old, new) in enumerate(PAIRS):
            assert source.count(old) == 1, (i, old)
            edited = source.replace(old, new)
            folder = pathlib.Path(name) / str(i)
            folder.mkdir()
            base_path, base_hlo, base_traces = record(folder, f"base{i}", source, runs)
            head_path, head_hlo, head_traces = record(folder, f"head{i}", edited, runs)
            lines = differing(source, edited, lines_of(source, old), lines_of(edited, new))
            in_base = touched(base_hlo, base_path, lines[0], old)
            in_head = touched(head_hlo, head_path, lines[1], new)
            found = diff(binary, base_traces[0], head_traces[0])
            hit = [at for at, row in enumerate(found["rows"])
                   if set((row["base"] or {}).get("ops", ())) & in_base or set((row["head"] or {}).get("ops", ())) & in_head]
            rank = hit[0] + 1 if hit else None
            ranks.append(rank)
            assert in_base or in_head, (i, old, new)
            if rank is not None and rank <= 3:
                hits += 1
            else:
                first = [(r["match"], (r["head"] or r["base"])["op"], round(r["delta_ps"] / 1e6, 2)) for r in found["rows"][:4]]
                misses.append((i, old.strip(), new.strip(), "rank", rank, sorted(in_base | in_head)[:6], first))
            for row in diff(binary, base_traces[0], base_traces[1])["rows"]:
                if row["base"] and row["base"]["op"]:
                    all_ps += row["base"]["total_ps"]
                    exact_ps += row["base"]["total_ps"] if row["match"] == "exact" else 0
    print(f"{hits} of {len(PAIRS)} pairs: the edited op is in the first three rows; ranks {ranks}")
    print(f"the same program traced twice: {100 * exact_ps / all_ps:.2f} % of its time is matched exactly")
    for miss in misses:
        print(" ", *miss)
    return 0 if hits >= 48 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20))
