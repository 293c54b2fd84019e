"""The server: three paths below a secret, on this machine alone, for those who ask by its own name."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest
import yaml

from analysis.made_up import MadeUpStudy
from reward_ablation.system.errors import StudyError
from reward_ablation.watch import server as serving
from reward_ablation.watch.server import Server, _server

from .made_up_watch import watch_of


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    watch = watch_of(MadeUpStudy(seeds=(0,)), tmp_path_factory.mktemp("served"))
    with Server(watch, 0) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, body


def test_the_page_and_its_two_questions_are_answered(server):
    status, headers, body = ask(server, f"/{server.secret}/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'sha256-")
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "<h1>made_up</h1>" in body
    study = json.loads(ask(server, f"/{server.secret}/study.json?since=0")[2])
    assert (study["about"]["name"], len(study["points"])) == ("made_up", 24)
    rows = json.loads(ask(server, f"/{server.secret}/rows.json?run=3&step=2")[2])
    assert (rows["all"], len(rows["rows"])) == (8, 8)


def test_no_other_path_leads_anywhere(server):
    for path in (
        "/",
        "/study.json?since=0",
        "/{secret}/study.json",
        "/{secret}/study.json?since=%D9%A3",
        "/{secret}/rows.json?run=4&step=1",
        "/{secret}/rows.json?run=99999999999999999999&step=1",
        "/{secret}/rows.json?run=0&step=1&most=9",
        "/{secret}/page.js",
        "/{secret}/..%2f..%2fetc/passwd",
        "//[",
    ):
        status, headers, body = ask(server, path.format(secret=server.secret))
        assert (status, body) == (404, serving.ELSEWHERE), path
        assert "Content-Security-Policy" in headers


def test_a_taken_port_is_told_and_the_next_one_is_used(server, monkeypatch):
    port, told = server.server_address[1], []
    with _server(server.watch, port, told.append) as other:
        assert other.server_address[1] > port
        assert told[0] == f"port {port} is taken"
    monkeypatch.setattr(serving, "PORTS", 1)
    with pytest.raises(StudyError, match=f"--port {port}: none of 1 ports from there on is free; name another one"):
        _server(server.watch, port, told.append)


def test_the_command_prints_its_address_and_ctrl_c_ends_it_in_one_line(config, tmp_path):
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(config))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "reward_ablation.start.command_line", "watch", "study.yaml", "--port", str(port)]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    line = process.stdout.readline()
    address = re.fullmatch(r"study study: http://127\.0\.0\.1:(\d+)/([\w-]+)/ \(Ctrl-C ends the page\)\n", line)
    assert address, line
    connection = http.client.HTTPConnection("127.0.0.1", int(address[1]), timeout=60)
    connection.request("GET", f"/{address[2]}/study.json?since=0")
    assert json.loads(connection.getresponse().read())["counts"] == "4 not started"
    connection.close()
    os.kill(process.pid, signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "\nthe page is closed; runs go on\n"
    assert process.returncode == 0
    assert not (tmp_path / "results").exists()


def test_who_may_ask_and_how(server):
    assert server.server_address[0] == "127.0.0.1"
    for host in ("evil.example:8765", "127.0.0.1.evil.example", "localhost.", ""):
        assert ask(server, f"/{server.secret}/", Host=host)[0] == 403, host
    for host in ("LOCALHOST:9000", "127.0.0.1:1"):  # a tunnel may have another port
        assert ask(server, f"/{server.secret}/", Host=host)[0] == 200, host
    assert ask(server, f"/{server.secret}/", "POST")[0] == 501
