"""Kill processes of this machine reliably: the right one, even if its process id has been reused."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
from pathlib import Path

_GET_INFO, _EXIT, _INFO = 0xC040FF0B, 1 << 3, struct.Struct("QQ11Ii")
"""The kernel's ``PIDFD_GET_INFO``, ``PIDFD_INFO_EXIT`` and ``struct pidfd_info``, whose last field is the exit
status."""
_NAMES = {each.value: each.name for each in signal.Signals}
_REAPED_S = 0.05
"""Time to wait for a process to end after its sockets have closed, in seconds; some milliseconds are usual."""
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

    @property
    def ended(self) -> bool:
        """True if the process is known to have ended."""
        return self._descriptor >= 0 and self._over_within(0.0)

    def how_ended(self) -> str | None:
        """Return ``SIGKILL``, ``exit code 3`` and so on; None if it is unknown, as on Linux before 6.15."""
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
        """Frees the handle; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
