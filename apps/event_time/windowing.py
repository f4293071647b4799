"""Update the windows of one key when an event comes or the watermark advances; and the clock of event time."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import reduce
from math import inf
from typing import Any, Final, NamedTuple

from apps.event_time.windows import Sessions, Window, WindowKind, above_zero, not_below_zero, plain, steps_to
from compositions.errors import RecomposeError, shown

END: Final = inf
"""The watermark after the last event."""


class Reading(NamedTuple):
    """The state of the clock: the watermark, and the last tick."""

    watermark: float = -inf
    tick: float = -inf


@dataclass(frozen=True, slots=True)
class Clock:
    """A watermark that stays ``behind`` the newest time seen, with a tick whenever it passes a multiple of ``every``.

    For a stage that sees all events in order. Raises: RecomposeError if ``behind`` is below 0 or ``every`` not above.
    """

    behind: float = 0
    every: float = 60

    def __post_init__(self) -> None:
        not_below_zero("behind", self.behind)
        above_zero("every", self.every)

    def seen(self, reading: Reading | None, time: float) -> tuple[float | None, Reading]:
        """Advance to an event of ``time`` (``END`` after the last one). Return the tick to emit before the event, or
        None. Raises: RecomposeError for an invalid time."""
        before, time = reading or Reading(), plain(time)
        if time == END or before.watermark == END:
            watermark = tick = END
        else:
            steps_to(time, self.every)  # this also checks times that are earlier than the newest
            watermark = max(before.watermark, time - self.behind)
            tick = steps_to(watermark, self.every) * self.every
        if tick <= before.tick:
            return None, Reading(watermark, before.tick)
        return tick, Reading(watermark, tick)


Timers = tuple[tuple[float, str], ...]
"""Times and names, earliest first."""


def with_timer(timers: Timers, at: float, name: str) -> Timers:
    """Return the timers with a new one, which replaces one of that name. Raises: RecomposeError for an invalid time."""
    try:
        fits = at <= inf  # NaN is not comparable
    except (TypeError, ArithmeticError):  # raised by a Decimal
        fits = False
    if not fits:
        raise RecomposeError(f"timer {shown(name)}: time = {shown(at)}; must be a number, or END")
    return tuple(sorted((*without_timer(timers, name), (at, name))))


def without_timer(timers: Timers, name: str) -> Timers:
    """Return the timers without the one of this name."""
    return tuple(timer for timer in timers if timer[1] != name)


def due(timers: Timers, watermark: float) -> tuple[Timers, Timers]:
    """Return the timers whose time has come, earliest first, and the others."""
    count = sum(at <= watermark for at, _ in timers)
    return timers[:count], timers[count:]


class Slot(NamedTuple):
    """An open window of a key: the value so far, and the windows emitted before."""

    window: Window
    value: Any
    told: tuple[Window, ...] = ()
    """Windows emitted before that the next pane replaces."""
    news: bool = True
    """True if it has events that were not emitted yet."""


Slots = tuple[Slot, ...]
"""The windows of one key, by their start."""


class Pane(NamedTuple):
    """The value of a window that has closed. ``replaces``: windows emitted before that this pane corrects."""

    window: Window
    value: Any
    replaces: tuple[Window, ...] = ()


class Late(NamedTuple):
    """A late event: its ``windows`` were closed for good, so it counts in none of them."""

    windows: tuple[Window, ...]
    time: float
    value: Any


Told = Pane | Late


@dataclass(frozen=True)
class Windowing:
    """Adds events up in windows: ``add(value so far or None, event) -> value``, in the order of the stream.

    A window is told when the watermark says that it is over; it is kept for ``lateness`` more, and told again with
    each event that still comes. ``merge(earlier, later) -> value`` is for sessions, which may grow together.
    Raises: RecomposeError when sessions have no ``merge``, ``lateness`` is below 0, or ``kind`` is none.
    """

    kind: WindowKind
    add: Callable[[Any, Any], Any]
    merge: Callable[[Any, Any], Any] | None = None
    lateness: float = 0

    def __post_init__(self) -> None:
        if not isinstance(self.kind, WindowKind):
            raise RecomposeError(f"kind = {shown(self.kind)}; must be Tumbling, Sliding or Sessions")
        if isinstance(self.kind, Sessions) and self.merge is None:
            raise RecomposeError("an event can join two sessions; give merge=, a function that joins their values")
        if self.lateness != inf:  # no event is ever too late
            not_below_zero("lateness", self.lateness)

    def put(self, slots: Slots, time: float, event: Any, watermark: float) -> tuple[list[Told], Slots]:
        """Add an event, at whose place in the stream the watermark is ``watermark``; first emit windows that are over.
        Raises: RecomposeError for an invalid time; the windows then stay unchanged."""
        told, slots = self.advance(slots, watermark)
        windows = self.kind.of(time)
        late = self.kind.too_late(windows, time, watermark - self.lateness)
        if late:
            told.append(Late(tuple(late), time, event))
        for window in windows:
            if window not in late:
                slots = self._added(slots, window, event)
        at_once, slots = self.advance(slots, watermark)
        return told + at_once, slots

    def advance(self, slots: Slots, watermark: float) -> tuple[list[Told], Slots]:
        """Emit windows that are over and have new events, by their end; drop windows that get no more events."""
        if not any(self.kind.is_over(slot.window, watermark) for slot in slots):
            return [], slots
        over = [slot for slot in slots if slot.news and self.kind.is_over(slot.window, watermark)]
        told: list[Told] = [
            Pane(slot.window, slot.value, slot.told) for slot in sorted(over, key=lambda slot: slot.window[::-1])
        ]
        kept = (slot for slot in slots if not self.kind.is_over(slot.window, watermark - self.lateness))
        return told, tuple(self._after(slot, watermark) for slot in kept)

    def _after(self, slot: Slot, watermark: float) -> Slot:
        if not self.kind.is_over(slot.window, watermark):
            return slot
        return slot._replace(told=(slot.window,), news=False)

    def _added(self, slots: Slots, window: Window, event: Any) -> Slots:
        if isinstance(self.kind, Sessions):
            same = [s for s in slots if s.window.start <= window.end and window.start <= s.window.end]
        else:
            same = [s for s in slots if s.window == window]
        whole = Window(
            min(s.window.start for s in (*same, Slot(window, None))),
            max(s.window.end for s in (*same, Slot(window, None))),
        )
        before = reduce(self._merged, (s.value for s in same)) if same else None
        told = tuple(each for s in same for each in s.told)
        grown = Slot(whole, self.add(before, event), told)
        return tuple(sorted((*(s for s in slots if s not in same), grown), key=lambda s: s.window))

    def _merged(self, earlier: Any, later: Any) -> Any:
        assert self.merge is not None
        return self.merge(earlier, later)


States = dict[Hashable, Slots]


class KeyedPane(NamedTuple):
    """The final report on a key."""

    key: Hashable
    told: Told


class KeyedWindows:
    """Windows of many keys, as ``Windowing`` has them for one key, in a dict by key that it changes in place."""

    def __init__(self, windowing: Windowing) -> None:
        self._windowing = windowing

    def put(self, states: States, key: Hashable, time: float, event: object, watermark: float) -> list[KeyedPane]:
        """Add an event; only windows of its key are emitted. Windows of other keys wait for ``advance``."""
        told, slots = self._windowing.put(states.get(key, ()), time, event, watermark)
        _keep(states, key, slots)
        return [KeyedPane(key, each) for each in told]

    def advance(self, states: States, watermark: float) -> list[KeyedPane]:
        """Return the new panes of windows that are over, for all keys, by their ends, and then in order of keys."""
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
