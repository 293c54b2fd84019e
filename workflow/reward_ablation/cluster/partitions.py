"""The cluster's partitions and nodes, as Slurm tells them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from reward_ablation.cluster.command import ask


@dataclass(frozen=True)
class Node:
    """A node; `gpus` are numbers by type ("" for a GPU without a type), and a node that is being drained is not up."""

    name: str
    cpus: int
    mem_mb: int
    gpus: dict[str, int]
    up: bool = True


@dataclass(frozen=True)
class Partition:
    """A partition; `max_minutes` and `max_nodes` of one job are None where it has no such limit."""

    name: str
    default: bool
    up: bool
    max_minutes: int | None
    nodes: list[Node]
    max_nodes: int | None = None


def partitions() -> dict[str, Partition]:
    """All partitions by name."""
    nodes: dict[str, list[Node]] = {}
    for line in ask("sinfo", "--Node", "--all", "--noheader", "--format=%R|%N|%c|%m|%T|%G").splitlines():
        partition, name, cpus, memory, state, gres = line.split("|", 5)
        up = not re.match("down|drain|fail|error|unknown|power", state)
        nodes.setdefault(partition, []).append(Node(name, _number(cpus), _number(memory), gpus_of(gres), up))
    found = {}
    for line in ask("scontrol", "--all", "--oneliner", "show", "partition").splitlines():
        told = dict(re.findall(r"(\w+)=(\S+)", line))
        name = told["PartitionName"]
        found[name] = Partition(
            name=name,
            default=told.get("Default") == "YES",
            up=told.get("State") == "UP",
            max_minutes=minutes_of(told.get("MaxTime", "UNLIMITED")),
            max_nodes=None if told.get("MaxNodes", "UNLIMITED") == "UNLIMITED" else int(told["MaxNodes"]),
            nodes=nodes.get(name, []),
        )
    return found


def minutes_of(text: str) -> int | None:
    """Minutes of a limit as `scontrol` writes it, `[days-]hours:minutes:seconds`; None for UNLIMITED."""
    if not (match := re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)):
        return None
    days, hours, minutes, _ = (int(part or 0) for part in match.groups())
    return (days * 24 + hours) * 60 + minutes


def gpus_of(gres: str) -> dict[str, int]:
    """GPUs by type of a node's generic resources, such as `gpu:h200:2(S:0-1),shard:4`."""
    found: dict[str, int] = {}
    for kind, number in re.findall(r"(?:^|,)gpu(?::(\w[\w.-]*))?:(\d+)", gres):
        found[kind] = found.get(kind, 0) + int(number)
    return found


def _number(text: str) -> int:
    """A number; a + at the end says that nodes of one line differ."""
    return int(text.rstrip("+"))
