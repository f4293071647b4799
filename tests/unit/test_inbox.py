"""A source that acknowledges what is stored: what no broker does on demand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count
from threading import Thread
from typing import Any

from apps.contract import App
from apps.input.inbox import Inbox, Letter
from compositions.model import Stage

PATIENCE_S = 30.0


class Numbers(App):
    name = "numbers"
    stages = (Stage("s"),)


class Three:
    """A box of three letters."""

    def __init__(self) -> None:
        self.acknowledged: list[Letter] = []

    def open(self) -> None: ...

    def poll(self, most: int, wait_s: float) -> Sequence[Letter]:
        return [Letter("here", b"%d" % number, number) for number in range(3)]

    def acknowledge(self, letters: Sequence[Letter]) -> None:
        self.acknowledged += letters

    def refuse(self, letter: Letter) -> None: ...

    def close(self) -> None: ...


def test_who_stops_while_messages_are_taken_is_not_kept_waiting_for_them() -> None:
    box, times = Three(), count()

    def closes_at_the_second() -> float:
        if (now := next(times)) == 1:
            source.close()
        return float(now)

    source, found = Inbox(Numbers(), box, closes_at_the_second), list[Any]()
    reader = Thread(target=lambda: found.append(source.read(10, math.inf)), daemon=True)
    reader.start()
    reader.join(PATIENCE_S)
    assert found == [None], "reading ends, and nothing was taken"
    assert box.acknowledged == []
