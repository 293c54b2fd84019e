"""A MariaDB server for the test cluster's accounting, with a socket and no port."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil

PROGRAMS = ("slurmdbd", "mariadbd")

SOCKET = "mariadb.socket"

TABLES = Path("/usr/share/mysql/mysql_system_tables.sql")

#: Small, and careless of a power failure: it lives as long as a test.
SMALL = (
    "--innodb-buffer-pool-size=16M",
    "--innodb-log-file-size=8M",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=0",
    "--performance-schema=0",
    "--skip-log-bin",
)


def server(folder: Path) -> list[str]:
    """Command of the server; whoever may use the socket is its administrator."""
    paths = (f"--datadir={folder}/database", f"--socket={folder}/{SOCKET}")
    user = f"--user={psutil.Process().username()}"
    return ["mariadbd", "--no-defaults", user, *paths, "--skip-networking", "--skip-grant-tables", *SMALL]


def make_tables(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    """Make the server's own tables, which hold Slurm's stored procedures."""
    (folder / "database").mkdir()
    tables = "create database mysql;\nuse mysql;\n" + TABLES.read_text()
    done = subprocess.run([*command, "--bootstrap"], input=tables, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"mariadbd --bootstrap: {done.stderr.strip()}")
