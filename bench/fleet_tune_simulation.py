"""Error rates of fleet.tune on simulated devices: python bench/fleet_tune_simulation.py EXECUTOR TRIALS.

There are two devices. One takes 3 % longer for all variants, and runs scatter by 1 %.
  alike     variants of +0, +1, +2 and +6 %: how often the pick is wrong (more than 0.5 % slower), and how
            often the equal devices are reported as two classes
  classes   variants of +0, +2 and +4 %, and the first takes 3 % longer on one device: how often two
            classes are reported, and how often both answers are right
  split     the same, with each device tuned separately
"""

import contextlib
import math
import os
import random
import sys
import tempfile
import time

from xplane_time import fleet
from xplane_time.harness import serve

CASES = {
    "alike": ([0, 1, 2, 6], 1, "merge"),
    "classes": ([0, 2, 4], 1.03, "merge"),
    "split": ([0, 2, 4], 1.03, "split"),
}


def harness_of(seed, factor):
    def harness():
        is_other = os.environ["XPLANE_TIME_DEVICE"].endswith("1")
        noise = random.Random(f"{seed} {is_other}")

        def build(params):
            time_ps = 1e8 * (1 + params["percent"] / 100) * (1.03 if is_other else 1)
            if is_other and params["percent"] == 0:
                time_ps *= factor
            return lambda: time_ps

        serve(build, timer=lambda run: run() * math.exp(noise.gauss(0, 0.01)), device="sim",
              device_class="simulated", clock="device", code_hash="c0de")
    return harness


def main(executor, trials):
    if executor == "ray":
        import ray
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    for name, (percents, factor, strategy) in CASES.items():
        space = {"schema": "xplane-time.space.v1", "name": name,
                 "variants": [{"params": {"percent": each}} for each in percents]}
        wrong = classes = both_right = failed = 0
        begin = time.monotonic()
        for trial in range(trials):
            with tempfile.TemporaryDirectory() as folder:
                with contextlib.ExitStack() as kept:
                    kept.callback(os.environ.pop, "XDG_RUNTIME_DIR", None)
                    os.environ["XDG_RUNTIME_DIR"] = folder
                    found = fleet.tune(space, harness_of(trial, factor), devices=2, executor=executor,
                                       strategy=strategy, store=f"{folder}/tune.db", seed=trial)
            failed += bool(found.lost)
            classes += len(found.classes) == 2
            answers = {each.devices[-1][-1]: each.params["percent"] for each in found.answers}
            if factor == 1:
                wrong += found.params != {"percent": 0}
            both_right += answers == {"0": 0, "1": 2} if factor != 1 else 0
        seconds = (time.monotonic() - begin) / trials
        print(f"{name:8} {trials} tunings: wrong {wrong}, two classes {classes}, both answers right "
              f"{both_right}, devices lost {failed}; {seconds:.2f} s each", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
