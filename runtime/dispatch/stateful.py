"""Stages that keep a state: each sees the started items in order, with the state that the one before left."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compositions.model import Stage
from runtime.dispatch.checkpoint import BEGINNING, Checkpoint
from runtime.dispatch.events import Payload
from runtime.dispatch.ordering import OrderGate
from runtime.dispatch.pipeline import Bundle, GroupState


@dataclass(frozen=True, slots=True)
class Version:
    """A state that has seen the items before turn ``turn``, and no other."""

    turn: int
    payload: Payload


class StatefulStages:
    """Their gates by index of the stage, in the order of the app; their states by name."""

    def __init__(self, stages: Sequence[Stage], begin: Checkpoint = BEGINNING) -> None:
        stateful = [index for index, stage in enumerate(stages) if stage.keeps_state]
        self.gates = {index: OrderGate(begin.next_turn) for index in stateful}
        self.states: dict[str, Payload] = dict(begin.states)
        self._versions = {name: deque([Version(begin.next_turn, state)]) for name, state in begin.states.items()}
        """By stage, the oldest first: the one of what has left, and those of items that have not."""
        self._names = tuple(stage.name for stage in stages)

    def open_for(self, group: GroupState, turn: int, next_stage: int) -> bool:
        """Whether it is this turn's at every stateful stage of the group from ``next_stage`` on."""
        gates = [self.gates[index] for index in group.ordered if index >= next_stage]
        return all(gate.opens_for(turn) for gate in gates)

    def from_stage(self, first: int) -> Iterable[int]:
        """The indexes of those at or behind stage ``first``."""
        return [index for index in self.gates if index >= first]

    def needed_by(self, group: GroupState, bundle: Bundle) -> dict[str, Payload]:
        """The states that a task of the group needs to run the bundle."""
        names = [self._names[index] for index in group.ordered if index >= bundle.next_stage]
        return {name: self.states.get(name) for name in names}

    def commit(self, states: Mapping[str, Payload], bundle: Bundle) -> None:
        """The result of a bundle came with the states that it leaves: from now on they are the ones."""
        self.states.update(states)
        for name, state in states.items():
            self._versions.setdefault(name, deque()).append(Version(bundle.turn + bundle.count, state))

    def left(self, next_turn: int) -> None:
        """Items before that turn are out: nobody will ask for a state that is older."""
        for versions in self._versions.values():
            while len(versions) > 1 and versions[1].turn <= next_turn:
                versions.popleft()

    def as_of(self, next_turn: int) -> dict[str, Payload]:
        """The states that have seen the items before that turn, which are out, and no other."""
        self.left(next_turn)
        return {name: kept[0].payload for name, kept in self._versions.items() if kept[0].turn <= next_turn}


PARTS: tuple[type, ...] = (OrderGate, StatefulStages, Version)
"""What its state is made of."""
