#!/usr/bin/env python3
"""What other outputs cost beyond the report: pages, databases, Perfetto's traces.

    bench/outputs.py TRACE... [--bin build] [--rounds 7] [--threads 2]

Prints Markdown, a table a trace, each output, round by round. "beyond" is the median less that of the
same result as JSON. A page is opened in headless Chromium, where that is
installed: its first paint, when all of it is ready, and the slowest of 24 steps of zoom.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests/output/page"))
import browser  # noqa: E402

OUTPUTS = {"report, JSON": ["report", "-o", "r.json"], "page": ["report", "-o", "r.html"],
           "runs, JSON": ["report", "--samples", "-o", "s.json"],
           "runs, SQLite": ["report", "--samples", "-o", "s.sqlite"],
           "runs, page": ["functions", "--samples", "-o", "s.html"],
           "where, JSON": ["where", "-o", "w.json"], "where, page": ["where", "-o", "w.html"],
           "Perfetto": ["report", "-o", "r.pftrace"]}
BASES = {"page": "report, JSON", "runs, SQLite": "runs, JSON", "runs, page": "runs, JSON",
         "where, page": "where, JSON", "Perfetto": "report, JSON"}
CANVAS = "document.querySelector('.timeline canvas')"
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def measured(program, trace, folder, rounds):
    """Wall seconds of each output, by name."""
    seconds = {name: [] for name in OUTPUTS}
    for _ in range(rounds):
        for name, more in OUTPUTS.items():
            began = time.monotonic()
            subprocess.run([program, more[0], *trace, *more[1:]], cwd=folder, check=True, stderr=subprocess.PIPE)
            seconds[name].append(time.monotonic() - began)
    return seconds


def opened(path, rounds):
    """Medians of the first paint, the time until ready, and the slowest zoom step, in milliseconds."""
    paints, ready, steps = [], [], []
    for _ in range(rounds):
        with browser.Browser() as chromium:
            page = chromium.open(path)
            ready.append(page.evaluate("performance.now()"))
            page.wait(f"{PAINT} !== undefined")
            paints.append(page.evaluate(PAINT))
            page.evaluate(f"{CANVAS}.focus()")
            times = []
            for _ in range(24):
                page.key("+")
                page.evaluate("new Promise((done) => requestAnimationFrame(() => "
                              "requestAnimationFrame(done)))")
                times.append(float(page.evaluate(f"{CANVAS}.dataset.ms")))
            steps.append(max(times))
            page.close()
    return [statistics.median(each) for each in (paints, ready, steps)]


def rows_in(path):
    """The number of rows in all tables of a database."""
    import sqlite3
    with sqlite3.connect(path) as database:
        names = [name for name, in database.execute("SELECT name FROM sqlite_master "
                                                    "WHERE type = 'table'")]
        return sum(database.execute(f'SELECT COUNT(*) FROM "{name}"').fetchone()[0]
                   for name in names)


def describe(trace, options):
    with tempfile.TemporaryDirectory() as folder:
        given = [trace.resolve(), "--device", "all", "--threads", str(options.threads)]
        seconds = measured(options.bin / "tools/xplane-time", given, folder, options.rounds)
        print(f"\n{trace.name}, {trace.stat().st_size / 1e6:.1f} MB\n")
        print("| output | median s | range s | beyond s | MB |\n| --- | ---: | ---: | ---: | ---: |")
        for name, times in seconds.items():
            median = statistics.median(times)
            beyond = median - statistics.median(seconds[BASES[name]]) if name in BASES else None
            size = (pathlib.Path(folder) / OUTPUTS[name][-1]).stat().st_size
            print(f"| {name} | {median:.3f} | {min(times):.3f} to {max(times):.3f} | "
                  f"{'' if beyond is None else f'{beyond:.3f}'} | {size / 1e6:.2f} |")
        print(f"\n{rows_in(pathlib.Path(folder) / 's.sqlite')} rows in the database")
        if browser.find_chromium():
            paint, ready, step = opened(pathlib.Path(folder) / "r.html", min(3, options.rounds))
            print(f"\npage in Chromium: first paint {paint:.0f} ms, ready {ready:.0f} ms, slowest "
                  f"step of zoom {step:.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", type=pathlib.Path, metavar="TRACE")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    for trace in options.traces:
        describe(trace, options)


if __name__ == "__main__":
    main()
