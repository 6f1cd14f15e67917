"""A headless Chromium driven by its debugging protocol, for tests of pages."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)


def find_chromium() -> str | None:
    """Path of an installed Chromium or Chrome."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )


class Tab:
    """One page: navigation, evaluation, pictures, and everything it logged or requested."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._loaded = False
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; store the events in between."""
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=60))
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._note(message.get("method", ""), message.get("params", {}))

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(str(details.get("exception", {}).get("description", details["text"])))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.errors.append(" ".join(str(a.get("value", a.get("description"))) for a in parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Page.loadEventFired":
            self._loaded = True

    def size(self, width: int, height: int, scale: float = 1.0, mobile: bool = False) -> None:
        """Size of the window in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile
        )

    def media(self, **features: str) -> None:
        """Media features, for example ``prefers_color_scheme="dark"``."""
        entries = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.call("Emulation.setEmulatedMedia", features=entries)

    def open(self, url: str, ready: str = "true", timeout: float = 60.0) -> None:
        """Load an address and wait until an expression holds."""
        self._loaded = False
        self.call("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && Boolean({ready})", timeout)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression (promises are awaited)."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", expression))
        return result["result"].get("value")

    def wait(self, expression: str, timeout: float = 30.0) -> None:
        """Wait until an expression holds."""
        end = time.monotonic() + timeout
        while not self.evaluate(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"{expression} did not become true in {timeout} s; errors: {self.errors}")
            time.sleep(0.05)

    def key(self, key: str, code: int) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if len(key) == 1 and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)

    def mouse(self, kind: str, x: float, y: float, button: str = "none", buttons: int = 0) -> None:
        """A mouse event: ``mousePressed``, ``mouseMoved`` or ``mouseReleased``."""
        self.call(
            "Input.dispatchMouseEvent",
            type=kind,
            x=x,
            y=y,
            button=button,
            buttons=buttons,
            clickCount=int(button != "none"),
        )

    def picture(self, path: Path, whole: bool = False) -> Path:
        """Save a screenshot, optionally of the whole page."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))
        return path


@contextmanager
def chromium(executable: str) -> Iterator[Tab]:
    """A browser with a new profile and one tab, closed at exit."""
    from websockets.sync.client import connect

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [executable, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            port = _port(process, Path(profile))
            with connect(
                f"ws://127.0.0.1:{port}{_target(port)}", max_size=None, compression=None, open_timeout=60
            ) as socket:
                yield Tab(socket)
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stderr is not None:
                process.stderr.close()


def _port(process: subprocess.Popen[str], profile: Path) -> int:
    end = time.monotonic() + 30
    marker = profile / "DevToolsActivePort"
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"Chromium ended with code {process.returncode}")
        if marker.exists() and (text := marker.read_text()).count("\n"):
            return int(text.splitlines()[0])
        time.sleep(0.05)
    raise TimeoutError("Chromium did not open its debugging port in 30 s")


def _target(port: int) -> str:
    from urllib.request import urlopen

    with urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
        tabs = json.load(answer)
    address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
    return "/" + address.split("/", 3)[3]
