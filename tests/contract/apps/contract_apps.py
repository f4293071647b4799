"""Small apps that the contract suite runs on every pool."""

import asyncio
import time
import uuid
from pathlib import Path

from apps.contract import App, Options, Outputs
from compositions.model import Stage, StageKind


class ChainOptions(Options):
    fail_at: tuple[int, ...] = ()
    hang_at: int | None = None
    work_s: float = 0.0
    refuse_setup_if: Path | None = None
    """Workers cannot start while this file is there."""
    setup_waits: tuple[Path, Path] | None = None
    """Setup makes the first file and waits for the second."""


class Chain(App):
    """Appends the name of each stage to the trail of the item; ``total`` keeps a running sum."""

    name = "chain"
    stages = (
        Stage("first", time_limit_s=1.5),
        Stage("second", time_limit_s=1.5),
        Stage("total", StageKind.STATEFUL),
        Stage("last"),
    )
    options_model = ChainOptions
    options: ChainOptions

    def setup(self):
        if self.options.refuse_setup_if and self.options.refuse_setup_if.exists():
            raise RuntimeError("no licence for this test")
        if self.options.setup_waits:
            entered, go_on = self.options.setup_waits
            entered.touch()
            while not go_on.exists():
                time.sleep(0.01)

    def first(self, number):
        self._work()
        return [number, "first"]

    def second(self, value):
        self._work()
        if value[0] in self.options.fail_at:
            raise ValueError(f"cannot digest {value[0]}")
        if value[0] == self.options.hang_at:
            time.sleep(4)
        return [*value, "second"]

    def total(self, value, state):
        state = (state or 0) + value[0]
        return [*value, state], state

    def last(self, value):
        self._work()
        return [*value, "last"]

    def _work(self):
        if self.options.work_s:
            time.sleep(self.options.work_s)


class LoadedOptions(Options):
    notes: Path
    """A folder in which each set-up and each teardown leaves a file."""


class Loaded(App):
    """Two stages that only the workers which run them load, between two light ones."""

    name = "loaded"
    stages = (Stage("read"), Stage("find", setup="per-group"), Stage("rank", setup="per-group"), Stage("write"))
    options_model = LoadedOptions
    options: LoadedOptions

    def setup(self, stages):
        self.held = [name for name in stages if name in ("find", "rank")]
        self._note("set up", self.held)

    def teardown(self, stages):
        self._note("torn down", self.held)

    def _note(self, what, stages):
        (self.options.notes / f"{what} {'+'.join(stages)} {uuid.uuid4()}").touch()

    def read(self, number):
        return [number]

    def find(self, value):
        assert "find" in self.held
        return [*value, "find"]

    def rank(self, value):
        assert "rank" in self.held
        return [*value, "rank"]

    def write(self, value):
        return value


class CallsOptions(Options):
    until: int = 0
    """The first calls that wait go on when there are so many in one worker."""


class CallsApp(App):
    """A stage of each way to be called: a flat map, a filter, one that waits, one of bundles, one with a state."""

    name = "calls"
    stages = (
        Stage("spread"),
        Stage("odd"),
        Stage("ask", concurrency=12),
        Stage("pairs", batch=True),
        Stage("total", StageKind.STATEFUL),
    )
    options_model = CallsOptions
    options: CallsOptions

    def setup(self):
        self.inside, self.enough = 0, asyncio.Event()

    def spread(self, number):
        yield from range(number, number + number % 3)

    def odd(self, value):
        return value if value % 2 else Outputs()

    async def ask(self, value):
        self.inside += 1
        if self.inside >= self.options.until:
            self.enough.set()
        await self.enough.wait()
        return value + 100

    def pairs(self, values):
        if 113 in values:
            raise ValueError("no 113 here")
        return [Outputs([value, -value]) if value % 5 == 0 else value for value in values]

    def total(self, value, state):
        state = (state or 0) + value
        return Outputs([value, state]), state


class KeysOptions(Options):
    fail_at: tuple[int, ...] = ()


class Keys(App):
    """Words with the number of times each was seen, then the longest run of a letter's words: two stages with keys, one
    after the other, of which the first gets several values an item, or none."""

    name = "keys"
    stages = (
        Stage("seen", StageKind.PARTITIONED, partitions=8),
        Stage("spread"),
        Stage("count", StageKind.PARTITIONED, partitions=16),
        Stage("place", StageKind.PARTITIONED, partitions=5, batch=True),
        Stage("show"),
    )
    options_model = KeysOptions
    options: KeysOptions

    def seen_key(self, number):
        return number % 7, None

    def seen(self, number, state):
        state = (state or 0) + 1
        return (number, state), state

    def spread(self, value):
        number, seen = value
        return Outputs((f"word {(number * each) % 23}", seen) for each in range(number % 4))

    def count_key(self, value):
        return value[0]

    def count(self, value, state):
        state = [] if state is None else state
        state.append(value[1])
        if value[1] in self.options.fail_at:
            raise ValueError(f"cannot count {value[1]}")
        return Outputs([(*value, len(state))] * (len(state) % 3)), None if len(state) == 9 else state

    def place_key(self, value):
        return value[2]

    def place(self, values, states):
        placed = []
        for value in values:
            state = states[value[2]] = states[value[2]] or {}
            state[value[0]] = state.get(value[0], 0) + 1
            placed.append((*value, sum(state.values())))
        return placed, states

    def show(self, value):
        return "/".join(map(str, value))


class OneWaits(App):
    """A stage that waits for one value at a time, behind one that makes none or several of a value."""

    name = "one_waits"
    stages = (Stage("spread"), Stage("wait"), Stage("total", StageKind.PARTITIONED, partitions=3))

    def spread(self, value):
        return Outputs([value] * (value % 4))

    async def wait(self, value):
        await asyncio.sleep(0)
        return value

    def total_key(self, value):
        return value % 5

    def total(self, value, state):
        state = (state or 0) + value
        return state, state
