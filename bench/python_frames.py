#!/usr/bin/env python3
"""From a trace to data frames, beside the loop over ProfileData, in one process.

    pip install . polars pandas pyarrow duckdb jax
    bench/grow_trace ... grown.xplane.pb          (bench/README.md)
    python bench/python_frames.py grown.xplane.pb

Prints the median of five runs (of one of the loop); what is not installed is left out.
"""
import importlib.util
import statistics
import subprocess
import sys
import time

COLUMNS = ["line", "name", "start_ps", "duration_ps"]


def seconds(work, times=5):
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        result = work()
        took.append(time.perf_counter() - begin)
    return statistics.median(took), result


def import_seconds():
    code = ("import time; begin = time.perf_counter(); import xplane_time; "
            "print(time.perf_counter() - begin)")
    return statistics.median(
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(9))


def profile_data_loop(path):
    from jax.profiler import ProfileData

    with open(path, "rb") as file:
        data = ProfileData.from_serialized_xspace(file.read())
    rows = [(line.name, event.name, event.start_ns, event.duration_ns)
            for plane in data.planes for line in plane.lines for event in line.events]
    return len(rows)


def main():
    path = sys.argv[1]
    import xplane_time

    def events():
        return xplane_time.open(path).events(COLUMNS, device="all")

    def duckdb_query():
        import duckdb
        rows = events().to_arrow()  # noqa: F841 - duckdb finds it by its name
        return duckdb.sql("select name, sum(duration_ps) from rows group by name").fetchall()

    print(f"import xplane_time: {import_seconds() * 1000:.1f} ms")
    count = xplane_time.open(path).event_count
    ways = [("functions()", None, lambda: xplane_time.open(path).functions(device="all")),
            ("events()", None, events),
            ("events().to_polars()", "polars", lambda: events().to_polars()),
            ("events().to_pandas()", "pandas", lambda: events().to_pandas()),
            ("events().to_arrow()", "pyarrow", lambda: events().to_arrow()),
            ("duckdb, sum by name", "duckdb", duckdb_query)]
    found = []
    for name, needs, work in ways:
        if needs is None or importlib.util.find_spec(needs) is not None:
            found.append((name, seconds(work)[0]))
    if importlib.util.find_spec("jax") is not None:
        took, rows = seconds(lambda: profile_data_loop(path), times=1)
        assert rows == count, (rows, count)
        found.append(("ProfileData loop", took))
    loop = found[-1][1]
    for name, took in found:
        ratio = f"{loop / took:6.0f} x" if found[-1][0] == "ProfileData loop" else ""
        print(f"{name:24} {took:8.3f} s {count / took / 1e6:8.1f} M events/s {ratio}")


if __name__ == "__main__":
    main()
