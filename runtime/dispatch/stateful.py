"""Stages that keep a state: each sees the started items in order, with the state that the one before left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from compositions.model import Stage
from runtime.dispatch.events import Payload
from runtime.dispatch.ordering import OrderGate
from runtime.dispatch.pipeline import Bundle, GroupState


class StatefulStages:
    """Their gates by index of the stage, in the order of the app; their states by name."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.gates = {index: OrderGate() for index, stage in enumerate(stages) if stage.keeps_state}
        self.states: dict[str, Payload] = {}
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

    def commit(self, states: Mapping[str, Payload]) -> None:
        """A result came with the states that it leaves: from now on they are the ones."""
        self.states.update(states)
