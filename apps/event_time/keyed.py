"""The windows of many keys in one state: of a stage with a state for all, or of a partition."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from apps.event_time.windowing import Pane, Slots, Told, Windowing

States = dict[Hashable, Slots]


class KeyedPane(NamedTuple):
    """What was told of a key."""

    key: Hashable
    told: Told


class KeyedWindows:
    """As ``Windowing``, over a dict of the keys that have windows, which it changes in place."""

    def __init__(self, windowing: Windowing) -> None:
        self._windowing = windowing

    def put(self, states: States, key: Hashable, time: float, event: object, watermark: float) -> list[KeyedPane]:
        """An event; what is told is of its key. The windows of other keys wait for ``advance``."""
        told, slots = self._windowing.put(states.get(key, ()), time, event, watermark)
        _keep(states, key, slots)
        return [KeyedPane(key, each) for each in told]

    def advance(self, states: States, watermark: float) -> list[KeyedPane]:
        """Tells what is over for all keys, in order of their ends; equal ones as their keys came."""
        panes: list[KeyedPane] = []
        for key in list(states):
            told, slots = self._windowing.advance(states[key], watermark)
            _keep(states, key, slots)
            panes += (KeyedPane(key, each) for each in told)
        return sorted(panes, key=lambda pane: _end(pane.told))


def _keep(states: States, key: Hashable, slots: Slots) -> None:
    if slots:
        states[key] = slots
    else:
        states.pop(key, None)


def _end(told: Told) -> tuple[float, float]:
    window = told.window if isinstance(told, Pane) else told.windows[-1]
    return window.end, window.start
