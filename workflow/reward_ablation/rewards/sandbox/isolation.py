"""Isolation of a program by the kernel: from other processes, files and the network, with limits on what it uses.

There are two ways. The one in use depends on what the machine allows an ordinary user:

- namespaces: the program has its own process and mount namespace. It shares a user, network and IPC namespace with the
  server and other programs, apart from the machine's (user_namespaces(7)). Old kernels need an own IPC namespace each;
- Landlock: the process itself forbids access to files, TCP and signals (landlock(7)).

In both, a program may start no process and no thread, so that none outlives it. `server` imports this module; nothing
here imports more than the standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import signal
import stat
import struct
import sys
from collections.abc import Iterable, Iterator

NOBODY = 65534  # the user of programs if root is the caller, because the kernel limits no process of root
FILE_BYTES = 16 << 20  # largest size of one file, and in namespaces of all files together
OPEN_FILES = 64  # most files that a program may have open
FOLDER = "/program"  # a program's folder in namespaces; not /tmp, because Python itself may lie below /tmp

# Numbers by their names in Linux: flags of clone(2), mount(2) and umount2(2), options of prctl(2), a capability.
_NEWNS, _NEWUTS, _NEWIPC = 0x00020000, 0x04000000, 0x08000000
_NEWUSER, _NEWPID, _NEWNET = 0x10000000, 0x20000000, 0x40000000
#: Namespaces of the server. Each program has the last two for itself.
_SERVER_SPACES = _NEWUSER | _NEWNET | _NEWUTS | _NEWIPC | _NEWPID | _NEWNS
_PROGRAM_SPACES = _NEWPID | _NEWNS
_RDONLY, _NOSUID, _NODEV, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
_MNT_DETACH = 2
#: Flags of a mount that a user namespace may not remove: the number in statvfs(3), and the number in mount(2).
_KEPT_FLAGS = {2: 2, 4: 4, 8: 8, 1024: 1024, 2048: 2048, 4096: 1 << 21}
_PDEATHSIG, _DUMPABLE, _KEEPCAPS, _NO_NEW_PRIVS = 1, 4, 8, 38
_CAP_DAC_OVERRIDE = 1
_CALLS = {  # numbers of system calls without a function in the C library: clone, pivot_root
    "x86_64": (56, 155),
    "aarch64": (220, 41),
}
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446  # system calls, the same on each machine
#: Rights by bits, as in linux/landlock.h: 1 executes, 2 writes and 4 reads a file, and 8 lists a folder; 1 << 5 removes
#: and 1 << 8 makes a regular file, and 1 << 14 truncates one.
_READ, _READ_FILE = 1 | 4 | 8, 1 | 4
_WRITE_FOLDER = 2 | 4 | 8 | 1 << 5 | 1 << 8 | 1 << 14  # regular files alone: no folder, link, socket or device

#: Files outside Python's own folders that a program needs: the C library and other files that extension modules load.
SYSTEM_PATHS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache")
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")

# PyDLL keeps the GIL during a call: the child of clone has no other thread that could hold the GIL.
_libc = ctypes.PyDLL(None, use_errno=True)
_started_by_root = os.getuid() == 0  # before any namespace


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _call(number: int, *arguments: int | bytes | None, what: str) -> int:
    converted = [ctypes.c_long(value) if isinstance(value, int) else ctypes.c_char_p(value) for value in arguments]
    return _check(_libc.syscall(ctypes.c_long(number), *converted), what)


def _prctl(option: int, value: int) -> None:
    _check(_libc.prctl(option, *(ctypes.c_ulong(number) for number in (value, 0, 0, 0))), "prctl")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    parts = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    _check(_libc.mount(parts[0], parts[1], parts[2], ctypes.c_ulong(flags), parts[3]), f"mount {target}")


def _clone(spaces: int) -> int:
    """Fork a child into new namespaces. Returns the child's process id, and 0 in the child."""
    if platform.machine() not in _CALLS:
        raise OSError(f"no namespaces on {platform.machine()}")
    return _call(_CALLS[platform.machine()][0], spaces | signal.SIGCHLD, 0, 0, 0, 0, what="clone")


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    _prctl(_PDEATHSIG, signal.SIGKILL)


def _set_capabilities(kept: int) -> None:
    """Drop all capabilities except those in a bit mask."""
    header = struct.pack("=Ii", 0x20080522, 0)  # version 3 of capset(2), for this process
    _check(_libc.capset(header, struct.pack("=6I", kept, kept, 0, 0, 0, 0)), "capset")


