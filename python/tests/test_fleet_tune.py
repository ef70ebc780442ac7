"""Tunes on several devices, with local processes and with actors of Ray, some of which are killed."""
import contextlib
import json
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import unittest.mock

import xplane_time
from xplane_time import fleet, fleet_harness
from xplane_time.errors import ArgumentError, InputError, NothingFoundError
from xplane_time.harness import serve

try:
    import ray
except ImportError:
    ray = None

SPACE = {"schema": "xplane-time.space.v1", "name": "sim",
         "variants": [{"id": name, "params": {"t": t}}
                      for name, t in (("a", 1.0), ("b", 1.02), ("c", 1.05), ("d", 1.1))]}


def forgets():
    """A harness that does not serve."""


def simulated(factors=(), seed=0, sd=0.01, kinds=(), die_of=None, log=None, wait_s=0.0, fails_on=(),
              starts=None):
    """Serves variants that take `t` us. `factors`: (end of a device name, variant, factor of its time)."""
    device = os.environ["XPLANE_TIME_DEVICE"]
    noise = random.Random(f"{seed} {device}")
    rounds = iter(range(1 << 30))

    if starts is not None:
        subprocess.Popen(starts.split())

    def build(params):
        if device in fails_on:
            raise ValueError("no such tile")
        time_ps = 1e6 * params["t"]
        for end, t, factor in factors:
            if device.endswith(end) and t in (params["t"], None):
                time_ps *= factor

        def run():
            time.sleep(wait_s)
            if die_of is not None and device.endswith(die_of[0]) and next(rounds) == die_of[1] \
                    and not os.path.exists(die_of[3]):
                pathlib.Path(die_of[3]).touch()  # die only once
                if die_of[2] == "actor":
                    os.kill(os.getppid(), signal.SIGKILL)
                    time.sleep(60)
                os.kill(os.getpid(), signal.SIGKILL)
            return time_ps
        return run

    def timer(run):
        if log is not None:
            with open(log, "a", encoding="utf-8") as file:
                file.write(device + "\n")
        return run() * math.exp(noise.gauss(0, sd))

    kind = next((kind for end, kind in kinds if device.endswith(end)), "simulated")
    serve(build, timer=timer, device="sim", device_class=kind, clock="device", code_hash="c0de")


class Modules(unittest.TestCase):
    def test_a_callable_imports_nothing_from_the_current_directory(self):
        """With python -m, the current directory would come first in the search path of modules."""
        with tempfile.TemporaryDirectory() as at, tempfile.TemporaryDirectory() as folder:
            for name in ("json", "pickle", "select", "xplane_time"):
                pathlib.Path(at, f"{name}.py").write_text(f"open({at!r} + '/ran', 'w')\n")
            command = fleet_harness.program_of(forgets).write(folder)
            done = subprocess.run(command, cwd=at, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("forgets returned", done.stdout)
            self.assertFalse(os.path.exists(f"{at}/ran"))


class Harness:
    """A callable that is pickled as its name and its arguments."""

    def __init__(self, **how):
        self.how = how

    def __call__(self):
        simulated(**self.how)


class TuneTest(unittest.TestCase):
    executor = "processes"

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="xplane-time-")
        self.addCleanup(temporary.cleanup)
        self.at = pathlib.Path(temporary.name)
        # The harness finds its module, and the test has separate locks.
        old = {name: os.environ.get(name) for name in ("PYTHONPATH", "XDG_RUNTIME_DIR")}
        os.environ["PYTHONPATH"] = os.path.dirname(__file__)
        os.environ["XDG_RUNTIME_DIR"] = str(self.at)
        for name, value in old.items():
            self.addCleanup(lambda name=name, value=value: os.environ.pop(name, None)
                            if value is None else os.environ.__setitem__(name, value))

    def tune(self, how=None, devices=2, **options):
        return fleet.tune(SPACE, Harness(**(how or {})), devices=devices, executor=self.executor,
                          store=self.at / "tune.db", **options)

    def rounds(self):
        """The number of rounds in all sessions."""
        shown = subprocess.run(
            [pathlib.Path(sys.executable).parent / "xplane-time", "tune", "show", "--format", "json",
             "--store", self.at / "tune.db"], capture_output=True, text=True, check=True)
        return sum(each["rounds"] for each in json.loads(shown.stdout)["sessions"])


