"""Models from the Hugging Face hub or a local folder, each put into its own folder: whole and checked, or not at all.

The rules `fetch` and `fetch_reward_model` call it by `python -m reward_ablation.models`. The supervised start uses
`new_folder` and `record_model` for its own result, and the checks before a start use `hub_errors`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reward_ablation.config.sections.model import DemoModel, HubModel, LocalModel
from reward_ablation.models.check import UNWANTED, WANTED, check_model, check_names, file_table, wanted
from reward_ablation.models.verify import FETCHED
from reward_ablation.system.errors import PassingError, StudyError, first_line, refused_by_storage
from reward_ablation.system.files import give_usual_modes, write_json
from reward_ablation.system.locks import last_change, wait_for

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

LOG_IN = "log in (hf auth login, or HF_TOKEN)"

#: A check of a model's folder. The second argument is the model's name in messages. Returns the number of parameters
#: and the architecture.
Check = Callable[[Path, str], tuple[int, str]]


def fetch(model: HubModel | LocalModel | DemoModel, output: Path, check: Check = check_model) -> None:
    """Download, copy or build a model, check it, and move its folder into place."""
    # Everything happens in a hidden folder beside the target. A failure removes the hidden folder, and the next attempt
    # removes what a killed process left there. So the target is absent, or as it was, or whole.
    target = output.resolve().parent
    lock, before = target.with_name(f".{target.name}.fetch.tmp"), last_change(output)
    with wait_for(lock, "fetch"):  # the job of a killed Snakemake may still be at work
        try:
            if last_change(output) in (None, before):
                with new_folder(output) as folder:
                    _fill(model, folder, check)
            else:  # that job has made it meanwhile
                check(target, _describe(model))
        finally:
            lock.unlink(missing_ok=True)


@contextmanager
def new_folder(output: Path) -> Iterator[Path]:
    """Yield a hidden folder beside a model's, to be filled. On success it is moved into place, on failure removed."""
    if output.name != FETCHED:
        raise StudyError(f"{output}: the record of a model is called {FETCHED}")
    folder = output.resolve().parent
    _refuse_foreign(folder)
    temporary = folder.with_name(f".{folder.name}.fetching")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        _replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _fill(model: HubModel | LocalModel | DemoModel, folder: Path, check: Check) -> None:
    """Bring a model's files into a folder, check them and write the record."""
    where, revision, published = _describe(model), None, []
    match model:
        case HubModel():
            revision = model.revision
            published = download(model, folder)
        case LocalModel():
            copy(Path(model.path), folder)
        case DemoModel():
            from reward_ablation.models.demo import build

            build(model, folder)
    files = file_table(folder)
    check_download(published, files, folder, where)
    record_model(folder, files, {"source": model.source, "id": where, "revision": revision}, check)


def record_model(
    folder: Path, files: dict[str, dict[str, Any]], origin: dict[str, Any], check: Check = check_model
) -> None:
    """Check a model, write its record, with `files` of `file_table`, and give all files their usual mode."""
    parameters, architecture = check(folder, str(origin["id"]))
    record = {**origin, "files": files, "parameters": parameters, "architecture": architecture}
    write_json(record, folder / FETCHED)
    give_usual_modes(folder)


def _describe(model: HubModel | LocalModel | DemoModel) -> str:
    """What a record and an error message call a model."""
    return model.id if isinstance(model, HubModel) else model.path if isinstance(model, LocalModel) else "demo"


def download(model: HubModel, folder: Path) -> list[RepoSibling]:
    """Download the wanted files of a pinned revision into a folder; what the hub publishes about these files."""
    # Not through the hub's cache, which would keep a second copy of the weights. huggingface_hub resumes by itself.
    from huggingface_hub import HfApi, snapshot_download

    with hub_errors(model.id, model.revision):
        info = HfApi().model_info(model.id, revision=model.revision, files_metadata=True)
        siblings = {sibling.rfilename: sibling for sibling in info.siblings or []}
        check_names(list(siblings), model.id)
        taken = wanted(list(siblings))
        snapshot_download(
            model.id,
            revision=model.revision,
            local_dir=folder,
            allow_patterns=WANTED,
            ignore_patterns=[*UNWANTED, *(siblings.keys() - set(taken))],
        )
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # huggingface_hub's notes for a later update
    return [siblings[name] for name in taken]


