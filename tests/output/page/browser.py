"""Headless Chromium over the DevTools protocol, by pipe: nothing but the standard library.

    with Browser() as browser:
        page = browser.open(path, width=1200, dark=False)
        page.evaluate("document.title")
        page.key("Tab"); page.click(x, y); page.screenshot("a.png")
        page.problems      # console errors, exceptions, violations of the policy
        page.requests      # what was asked for beyond the page itself
"""
import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

CANDIDATES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
KEYS = {"Enter": ("\r", 13), "Tab": (None, 9), "Escape": (None, 27), "End": (None, 35),
        "Home": (None, 36), "ArrowLeft": (None, 37), "ArrowUp": (None, 38),
        "ArrowRight": (None, 39), "ArrowDown": (None, 40), "PageDown": (None, 34),
        "+": ("+", 187), "-": ("-", 189), "0": ("0", 48), ".": (".", 190), ",": (",", 188)}


def find_chromium():
    named = os.environ.get("CHROMIUM")
    return named or next((path for path in map(shutil.which, CANDIDATES) if path), None)


class Browser:
    def __init__(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        # Chromium reads commands from 3 and writes answers to 4. A shell places them: Python code
        # after a fork may hang where there are threads.
        reads, writes = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (theirs_in, theirs_out))
        place = ["bash", "-c", f'exec "$@" 3<&{reads} 4>&{writes}', "bash"]
        arguments = [find_chromium(), "--headless=new", "--no-sandbox", "--disable-gpu",
                     "--no-first-run", "--disable-background-networking", "--disable-sync",
                     "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--force-color-profile=srgb", "--remote-debugging-pipe",
                     f"--user-data-dir={self.profile.name}", "about:blank"]
        self.process = subprocess.Popen(
            place + arguments, pass_fds=(reads, writes),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in (theirs_in, theirs_out, reads, writes):
            os.close(fd)
        self.ours_in, self.ours_out = ours_in, ours_out
        self.buffer, self.last, self.events = b"", 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=10)
        os.close(self.ours_in)
        os.close(self.ours_out)
        self.profile.cleanup()

    def receive(self, timeout):
        """The next message, or None after so many seconds."""
        end = time.monotonic() + timeout
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.ours_in], [], [], left)[0]:
                return None
            chunk = os.read(self.ours_in, 1 << 20)
            if not chunk:
                raise RuntimeError("Chromium went away")
            self.buffer += chunk
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method, session=None, timeout=30, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.ours_out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            answer = self.receive(end - time.monotonic())
            if answer is None:
                break
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)
        raise TimeoutError(method)

    def open(self, path, **options):
        return Page(self, path, **options)


class Page:
    def __init__(self, browser, path, width=1200, height=900, dark=False, script=True):
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.attach(browser, target, pathlib.Path(path).resolve().as_uri())
        self.resize(width, height)
        self.prefer(dark)
        if not script:
            self.call("Emulation.setScriptExecutionDisabled", value=True)
        self.call("Page.navigate", url=self.url)
        ready = ("document.documentElement?.dataset.ready === 'true'" if script
                 else "document.readyState === 'complete'")
        self.wait(ready)

    def attach(self, browser, target, url):
        self.browser, self.target, self.url = browser, target, url
        self.problems, self.requests = [], []
        self.session = browser.call("Target.attachToTarget", targetId=target,
                                    flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def frame(self):
        """What an iframe of a sandbox shows, which is a page of its own, once it is ready."""
        self.wait("document.readyState === 'complete'")
        [target] = [each for each in self.browser.call("Target.getTargets")["targetInfos"]
                    if each.get("parentId") == self.target]
        frame = object.__new__(Page)
        frame.attach(self.browser, target["targetId"], target["url"])
        frame.wait("document.documentElement?.dataset.ready === 'true'")
        return frame

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def prefer(self, dark):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def call(self, method, **parameters):
        result = self.browser.call(method, session=self.session, **parameters)
        self.sort_events()
        return result

    def sort_events(self):
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            name, detail = event["method"], event["params"]
            if name == "Runtime.exceptionThrown":
                self.problems.append(detail["exceptionDetails"].get("exception", detail))
            elif name == "Runtime.consoleAPICalled" and detail["type"] in ("error", "warning"):
                self.problems.append(detail["args"])
            elif name == "Log.entryAdded":
                self.problems.append(detail["entry"]["text"])
            elif name == "Network.requestWillBeSent" and detail["request"]["url"] != self.url:
                self.requests.append(detail["request"]["url"])
        self.browser.events.clear()

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description"))
        return answer["result"].get("value")

    def wait(self, expression, timeout=15):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if self.evaluate(expression):
                return
            time.sleep(0.02)
        raise TimeoutError(f"{expression}; problems: {self.problems}")

    def key(self, name, count=1):
        text, code = KEYS.get(name, (name, ord(name[0].upper())))
        for _ in range(count):
            for kind in ("keyDown", "keyUp"):
                more = {"text": text} if text and kind == "keyDown" else {}
                self.call("Input.dispatchKeyEvent", type=kind, key=name,
                          windowsVirtualKeyCode=code, **more)

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path, whole=True):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole,
                         **({"clip": self.whole()} if whole else {}))
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))

    def whole(self):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16000),
                "scale": 1}

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def close(self):
        if self.target:
            self.browser.call("Target.closeTarget", targetId=self.target)
        self.target = None