class Local(TuneTest):
    def test_one_answer_for_all(self):
        found = self.tune()
        self.assertEqual(found.params, {"t": 1.0})
        self.assertEqual(found.classes, [("0", "1")])
        self.assertEqual(found.answers[0].devices, ("0", "1"))
        self.assertEqual((found.evidence, found.slow, found.lost), ([], [], {}))
        self.assertIn('{"t": 1.0} on 0, 1', str(found))

    def test_two_classes_have_two_answers_and_a_lock_of_both(self):
        found = self.tune({"factors": [("1", 1.0, 1.06)], "sd": 0.003})
        self.assertIsNone(found.params)
        self.assertEqual(sorted(found.classes), [("0",), ("1",)])
        self.assertEqual({each.devices: each.params for each in found.answers},
                         {("0",): {"t": 1.0}, ("1",): {"t": 1.02}})
        split, = found.evidence
        self.assertEqual(sorted(split["devices"] + split["others"]), ["0", "1"])
        self.assertAlmostEqual(split["ratio"] - split["others_ratio"], 0.06, delta=0.02)
        self.assertIn("2 classes of devices", str(found))

        found.save(self.at / "lock.json")
        table = xplane_time.tuned(self.at / "lock.json")
        self.assertEqual(table.digest, xplane_time.tuned(self.at / "lock.json").digest)
        for device, t in (("0", 1.0), ("1", 1.02)):
            self.assertEqual(table.require("sim", "simulated", code_hash="c0de", device=device), {"t": t})
        with self.assertRaisesRegex(NothingFoundError, "none for no device; devices: 0, 1"):
            table.require("sim", "simulated", code_hash="c0de")

    def test_a_lock_is_refused_for_another_device_or_program(self):
        self.tune().save(self.at / "lock.json")
        table = xplane_time.tuned(self.at / "lock.json")
        self.assertEqual(table.require("sim", "simulated", code_hash="c0de"), {"t": 1.0})
        for wanted, how in (
                ("another program: code_hash 'c0de', not 'beef'", {"code_hash": "beef"}),
                ("another program: driver '', not '560'", {"code_hash": "c0de", "driver": "560"}),
                ("for simulated, not for H100", {"code_hash": "c0de", "device_class": "H100"}),
                ("no tuned entry for conv by time; workloads: sim",
                 {"code_hash": "c0de", "workload": "conv"})):
            with self.assertRaisesRegex(NothingFoundError, wanted):
                table.require(**{"workload": "sim", "device_class": "simulated", **how})
        with self.assertRaisesRegex(ArgumentError, "not a valid tuned table"):  # other files are kept
            (self.at / "notes.json").write_text("mine")
            self.tune().save(self.at / "notes.json")

    def test_split_tunes_each_by_itself(self):
        found = self.tune({"factors": [("1", 1.0, 1.06)], "sd": 0.003}, strategy="split")
        self.assertEqual({each.devices: each.params for each in found.answers},
                         {("0",): {"t": 1.0}, ("1",): {"t": 1.02}})
        self.assertEqual(found.classes, [("0",), ("1",)])
        alike = self.tune({"seed": 5}, strategy="split")
        self.assertEqual((alike.params, alike.classes), ({"t": 1.0}, [("0", "1")]))
        self.assertEqual(len(alike.table["entries"]), 1)

    def test_a_slow_device_is_named(self):
        found = self.tune({"factors": [("2", None, 1.04)], "sd": 0.003}, devices=3)
        self.assertEqual((found.params, found.slow), ({"t": 1.0}, ["2"]))

    def test_devices_of_two_kinds_are_never_pooled(self):
        found = self.tune({"kinds": [("0", "old")], "factors": [("0", 1.0, 1.5)]}, devices=3)
        self.assertEqual({each.devices: each.params for each in found.answers},
                         {("0",): {"t": 1.02}, ("1", "2"): {"t": 1.0}})
        self.assertEqual(sorted(each["device_class"] for each in found.evidence), ["old", "simulated"])

    def test_it_goes_on_without_a_round_twice(self):
        log = self.at / "log"
        how = {"wait_s": 0.02, "log": str(log)}
        program = textwrap.dedent(f"""
            import test_fleet_tune as t
            t.fleet.tune(t.SPACE, t.Harness(**{how!r}), devices=2, store={str(self.at / 'tune.db')!r})
        """)
        for _ in range(2):  # kill it twice
            log.unlink(missing_ok=True)
            driver = subprocess.Popen([sys.executable, "-c", program], start_new_session=True,
                                      stderr=subprocess.PIPE)
            until = time.monotonic() + 60
            while not (log.exists() and log.stat().st_size > 40) and time.monotonic() < until:
                time.sleep(0.02)
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
            driver.stderr.close()
            time.sleep(1)  # wait until its child processes have ended
            program = program.replace("devices=2", "devices=2, resume=True")
        before = self.rounds()
        self.assertGreater(before, 0)
        found = self.tune(how, resume=True)
        self.assertEqual(found.params, {"t": 1.0})
        self.assertTrue(found.answers[0].result["resumed"])
        self.assertEqual(found.answers[0].result["session"], 1)
        again = self.tune(how, resume=True)
        self.assertEqual(again.params, found.params)

    def test_an_interrupt_keeps_what_was_measured(self):
        threading.Timer(2.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        with self.assertRaises(KeyboardInterrupt):
            self.tune({"wait_s": 0.05})
            time.sleep(10)  # if the timer is late
        self.assertEqual(self.tune(resume=True).params, {"t": 1.0})

    def test_a_command_in_any_language(self):
        program = self.at / "harness.py"
        program.write_text("import test_fleet_tune\ntest_fleet_tune.simulated(seed=3)\n")
        found = fleet.tune(SPACE, [sys.executable, str(program)], devices=["left", "right"],
                           store=self.at / "tune.db")
        self.assertEqual((found.params, found.classes), ({"t": 1.0}, [("left", "right")]))

    def test_messages_come_as_they_are_said(self):
        said = []
        self.tune(on_message=said.append)
        self.assertTrue(any("prepared" in each for each in said), said)

    def test_what_makes_no_sense_is_refused(self):
        for wanted, how in (("strategy", {"strategy": "both"}), ("at least 1", {"devices": 0}),
                            ("at least 1", {"devices": []}), ("different names", {"devices": ["0", "0"]}),
                            ("list of different names", {"devices": "01"}), ("without commas", {"devices": ["a,b"]}),
                            ("without commas", {"devices": [""]}), ("at least 1", {"devices": True}),
                            ("requires executor", {"actor_options": {"num_gpus": 1}}),
                            ("incumbent", {"incumbent": "nobody"})):
            with self.subTest(wanted), self.assertRaisesRegex(ArgumentError, wanted):
                self.tune(**how)
        for harness in ("python harness.py", [], 7):
            with self.assertRaisesRegex((ArgumentError, TypeError), "harness|iterable"):
                fleet.tune(SPACE, harness, store=self.at / "tune.db")
        for wanted, harness in (
                ("did not send hello: .*No such file", ["/no/such/program"]),
                ("did not send hello: it printed last: no device here", ["sh", "-c", "echo no device here"]),
                ("did not send hello: it printed last: forgets returned; it must call serve", forgets),
                ("did not send hello: it ended, or sent",
                 [sys.executable, "-c",
                  "import os; os.write(int(os.environ['XPLANE_TIME_HARNESS_OUT']), b'[]\\n')"])):
            with self.subTest(wanted), self.assertRaisesRegex(InputError, wanted):
                fleet.tune(SPACE, harness, store=self.at / "tune.db")

    def test_what_a_listener_raises_ends_it(self):
        def listen(line):
            raise LookupError(line)

        with self.assertRaisesRegex(LookupError, "starts session 1"):
            self.tune(on_message=listen)
        self.assertEqual(self.tune(resume=True).params, {"t": 1.0})

    def test_all_variants_fail(self):
        found = self.tune({"fails_on": ("0", "1")})
        self.assertEqual([each.claim for each in found.answers], ["all_failed"])
        self.assertIn("no such tile", str(found))
        with self.assertRaisesRegex(ArgumentError, "there is no decision"):
            found.save(self.at / "lock.json")

    def test_one_broken_device_is_lost(self):
        found = self.tune({"fails_on": ("2",)}, devices=3)
        self.assertEqual((found.params, found.answers[0].devices), ({"t": 1.0}, ("0", "1")))
        self.assertIn("all variants fail on it", found.lost["2"])
        split = self.tune({"fails_on": ("1",)}, strategy="split")
        self.assertEqual({each.claim for each in split.answers if each.devices == ("1",)}, {"all_failed"})
        self.assertEqual({str(each.params) for each in split.answers if each.devices == ("0",)},
                         {"{'t': 1.0}"})

    def test_nothing_is_left_behind(self):
        temporary = self.at / "tmp"
        temporary.mkdir()
        with unittest.mock.patch.object(tempfile, "tempdir", str(temporary)):
            self.tune({"starts": "sleep 98761"})
        self.assertEqual(list(temporary.iterdir()), [])
        running = b""
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                running += path.read_bytes()
        self.assertNotIn(b"98761", running)

    def test_without_ray_it_says_what_to_do(self):
        with unittest.mock.patch.dict(sys.modules, {"ray": None}), \
                self.assertRaisesRegex(ArgumentError, "use executor='processes'"):
            fleet.tune(SPACE, ["true"], executor="ray")


def starts():
    if ray is None:
        return False
    with contextlib.suppress(Exception):
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False,
                 runtime_env={"env_vars": {"PYTHONPATH": os.path.dirname(__file__)}})
        return True
    return False


