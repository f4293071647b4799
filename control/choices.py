"""The compositions that the manager can switch to: all by name, the active one, and those barred for a while."""

from collections.abc import Iterable, Iterator, Mapping

from compositions.errors import RecomposeError
from compositions.model import Composition, Room, Stage, all_sequential, most_workers
from control.decisions import Grant
from profiler.budget import FREE, Budget


class ManagerError(RecomposeError):
    """The manager was asked for something it cannot do; the text says what it can."""


class Choices:
    """``first``: active at the start; without it, the one the first snapshot names. ``generated``: nobody wrote
    ``compositions``, so a strategy may compose others."""

    def __init__(
        self,
        stages: Iterable[Stage],
        compositions: Iterable[Composition],
        first: Composition | None = None,
        *,
        generated: bool = False,
    ) -> None:
        self.stages = tuple(stages)
        self.compositions = tuple(compositions)
        self.generated = generated
        self._active = first
        self.grant: Grant | None = None
        """What other apps on the machine leave; None: no budget counts."""
        self.room: Room = {}
        """What the nodes could hold."""
        self._barred: dict[str, tuple[float, str]] = {}
        self._beyond: tuple[Room, Mapping[str, str]] = {}, {}
        """Latest answer, and the room that it is for."""

    @property
    def granted(self) -> Budget:
        """Return the share of the machine that the app may use."""
        return FREE if self.grant is None else self.grant.budget

    @property
    def in_use(self) -> Budget:
        """By what is active."""
        return FREE if self._active is None else Budget(workers=self._active.workers)

    @property
    def active(self) -> Composition:
        """Raises: ManagerError before the first snapshot when none was given."""
        if self._active is None:
            raise ManagerError("there is nothing to decide without an active composition")
        return self._active

    def activate(self, composition: Composition) -> None:
        """It was switched to, whether it can still be chosen or not."""
        self._active = composition

    def recognise(self, name: str) -> Composition:
        """The composition that a snapshot says is active. Raises: ManagerError when it is not known."""
        if self._active is None or self._active.name != name:
            self._active = self.named(name)
        return self._active

    def named(self, name: str) -> Composition:
        """Raises: ManagerError when there is none called ``name``."""
        for composition in (*self.compositions, all_sequential(self.stages)):
            if composition.name == name:
                return composition
        known = ", ".join(composition.name for composition in self.compositions)
        raise ManagerError(f"unknown composition {name!r}; there are {known}")

    def bar(self, composition: Composition, until_s: float, reason: str) -> None:
        """It could not be switched to: leave it alone until ``until_s``."""
        self._barred[composition.name] = (until_s, reason)

    def unavailable(self, now_s: float) -> Mapping[str, str]:
        """Return those left alone at ``now_s``, and those without room on the nodes, by name, with the reason."""
        self._barred = {name: entry for name, entry in self._barred.items() if entry[0] > now_s}
        if self.room != self._beyond[0]:
            self._beyond = self.room, dict(self._too_large())
        return {**self._beyond[1], **{name: reason for name, (_, reason) in self._barred.items()}}

    def _too_large(self) -> Iterator[tuple[str, str]]:
        for composition in self.compositions:
            for loads, count in composition.crew(self.stages).items():
                most = most_workers(loads, self.room)
                if most is not None and count > most:
                    what = f" with {', '.join(loads)}" if loads else ""
                    yield composition.name, f"needs {count} workers{what}, and the nodes have room for {most}"