def check_download(published: list[RepoSibling], files: dict[str, dict[str, Any]], folder: Path, where: str) -> None:
    """Compare files with the published sizes and checksums; PassingError, because another download may succeed."""
    # The hub publishes a SHA-256 for a file in Git LFS, and Git's own hash of the content for any other file.
    from huggingface_hub.utils.sha import git_hash

    for sibling in published:
        name = sibling.rfilename
        if name not in files:
            raise PassingError(f"{where}: {name} is missing after the download; run again")
        size = files[name]["size"]
        if sibling.size is not None and size != sibling.size:
            raise PassingError(f"{where}: {name} has {size} bytes, the hub says {sibling.size}; run again")
        if sibling.lfs is not None:
            same = files[name]["sha256"] == sibling.lfs.sha256
        else:
            same = sibling.blob_id is None or git_hash((folder / name).read_bytes()) == sibling.blob_id
        if not same:
            raise PassingError(f"{where}: {name} does not have the checksum that the hub publishes; run again")


@contextmanager
def hub_errors(repository: str, revision: str) -> Iterator[None]:
    """Turn the hub client's errors into one line each."""
    import httpx
    from huggingface_hub import errors

    try:
        yield
    except StudyError:
        raise
    except errors.HFValidationError as error:
        raise StudyError(f"{repository}: not a repository name: {first_line(error)}") from error
    except errors.GatedRepoError as error:
        raise StudyError(f"{repository}: gated; accept its terms on its page, then {LOG_IN}") from error
    except errors.RepositoryNotFoundError as error:
        raise StudyError(
            f"{repository}: no such repository, or a private one; check the spelling, or {LOG_IN}"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise StudyError(
            f"{repository}: has no revision {revision}; give the full hash of a commit of this repository"
        ) from error
    except (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError, httpx.TransportError) as error:
        raise StudyError(
            f"{repository}: the hub cannot be reached ({first_line(error)}); check the network and HF_ENDPOINT, "
            "or give a folder with source: local"
        ) from error
    except (OSError, httpx.HTTPError) as error:
        if refused_by_storage(error):
            raise
        raise PassingError(f"{repository}: download failed: {first_line(error).rstrip('.')}; run again") from error


def copy(source: Path, folder: Path) -> None:
    """Copy a model's files from a local folder."""
    # If the user trains into the folder again, linked weights would change under runs that were made from the old
    # weights. A symbolic link counts as the file that it leads to if that file lies in the folder, or beside it as in
    # the cache of huggingface_hub. Any other link is refused: a stranger's folder must not bring a private file into
    # the results.
    if not source.is_dir():
        raise StudyError(f"{source}: no such folder; source: local needs a folder with config.json and safetensors")
    names = [path.name for path in source.iterdir() if path.is_file()]
    check_names(names, str(source))
    files = {name: _target(source, name) for name in wanted(names)}
    try:
        before = _states(files.values())
        for name, path in files.items():
            shutil.copyfile(path, folder / name)
        if _states(files.values()) != before:
            raise StudyError(f"{source}: changed while it was copied; run again when no program writes there")
    except OSError as error:
        if refused_by_storage(error):
            raise
        raise StudyError(f"{source}: cannot be copied: {first_line(error)}") from error


def _target(source: Path, name: str) -> Path:
    """Path of a model's file without links; a StudyError if a link leads out of the model."""
    folder, path = source.resolve(), (source / name).resolve()
    cache = folder.parents[1] if folder.parent.name == "snapshots" else None  # models--OWNER--NAME/snapshots/COMMIT
    if path.is_relative_to(folder) or (cache and cache.name.startswith("models--") and path.parent == cache / "blobs"):
        return path
    raise StudyError(f"{source / name}: is a link to {path}, outside the model's folder; put the file itself there")


def _states(paths: Iterable[Path]) -> list[tuple[int, int, int]]:
    """Number, size and time of change of each file."""
    return [(state.st_ino, state.st_size, state.st_mtime_ns) for state in map(os.stat, paths)]


def _refuse_foreign(folder: Path) -> None:
    """Refuse a folder that holds anything but an older model, because the whole folder will be replaced."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    foreign = sorted(name for name in names if not wanted([name]) and name != FETCHED)
    if foreign or (names and "config.json" not in names and names != [FETCHED]):
        raise StudyError(f"{folder}: holds {(foreign or sorted(names))[0]}; a model needs a folder of its own")


def _replace(temporary: Path, folder: Path) -> None:
    """Move a folder into place, and remove an older folder there."""
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        os.rename(folder, old)
    os.rename(temporary, folder)
    shutil.rmtree(old, ignore_errors=True)
