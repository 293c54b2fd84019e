"""Fetching a model: from a hub on loopback and from a folder, by the real command."""

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from huggingface_hub import HfApi

from hub import Hub
from reward_ablation.config.sections.model import HubModel, LocalModel
from reward_ablation.models import fetch as module
from reward_ablation.models.__main__ import main, parse_spec
from reward_ablation.models.check import check_sequence_classifier
from reward_ablation.models.fetch import copy, fetch
from reward_ablation.models.verify import verify_model
from reward_ablation.system.digests import folder_fingerprint
from reward_ablation.system.errors import StudyError
from reward_ablation.system.exit_status import GOES_ON, may_pass
from storage import fill, small_disk

from .reward_models import save_reward_model

NO_COMMIT = "0" * 40


@pytest.fixture(scope="module")
def files(tiny_model) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in tiny_model.iterdir()}


#: Runs each command in a fork, so that imports are paid once and each client of the hub is new.
SERVER = """
import json, os, sys
import huggingface_hub, torch, transformers
from reward_ablation.models.__main__ import main
from reward_ablation.system.errors import one_line_errors

for line in sys.stdin:
    arguments, errors = json.loads(line)
    if os.fork() == 0:
        os.umask(0o027)
        os.dup2(os.open(errors, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), 2)
        os.dup2(2, 1)
        with one_line_errors():
            main(arguments)
        sys.exit()
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A hub, and `hub.run`: the exit status and the errors of the command `python -m reward_ablation.models`."""
    folder = tmp_path_factory.mktemp("commands")
    with Hub() as hub:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": hub.environment(folder)}
        with subprocess.Popen([sys.executable, "-c", SERVER], text=True, bufsize=1, **pipes) as server:

            def run(*arguments: object) -> tuple[int, str]:
                server.stdin.write(json.dumps([[*map(str, arguments)], str(folder / "errors")]) + "\n")
                status = int(server.stdout.readline())
                return status, (folder / "errors").read_text()

            hub.run = run
            yield hub
            server.stdin.close()


def fetch_from(hub: Hub, name: str, commit: str, root: Path, *options: str) -> tuple[int, str]:
    """Run the stage as the workflow does, into root/model."""
    spec = json.dumps({"source": "hub", "id": name, "revision": commit})
    return hub.run("--spec", spec, "--output", root / "model/model.json", *options)


