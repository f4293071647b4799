"""Processes of this machine that can be killed for sure: the right one, also when its number has been given away."""

from __future__ import annotations

import os
import signal
from pathlib import Path

_BOOT_ID, _NAMESPACE = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")


def pid_space() -> str:
    """Within which process ids mean the same: a start of a kernel, and a namespace of it. Empty when it is not known.

    A network address does not tell: containers that share their host's network have process ids of their own.
    """
    try:
        return f"{_BOOT_ID.read_text().strip()} {_NAMESPACE.stat().st_ino}"
    except OSError:
        return ""


class Process:
    """A handle on a process within reach; without one, ``kill`` does nothing and somebody else has to."""

    def __init__(self, pid: int = 0, space: str = "") -> None:
        """``space`` is what ``pid_space`` says in the process itself."""
        self._descriptor = -1
        if space and space == pid_space() and hasattr(os, "pidfd_open"):
            try:
                self._descriptor = os.pidfd_open(pid)
            except OSError:
                pass  # it has ended

    def kill(self) -> None:
        if self._descriptor >= 0:
            try:
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)
            except OSError:
                pass  # it has ended

    def forget(self) -> None:
        """Frees the handle; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
