"""Runs the real binary: `run(...)` returns exit status, stdout and stderr as bytes."""
import csv
import functools
import io
import json
import os
import pathlib
import pty
import resource
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
TESTDATA = REPOSITORY / "testdata"
SHARED_TRACES = REPOSITORY.parent / "shared" / "traces"
GOLDEN = HERE / "golden"
BINARY = pathlib.Path(
    os.environ.get("XPLANE_TIME", REPOSITORY / "build" / "tools" / "xplane-time")).resolve()
TIMEOUT_S = 30


@dataclass
class Done:
    code: int
    out: bytes
    err: bytes

    @property
    def text(self):
        return self.out.decode()

    @property
    def message(self):
        return self.err.decode()

    @property
    def json(self):
        return json.loads(self.out, parse_constant=no_constant)


def no_constant(text):
    raise ValueError(f"{text} is not JSON")


def environment(**changes):
    """A clean environment, independent of the caller's terminal and locale. None removes a variable."""
    kept = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "TERM": "xterm",
            "TMPDIR": tempfile.gettempdir(), **changes}
    for name in ("LD_LIBRARY_PATH", "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"):
        if name in os.environ:
            kept.setdefault(name, os.environ[name])
    return {name: value for name, value in kept.items() if value is not None}


@functools.cache
def memory_can_be_limited():
    """False with the address sanitizer, which reserves terabytes."""
    return b"__asan_init" not in BINARY.read_bytes()


def run(*arguments, cwd=None, stdin=b"", env=None, limit_bytes=None, user=None):
    """Runs the binary. Raises TimeoutExpired if it hangs. `stdin`: bytes or an open file."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))

    given = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    done = subprocess.run([str(BINARY), *map(str, arguments)], cwd=cwd, capture_output=True,
                          timeout=TIMEOUT_S, env=env or environment(),
                          user=user, **given,
                          preexec_fn=limit if limit_bytes and memory_can_be_limited() else None)
    return Done(done.returncode, done.stdout, done.stderr)


def open_terminal():
    """The two ends of a pseudo-terminal. Skips the test if none is available."""
    try:
        return pty.openpty()
    except OSError as error:  # a container without /dev/pts
        raise unittest.SkipTest(f"no pseudo-terminals here: {error}") from error


def in_parallel(work, items):
    """[work(item) ...] in order, with one thread per processor."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(work, items))


def csv_rows(text):
    """Returns the header, and the rows as dictionaries."""
    return list(csv.DictReader(io.StringIO(text, newline="")))


def testdata_traces():
    return sorted(TESTDATA.glob("*.xplane.pb"))


class EndToEndTest(unittest.TestCase):
    """Each test has an empty directory `self.at`. Failed checks show the command."""

    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        if not BINARY.exists():
            raise FileNotFoundError(f"{BINARY}: build it, or set XPLANE_TIME")

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="xplane-time-")
        self.addCleanup(temporary.cleanup)
        self.at = pathlib.Path(temporary.name)

    def write(self, name, content):
        path = self.at / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def run_ok(self, *arguments, **options):
        """Runs the binary, and requires exit code 0 and an empty stderr."""
        options.setdefault("cwd", self.at)
        done = run(*arguments, **options)
        self.assertEqual((done.code, done.err), (0, b""), arguments)
        return done

    def run_json(self, *arguments, **options):
        return self.run_ok(*arguments, "--format", "json", **options).json
