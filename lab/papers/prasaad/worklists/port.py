"""The port of a worklist: the tuples that wait for one operator, and which of them a worker may have.

Nobody waits in here. What a real queue makes a worker wait for, such as a key's lock, is a ``take`` that gives nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple


class Entry(NamedTuple):
    """A tuple that waits."""

    serial: int
    """Its number in the worklist, from 1 on, in the order of arrival."""
    partition: int
    value: int
    origin: int = 0
    """Number of the pipeline's input that it came of."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a worker asks for."""

    worker: int
    most: int = 1
    """Tuples that it takes at a time, one behind the other, all of one partition."""
    room_to: int = 2**63
    """The first serial number that the reorder ring has no slot for; a tuple from there on is not taken.

    In the paper a worker takes it, and tries to send what came of it until it can (section 3.2). That cannot go wrong
    with a hybrid queue, where each earlier tuple is at somebody who goes on; with partitioned queues all workers may
    come to try so, while the tuple that they wait for is in a queue that nobody serves.
    """


def taken_from(queue: deque[Entry], demand: Demand) -> list[Entry]:
    """The first of a queue, as far as the worker takes them and the ring has room."""
    taken: list[Entry] = []
    while queue and len(taken) < demand.most and queue[0].serial < demand.room_to:
        taken.append(queue.popleft())
    return taken


class Worklist(ABC):
    """Pure. One producer: tuples are put in the order of their serial numbers."""

    name: str

    def __init__(self) -> None:
        self.waiting = 0
        """Tuples put and not taken."""

    @abstractmethod
    def put(self, entry: Entry) -> None: ...

    @abstractmethod
    def take(self, demand: Demand) -> list[Entry]:
        """The tuples that the worker runs next, in this order; none when there is none that it may run."""

    @abstractmethod
    def done(self, worker: int, entries: list[Entry]) -> bool:
        """The worker has run what it took; whether it must take again before it may leave the operator."""

    @abstractmethod
    def ready(self, room_to: int) -> bool:
        """Whether a worker that is not at the operator would get something."""

    def left(self, worker: int) -> None:  # noqa: B027  # most have nothing to let go
        """The worker's turn at the operator is over."""
