"""Server of the page of `reward-ablation watch`: this machine alone, three fixed paths, and nothing but reading.

The command calls `serve`, which ends with Ctrl-C. Runs go on without it.
"""

from __future__ import annotations

import errno
import json
import re
import secrets
import socketserver
import sys
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs

from reward_ablation.system.errors import StudyError
from reward_ablation.watch.page import page, policy
from reward_ablation.watch.study_data import Watch

ADDRESS = "127.0.0.1"
#: A browser on this machine, or behind a tunnel, asks by these names and any port. A stranger's page whose own name was
#: made to lead here (DNS rebinding) asks by that name.
HOST = re.compile(r"(127\.0\.0\.1|localhost)(:\d+)?", re.IGNORECASE)
ELSEWHERE = "There is nothing here. Open the address that reward-ablation watch has printed.\n"
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
NUMBER = re.compile("[0-9]{1,9}")
#: How many ports are tried, from the given one on.
PORTS = 20


class Server(socketserver.ThreadingTCPServer):
    """Serves the page of a watched study, below a secret that keeps out other users of the machine."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, watch: Watch, port: int):
        self.watch = watch
        self.secret = secrets.token_urlsafe(8)
        super().__init__((ADDRESS, port), Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A line for a mistake of ours; nothing for a browser that went away."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError | TimeoutError):
            print(f"watch: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


class Handler(BaseHTTPRequestHandler):
    """Answers one request. Everything but GET is refused by the base class."""

    server: Server
    server_version, sys_version = "reward-ablation", ""
    timeout = 30  # seconds that a connection may be silent

    def do_GET(self) -> None:
        """Answer, or refuse by a status and a line."""
        path, _, query = self.path.partition("?")
        secret, slash, name = path.removeprefix("/").partition("/")
        numbers = {key: int(values[0]) for key, values in parse_qs(query).items() if NUMBER.fullmatch(values[0])}
        watch = self.server.watch
        if not HOST.fullmatch(self.headers.get("Host", "")):
            self._send(HTTPStatus.FORBIDDEN, ELSEWHERE)
        elif not slash or not secrets.compare_digest(secret.encode(), self.server.secret.encode()):
            self._send(HTTPStatus.NOT_FOUND, ELSEWHERE)
        elif name == "":
            self._send(HTTPStatus.OK, page(watch.name), "text/html")
        elif name == "study.json" and {*numbers} == {"since"}:
            self._send(HTTPStatus.OK, json.dumps(watch.answer(**numbers), allow_nan=False), "application/json")
        elif name == "rows.json" and {*numbers} == {"run", "step"} and numbers["run"] < len(watch.rollouts):
            self._send(HTTPStatus.OK, json.dumps(watch.rows(**numbers), allow_nan=False), "application/json")
        else:
            self._send(HTTPStatus.NOT_FOUND, ELSEWHERE)

    def _send(self, status: HTTPStatus, content: str, kind: str = "text/plain") -> None:
        body = content.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", f"{policy(connects=True)}; frame-ancestors 'none'")
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *words: Any) -> None:
        """Print nothing: a page asks every few seconds."""


def serve(watch: Watch, port: int, tell: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C, at the port or at the next one that is free."""
    with _server(watch, port, tell) as server:
        tell(f"study {watch.name}: http://{ADDRESS}:{server.server_address[1]}/{server.secret}/ (Ctrl-C ends the page)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            tell("\nthe page is closed; runs go on")


def _server(watch: Watch, port: int, tell: Callable[[str], None]) -> Server:
    for tried in range(port, min(port + PORTS, 65536)):
        try:
            return Server(watch, tried)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise StudyError(f"--port {tried}: {error.strerror}; name another one") from None
            tell(f"port {tried} is taken")
    raise StudyError(f"--port {port}: none of {PORTS} ports from there on is free; name another one")
