# SPDX-License-Identifier: BSD-3-Clause
"""Chromium without a window, for tests of pages: opens a page, points, clicks, presses keys, takes
pictures. Speaks the DevTools protocol over two pipes, so it needs neither a port nor a library.

Every call ends within LONGEST seconds, or with an error.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

LONGEST = 60  # seconds for an answer
NAMES = ("chromium", "chromium-browser", "google-chrome")


class BrowserError(Exception):
    """The browser does not answer, or a command or script of a page has failed."""


def find():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Pipe:
    """Messages of the protocol, each of which ends with a zero byte."""

    def __init__(self, program, directory):
        command_read, self.to = os.pipe()
        self.answers, answer_write = os.pipe()
        options = ["--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu",
                   "--disable-dev-shm-usage", "--hide-scrollbars", f"--user-data-dir={directory}"]
        if os.geteuid() == 0:
            options.append("--no-sandbox")  # which Chromium refuses to have as root
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{command_read} 4>&{answer_write}', "bash", program,
             *options, "about:blank"], pass_fds=(command_read, answer_write),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(command_read)
        os.close(answer_write)
        self.rest = b""

    def put(self, message):
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]

    def get(self, until):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.answers], [], [], max(0, until - time.monotonic()))
            data = os.read(self.answers, 1 << 16) if ready else b""
            if not data:
                raise BrowserError("no answer" if not ready else "the browser has ended")
            self.rest += data
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def close(self):
        os.close(self.to)  # Chromium ends with the pipe.
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.answers)


class Browser:
    """One browser with one page. Use it in `with`."""

    def __init__(self):
        program = find()
        if program is None:
            raise BrowserError("there is no Chromium")
        self.directory = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.pipe = Pipe(program, self.directory.name)
        self.next, self.session, self.events = 1, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pipe.close()
        self.directory.cleanup()

    def call(self, method, **parameters):
        number, self.next = self.next, self.next + 1
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.pipe.put(message)
        until = time.monotonic() + LONGEST
        while True:
            answer = self.pipe.get(until)
            if answer.get("id") == number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def look(self, width, height, dark):
        """Sets the size of the window, in pixels, and the reader's choice of colors."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, path):
        """Opens a file; returns the seconds until it is drawn."""
        self.events.clear()
        begin = time.monotonic()
        answer = self.call("Page.navigate", url="file://" + os.path.abspath(path))
        if answer.get("errorText"):
            raise BrowserError(f"{path}: {answer['errorText']}")
        until = begin + LONGEST
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self.pipe.get(until))
        self.settle()
        return time.monotonic() - begin

    def settle(self):
        """Waits until what has changed is drawn."""
        self.script("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def script(self, text):
        """Returns the value of an expression of the page, or of the promise that it is."""
        answer = self.call("Runtime.evaluate", expression=text, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def point(self, x, y, kind="mouseMoved", **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, selector):
        """Clicks on the middle of the first such element, as a reader would."""
        box = self.script(f"(() => {{ const it = document.querySelector({json.dumps(selector)});"
                          "it.scrollIntoView({block: 'center'});"
                          "const box = it.getBoundingClientRect();"
                          "return [box.left + Math.min(box.width / 2, 40), box.top + box.height / 2];"
                          "})()")
        for kind in ("mousePressed", "mouseReleased"):
            self.point(*box, kind, button="left", clickCount=1)
        self.settle()

    def press(self, key, code):
        """Presses a key that writes nothing, by its name and its Windows code."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode=code)
        self.settle()

    def complaints(self):
        """Exceptions, errors on the console, and requests for anything but the page's own file."""
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(parameters["exceptionDetails"].get("exception", {}).get(
                    "description", parameters["exceptionDetails"]["text"])))
            elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] == "error":
                found.append(parameters["entry"]["text"])
            elif event["method"] == "Network.requestWillBeSent" and not \
                    parameters["request"]["url"].startswith(("file:", "data:", "blob:")):
                found.append("asks for " + parameters["request"]["url"])
        return found

    def picture(self, path):
        """Writes what the window shows as PNG; returns its bytes."""
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        with open(path, "wb") as file:
            file.write(data)
        return data
