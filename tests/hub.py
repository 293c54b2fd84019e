"""A small Hugging Face hub on loopback: real HTTP for the real clients, and faults on demand.

It answers what huggingface_hub and datasets ask when they read a repository at a commit: its description, its tree,
and its files with their checksums and byte ranges. Checksums are always those of the true bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

#: truncated: a whole answer, but only half of the file; corrupt: one byte differs; cut: the first answer stops
#: half-way, as when a connection breaks, and the next ones are good.
Fault = Literal["truncated", "corrupt", "cut"]


class Repository(NamedTuple):
    """One commit of one repository."""

    kind: Literal["models", "datasets"]
    name: str
    commit: str
    files: dict[str, bytes]
    faults: dict[str, Fault]
    gated: bool


class Hub:
    """The server; a context manager. `url` is what HF_ENDPOINT must be."""

    def __init__(self) -> None:
        self.repositories: dict[tuple[str, str], Repository] = {}
        handler = type("Handler", (_Handler,), {"hub": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Hub:
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def add(
        self,
        kind: Literal["models", "datasets"],
        name: str,
        files: dict[str, bytes],
        faults: dict[str, Fault] | None = None,
        gated: bool = False,
    ) -> str:
        """Serve files as a repository with one commit, and return its hash, which depends on the name alone."""
        commit = hashlib.sha1(name.encode()).hexdigest()
        self.repositories[kind, name] = Repository(kind, name, commit, files, dict(faults or {}), gated)
        return commit

    def environment(self, home: Path) -> dict[str, str]:
        """Environment of a process that knows no other hub, with a cache of its own."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))}
        quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        return clean | quiet | {"HF_ENDPOINT": self.url, "HF_HOME": str(home), "OMP_NUM_THREADS": "1"}


def in_lfs(name: str) -> bool:
    """Whether the hub keeps a file of this name in Git LFS, as the usual .gitattributes says."""
    return name.endswith((".safetensors", ".bin", ".parquet"))


def _checksums(name: str, content: bytes) -> dict:
    git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    return {"git": git, "sha256": hashlib.sha256(content).hexdigest() if in_lfs(name) else None}


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self.form = parse_qs(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
        self.do_GET()

    def do_GET(self) -> None:
        """Find the repository and the commit; then one of four kinds of question."""
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        api = parts[0] == "api"
        parts = parts[1:] if api else parts
        kind = parts.pop(0) if parts[0] in ("models", "datasets") else "models"
        repository = self.hub.repositories.get((kind, "/".join(parts[:2])))
        if repository is None:
            return self.refuse(404, "RepoNotFound")
        question, commit, path = (*parts[2:4], "/".join(parts[4:])) if len(parts) > 3 else ("revision", "main", "")
        if commit not in (repository.commit, "main"):
            return self.refuse(404, "RevisionNotFound")
        match question:
            case "revision":
                return self.send_json(_description(repository))
            case "tree":
                if entries := _entries(repository, path):
                    return self.send_json(entries)
            case "paths-info":
                found = [entry for path in self.form.get("paths", []) for entry in _entries(repository, path, True)]
                return self.send_json(found)
            case "resolve" if repository.gated:
                return self.refuse(403, "GatedRepo")
            case "resolve" if path in repository.files:
                return self.send_file(repository, path)
        return self.refuse(404, "EntryNotFound")

    def refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send_json(self, value: object) -> None:
        self.send_bytes(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def send_file(self, repository: Repository, name: str) -> None:
        content = repository.files[name]
        sums = _checksums(name, content)
        headers = {
            "ETag": f'"{sums["sha256"] or sums["git"]}"',
            "X-Repo-Commit": repository.commit,
            "X-Linked-Size": str(len(content)),
            "Accept-Ranges": "bytes",
        }
        fault = repository.faults.get(name) if self.command == "GET" else None
        if fault == "truncated":
            content = content[: len(content) // 2]
        if fault == "corrupt":
            content = content[:-1] + bytes([content[-1] ^ 1])
        status = 200
        if (wanted := self.headers.get("Range", "")).startswith("bytes="):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            end = min(int(last) + 1, len(content)) if last else len(content)
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{len(content)}"
            content, status = content[int(first) : end], 206
        if fault == "cut":
            del repository.faults[name]
            headers["Content-Length"] = str(len(content))
            content = content[: len(content) // 2]
            self.close_connection = True
        self.send_bytes(status, content, headers)

    def send_bytes(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _description(repository: Repository) -> dict:
    siblings = []
    for name, content in repository.files.items():
        entry = _file_entry(name, content)
        sibling = {"rfilename": name, "size": entry["size"], "blobId": entry["oid"]}
        if "lfs" in entry:
            sibling["lfs"] = {**entry["lfs"], "sha256": entry["lfs"]["oid"]}
        siblings.append(sibling)
    return {"id": repository.name, "sha": repository.commit, "siblings": siblings, "tags": [], "private": False}


def _entries(repository: Repository, path: str, only_itself: bool = False) -> list[dict]:
    """Entries of the tree below a path; with `only_itself`, the entry of the path."""
    prefix = path.strip("/") + "/" if path else ""
    files = [
        _file_entry(name, content)
        for name, content in repository.files.items()
        if name == path or (name.startswith(prefix) and not only_itself)
    ]
    folders = {f"{parent}/" for name in repository.files for parent in PurePosixPath(name).parents if parent.name}
    inside = [
        {"type": "directory", "path": folder[:-1], "oid": "0" * 40, "size": 0}
        for folder in sorted(folders)
        if folder == prefix or (folder.startswith(prefix) and not only_itself)
    ]
    return files + [folder for folder in inside if only_itself or folder["path"] != path.strip("/")]


def _file_entry(name: str, content: bytes) -> dict:
    sums = _checksums(name, content)
    entry = {"type": "file", "path": name, "size": len(content), "oid": sums["git"]}
    if sums["sha256"]:
        entry["lfs"] = {"oid": sums["sha256"], "size": len(content), "pointerSize": 130}
    return entry
