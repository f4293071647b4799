"""Split a bundle at a partitioned stage, send its values piece by piece to the workers that own their keys, and join
the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import compress
from operator import and_, or_, xor

from runtime.dispatch.bundle import NO_TROUBLE, Bundle, Trouble
from runtime.dispatch.keys import Mosaic, Payload, Routes, merged

_ONE = b"\x01"


@dataclass(slots=True, eq=False)
class Piece:
    """Values of a bundle that a worker runs together: ``picked`` has a byte for each value of the bundle, 1 for those.

    ``whole``: they are all there are, and the task is one of items.
    """

    assembly: Assembly
    picked: bytes
    partitions: bytes
    """Of its values, each once."""
    whole: bool

    @property
    def count(self) -> int:
        return self.picked.count(_ONE)

    def position(self, number: int) -> int:
        """Return where its value of that number stands in the bundle."""
        at = -1
        for _ in range(number + 1):
            at = self.picked.index(_ONE, at + 1)
        return at


@dataclass(slots=True, eq=False)
class Part:
    """The result of a piece."""

    picked: bytes
    payload: Payload
    size_bytes: int
    routes: Routes | None
    made: int
    """Number of its values."""


@dataclass(slots=True, eq=False)
class Assembly:
    """``todo``: a byte for each value, 1 for those that no worker has or has had. A piece ends before each of
    ``cuts``, where the fates of values are known to part."""

    bundle: Bundle
    routes: Routes
    todo: bytes = b""
    in_work: int = 0
    cuts: set[int] = field(default_factory=set)
    troubles: dict[int, Trouble] = field(default_factory=dict)
    """Of values that were alone in a task, by position."""
    dead: dict[int, str] = field(default_factory=dict)
    """Errors by item."""
    parts: list[Part] = field(default_factory=list)

    deaths: int = 0
    """Number of workers that died while they ran some of its values."""
    deadly: int = 0
    """A mask of 256 bytes with 1 for each partition of these values."""
    wanted: int = 0
    """256 bytes with 1 for each partition of the values to do."""

    def __post_init__(self) -> None:
        self.todo = _ONE * len(self.routes.partitions)
        self.wanted = marked(set(self.routes.partitions))

    @property
    def done(self) -> bool:
        return not self.in_work and _ONE not in self.todo

    def take(self, mine: int) -> Piece | None:
        """The first values that a worker may run to which partitions belong that ``mine`` has a 1 for."""
        if not self.wanted & mine:
            return None
        picked = _combined(and_, self.todo, self.routes.partitions.translate(mine.to_bytes(256)))
        self.wanted &= ~mine
        if self.cuts:
            first = picked.index(_ONE)
            end = min((cut for cut in self.cuts if cut > first), default=len(picked))
            picked = picked[:end] + bytes(len(picked) - end)
        self.todo = _combined(xor, self.todo, picked)
        if self.cuts:
            self.wanted = marked(set(compress(self.routes.partitions, self.todo)))
        self.in_work += 1
        return self.piece(picked)

    def piece(self, picked: bytes) -> Piece:
        whole = self.routes.counts is None and _ONE * len(picked) == picked
        return Piece(self, picked, bytes(set(compress(self.routes.partitions, picked))), whole)

    def put(self, piece: Piece, payload: Payload, size_bytes: int, routes: Routes | None, made: int) -> None:
        self.in_work -= 1
        self.parts.append(Part(piece.picked, payload, size_bytes, routes, made))

    def killed(self, piece: Piece) -> None:
        """Record that a worker died while it ran a piece; any of the piece's values may be the cause."""
        self.deaths += 1
        self.deadly |= marked(piece.partitions)

    def again(self, piece: Piece) -> None:
        """A piece came to nothing: its values are the next of their partitions once more."""
        self.in_work -= 1
        self.todo = _combined(or_, self.todo, piece.picked)
        self.wanted |= marked(piece.partitions)

    def give_up(self, piece: Piece, error: str) -> None:
        """Its one value is not to be had, nor is the item."""
        self.in_work -= 1
        self.dead[self.routes.item_of(piece.position(0))] = error

    def isolate(self, piece: Piece, number: int) -> None:
        """The value of that number is to be alone in a task."""
        at = piece.position(number)
        self.cuts |= {at, at + 1}

    def halve(self, piece: Piece) -> None:
        self.cuts.add(piece.position(piece.count // 2))

    def trouble(self, piece: Piece) -> Trouble:
        """Return what the one value of a piece has cost."""
        return self.troubles.get(piece.position(0), NO_TROUBLE)

    def note(self, piece: Piece, trouble: Trouble) -> Trouble:
        """Return what it has cost by now."""
        self.troubles[piece.position(0)] = trouble
        return trouble

    @property
    def made(self) -> int:
        """Return the number of values that came of all."""
        return sum(part.made for part in self.parts)

    @property
    def left(self) -> int:
        """Return the number of values that no worker has or has had."""
        return self.todo.count(_ONE)

    def result(self) -> tuple[Payload, int, int, Routes | None]:
        """Payload, where its items start in it, size in bytes, and routes of what came of all."""
        if not self.parts:
            nothing = Routes(b"", (0,) * self.bundle.count)
            return self.bundle.payload, self.bundle.start, self.bundle.size_bytes, nothing
        size_bytes = sum(part.size_bytes for part in self.parts)
        only = self.parts[0]
        if len(self.parts) == 1 and self.routes.counts is None and _ONE * len(only.picked) == only.picked:
            return only.payload, 0, size_bytes, only.routes
        picks = tuple(part.picked for part in self.parts)
        routes = merged(self.routes.counts, picks, [part.routes for part in self.parts])
        mosaic = Mosaic(self.routes.counts, picks, tuple(part.payload for part in self.parts))
        return mosaic, 0, size_bytes, routes


def marked(partitions: Iterable[int]) -> int:
    """256 bytes with 1 for each of these."""
    marks = bytearray(256)
    for each in partitions:
        marks[each] = 1
    return int.from_bytes(marks)


def _combined(how: Callable[[int, int], int], left: bytes, right: bytes) -> bytes:
    """Byte by byte."""
    return how(int.from_bytes(left), int.from_bytes(right)).to_bytes(len(left))
