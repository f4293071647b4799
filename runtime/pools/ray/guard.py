"""End a process that has lost Ray with a clear message, before Ray aborts it with a C++ stack trace.

Otherwise Ray aborts a process a minute after its head or raylet has ended, and a hosted object that was replaced while
its machine was disconnected runs forever. Neither reports the cause.
"""

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import ray
import ray._raylet

# Check which machines answer now, by a connection to each. Ray itself notices a lost machine only after many seconds.

K = TypeVar("K", bound=Hashable)
KNOCK_S = 1.0


def answering(addresses: Mapping[K, tuple[str, int]], timeout_s: float = KNOCK_S) -> set[K]:
    """Return the keys of addresses that accept a connection within ``timeout_s``; all are tried concurrently."""
    with ThreadPoolExecutor(max(1, len(addresses)), "knock") as pool:
        answers = pool.map(partial(_answers, timeout_s), addresses.values())
        return {key for key, answers_ in zip(addresses, answers, strict=True) if answers_}


def _answers(timeout_s: float, address: tuple[str, int]) -> bool:
    with suppress(OSError):  # also if the name does not resolve: the name service may be unreachable too
        socket.create_connection(address, timeout_s).close()
        return True
    return False


def silent(addresses: Mapping[K, tuple[str, int]]) -> set[K]:
    """Return the machines that do not answer, of several that Ray believes alive; empty for a single machine."""
    answered = answering(addresses) if len(addresses) > 1 else {*addresses}
    return {each for each in addresses if each not in answered}


_raylet: Any = ray._raylet
LOOK_S = 2.0
"""Interval of checks of facts that the connection to the head does not show."""
AGAIN_S = 0.05
"""Interval of attempts to reach an unreachable head: Ray aborts within a second of finding a different one."""
ASKED_EVERY = 15
"""Number of checks per question to the head: the object may have been replaced during a short network failure."""
KEEP_ALIVE = {"TCP_KEEPIDLE": 3, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}
AWAY_S = 45.0
"""Time after which an unreachable head is given up; a head that keeps its state (Redis) restarts earlier. Ray's own
limit (``RAY_gcs_rpc_server_reconnect_timeout_s``) is a minute, and ends the process without a message."""
LOST_RAY = 75
"""The exit code of a process that lost Ray: EX_TEMPFAIL of sysexits.h, as the process can be restarted."""
Leave = Callable[[str], None]
"""Called with the message; usually does not return."""


@dataclass(slots=True)
class Facts:
    """The observations of one check."""

    head_answers: bool
    same_cluster: bool = True
    """True if the head belongs to the cluster that this process joined; another cluster does not know the process."""
    raylet_lives: bool = True
    replaced: bool = False
    """True if Ray has given this object up, so that another one may have its name."""


@dataclass(slots=True)
class Verdict:
    """Decides from facts when to leave, as a pure function of the time passed in."""

    where: str
    limit_s: float = AWAY_S
    away_since_s: float | None = field(default=None)

    def of(self, facts: Facts, now_s: float) -> str | None:
        """Return the reason to leave; None: stay."""
        if not facts.raylet_lives:
            return "Ray's raylet on this machine has ended"
        if not facts.head_answers:
            self.away_since_s = now_s if self.away_since_s is None else self.away_since_s
            away_s = now_s - self.away_since_s
            return f"Ray's head at {self.where} has not answered for {away_s:.0f} s" if away_s >= self.limit_s else None
        self.away_since_s = None
        if not facts.same_cluster:
            return f"Ray's head at {self.where} was started anew and does not know this process"
        return "another runner took its place while it was out of reach" if facts.replaced else None


class Guard:
    """Keeps a connection to the head, in a thread, until ``close``: the connection's end shows at once that the head is
    gone. ``actor``: True in a hosted object's process."""

    def __init__(self, leave: Leave, *, actor: bool = False) -> None:
        context = ray.get_runtime_context()
        self._leave = leave
        self._where = str(context.gcs_address)
        self._actor = context.get_actor_id() if actor else None
        self._cluster = _cluster_at(self._where)
        self._parent = os.getppid()
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="ray-guard", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def _watch(self) -> None:
        verdict, line, looks = Verdict(self._where), _line_to(self._where), 0
        while not self._closed.is_set() and self._is_joined():
            looks += 1
            if line is not None and not _ends_within(line, LOOK_S):
                facts = Facts(True) if looks % ASKED_EVERY else self._look()
            else:
                if line is not None:
                    line.close()
                line = _line_to(self._where)
                facts = Facts(False) if line is None else self._look()
            why = verdict.of(replace(facts, raylet_lives=self._raylet_lives()), time.monotonic())
            if why is not None and not self._closed.is_set():
                self._leave(why)
                break
            self._closed.wait(AGAIN_S if line is None else 0.0)
        if line is not None:
            line.close()

    def _is_joined(self) -> bool:
        """Return whether this process is still connected to the Ray that it joined."""
        return ray.is_initialized() and str(ray.get_runtime_context().gcs_address) == self._where

    def _raylet_lives(self) -> bool:
        """Return whether the raylet of a hosted object lives; True for a driver, which Ray itself informs."""
        return self._actor is None or os.getppid() == self._parent

    def _look(self) -> Facts:
        """Check a head that answers: whether it is of the same cluster, and whether it has given this object up."""
        try:
            if _cluster_at(self._where) != self._cluster:
                return Facts(True, same_cluster=False)
            return Facts(True, replaced=self._is_replaced())
        except Exception:  # the head became unreachable meanwhile
            return Facts(False)

    def _is_replaced(self) -> bool:
        if self._actor is None:
            return False
        told: dict[str, Any] = ray._private.state.state.actor_table(self._actor)
        return told.get("State") == "DEAD"


def _line_to(where: str) -> socket.socket | None:
    """Return a connection that detects an unreachable machine within seconds; None if it cannot be made."""
    host, _, port = where.rpartition(":")
    try:
        line = socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_S)
    except OSError:
        return None
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if hasattr(socket, name):
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return line


def _ends_within(line: socket.socket, seconds: float) -> bool:
    """Return whether the connection ends within that time; discard data that the head sends."""
    poll = select.poll()
    poll.register(line, select.POLLIN)
    if not poll.poll(seconds * 1e3):
        return False
    with suppress(OSError):
        return not line.recv(4096)
    return True


def _cluster_at(where: str) -> str:
    """Return the name of the cluster whose head is there. Raises: an error of Ray's."""
    return str(_raylet.GcsClient(address=where).cluster_id.hex())
