"""Refusals of a file system are one line, in every library that the stages write with."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

from reward_ablation.system.errors import REMEDIES, StudyError, refused_by_storage, storage_errors
from storage import fill, remount, small_disk, without_privileges

NUMBERS = np.random.default_rng(0).random(100_000)
#: Libraries that tell a full disk in different ways.
WRITERS = {
    "plain": lambda path: path.write_bytes(NUMBERS.tobytes()),
    "parquet": lambda path: pq.write_table(pa.table({"a": NUMBERS}), path),
    "npz": lambda path: np.savez(path.open("wb"), a=NUMBERS),
    "torch": lambda path: torch.save({"a": torch.from_numpy(NUMBERS)}, path),
    "safetensors": lambda path: save_file({"a": torch.from_numpy(NUMBERS)}, path),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=[*WRITERS])
def test_a_full_and_a_read_only_disk_are_told_by_every_library(tmp_path, write):
    with small_disk(tmp_path / "disk") as disk:
        filler = fill(disk, leave=16384)
        with pytest.raises(StudyError) as error, storage_errors(disk / "run"):
            write(disk / "file")
        assert str(error.value) == (
            f"{disk / 'run'}: No space left on device; what is done is kept: free space there, then run the same "
            "command again"
        )
        del error  # its frames hold the file open
        gc.collect()
        filler.unlink()
        (disk / "file").unlink(missing_ok=True)
        remount(disk, "ro")
        with pytest.raises(StudyError) as error, storage_errors(disk / "run"):
            write(disk / "file")
        told = str(error.value).removeprefix(str(disk))
        assert told.startswith(("/run: Read-only file system; ", "/file: Read-only file system; "))
        assert "what is done is kept: make it writable" in told


def test_a_folder_without_permission_is_told(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    path = tmp_path / "closed" / "file"
    code = f"from reward_ablation.system.errors import one_line_errors\npath = {str(path)!r}\n"
    code += "with one_line_errors(): __import__('pyarrow').OSFile(path, 'w')"
    result = subprocess.run(without_privileges([sys.executable, "-c", code]), capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: {path}: Permission denied; ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("number", REMEDIES)
def test_behind_another_error_it_is_found(number):
    """A quota cannot be set up on every machine. The test changes the error number only."""
    wrapped = RuntimeError("saving failed")
    wrapped.__cause__ = OSError(number, os.strerror(number), "weights")
    common = number in (errno.EACCES, errno.EPERM)
    assert refused_by_storage(wrapped) == (None if common else (number, "weights"))
    assert refused_by_storage(wrapped.__cause__) == (number, "weights")


def of_a_lookup_that_follows() -> Exception:
    """Programs try files that they may not read, and go on."""
    error = KeyError("setting")
    error.__context__ = PermissionError(errno.EACCES, "Permission denied", "/etc/shadow")
    return error


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file or directory", "config.json"),
        PermissionError(errno.EPERM, "Operation not permitted"),  # of a signal or a socket: no file
        of_a_lookup_that_follows(),
    ],
)
def test_other_errors_keep_their_traceback(error):
    with pytest.raises(type(error)) as raised, storage_errors("run"):
        raise error
    assert raised.value is error
