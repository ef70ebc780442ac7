"""A fake tuning harness. The times are a function of variant, batch, round and slot, so a run that was
killed and resumed has the same result as an uninterrupted run. The parameter `mode` of a variant selects
a misbehaviour. Each process writes lines to the file of the first argument."""
import hashlib
import json
import itertools
import os
import pathlib
import signal
import sys
import time

requests = os.fdopen(int(os.environ["XPLANE_TIME_HARNESS_IN"]))
answers = os.fdopen(int(os.environ["XPLANE_TIME_HARNESS_OUT"]), "w")
log = pathlib.Path(sys.argv[1])
options = set(sys.argv[2:])
params = {}


def answer(**message):
    answers.write(json.dumps({"v": 1, **message}) + "\n")
    answers.flush()


def noted(line):
    with log.open("a") as file:
        file.write(line + "\n")


def noise(*of):
    digest = hashlib.sha256(repr(of).encode()).digest()
    return sum(digest[:12]) / (12 * 255) - 0.5  # approximately normal, standard deviation 0.08


def time_ps(variant, batch, round_, slot):
    cost = params[variant].get("cost", 100) + params[variant].get("more", 0)
    cost += params[variant].get(f"more_on_{os.environ.get('XPLANE_TIME_DEVICE')}", 0)
    cost += abs(params[variant].get("panel", 256) - 256) / 8  # for the example in docs/tuning.md
    if params[variant].get("spiky") and noise("spike", batch, round_) > 0.05:
        cost *= 1.6  # in about a third of the runs
    return int(cost * 1e6 * (1 + 0.1 * noise(variant, batch, round_, slot)))


def gpu_now():
    """Clock in MHz and power limit in W of the fake GPU (fake_nvml.cc), by default GPU-1."""
    uuid = next((each.removeprefix("uuid=") for each in options if each.startswith("uuid=")),
                "GPU-1")
    now = {"clock": 1980, "limit_mw": 700000}
    for line in pathlib.Path(os.environ["FAKE_NVML_SETTINGS"]).read_text().splitlines():
        of, what, value = line.split()
        if of == uuid:
            now[what] = 1980 if value == "reset" else int(value)
    return now["clock"], now["limit_mw"] / 1000


def at_gpu_settings(sample):
    """Times are proportional to 1 / clock, and power is cubic in the clock. A power cap lowers the clock."""
    clock, cap_w = gpu_now()
    noted(f"ran at {clock} {cap_w:.0f}")
    static_w, dynamic_w = 100, 600
    speed = min(clock / 1980, ((cap_w - static_w) / dynamic_w) ** (1 / 3))
    sample["t_ps"] = int(sample["t_ps"] / speed)
    power_w = static_w + dynamic_w * speed ** 3
    sample["energy_uj"] = int(sample["t_ps"] * power_w / 1000)  # an arbitrary scale


def metrics(of, round_):
    """Metrics of a grid: numbers for known columns and for an unknown one, and unknown values."""
    return {"accuracy": of.get("accuracy", 0.5), "coherence": 1 - of["cost"] / 1000,
            "peak_rss_bytes": of["cost"] * 1000 + round_, "kv_cache_bytes": of["cost"] * 10,
            "seq_len": 128, "tokens": of["cost"] / 8, "activation_bytes": None,
            **({of["metric"]: 3} if "metric" in of else {})}


def misbehave(mode):
    if mode == "hang":
        time.sleep(1000)
    if mode == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if mode == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "exit":
        sys.exit(3)
    if mode == "busy" and log.read_text().count("busy") < 3:
        noted("busy")
        return "infra"
    if mode in ("infra", "throttled", "no_events"):
        return mode
    if mode == "garbage":
        answers.write("this is not an answer\n")
        answers.flush()
    return "ok"


def timed_calls(request, slot, sleep_s):
    """The timed calls. With the option slow-first, the untimed call before them takes half a second."""
    if slot == 0 and "slow-first" in options:
        time.sleep(0.5)
        if "slot-again" in options:
            answer(type="slot", request=request["request"], slot=slot)
    t0_ns = time.monotonic_ns()
    for _ in range(request["calls"] if sleep_s else 0):
        time.sleep(sleep_s)
    t1_ns = time.monotonic_ns()
    noted(f"calls {request['order'][slot]} {t1_ns - t0_ns}")
    if "stamps" in options:
        return {"t0_ns": t0_ns, "t1_ns": t1_ns}
    return {"t0_ns": 1, "t1_ns": 2} if "stamps-of-another-clock" in options else {}


