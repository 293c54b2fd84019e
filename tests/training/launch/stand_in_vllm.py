"""A stand-in for the package `vllm`: its server only answers whether it is up, and the name of its model.

Tests use it to see which processes a run has, and which of them end together.
"""

from __future__ import annotations

import os
from pathlib import Path

MAIN = """
import json, os, subprocess, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

arguments = sys.argv[1:]
option = lambda name: arguments[arguments.index(name) + 1]
how = json.loads(os.environ.get("STAND_IN", "{}"))
gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
print(json.dumps({"arguments": arguments, "gpus": gpus, "pid": os.getpid()}), flush=True)

key = "Bearer " + os.environ["REWARD_ABLATION_VLLM_KEY"]

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path != "/health" and self.headers["Authorization"] != key:
            self.send_response(401)
            self.end_headers()
            return
        known = {"id": how.get("name", option("--served-model-name")), "root": how.get("root", arguments[1])}
        body = json.dumps({"data": [known]}).encode() if self.path == "/v1/models" else b""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass

port = int(option("--port"))
if "taken" in how:
    taken = ThreadingHTTPServer(("127.0.0.1", port), Handler)  # kept, or it would be closed at once
# An engine in a session of its own, and one that ignores what it is told.
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
engine = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
print("engine pid", engine.pid, flush=True)
if "dies" in how:
    raise RuntimeError(how["dies"])
time.sleep(how.get("slow", 0))
ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def make_vllm(folder: Path) -> dict[str, str]:
    """Write the package; the environment in which it is found."""
    package = folder / "vllm" / "entrypoints" / "cli"
    package.mkdir(parents=True)
    for each in (package, *package.parents[:2]):
        (each / "__init__.py").touch()
    (package / "main.py").write_text(MAIN)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}