# Namespaces


def enter_namespaces(paths: Iterable[str]) -> int:
    """Go on as the first process of new namespaces, where only `paths`, `SYSTEM_PATHS` and `DEVICES` are visible.

    Returns the flags of the namespaces that each program needs for itself; OSError if the kernel does not allow this.
    """
    # The calling process only waits for the new one. With the new one, the kernel ends all processes of its namespace.
    user, group = os.getuid(), os.getgid()
    ready, go = os.pipe()
    child = _clone(_SERVER_SPACES)
    if child:
        os.close(ready)
        with contextlib.suppress(OSError):  # the child has ended, or may have no map: it then reads an empty text
            _write_maps(child, user, group)
            os.write(go, b"go")
        os.close(go)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 255)
    os.close(go)
    end_with_parent()
    if os.read(ready, 2) != b"go":
        raise OSError("the user namespace gets no users")
    os.close(ready)
    _mount("none", "/", None, _REC | _PRIVATE)
    spaces = _PROGRAM_SPACES
    with contextlib.suppress(OSError):  # a further namespace inside would give a program new rights
        _write("/proc/sys/user/max_user_namespaces", "0")
    try:  # no System V memory or messages, which would outlive their process
        _write("/proc/sys/kernel/shmmni", "0")
        _write("/proc/sys/kernel/msgmni", "0")
    except OSError:  # not allowed until Linux 5.19: then each program needs its own IPC namespace
        spaces |= _NEWIPC
    _change_root([*paths, *SYSTEM_PATHS], "/tmp")
    return spaces


def _write_maps(child: int, user: int, group: int) -> None:
    """Map users and groups into a user namespace: the caller is its root. If root calls, nobody is mapped too."""
    nobody = f"\n{NOBODY} {NOBODY} 1"
    if user == 0:
        with contextlib.suppress(OSError):  # a container may have no nobody
            _write(f"/proc/{child}/gid_map", f"0 {group} 1{nobody}")
            _write(f"/proc/{child}/uid_map", f"0 {user} 1{nobody}")
            return
    _write(f"/proc/{child}/setgroups", "deny")
    _write(f"/proc/{child}/gid_map", f"0 {group} 1")
    _write(f"/proc/{child}/uid_map", f"0 {user} 1")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _change_root(paths: Iterable[str], base: str) -> None:
    """Change to a root folder in memory that has only `FOLDER` and read-only views of `paths` and `DEVICES`."""
    sources = {path: os.open(path, os.O_PATH) for path in _outermost((*paths, *DEVICES))}
    links = {path: os.readlink(path) for path in SYSTEM_PATHS if os.path.islink(path)}
    _mount("tmpfs", base, "tmpfs", _NOSUID | _NODEV, "mode=755,size=1m")
    for path, target in links.items():
        os.makedirs(os.path.dirname(base + path), exist_ok=True)
        os.symlink(target, base + path)
    for path, descriptor in sources.items():
        _show(descriptor, base + path, is_device=path in DEVICES)
    os.makedirs(base + FOLDER, exist_ok=True)
    os.chdir(base)
    _call(_CALLS[platform.machine()][1], b".", b".", what="pivot_root")  # the old root now lies over the new one
    _check(_libc.umount2(b".", _MNT_DETACH), "umount")
    os.chdir("/")
    _mount("none", "/", None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)


def _show(descriptor: int, target: str, is_device: bool) -> None:
    """Mount an open path at `target`, read-only."""
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _write(target, "")
    source = f"/proc/self/fd/{descriptor}"
    _mount(source, target, None, _BIND | _REC)
    present = os.statvfs(target).f_flag
    kept = sum(flag for name, flag in _KEPT_FLAGS.items() if present & name)
    _mount("none", target, None, _REMOUNT | _BIND | _RDONLY | _NOSUID | kept | (0 if is_device else _NODEV))
    os.close(descriptor)


def _outermost(paths: Iterable[str]) -> Iterator[str]:
    """The paths that exist, are no symbolic link among `SYSTEM_PATHS`, and lie below none of the other paths."""
    chosen: list[str] = []
    for path in sorted({os.path.abspath(path) for path in paths if os.path.exists(path)}, key=len):
        is_link = path in SYSTEM_PATHS and os.path.islink(path)
        if not is_link and not any(path.startswith(f"{outer}/") for outer in chosen):
            chosen.append(path)
    return iter(chosen)


