"""Download a model snapshot from the Hugging Face hub and compare it with the hub's own checksums."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reward_ablation.config.sections.model import HubModel
from reward_ablation.models.check import UNWANTED, WANTED, check_names, wanted
from reward_ablation.system.errors import PassingError, StudyError, first_line, refused_by_storage

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

LOG_IN = "log in (hf auth login, or HF_TOKEN)"


def download(model: HubModel, folder: Path) -> list[RepoSibling]:
    """Download the wanted files of a pinned revision into a folder.

    The folder is filled directly, not through the hub's cache, which would keep a second copy of the weights.
    huggingface_hub resumes a broken connection by itself. Returns what the hub publishes about these files, size and
    checksum, for `check_download`.

    Raises StudyError if the repository or revision does not exist, may not be read, or has no safetensors, or if the
    download failed.
    """
    from huggingface_hub import HfApi, snapshot_download

    with hub_errors(model.id, model.revision):
        info = HfApi().model_info(model.id, revision=model.revision, files_metadata=True)
        siblings = {sibling.rfilename: sibling for sibling in info.siblings or []}
        check_names(list(siblings), model.id)
        snapshot_download(
            model.id,
            revision=model.revision,
            local_dir=folder,
            allow_patterns=WANTED,
            ignore_patterns=UNWANTED,
        )
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # huggingface_hub's notes for a later update
    return [siblings[name] for name in wanted(list(siblings))]


def check_download(published: list[RepoSibling], files: dict[str, dict[str, Any]], folder: Path, where: str) -> None:
    """Compare a folder's files with the sizes and checksums that the hub publishes.

    `published` has a SHA-256 for a file in Git LFS, and Git's own hash of the content for any other file. `files` has
    the size and SHA-256 of each downloaded file by name. `where` is what an error message calls the model. Raises
    PassingError if a file is missing or differs, because another download may succeed.
    """
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
