"""The compositions that the manager can choose: all by name, the active one, and those barred after a failed switch."""

from collections.abc import Iterable, Iterator, Mapping

from compositions.errors import RecomposeError
from compositions.model import Composition, Room, Stage, all_sequential, most_workers
from control.decisions import Grant
from profiler.budget import FREE, Budget


class ManagerError(RecomposeError):
    """The manager cannot do what was requested; the text says what it can do."""


class Choices:
    """The compositions of an app. ``first``: active at the start; None: the one that the first snapshot names.
    ``generated``: True if the user gave no list, so a strategy may compose others."""

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
        """The app's share of the machine; None: no budget limits it."""
        self.room: Room = {}
        """Number of workers that fit on the nodes, by class."""
        self._barred: dict[str, tuple[float, str]] = {}
        self._beyond: tuple[Room, Mapping[str, str]] = {}, {}
        """Latest room, and the compositions that are too large for it, with the reason."""

    @property
    def granted(self) -> Budget:
        """The share of the machine that the app may use."""
        return FREE if self.grant is None else self.grant.budget

    @property
    def in_use(self) -> Budget:
        """The budget that the active composition uses."""
        return FREE if self._active is None else Budget(workers=self._active.workers)

    @property
    def active(self) -> Composition:
        """The active composition. Raises: ManagerError before the first snapshot if no ``first`` was given."""
        if self._active is None:
            raise ManagerError("no composition is active yet, so there is nothing to decide")
        return self._active

    def activate(self, composition: Composition) -> None:
        """Make ``composition`` the active one, even if it is not in the list any more."""
        self._active = composition

    def recognise(self, name: str) -> Composition:
        """Return the composition that a snapshot names as active. Raises: ManagerError if it is unknown."""
        if self._active is None or self._active.name != name:
            self._active = self.named(name)
        return self._active

    def named(self, name: str) -> Composition:
        """Return the composition called ``name``. Raises: ManagerError if it is unknown."""
        for composition in (*self.compositions, all_sequential(self.stages)):
            if composition.name == name:
                return composition
        known = ", ".join(composition.name for composition in self.compositions)
        raise ManagerError(f"unknown composition {name!r}; there are {known}")

    def bar(self, composition: Composition, until_s: float, reason: str) -> None:
        """Exclude a composition from the choice until ``until_s``, because a switch to it failed."""
        self._barred[composition.name] = (until_s, reason)

    def unavailable(self, now_s: float) -> Mapping[str, str]:
        """Return the names of compositions that are barred at ``now_s`` or do not fit on the nodes, with reasons."""
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
