#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes replayed.power.jsonl: what a processor's counter would have shown beside the trace of this
folder, had its functions drawn WATTS above IDLE_W. No sensor was read.

    python3 testdata/energy/replay_power.py build/tools/xplane-time

The counter is published every PERIOD_S, LAG_S late, in steps of 61 uJ, and polled every POLL_S.
"""

import bisect
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
TRACE = HERE / "jax_cpu_mixture.xplane.pb"
WATTS = {"jit_matmul_768": 30, "jit_matmul_1024": 55, "jit_matmul_1408": 80}
IDLE_W, PERIOD_S, LAG_S, POLL_S, STEP_UJ = 20, 0.02, 0.004, 0.0073, 61
MONOTONIC_NS = 7_000_000_000_000
DEVICE = {"id": "package-0", "name": "replayed from stated powers", "source": "rapl", "index": 0,
          "ordinal": None, "pci_bus_id": "", "driver": "", "mig": False, "shared": False,
          "note": "no sensor was read"}
CHANNEL = {"source": "rapl", "device": "package-0", "domain": "package", "quantity": "energy_uj",
           "kind": "cumulative", "slow": False, "in_total": True, "wrap_range": None,
           "max_plausible_mw": None, "prior_period_ns": None, "prior_window_ns": None,
           "note": "replayed"}


def ask(program: str, *arguments: str) -> dict:
    command = [program, *arguments, str(TRACE), "--format", "json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def main() -> None:
    program = sys.argv[1]
    capture = ask(program, "planes")["capture"]
    edges_s, joules = [0.0], [0.0]  # what was drawn above idle until then
    for row in sorted(ask(program, "functions", "--samples")["samples"],
                      key=lambda row: row["start_ps"]):
        start_s, length_s = row["start_ps"] / 1e12, row["span_ps"] / 1e12
        edges_s += [start_s, start_s + length_s]
        joules += [joules[-1], joules[-1] + WATTS[row["function"]] * length_s]
    seconds = (capture["stop_unix_ns"] - capture["start_unix_ns"]) / 1e9
    edges_s.append(seconds + 1)
    joules.append(joules[-1])

    def counter_uj(at_s: float) -> int:
        published_s = max(0.0, (at_s - LAG_S) // PERIOD_S * PERIOD_S)
        i = bisect.bisect_right(edges_s, published_s) - 1
        part = (published_s - edges_s[i]) / (edges_s[i + 1] - edges_s[i])
        above_j = joules[i] + part * (joules[i + 1] - joules[i])
        return int((above_j + IDLE_W * published_s) * 1e6 / STEP_UJ) * STEP_UJ

    lines = [{"schema": "xplane-time.power-log.v1", "t": MONOTONIC_NS,
              "clocks": {"monotonic_ns": MONOTONIC_NS, "realtime_ns": capture["start_unix_ns"],
                         "boottime_ns": MONOTONIC_NS},
              "machine": {"host": "testhost", "kernel": "", "cpu": ""}, "command": "",
              "periods_ns": {"rapl": int(POLL_S * 1e9)}, "devices": [DEVICE],
              "channels": [CHANNEL], "absent": []}]
    polls = int(seconds / POLL_S) + 5
    for i in range(polls):
        lines.append({"t": MONOTONIC_NS + int(i * POLL_S * 1e9), "s": 0,
                      "r": [[0, 0, 20_000, counter_uj(i * POLL_S)]]})
    lines.append({"t": MONOTONIC_NS + int(polls * POLL_S * 1e9),
                  "end": {"reason": "stopped", "readers": [], "dropped": 0}})
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (HERE / "replayed.power.jsonl").write_text(text)


if __name__ == "__main__":
    main()
