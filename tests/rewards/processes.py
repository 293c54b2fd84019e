"""Processes that tests look for and wait for."""

import subprocess
import time


def children(pid):
    """Processes that a process has started and that still exist."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def descendants(pid):
    """Processes below a process."""
    return [*children(pid), *(below for child in children(pid) for below in descendants(child))]


def is_running(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
