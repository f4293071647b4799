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
    """Values of a bundle that a worker runs together. ``picked``: a byte for each value of the bundle, 1 if included.

    ``whole``: the piece has all values and each item is one value, so the task runs whole items.
    """

    assembly: Assembly
    picked: bytes
    partitions: bytes
    """The distinct partitions of its values."""
    whole: bool

    @property
    def count(self) -> int:
        return self.picked.count(_ONE)

    def position(self, number: int) -> int:
        """Return the position in the bundle of the piece's value with index ``number``."""
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
    """Number of result values."""


@dataclass(slots=True, eq=False)
class Assembly:
    """A bundle that is split into pieces at a partitioned stage. ``todo``: a byte for each value, 1 if it waits to be
    sent. ``cuts``: positions at which pieces must end, to isolate values that fail."""

    bundle: Bundle
    routes: Routes
    todo: bytes = b""
    in_work: int = 0
    cuts: set[int] = field(default_factory=set)
    troubles: dict[int, Trouble] = field(default_factory=dict)
    """Troubles of values that ran alone, by position."""
    dead: dict[int, str] = field(default_factory=dict)
    """Errors of failed items, by item."""
    parts: list[Part] = field(default_factory=list)

    deaths: int = 0
    """Number of workers that died while they ran some of the values."""
    deadly: int = 0
    """The mask (``marked``) of the partitions of values that workers died with."""
    wanted: int = 0
    """The mask of the partitions of the values in ``todo``."""

    def __post_init__(self) -> None:
        self.todo = _ONE * len(self.routes.partitions)
        self.wanted = marked(set(self.routes.partitions))

    @property
    def done(self) -> bool:
        return not self.in_work and _ONE not in self.todo

    def take(self, mine: int) -> Piece | None:
        """Take the waiting values of partitions in the mask ``mine``, up to the next cut; None if there are none."""
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
        """Return the values of an unsuccessful piece to ``todo``."""
        self.in_work -= 1
        self.todo = _combined(or_, self.todo, piece.picked)
        self.wanted |= marked(piece.partitions)

    def give_up(self, piece: Piece, error: str) -> None:
        """Give up the single value of a piece, and with it the value's item."""
        self.in_work -= 1
        self.dead[self.routes.item_of(piece.position(0))] = error

    def isolate(self, piece: Piece, number: int) -> None:
        """Set cuts so that the piece's value with index ``number`` runs alone."""
        at = piece.position(number)
        self.cuts |= {at, at + 1}

    def halve(self, piece: Piece) -> None:
        self.cuts.add(piece.position(piece.count // 2))

    def trouble(self, piece: Piece) -> Trouble:
        """Return the losses and failures of the single value of a piece."""
        return self.troubles.get(piece.position(0), NO_TROUBLE)

    def note(self, piece: Piece, trouble: Trouble) -> Trouble:
        """Store and return the losses and failures of the single value of a piece."""
        self.troubles[piece.position(0)] = trouble
        return trouble

    @property
    def made(self) -> int:
        """Number of result values of all parts."""
        return sum(part.made for part in self.parts)

    @property
    def left(self) -> int:
        """Number of values that wait to be sent."""
        return self.todo.count(_ONE)

    def result(self) -> tuple[Payload, int, int, Routes | None]:
        """Return the joined result: the payload, the position of its first item, its size in bytes, and its routes."""
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
    """Return the mask of some partitions: an integer of 256 bytes, with byte 1 for each of them."""
    marks = bytearray(256)
    for each in partitions:
        marks[each] = 1
    return int.from_bytes(marks)


def _combined(how: Callable[[int, int], int], left: bytes, right: bytes) -> bytes:
    """Combine two byte strings of equal length with a bitwise operation."""
    return how(int.from_bytes(left), int.from_bytes(right)).to_bytes(len(left))