def fork_in_namespaces(spaces: int) -> int:
    """Fork like os.fork, with the child in its own namespaces."""
    return _clone(spaces)


def confine_in_namespaces() -> None:
    """In the child: enter an empty folder in memory, drop all privileges; become nobody if root started the server."""
    end_with_parent()
    owner = f",uid={NOBODY},gid={NOBODY}" if _started_by_root else ""
    _mount("tmpfs", FOLDER, "tmpfs", _NOSUID | _NODEV, f"mode=700,size={FILE_BYTES},nr_inodes=256{owner}")
    os.chdir(FOLDER)
    _prctl(_NO_NEW_PRIVS, 1)
    if _started_by_root:
        _become_nobody()
    _set_capabilities(0)
    end_with_parent()  # again, because a change of the user undoes this


def _become_nobody() -> None:
    with contextlib.suppress(OSError):  # a container may have no nobody; the limits may bind its root all the same
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


# Landlock


def landlock_version() -> int:
    """Version of Landlock's interface in this kernel; 0 if Landlock is missing or switched off."""
    try:
        return _call(_LANDLOCK_CREATE, 0, 0, 1, what="landlock")
    except OSError:
        return 0


def confine_by_landlock(paths: Iterable[str], folder: str) -> None:
    """In the child: allow only to read `paths` and `SYSTEM_PATHS`, and to use `DEVICES` and regular files in `folder`.

    Whoever may read may execute. From version 4 on TCP is forbidden, from version 6 on signals to other processes and
    abstract Unix sockets.
    """
    end_with_parent()
    version = landlock_version()
    os.chdir(folder)
    _prctl(_NO_NEW_PRIVS, 1)
    # Version 1 knows 13 rights on files; 2, 3 and 5 each know one more. 4 adds two on TCP, 6 two scopes: 3 is both.
    handled = (1 << {1: 13, 2: 14}.get(version, 15)) - 1 | (1 << 15 if version >= 5 else 0)
    attributes = struct.pack("=QQQ", handled, 3, 3)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = _call(_LANDLOCK_CREATE, attributes, len(attributes), 0, what="landlock")
    allowed = dict.fromkeys(_existing((*paths, *SYSTEM_PATHS)), _READ)
    allowed |= dict.fromkeys(_existing(DEVICES), _READ_FILE | 2)
    allowed[folder] = _WRITE_FOLDER
    for path, rights in allowed.items():
        descriptor = os.open(path, os.O_PATH)
        if not os.path.isdir(path):
            rights &= _READ_FILE | 2
        rule = struct.pack("=Qi", rights & handled, descriptor)
        _call(_LANDLOCK_ADD, ruleset, 1, rule, 0, what="landlock")
        os.close(descriptor)
    if os.getuid() == 0:
        _prctl(_KEEPCAPS, 1)
        _become_nobody()
        # Python may lie below a folder that only root may read. Landlock still limits what can be read.
        with contextlib.suppress(OSError):
            _set_capabilities(1 << _CAP_DAC_OVERRIDE)
    _call(_LANDLOCK_RESTRICT, ruleset, 0, what="landlock")
    os.close(ruleset)
    end_with_parent()


def remove_shared_memory(processes: Iterable[int]) -> None:
    """Remove the System V shared memory that processes have left behind, because it outlives them."""
    made_by = {str(process) for process in processes}
    with contextlib.suppress(OSError), open("/proc/sysvipc/shm") as file:
        for fields in [line.split() for line in file][1:]:
            if fields[4] in made_by:  # the process that made the segment
                _libc.shmctl(int(fields[1]), 0, None)


def _existing(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if os.path.exists(path)]


# Bounds


def limit(seconds: int, memory_bytes: int) -> None:
    """Limit this process until it ends: CPU time, address space, files, and no other process or thread."""
    for kind, most in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # too large a file is then an error, and does not end the process
    sys.set_int_max_str_digits(4300)  # Python's default


def close_all_but(kept: Iterable[int]) -> None:
    """Close all open files except those in `kept`."""
    start = 0
    for descriptor in sorted(set(kept)):
        if descriptor > start:  # os.closerange(0, 0) would close all files
            os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, max(start, resource.getrlimit(resource.RLIMIT_NOFILE)[0], 4096))
