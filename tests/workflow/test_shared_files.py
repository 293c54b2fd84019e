"""What a study makes to be shared says nothing of the machine: no absolute path, no user, no host."""

from __future__ import annotations

import base64
import io
import re
import shutil
import socket
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pypdf import PdfReader, PdfWriter

from .conftest import Study
from .forks import BLANK

pytestmark = pytest.mark.slow

#: A folder and a user that no text contains by chance.
DISK, USER = "Xq7disk", "Xq7user"

#: Below the results folder: logs are for the user's own eyes, and the inputs' own records say where they came from.
NOT_SHARED = re.compile(r"logs/|models/[^/]+/model\.json$|data/.*\.json$|\.snakemake")


def contents(name: str, written: bytes) -> Iterator[bytes]:
    """The bytes of a file, and of all that is packed into it: archives, compressed streams, pages, pictures, tables."""
    yield written
    if written[:4] == b"PAR1":
        table = pq.read_table(io.BytesIO(written))
        yield repr([table.schema.metadata, pq.read_metadata(io.BytesIO(written)).created_by]).encode()
        texts = [column for column in table.columns if not re.search("float|int|bool|binary", str(column.type))]
        yield repr([column.to_pylist() for column in texts]).encode()
    elif written[:4] == b"PK\3\4":
        with zipfile.ZipFile(io.BytesIO(written)) as archive:
            for inner in archive.namelist():
                yield from contents(inner, archive.read(inner))
    elif written[:5] == b"%PDF-":
        yield repr(PdfReader(io.BytesIO(written)).metadata).encode()
        for stream in re.findall(rb"stream\r?\n(.*?)endstream", written, re.DOTALL):
            with_rest = zlib.decompressobj()
            try:
                yield with_rest.decompress(stream)
            except zlib.error:
                continue
    elif name.endswith(".html"):
        for code in re.findall(rb"base64,([A-Za-z0-9+/=]+)", written):
            inner = base64.b64decode(code)
            yield from contents("page.html" if b"<html" in inner[:200] else "", inner)


@pytest.fixture(scope="module")
def shared(finished, tmp_path_factory):
    """A finished study with its model and its data elsewhere on the disk, in the folders of a user with a name."""
    home = tmp_path_factory.mktemp(DISK) / USER
    study = Study(home / "study", finished.config)
    [base] = (finished.results / "models").glob("base-*")
    shutil.copytree(base, home / "models" / "mine", ignore=shutil.ignore_patterns("model.json"))
    (home / "data").mkdir()
    for name, pattern in (("train", "data/train-*.parquet"), ("test", "data/evaluation/test-*.parquet")):
        [made] = finished.results.glob(pattern)
        columns = ["id", "question", "answer", "solution"]
        pq.write_table(pq.read_table(made, columns=columns), home / "data" / f"{name}.parquet")
    study.config["seeds"] = [0]
    study.config["model"] = {"source": "local", "path": str(home / "models" / "mine")}
    study.config["data"] = {
        "train": {"source": "file", "path": str(home / "data" / "train.parquet")},
        "evaluation": {"test": {"source": "file", "path": str(home / "data" / "test.parquet")}},
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("HOME", str(home)), ("USER", USER), ("LOGNAME", USER), (BLANK, "yes")):
            patch.setenv(name, value)
        study.make()
        for kind in ("html", "zip"):
            study.make("--report", str(study.results / f"report.{kind}"))
    return study


def named(files: dict[str, Path], words: set[str]) -> set[str]:
    """Which files contain which of the words."""
    return {
        f"{name}: {word}"
        for name, path in files.items()
        for content in contents(name, path.read_bytes())
        for word in words
        if word.encode() in content
    }


def test_nothing_that_is_shared_names_the_disk_the_user_or_the_host(shared):
    files = {str(path.relative_to(shared.results)): path for path in shared.results.rglob("*") if path.is_file()}
    assert {".parquet", ".tex", ".html", ".zip", ".pdf", ".png"} <= {path.suffix for path in files.values()}
    there = {name: path for name, path in files.items() if not NOT_SHARED.search(name)}
    assert named(there, {DISK, USER, str(shared.folder), str(Path(__file__).parents[2])}) == set()
    host = re.compile(rf"(?<![\w+/-]){re.escape(socket.gethostname())}(?![\w+/=-])".encode())
    texts = [name for name, path in files.items() if path.suffix in (".json", ".csv", ".md", ".tex", ".tsv")]
    assert [name for name in texts if not NOT_SHARED.search(name) and host.search(files[name].read_bytes())] == []


def test_rendered_figures_name_no_folder(finished, tmp_path_factory):
    """Those of the other study are blank."""
    figures = {path.name: path for path in (finished.results / "figures").rglob("*.*")}
    assert {path.suffix for path in figures.values()} == {".pdf", ".png", ".txt"}
    assert named(figures, {str(tmp_path_factory.getbasetemp().parent), str(Path(__file__).parents[2])}) == set()


def test_data_and_model_have_a_name_and_a_digest(shared):
    described = shared.described()
    assert re.fullmatch(r"mine \(content [0-9a-f]{16}\)", described["model"])
    assert re.fullmatch(r"train.parquet \(sha256 [0-9a-f]{16}\)", described["training_data"])
    assert "train.parquet (sha256 " in (shared.results / "tables" / "summary.md").read_text()


def test_the_search_finds_what_is_packed():
    """Otherwise the first test would hold whatever the files contain."""
    pdf, table, archive = io.BytesIO(), io.BytesIO(), io.BytesIO()
    writer = PdfWriter()
    writer.add_blank_page(10, 10)
    writer.add_metadata({"/Author": USER})
    writer.write(pdf)
    pq.write_table(pa.table({"a": ["b"]}).replace_schema_metadata({"by": DISK}), table, compression="zstd")
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("page.html", b"<html>base64," + base64.b64encode(pdf.getvalue()))
        packed.writestr("a.parquet", table.getvalue())
    found = b"".join(contents("a.zip", archive.getvalue()))
    assert USER.encode() in found
    assert DISK.encode() in found
