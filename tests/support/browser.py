"""A real Chromium without a window, driven over its DevTools protocol: pages opened, keys pressed, scripts asked."""

from __future__ import annotations

import base64
import contextlib
import http.client
import itertools
import json
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Ping, Request, TextMessage

#: How long a page may take for anything: a busy machine is slow.
PATIENCE_S = 60.0
ARGUMENTS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0")


class Page:
    """One page. `told` has the texts of its console and of errors that nobody caught."""

    def __init__(self, port: int, path: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._wire = WSConnection(ConnectionType.CLIENT)
        self._numbers = itertools.count(1)
        self._texts: list[str] = []
        self._part = ""
        self.told: list[str] = []
        self._socket.sendall(self._wire.send(Request(host=f"127.0.0.1:{port}", target=path)))
        self._ready = False
        while not self._ready:
            self._receive()
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def _receive(self) -> None:
        data = self._socket.recv(1 << 16)
        assert data, "Chromium has ended"
        self._wire.receive_data(data)
        for event in self._wire.events():
            if isinstance(event, AcceptConnection):
                self._ready = True
            elif isinstance(event, Ping):
                self._socket.sendall(self._wire.send(event.response()))
            elif isinstance(event, TextMessage):
                self._part += event.data
                if event.message_finished:
                    self._texts.append(self._part)
                    self._part = ""

    def call(self, method: str, **argument: Any) -> Any:
        """Call a method of the protocol; its result."""
        number = next(self._numbers)
        message = json.dumps({"id": number, "method": method, "params": argument})
        self._socket.sendall(self._wire.send(TextMessage(data=message)))
        while True:
            while self._texts:
                answer = json.loads(self._texts.pop(0))
                if answer.get("id") == number:
                    assert "error" not in answer, f"{method}: {answer['error']}"
                    return answer["result"]
                if answer.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
                    self.told.append(json.dumps(answer["params"]))
            self._receive()

    def ask(self, expression: str) -> Any:
        """The value of an expression of JavaScript in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, f"{expression}: {result}"
        return result["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Wait until an expression is true; its value."""
        deadline = time.monotonic() + PATIENCE_S
        while not (answer := self.ask(expression)):
            shown = self.ask("document.body.innerText")[:500]
            assert time.monotonic() < deadline, f"never true: {expression}; the page is: {shown}; told: {self.told[:3]}"
            time.sleep(0.02)
        return answer

    def open(self, url: str) -> None:
        """Open an address anew."""
        self.call("Page.navigate", url="about:blank")
        self.wait("location.href === 'about:blank'")
        self.call("Page.navigate", url=url)
        self.wait("location.href !== 'about:blank' && document.readyState === 'complete'")

    def press(self, key: str) -> None:
        """Press and let go a key: one character, or Enter."""
        text = {"text": "\r"} if key == "Enter" else {"text": key}
        code = {"windowsVirtualKeyCode": 13} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **code)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **code)

    def size(self, width: int, height: int) -> None:
        """Make the window so big, in pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def dark(self, expected: bool) -> None:
        """Ask for dark colours, as a user's settings do."""
        value = "dark" if expected else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def picture(self) -> bytes:
        """The window as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def close(self) -> None:
        """Let go of the page."""
        self._socket.close()


@contextlib.contextmanager
def chromium(program: str = "chromium") -> Iterator[Page]:
    """A Chromium of its own, with one page; both are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="nri-chromium-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        command = [program, *ARGUMENTS, f"--user-data-dir={folder}", "about:blank"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                page = Page(*_target(Path(folder), process))
                yield page
                page.close()
            finally:
                process.terminate()
                process.wait(PATIENCE_S)


def _target(folder: Path, process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """The port of the protocol, and the path of the first page's socket."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert process.poll() is None, f"chromium has ended with {process.returncode}"
        with contextlib.suppress(OSError, ValueError, IndexError):
            port = int((folder / "DevToolsActivePort").read_text().splitlines()[0])
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            connection.request("GET", "/json/list")
            text = connection.getresponse().read()
            connection.close()
            for load in json.loads(text):
                if load["type"] == "page":
                    return port, load["webSocketDebuggerUrl"].partition(f":{port}")[2]
        time.sleep(0.05)
    raise AssertionError("chromium opens no page")