class OnRay(TuneTest):
    executor = "ray"

    @classmethod
    def setUpClass(cls):
        if not starts():
            raise unittest.SkipTest("Ray is not here, or does not start")
        cls.addClassCleanup(ray.shutdown)

    def test_one_answer_and_two(self):
        self.assertEqual(self.tune().params, {"t": 1.0})
        found = self.tune({"factors": [("/1", 1.0, 1.06)], "sd": 0.003})
        self.assertEqual({each.devices[0][-2:]: each.params for each in found.answers},
                         {"/0": {"t": 1.0}, "/1": {"t": 1.02}})

    def test_a_harness_that_is_killed_costs_its_round(self):
        found = self.tune({"die_of": ("/1", 9, "harness", str(self.at / "died"))})
        self.assertTrue((self.at / "died").exists())
        self.assertEqual((found.params, found.lost), ({"t": 1.0}, {}))

    def test_an_actor_that_is_killed_costs_its_round(self):
        found = self.tune({"die_of": ("/1", 9, "actor", str(self.at / "died"))})
        self.assertTrue((self.at / "died").exists())
        self.assertEqual((found.params, found.lost), ({"t": 1.0}, {}))
        self.assertEqual({row["status"] for row in found.answers[0].result["variants"]}, {"ok"})

    def test_more_devices_than_there_are(self):
        with self.assertRaisesRegex(ArgumentError, "3 with num_cpus=1 exceed this cluster, which has 2"):
            self.tune(devices=3)


if __name__ == "__main__":
    unittest.main()
