"""A headless Chromium, driven over its DevTools protocol: open a page, wait for a condition in it, look at it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from databus.core.errors.config import SandboxError
from databus.sandbox.packages import Program, require
from databus.sandbox.ports import free_ports
from tests.ports import ports_from

ARGUMENTS = (
    "--headless", "--no-sandbox", "--no-zygote", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--window-size=1400,1500", "about:blank",
)  # fmt: skip


class Page:
    """One tab.

    Args:
        socket: the tab's DevTools socket.

    Attributes:
        complaints: errors in the console, exceptions and requests that failed, since `listen`.
    """

    def __init__(self, socket: ClientConnection):
        self._socket, self._number = socket, 0
        self.complaints: list[str] = []

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a DevTools method and return its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            answer: dict[str, Any] = json.loads(self._socket.recv(timeout=120))
            self._note(answer)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result

    def listen(self) -> None:
        """Note from now on what the pages complain of."""
        self.complaints.clear()
        for domain in ("Runtime", "Log"):
            self.send(f"{domain}.enable")

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in {"error", "assert"}:
                self.complaints.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    def value(self, expression: str) -> Any:
        """Evaluate JavaScript; None while the page is not there."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    def open(self, url: str) -> None:
        """Go to an address."""
        self.send("Page.navigate", url=url)

    def text(self, selector: str, within_s: float = 240) -> str:
        """Wait until there is an element with text, and return that."""
        deadline = time.monotonic() + within_s
        expression = f"document.querySelector({json.dumps(selector)})?.textContent"
        while not (found := self.value(expression)):
            body = self.value("document.body?.innerText")
            assert time.monotonic() < deadline, f"no {selector} at {self.value('location.href')}: {body}"
            time.sleep(0.5)
        return str(found)

    def waits_for(self, expression: str, within_s: float = 60) -> Any:
        """Wait until an expression is true in the page, and return its value."""
        deadline = time.monotonic() + within_s
        while not (found := self.value(expression)):
            body = self.value("document.body?.innerText")
            assert time.monotonic() < deadline, f"in vain at {self.value('location.href')}: {expression}: {body}"
            time.sleep(0.2)
        return found

    def dark(self, *, on: bool) -> None:
        """Show what is there in the host's dark theme, or in its light one."""
        how = "document.documentElement.classList"
        self.value(f"{how}.remove('dark', 'light'), {how}.add('{'dark' if on else 'light'}')")
        self.value(f"document.documentElement.style.colorScheme = '{'dark' if on else 'light'}'")

    def violations(self, axe: str) -> list[str]:
        """Return what axe-core finds in our part of the page: its rule and the element, each with a line.

        Args:
            axe: the library's text.
        """
        self.value(axe)
        told = "v => v.nodes.map(n => `${v.id}: ${n.target} ${n.failureSummary}`)"
        run = f"axe.run('.databus').then(r => r.violations.flatMap({told}))"
        answer = self.send("Runtime.evaluate", expression=run, awaitPromise=True, returnByValue=True)
        found: list[str] = answer["result"]["value"]
        return found

    def screenshot(self, file: Path) -> None:
        """Write what is shown as PNG."""
        file.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))


def look(page: Page, name: str, tmp_path: Path) -> None:
    """Keep a picture: in the test's folder, or where DATABUS_TEST_PICTURES says so."""
    file = Path(os.environ.get("DATABUS_TEST_PICTURES") or tmp_path) / f"{name}.png"
    page.screenshot(file)
    assert file.stat().st_size > 10_000


@contextmanager
def chromium(port_from: int, profile: Path) -> Iterator[Page]:
    """Give a tab of the Chromium that DATABUS_CHROMIUM names, that is installed, or that can be.

    Args:
        port_from: first port for its DevTools.
        profile: its folder.
    """
    program = os.environ.get("DATABUS_CHROMIUM") or shutil.which("chromium")
    try:
        found = Path(program) if program else require(Program("chromium-headless-shell", "chromium-headless-shell"))
    except SandboxError as error:
        pytest.skip(f"no Chromium: {error}; or name one in DATABUS_CHROMIUM")
    port = free_ports({"devtools": 0}, ports_from(port_from), ())["devtools"]
    with Browser(found, port, profile) as page:
        yield page


class Browser:
    """A Chromium process with one tab; a context manager that ends it.

    Args:
        program: the program.
        port: DevTools port.
        profile: its folder.
    """

    def __init__(self, program: Path, port: int, profile: Path):
        self._command = [
            str(program), f"--remote-debugging-port={port}", f"--user-data-dir={profile}", *ARGUMENTS,
        ]  # fmt: skip
        self._root = f"http://127.0.0.1:{port}"

    def __enter__(self) -> Page:
        with ExitStack() as opened:
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            # The program may be a script that waits for the browser: both are ended.
            self._process = subprocess.Popen(self._command, **quiet, start_new_session=True)
            opened.callback(self._process.wait, 60)
            opened.callback(self._end)
            socket = connect(self._address(), max_size=None, compression=None, open_timeout=60)
            page = Page(opened.enter_context(socket))
            self._opened = opened.pop_all()
        return page

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def _end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)

    def _address(self) -> str:
        deadline = time.monotonic() + 120
        while True:
            with suppress(httpx.HTTPError):
                tabs = httpx.get(f"{self._root}/json", timeout=20).json()
                pages = [tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page"]
                if pages:
                    return str(pages[0])
            assert self._process.poll() is None, "Chromium ended"
            assert time.monotonic() < deadline, "Chromium does not answer"
            time.sleep(0.2)
