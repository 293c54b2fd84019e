"""A real browser for tests: Chromium without a window, driven by its own chromedriver over HTTP (the W3C WebDriver)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

#: Debian's names.
PROGRAMS = ("chromium", "chromedriver")

#: Seconds that the browser gets for one command.
PATIENCE = 120

OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1500,1000"]


def missing_programs() -> list[str]:
    """Programs that a browser needs and that are not here."""
    return [program for program in PROGRAMS if shutil.which(program) is None]


class Browser:
    """Chromium with one page, from `with` to its end."""

    def __enter__(self) -> Browser:
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        said = iter(self.driver.stdout.readline, "")
        port = next(found[1] for line in said if (found := re.search(r"started successfully on port (\d+)", line)))
        self.session = f"http://127.0.0.1:{port}/session"
        wanted = {
            "goog:chromeOptions": {"args": OPTIONS, "binary": shutil.which("chromium")},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        answer = self._ask("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self.session += f"/{answer['sessionId']}"
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._ask("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.communicate(timeout=PATIENCE)

    def open(self, page: Path | str) -> None:
        """Load a page from a file or an address and wait for it."""
        self._ask("POST", "/url", {"url": page if isinstance(page, str) else page.as_uri()})

    def press(self, *keys: str) -> None:
        """Press and release keys one after the other, as WebDriver names them."""
        strokes = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script in the page returns; its arguments are `arguments`."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait_for(self, expression: str) -> Any:
        """Wait until an expression has a value in the page, and return the value."""
        end = time.monotonic() + 60
        while not (found := self.run(f"return {expression}")):
            assert time.monotonic() < end, f"{expression}: {self.console()}"
            time.sleep(0.1)
        return found

    def console(self) -> list[str]:
        """Errors that the page and the browser have written to the console since the last question."""
        entries = self._ask("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def show_as(self, width: int, height: int = 1000, scheme: str = "light") -> None:
        """Give the page a size in pixels, and the reader a preference for light or dark pages."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        prefers = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        for command, values in (("setDeviceMetricsOverride", size), ("setEmulatedMedia", prefers)):
            self._ask("POST", "/goog/cdp/execute", {"cmd": f"Emulation.{command}", "params": values})

    def _ask(self, method: str, command: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = Request(self.session + command, data=data, headers=headers, method=method)
        with urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)["value"]