def left_in(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


@pytest.fixture(scope="module")
def fetched(hub, files, tmp_path_factory) -> Path:
    """Folder in which some/model was fetched, from a repository that holds more than a model."""
    root = tmp_path_factory.mktemp("fetched")
    unwanted = {"README.md": b"read me", "pytorch_model.bin": b"pickle", "onnx/model.safetensors": b"another"}
    unwanted["model.fp16.safetensors"] = b"of other bits"
    commit = hub.add("models", "some/model", files | unwanted)
    assert fetch_from(hub, "some/model", commit, root)[0] == 0
    return root


def test_a_model_comes_whole_and_with_its_record(hub, files, fetched):
    record = json.loads((fetched / "model/model.json").read_text())
    assert record["id"] == "some/model"
    assert record["revision"] == hub.repositories["models", "some/model"].commit
    assert record["architecture"] == "Qwen2ForCausalLM"
    assert {name: entry["size"] for name, entry in record["files"].items()} == {k: len(v) for k, v in files.items()}
    assert sorted(path.name for path in (fetched / "model").iterdir()) == sorted([*files, "model.json"])
    assert left_in(fetched) == ["model"]
    assert {path.stat().st_mode & 0o777 for path in (fetched / "model").iterdir()} == {0o640}  # as new files have


def test_a_retry_after_a_failure_gives_the_same_record(hub, files, fetched, tmp_path):
    commit = hub.add("models", "some/model", files, faults={"model.safetensors": "truncated"})
    assert fetch_from(hub, "some/model", commit, tmp_path)[0] == GOES_ON
    # Now the connection breaks once in the middle, which the client mends by asking for the rest.
    hub.add("models", "some/model", files, faults={"model.safetensors": "cut"})
    assert fetch_from(hub, "some/model", commit, tmp_path)[0] == 0
    assert (tmp_path / "model/model.json").read_bytes() == (fetched / "model/model.json").read_bytes()
    assert left_in(tmp_path) == ["model"]


@pytest.mark.parametrize(
    ("name", "commit", "message"),
    [
        ("some/present", NO_COMMIT, f"has no revision {NO_COMMIT}"),
        ("some/absent", NO_COMMIT, "no such repository, or a private one"),
        ("some/gated", None, "gated; accept its terms"),
        ("some/pickled", None, "has pickled weights only (pytorch_model.bin)"),
    ],
)
def test_what_cannot_be_fetched_is_said_in_one_line(hub, files, tmp_path, name, commit, message):
    content = {"config.json": b"{}", "pytorch_model.bin": b"pickle"} if name == "some/pickled" else files
    if name != "some/absent":
        own = hub.add("models", name, content, gated=name == "some/gated")
    status, errors = fetch_from(hub, name, commit or own, tmp_path)
    assert (status, len(errors.splitlines())) == (1, 1)
    assert errors.startswith(f"error: {name}: ")
    assert message in errors
    assert left_in(tmp_path) == []


def test_no_network_is_said_in_one_line(tmp_path, monkeypatch):
    def refused(*arguments, **options):
        raise httpx.ConnectError("Connection refused")

    monkeypatch.setattr(HfApi, "model_info", refused)
    with pytest.raises(StudyError, match=r"some/model: the hub cannot be reached \(Connection refused\)") as error:
        fetch(HubModel(id="some/model", revision=NO_COMMIT), tmp_path / "model/model.json")
    assert may_pass(error.value)
    assert left_in(tmp_path) == []


def test_a_local_model_is_copied_without_what_is_no_model(model_copy, tmp_path):
    (model_copy / "optimizer.pt").write_bytes(b"state")
    (model_copy / "parts").mkdir()
    (model_copy / "config.json").rename(model_copy / "parts/config.json")
    (model_copy / "config.json").symlink_to("parts/config.json")  # a link inside the folder is followed
    fetch(LocalModel(path=str(model_copy)), tmp_path / "base/model.json")
    record = json.loads((tmp_path / "base/model.json").read_text())
    assert record["source"] == "local"
    assert "optimizer.pt" not in record["files"]
    assert not (tmp_path / "base/config.json").is_symlink()
    # Saving into the user's folder again must not reach the copy.
    weights = (tmp_path / "base/model.safetensors").read_bytes()
    (model_copy / "model.safetensors").write_bytes(b"other")
    assert (tmp_path / "base/model.safetensors").read_bytes() == weights


@pytest.fixture
def cached(tiny_model, tmp_path) -> Path:
    """The tiny model in a cache of huggingface_hub: links to blobs beside the folder."""
    repository = tmp_path / "hub/models--some--model"
    snapshot = repository / "snapshots" / NO_COMMIT
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    for path in tiny_model.iterdir():
        shutil.copyfile(path, repository / "blobs" / f"{path.name}-digest")
        (snapshot / path.name).symlink_to(Path("../../blobs", f"{path.name}-digest"))
    return snapshot


def test_links_of_a_download_cache_are_followed(cached, tmp_path):
    (tmp_path / "home").symlink_to(tmp_path / "hub")  # the folder that the user names may itself lie behind a link
    named = tmp_path / "home" / cached.relative_to(tmp_path / "hub")
    fetch(LocalModel(path=str(named)), tmp_path / "base/model.json")
    copies = list((tmp_path / "base").iterdir())
    assert {path.name for path in copies} == {*(path.name for path in cached.iterdir()), "model.json"}
    assert not any(path.is_symlink() for path in copies)


@pytest.mark.parametrize(("name", "relative"), [("notes.txt", True), ("spiece.model", False)])
def test_a_link_out_of_the_folder_brings_nothing_into_the_results(model_copy, tmp_path, name, relative):
    private = tmp_path / "private"
    private.write_text("my password")
    (model_copy / name).symlink_to("../private" if relative else private)
    message = f"^{model_copy}/{name}: is a link to {private}, outside the model's folder; put the file itself there$"
    with pytest.raises(StudyError, match=message):
        fetch(LocalModel(path=str(model_copy)), tmp_path / "base/model.json")
    assert not (tmp_path / "base").exists()


@pytest.mark.parametrize("target", ["blobs/../../private", "snapshots/other/notes.txt", None])
def test_a_cache_leads_to_its_blobs_alone(cached, tmp_path, target):
    if target:
        (cached.parents[1] / target).parent.mkdir(parents=True, exist_ok=True)
        (cached.parents[1] / target).write_text("private")
        (cached / "notes.txt").symlink_to(cached.parents[1] / target)
    else:  # the blobs are themselves elsewhere
        (cached.parents[1] / "blobs").rename(tmp_path / "elsewhere")
        (cached.parents[1] / "blobs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StudyError, match=r"is a link to .*, outside the model's folder"):
        fetch(LocalModel(path=str(cached)), tmp_path / "base/model.json")


def test_what_is_no_file_is_left_out_and_never_opened(model_copy, tmp_path):
    os.mkfifo(model_copy / "notes.txt")  # to open it for reading would wait for ever
    (model_copy / "null.json").symlink_to("/dev/zero")
    (model_copy / "gone.json").symlink_to("nowhere")
    (model_copy / "folder.json").mkdir()
    spec = json.dumps({"source": "local", "path": str(model_copy), "content": folder_fingerprint(model_copy)})
    fetch(parse_spec(spec), tmp_path / "base/model.json")
    others = {"notes.txt", "null.json", "gone.json", "folder.json"}
    assert not others & {path.name for path in (tmp_path / "base").iterdir()}


def test_a_name_that_cannot_be_shown_is_refused(model_copy, tmp_path):
    for name in (b"two\nlines.json", b"\x1b[2J.txt", b"\xff.json"):
        file = model_copy / os.fsdecode(name)
        file.write_text("{}")
        with pytest.raises(StudyError, match="a file of a model needs a printable name") as caught:
            fetch(LocalModel(path=str(model_copy)), tmp_path / "base/model.json")
        assert str(caught.value).isprintable()
        file.unlink()


def test_a_model_that_changes_while_it_is_copied_is_refused(model_copy, tmp_path, monkeypatch):
    copyfile = shutil.copyfile

    def edited(source, target):
        copyfile(source, target)
        os.utime(model_copy / "config.json")

    monkeypatch.setattr(shutil, "copyfile", edited)
    with pytest.raises(StudyError, match="changed while it was copied; run again when no program writes there"):
        copy(model_copy, tmp_path)


def test_a_folder_with_other_files_is_never_replaced(tiny_model, tmp_path):
    with pytest.raises(StudyError, match="no such folder"):
        fetch(LocalModel(path=str(tmp_path / "nowhere")), tmp_path / "base/model.json")
    (tmp_path / "notes.json").write_text("years of work")
    with pytest.raises(StudyError, match=r"holds notes\.json; a model needs a folder of its own"):
        fetch(LocalModel(path=str(tiny_model)), tmp_path / "model.json")
    assert (tmp_path / "notes.json").read_text() == "years of work"


def test_what_a_killed_fetch_left_does_not_matter(hub, tmp_path):
    (tmp_path / ".model.fetching").mkdir()
    (tmp_path / ".model.fetching/model.safetensors").write_bytes(b"half")
    (tmp_path / "model").mkdir()  # Snakemake makes the folder of an output before the job starts
    saved = save_reward_model(tmp_path.parent / "saved")
    commit = hub.add("models", "some/reward", {path.name: path.read_bytes() for path in saved.iterdir()})
    assert fetch_from(hub, "some/reward", commit, tmp_path, "--reward-model")[0] == 0
    record = json.loads((tmp_path / "model/model.json").read_text())
    assert (record["architecture"], record["revision"]) == ("LlamaForSequenceClassification", commit)
    assert left_in(tmp_path) == ["model"]


def test_a_fetch_waits_for_the_one_of_a_killed_snakemake_and_takes_its_model(tiny_model, tmp_path, monkeypatch):
    model, output, filled = LocalModel(path=str(tiny_model)), tmp_path / "base/model.json", []
    fill, second = module._fill, threading.Thread(target=lambda: fetch(model, output))

    def slow(*arguments):
        filled.append(threading.current_thread())
        if len(filled) == 1:
            second.start()
            second.join(timeout=1)
        fill(*arguments)

    monkeypatch.setattr(module, "_fill", slow)
    fetch(model, output)
    second.join(timeout=60)
    assert (len(filled), left_in(tmp_path)) == (1, ["base"])
    fetch(model, output)  # a model that was there before is replaced, as Snakemake asks
    assert len(filled) == 2


def test_a_folder_that_changed_after_planning_is_refused(model_copy, tmp_path, monkeypatch):
    spec = {"source": "local", "path": str(model_copy)}
    with pytest.raises(StudyError, match="has changed since the workflow was planned"):
        parse_spec(json.dumps({**spec, "content": "0" * 64}))
    planned = json.dumps({**spec, "content": folder_fingerprint(model_copy)})
    assert parse_spec(planned) == LocalModel(path=str(model_copy))

    def edited(source, folder):
        (source / "generation_config.json").write_text("{}")  # after the job's first look
        copy(source, folder)

    monkeypatch.setattr(module, "copy", edited)
    with pytest.raises(StudyError, match="has changed since the workflow was planned"):
        main(["--spec", planned, "--output", str(tmp_path / "base" / "model.json")])
    assert not (tmp_path / "base").exists()


def test_a_full_disk_is_one_line_and_with_space_the_same_command_ends_well(hub, files, tmp_path):
    model = {"source": "hub", "id": "some/model", "revision": hub.add("models", "some/model", files)}
    with small_disk(tmp_path / "disk", "4m") as disk:
        filler = fill(disk, leave=8192)
        command = ("--spec", json.dumps(model), "--output", disk / "base" / "model.json")
        status, errors = hub.run(*command)
        assert (status, errors.count("error: "), "Traceback" in errors) == (1, 1, False)
        assert f"error: {disk}" in errors
        assert ": No space left on device; what is done is kept" in errors
        assert [path.name for path in disk.rglob("*")] == [filler.name]
        filler.unlink()
        assert hub.run(*command)[0] == 0
        verify_model(disk / "base")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "holds Qwen2ForCausalLM, and reward_model needs a sequence classifier of transformers"),
        ({"architectures": ["Qwen2ForSequenceClassification"]}, "the weights score.weight are missing, and random"),
        ({"architectures": ["MyRewardModel"], "auto_map": {"AutoModel": "code.Mine"}}, "holds MyRewardModel, and"),
    ],
)
def test_what_is_no_reward_model_is_refused_before_any_run(model_copy, tmp_path, change, message):
    config = json.loads((model_copy / "config.json").read_text())
    (model_copy / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(StudyError, match=message):
        fetch(LocalModel(path=str(model_copy)), tmp_path / "reward/model.json", check_sequence_classifier)
    assert not (tmp_path / "reward").exists()


@pytest.mark.parametrize(
    ("name", "fault", "message"),
    [
        # file, what the hub does to it, and what the user is told
        ("model.safetensors", "truncated", "download failed: Consistency check failed: file should be of size"),
        ("config.json", "corrupt", "config.json does not have the checksum that the hub publishes"),
    ],
)
def test_a_bad_download_keeps_what_was_there(hub, files, tmp_path, tiny_model, name, fault, message):
    commit = hub.add("models", "some/faulty", files, faults={name: fault})
    status, errors = fetch_from(hub, "some/faulty", commit, tmp_path)
    assert status == GOES_ON
    assert f"error: some/faulty: {message}" in errors.splitlines()[-1]
    assert "Traceback" not in errors
    assert left_in(tmp_path) == []
    fetch(LocalModel(path=str(tiny_model)), tmp_path / "model/model.json")
    before = (tmp_path / "model/model.json").read_bytes()
    assert fetch_from(hub, "some/faulty", commit, tmp_path)[0] == GOES_ON
    assert (tmp_path / "model/model.json").read_bytes() == before
