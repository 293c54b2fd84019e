"""The component judge against vLLM's own server on a CPU, whose guided decoding keeps a tiny model to the schema."""

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from reward_ablation.rewards.load import load_component
from reward_ablation.system.errors import StudyError

from .environment import environment, requires_vllm

pytestmark = [pytest.mark.slow, pytest.mark.long, requires_vllm]

KEY = "key-of-the-judge"


@pytest.fixture(scope="module")
def server(vllm_model, tmp_path_factory):
    """URL of a server of the tiny model, which asks for a key."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "chat.jinja").write_text("{% for message in messages %}{{ message['content'] }}\n{% endfor %}")
    # vLLM imports all of its backends for guided decoding; only xgrammar is used, and the CPU's lock has no others.
    (folder / "lmformatenforcer.py").write_text("TokenEnforcer = object\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    options = ["--served-model-name", "judge", "--max-model-len", "256", "--dtype", "float32", "--enforce-eager"]
    options += ["--host", "127.0.0.1", "--port", port, "--api-key", KEY, "--chat-template", str(folder / "chat.jinja")]
    # Otherwise the tiny model writes line breaks up to the last token.
    options += ["--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}']
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(vllm_model), *options]
    variables = environment()
    variables["PYTHONPATH"] = os.pathsep.join([str(folder), variables["PYTHONPATH"]])
    log = folder / "log"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, env=variables) as process:
        try:
            for _ in range(300):
                assert process.poll() is None, log.read_text()[-3000:]
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
                    break
                time.sleep(1)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()


@pytest.fixture
def judge(server, tmp_path):
    (tmp_path / "judge.txt").write_text("{question}\n{completion}")

    def judge(completions, **parameters):
        parameters = {"model": "judge", "template": "judge.txt", "endpoint": server, "max_tokens": 48} | parameters
        parameters |= {"api_key": {"env": "KEY"}, "retries": 1, "seconds": 120.0}
        component = load_component("judge", parameters, tmp_path, environment={"KEY": parameters.pop("key", KEY)})
        return component(completions, question=["How many apples are left?"] * len(completions))

    return judge


def test_a_model_that_knows_no_json_gives_scores_in_the_range_and_none_to_a_prompt_that_is_too_long(judge):
    completions = [f"Tom has {number} apples and eats 2. There are {number - 2} left." for number in range(2, 18)]
    first, *scores = judge(["apples " * 400, *completions])
    assert first is None
    assert [type(score) for score in scores] == [float] * 16
    assert all(0 <= score <= 1 for score in scores)


def test_what_the_server_refuses_is_told_in_one_line(judge):
    with pytest.raises(StudyError, match=r"endpoint: answers with status 404: .*The model `other` does not exist"):
        judge(["9 apples"], model="other")
    with pytest.raises(StudyError, match=r"endpoint: answers with status 401: .*Unauthorized"):
        judge(["9 apples"], key="wrong-key")
