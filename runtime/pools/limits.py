"""Limit the memory and processes of a worker. A worker that exceeds a limit ends, and harms no other.

There are three mechanisms, each used where possible. A watch thread in the process ends it with a message. A separate
control group makes the kernel limit the worker together with its child processes. If no group can be made, a limit of
the process's data makes an allocation fail that is too quick for the watch.
"""

import fcntl
import os
import resource
import select
import signal
import struct
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
LOOK_S = 0.2
BEYOND = 1.1
"""The kernel's limit as a multiple of the watch's: the watch should act first, as it reports the reason."""
PREFIX = "recompose-worker-"
OVER_LIMIT = 76
"""The exit code of a worker that exceeded a limit."""
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one worker; 0: no limit."""

    memory_mb: float = 0.0
    processes: int = 0

    def __bool__(self) -> bool:
        return bool(self.memory_mb or self.processes)


def hold(limits: Limits, name: str) -> Callable[[], None]:
    """Apply ``limits`` to this process and its children. Return a function to call once the memory that the process
    needs for itself is mapped."""
    if not limits:
        return lambda: None
    grouped = _enter_group(limits)
    threading.Thread(target=_watch, args=(limits, name), name="limits", daemon=True).start()
    return (lambda: None) if grouped else partial(_limit_data, limits)


def over(limits: Limits, used_mb: float, processes: int) -> str | None:
    """Return a message about the limit that is exceeded; None if none is."""
    if limits.memory_mb and used_mb > limits.memory_mb:
        return f"it uses {used_mb:,.0f} MB of memory, but worker_memory_mb is {limits.memory_mb:,.0f}"
    if limits.processes and processes > limits.processes:
        return f"it has {processes} processes, but worker_processes is {limits.processes}"
    return None


def _watch(limits: Limits, name: str) -> None:
    pause = threading.Event()
    while (why := over(limits, *_taken())) is None:
        pause.wait(LOOK_S)
    print(f"worker {name} (pid {os.getpid()}) ends: {why}", file=sys.stderr, flush=True)
    for pid in _family(os.getpid())[1:]:
        with suppress(OSError):
            os.kill(pid, 9)
    os._exit(OVER_LIMIT)


def _taken() -> tuple[float, int]:
    """Return the memory in MB and the number of processes of this process with all its descendants."""
    family = _family(os.getpid())
    return sum(map(_resident_bytes, family)) / MB, len(family)


def _family(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        for children in (PROC / str(parent) / "task").glob("*/children"):
            with suppress(OSError):
                found += map(int, children.read_text().split())
    return found


def _resident_bytes(pid: int) -> int:
    """Return a process's resident memory in bytes without shared pages, as frames lie in memory shared by all."""
    with suppress(OSError):
        fields = (PROC / str(pid) / "statm").read_text().split()
        return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _limit_data(limits: Limits) -> None:
    """Limit the data of this process. The kernel also counts mapped but unused memory, such as stacks of threads."""
    if not limits.memory_mb:
        return
    with suppress(OSError, ValueError):
        status = (PROC / "self" / "status").read_text().splitlines()
        mapped = next(int(line.split()[1]) for line in status if line.startswith("VmData:")) * 1024
        most = mapped + max(0, int(limits.memory_mb * MB * BEYOND) - _resident_bytes(os.getpid()))
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))


def _enter_group(limits: Limits) -> bool:
    """Enter a new control group (version 1 or 2) if this user may create one, and remove groups of ended workers.
    Return whether the group has the memory limit."""
    most = int(limits.memory_mb * MB * BEYOND)
    wanted = dict.fromkeys(("memory.limit_in_bytes", "memory.max"), most)
    return bool(most) and any(_enter(parent, wanted) for parent in _own_groups())


def _own_groups() -> Iterable[Path]:
    try:
        lines = (PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:  # the system has no control groups
        return
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if "memory" in controllers.split(","):
            yield GROUPS / controllers / path.lstrip("/")
        elif not controllers:
            yield GROUPS / path.lstrip("/")


def _enter(parent: Path, values: dict[str, int]) -> bool:
    group = parent / f"{PREFIX}{os.getpid()}"
    try:
        for old in parent.glob(f"{PREFIX}*"):
            with suppress(OSError):
                old.rmdir()
        group.mkdir()
        known = {file: value for file, value in values.items() if (group / file).exists()}
        if not known:
            raise OSError("no controller of these limits is available")
        for file, value in known.items():
            (group / file).write_text(str(value))
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        with suppress(OSError):
            group.rmdir()
        return False
    return True


_GET_INFO, _EXIT, _INFO = 0xC040FF0B, 1 << 3, struct.Struct("QQ11Ii")
"""The kernel's ``PIDFD_GET_INFO``, ``PIDFD_INFO_EXIT`` and ``struct pidfd_info``; its last field is the exit status."""
_NAMES = {each.value: each.name for each in signal.Signals}
_REAPED_S = 0.05
"""Time to wait for a process to end after its sockets have closed, in seconds; some milliseconds are usual."""
_BOOT_ID, _NAMESPACE = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")


def pid_space() -> str:
    """Return the id of the space in which process ids are unique: a boot of a kernel, and a pid namespace; empty if
    unknown. A network address does not identify it: containers may share a network, but not process ids."""
    with suppress(OSError):
        return f"{_BOOT_ID.read_text().strip()} {_NAMESPACE.stat().st_ino}"
    return ""


class Process:
    """A handle on a process in the same pid space; without a handle (another space), ``kill`` does nothing."""

    def __init__(self, pid: int = 0, space: str = "") -> None:
        """``space``: the result of ``pid_space`` in that process."""
        self._descriptor = -1
        if space and space == pid_space() and hasattr(os, "pidfd_open"):
            with suppress(OSError):  # the process has ended
                self._descriptor = os.pidfd_open(pid)

    def kill(self) -> None:
        if self._descriptor >= 0:
            with suppress(OSError):  # the process has ended
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    @property
    def ended(self) -> bool:
        """True if the process is known to have ended."""
        return self._descriptor >= 0 and self._over_within(0.0)

    def how_ended(self) -> str | None:
        """Return how the process ended, such as ``SIGKILL`` or ``exit code 3``; None if unknown (Linux before 6.15)."""
        if self._descriptor < 0 or not self._over_within(_REAPED_S):
            return None
        asked = bytearray(_INFO.pack(_EXIT, *[0] * 13))
        try:
            fcntl.ioctl(self._descriptor, _GET_INFO, asked)
        except OSError:
            return None
        known, *_, status = _INFO.unpack(asked)
        if not known & _EXIT:
            return None
        code = os.waitstatus_to_exitcode(status)
        return _NAMES.get(-code, f"signal {-code}") if code < 0 else f"exit code {code}"

    def _over_within(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1e3))

    def forget(self) -> None:
        """Close the handle; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
