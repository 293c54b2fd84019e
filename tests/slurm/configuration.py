"""Slurm's configuration files of the test cluster."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Sequence
from pathlib import Path

import psutil

#: Character devices that stand for GPUs: Slurm wants such files, and nothing ever opens them.
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")

CPUS = 8
MEMORY = 16000

#: Values that a real site would have otherwise: more CPUs than are real (config_overrides), quick scheduling, KillWait
#: (30), cred_expire (120), which is how long a job waits after it was put back into the queue, and MinJobAge (300): no
#: job is forgotten while a test still asks for it.
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=10
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
{accounting}
MpiDefault=none
MailProg=/bin/true
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=1000
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
EnforcePartLimits=ALL
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
ReturnToService=2
KillWait=10
MinJobAge=36000
Epilog={folder}/epilog
GresTypes=gpu
PartitionName=DEFAULT Nodes=ALL MaxTime=1-00:00:00 DefaultTime=01:00:00 PriorityTier=10 PreemptMode=REQUEUE
PartitionName=gpu Default=YES
PartitionName=short MaxTime=00:05:00 DefaultTime=00:05:00
PartitionName=cpu PreemptMode=OFF
PartitionName=high PriorityTier=100
PartitionName=low_cancel PriorityTier=1 PreemptMode=CANCEL
"""

NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
    "CPUs={cpus} SocketsPerBoard=1 CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory={memory} "
    "Gres=gpu:h200:{gpus}\n"
)

#: proctrack/linuxproc loses a process whose parent has ended; a real cluster has control groups, which do not. What
#: belongs to this job on this node is ended, other clusters and the epilog itself are not.
EPILOG = """\
#!/bin/bash
of_this_job() {{
    grep -lzxs "SLURM_JOB_ID=$SLURM_JOB_ID" /proc/[0-9]*/environ |
        xargs -r grep -lzxs "SLURM_CONF={folder}/slurm.conf" |
        xargs -r grep -lzxs "SLURMD_NODENAME=$SLURMD_NODENAME" |
        xargs -r grep -Lzs "^SLURM_SCRIPT_CONTEXT=" | cut -d/ -f3
}}
of_this_job | xargs -r kill -KILL 2>/dev/null
exit 0
"""

#: Jobs without an association are refused, and limits hold.
ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge.socket
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=limits"""

NO_ACCOUNTING = "AccountingStorageType=accounting_storage/none"

DATABASE_DAEMON = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost=localhost
DbdPort={port}
SlurmUser={user}
PidFile={folder}/slurmdbd.pid
LogFile={folder}/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
"""


def write_files(folder: Path, nodes: Sequence[str], gpus: int, accounting: bool) -> None:
    """Write the files and make the folders that the daemons need, into a new folder."""
    for name in ("state", "scripts", "jobs", *(f"spool-{node}" for node in nodes)):
        (folder / name).mkdir(parents=True)
    controller, database, *ports = _free_ports(2 + len(nodes))
    host = socket.gethostname().split(".")[0]
    user = psutil.Process().username()
    storage = (ACCOUNTING if accounting else NO_ACCOUNTING).format(folder=folder, port=database)
    settings = {"host": host, "port": controller, "user": user, "accounting": storage}
    lines = [
        NODE.format(name=name, host=host, port=port, cpus=CPUS, memory=MEMORY, gpus=gpus)
        for name, port in zip(nodes, ports, strict=True)
    ]
    (folder / "slurm.conf").write_text(CONFIGURATION.format(folder=folder, **settings) + "".join(lines))
    gres = [f"Name=gpu Type=h200 File={device}\n" for device in DEVICES[:gpus]]
    (folder / "gres.conf").write_text("AutoDetect=off\n" + "".join(gres))
    epilog = folder / "epilog"
    epilog.write_text(EPILOG.format(folder=folder))
    epilog.chmod(0o755)
    if accounting:
        daemon = folder / "slurmdbd.conf"
        daemon.touch(mode=0o600)
        daemon.write_text(DATABASE_DAEMON.format(folder=folder, port=database, user=user))


def _free_ports(count: int) -> list[int]:
    """Ports below those that the system gives to outgoing connections, which could take one during a restart."""
    found: list[int] = []
    for port in random.sample(range(15000, 32000), 1000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError("no free ports")
