"""End a process that has lost Ray with a sentence, before Ray aborts it with a trace of C++.

Left to Ray, a process that was connected to a head, or whose raylet has ended, aborts a minute later; a hosted object
that was replaced while its machine was cut off runs for ever. Neither learns what happened.
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
    """Return those that take a connection within ``timeout_s``; all are asked at the same time."""
    with ThreadPoolExecutor(max(1, len(addresses)), "knock") as pool:
        answers = pool.map(partial(_answers, timeout_s), addresses.values())
        return {key for key, answers_ in zip(addresses, answers, strict=True) if answers_}


def _answers(timeout_s: float, address: tuple[str, int]) -> bool:
    with suppress(OSError):  # also where the name does not resolve: a cut may take the name service along
        socket.create_connection(address, timeout_s).close()
        return True
    return False


def silent(addresses: Mapping[K, tuple[str, int]]) -> set[K]:
    """Return the machines, of several, that Ray believes alive and that do not answer."""
    answered = answering(addresses) if len(addresses) > 1 else {*addresses}
    return {each for each in addresses if each not in answered}


_raylet: Any = ray._raylet
LOOK_S = 2.0
"""The time between two looks at what the line to the head does not tell."""
AGAIN_S = 0.05
"""The time between two attempts to reach a head that is away: Ray aborts within a second of meeting another."""
ASKED_EVERY = 15
"""The head is asked at one look of so many: a cut too short for the line may have cost the place."""
KEEP_ALIVE = {"TCP_KEEPIDLE": 3, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}
AWAY_S = 45.0
"""The time until a head that does not answer is given up; one that keeps its state (Redis) is back by then. Ray's own
limit (``RAY_gcs_rpc_server_reconnect_timeout_s``) is a minute, and ends the process without a word."""
LOST_RAY = 75
"""The exit code of a process that left for that reason: EX_TEMPFAIL of sysexits.h, as it can be started again."""
Leave = Callable[[str], None]
"""Takes the sentence; does not return, as a rule."""


@dataclass(slots=True)
class Facts:
    """Holds what is seen at one look."""

    head_answers: bool
    same_cluster: bool = True
    """True if the head is of the cluster that was joined; another one does not know us."""
    raylet_lives: bool = True
    replaced: bool = False
    """Ray has given this object up: another one has its name, or may have."""


@dataclass(slots=True)
class Verdict:
    """Decides from facts when to leave; it has no clock of its own."""

    where: str
    limit_s: float = AWAY_S
    away_since_s: float | None = field(default=None)

    def of(self, facts: Facts, now_s: float) -> str | None:
        """Return why to leave; None: stay."""
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
    """Holds a line to the head, from a thread of its own, until ``close``: its end tells at once what asking would tell
    after seconds. ``actor``: whether this is a hosted object's process."""

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
        """Return whether this process has not left that Ray by itself."""
        return ray.is_initialized() and str(ray.get_runtime_context().gcs_address) == self._where

    def _raylet_lives(self) -> bool:
        """Return whether the raylet of a hosted object lives; of a driver's Ray itself tells."""
        return self._actor is None or os.getppid() == self._parent

    def _look(self) -> Facts:
        """Look at a head that is back: it has to be of the same cluster, and may have given this object up."""
        try:
            if _cluster_at(self._where) != self._cluster:
                return Facts(True, same_cluster=False)
            return Facts(True, replaced=self._is_replaced())
        except Exception:  # it went away meanwhile
            return Facts(False)

    def _is_replaced(self) -> bool:
        if self._actor is None:
            return False
        told: dict[str, Any] = ray._private.state.state.actor_table(self._actor)
        return told.get("State") == "DEAD"


def _line_to(where: str) -> socket.socket | None:
    """Return a connection that notices within some seconds that the machine is cut off; None: nobody takes one."""
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
    """Return whether the line ends within that time; what the head sends on it is thrown away."""
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