def run_round(request):
    order = request["order"]
    noted(f"round {request['batch']} {request['round']} {len(order)}")
    samples = []
    for slot, variant in enumerate(order):
        if "no-slots" not in options:
            answer(type="slot", request=request["request"], slot=slot)
        mode = params[variant].get("mode", "")
        if mode == "run-beats":  # sends only signs of life
            for beat in itertools.count():
                answer(type="slot", request=request["request"], slot=slot - beat % 2 * (slot > 0))
                time.sleep(0.02)
        if mode.startswith("run-"):
            misbehave(mode.removeprefix("run-"))
        if mode == "stuck" and request["round"] > 0:
            time.sleep(1000)
        if "stalls" in options and request["round"] == 2 and "stalls" not in log.read_text():
            noted("stalls")  # simulates a stall of the machine, once
            time.sleep(2.5)
        status = mode.removeprefix("status-") if mode.startswith("status-") else "ok"
        stamps = timed_calls(request, slot, params[variant].get("sleep_s", 0))
        sample = {"slot": slot, "status": status, "message": mode, **stamps}
        if status == "ok":
            sample["t_ps"] = time_ps(variant, request["batch"], request["round"], slot)
            if "gpu-settings" in options:
                at_gpu_settings(sample)
            if "metrics" in options:
                sample["metrics"] = metrics(params[variant], request["round"])
            if "energy" in options:
                sample["energy_uj"] = 1000 * params[variant].get("energy", 1)
            if "meter-fails" in options and request["round"] > 2:
                sample["energy_uj"] = 0
        samples.append(sample)
    if "slow" in options:
        time.sleep(0.01)
    answer(type="result", request=request["request"] - 1, status="infra")  # a late answer
    bad = [variant for variant in order if params[variant].get("mode") == "bad-round"]
    if bad:
        answer(type="result", request=request["request"], status="oom", message="all of it")
    elif "no-samples" in options:
        answer(type="result", request=request["request"], status="ok")
    elif "fifo" in options:
        answer(type="result", request=request["request"], status="ok",
               trace={"path": f"{log}.fifo"})
    elif "truncated" in options:
        answer(type="result", request=request["request"], status="ok",
               trace={"base64": "CgUKA2Fi"})
    else:
        answer(type="result", request=request["request"], status="ok", samples=samples)


restarted = log.exists() and "started" in log.read_text()
noted("started")
if "forks" in options and os.fork() == 0:
    time.sleep(1000)  # keeps the pipes open
print("a framework says hello on standard output", flush=True)
for line in requests:
    request = json.loads(line)
    kind = request["type"]
    if kind in ("bye", "cancel"):
        noted(kind)
    if kind == "bye":
        break
    if kind == "hello":
        if "mute" in options or f"mute={os.environ.get('XPLANE_TIME_DEVICE')}" in options:
            sys.exit(7)
        if "devices" in options:
            noted(" ".join(os.environ.get(each, "-") for each in (
                "XPLANE_TIME_DEVICE", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")))
        hello = dict(device=f"fake:{log}", device_class="fake", clock="wall", code_hash="1")
        for option in options:
            if option.startswith("device="):
                hello["device"] = option.removeprefix("device=")
            if option == f"kind={os.environ.get('XPLANE_TIME_DEVICE')}":
                hello["device_class"] = "another"
            if restarted and option.startswith("other-"):
                hello[option.removeprefix("other-")] = "profile"
        for _ in range(2 if "hello-twice" in options else 1):
            answer(type="hello", name="fake", parallel_prepare=3, verifies=True,
                   something_new=[1, {}], **hello)
    elif kind == "prepare":
        variant = request["variant"]
        params[variant] = request["params"]
        if "gpu-settings" in options:
            noted(f"prepare {variant} {json.dumps(params[variant])}")
        mode = params[variant].get("mode", "")
        while mode == "prepare-beats":
            answer(type="prepared", request=0, status="ok")
            time.sleep(0.02)
        status = "compile_error" if mode == "broken" else "ok"
        if mode.startswith("prepare-"):
            status = misbehave(mode.removeprefix("prepare-"))
        answer(type="prepared", request=request["request"], status=status,
               fingerprint=str(params[variant].get("program", "")),
               message=params[variant].get("text", "") or mode)
    elif kind == "verify":
        mode = params[request["variant"]].get("mode", "")
        status = "wrong_result" if mode == "wrong" else "ok"
        if mode.startswith("verify-"):
            status = misbehave(mode.removeprefix("verify-"))
        answer(type="verified", request=request["request"], status=status, message=mode)
    elif kind == "run_round":
        run_round(request)
