"""Apps of random shapes with filters, flat maps, batch stages, states and stages that wait: whatever the composition,
the size of bundles, the loss of workers and the switches, what comes out is what a plain loop gives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.contract import App, Outputs
from compositions.model import Composition, Group, Pattern, Stage, StageKind
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.events import SwitchStyle
from runtime.dispatch.outcomes import Delivered
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from runtime.pools.local import LocalPool, PickleCodec
from runtime.pools.simulated import SimulatedPool
from runtime.pools.simulated_machine import Cost, Machine

KINDS = ("plain", "odd", "repeat", "halve", "joined", "pairs", "sum", "ranks", "wait")
STATEFUL = ("sum", "ranks")
MAY_FAIL = ("halve", "joined")
"""Not behind a stage with a state: whether that has seen an item which fails later depends on the composition."""


class Shaped(App):
    """Stage ``repeat_2`` is of kind ``repeat``. Every value is a number."""

    name = "shaped"

    def __init__(self, stages: tuple[Stage, ...]) -> None:
        super().__init__()
        self.stages = stages  # type: ignore[misc]

    def __getattr__(self, name: str) -> Any:
        kind, _, number = name.partition("_")
        if kind not in KINDS or not number:
            raise AttributeError(name)
        return getattr(type(self), f"as_{kind}").__get__(self)

    def as_plain(self, value: int) -> int:
        return value * 3 + 1

    def as_odd(self, value: int) -> Any:
        return value if value % 2 else Outputs()

    def as_repeat(self, value: int) -> Iterator[int]:
        for each in range(value % 4):
            yield value + each

    def as_halve(self, values: list[int]) -> list[Any]:
        if any(value % 100 == 13 for value in values):
            raise ValueError("unlucky")
        return [Outputs([value // 2, value % 2]) if value % 3 else value for value in values]

    def as_joined(self, values: list[int]) -> list[int]:
        return [value + 7 for value in values if value % 50 != 11]  # then it returns too few

    def as_pairs(self, values: list[int]) -> list[Any]:
        return [Outputs([value, value + 2]) if value % 4 == 1 else value for value in values]

    def as_sum(self, value: int, state: int | None) -> tuple[Any, int]:
        state = (state or 0) + value
        return (Outputs([value, state % 1000]) if value % 5 == 0 else state % 1000), state

    def as_ranks(self, values: list[int], state: int | None) -> tuple[list[int], int]:
        state = state or 0
        return [value * 10 + (state + place) % 10 for place, value in enumerate(values)], state + len(values)

    async def as_wait(self, value: int) -> Any:
        await asyncio.sleep(0)
        return Outputs([value]) if value % 7 == 0 else value - 1


def stage(kind: str, number: int) -> Stage:
    return Stage(
        f"{kind}_{number}",
        StageKind.STATEFUL if kind in STATEFUL else StageKind.STATELESS,
        batch=kind in ("halve", "joined", "pairs", "ranks"),
        concurrency=3 if kind == "wait" else 1,
    )


def plain_loop(stages: tuple[Stage, ...], numbers: range) -> dict[int, list[int] | None]:
    """By serial number the values, or None for an item at fault. Written without anything of ours."""
    app, states = Shaped(stages), dict[str, Any]()
    out: dict[int, list[int] | None] = {}
    for serial, number in enumerate(numbers):
        try:
            values = [number]
            for each in stages:
                values = [result for value in values for result in called(app, each, value, states)]
            out[serial] = values
        except ValueError:
            out[serial] = None
    return out


def called(app: Shaped, each: Stage, value: int, states: dict[str, Any]) -> list[int]:
    method: Callable[..., Any] = getattr(app, each.name)
    argument = [value] if each.batch else value
    if each.kind is StageKind.STATEFUL:
        result, states[each.name] = method(argument, states.get(each.name))
    elif each.name.startswith("wait"):
        result = asyncio.run(method(argument))
    else:
        result = method(argument)
    if each.name.startswith("repeat"):
        return list(result)
    if each.batch:
        (result,) = result  # ValueError where it returned too few
    return list(result) if isinstance(result, Outputs) else [result]


@st.composite
def stages_(draw: st.DrawFn) -> tuple[Stage, ...]:
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5))
    stateful = min((at for at, kind in enumerate(kinds) if kind in STATEFUL), default=len(kinds))
    kinds[stateful:] = ["pairs" if kind in MAY_FAIL else kind for kind in kinds[stateful:]]
    return tuple(stage(kind, number) for number, kind in enumerate(kinds))


@st.composite
def compositions(draw: st.DrawFn, stages: tuple[Stage, ...]) -> Composition:
    groups: list[list[Stage]] = [[stages[0]]]
    for each in stages[1:]:
        if draw(st.booleans()):
            groups.append([each])
        else:
            groups[-1].append(each)
    built = []
    for members in groups:
        stateful = any(each.kind is StageKind.STATEFUL for each in members)
        replicas = 1 if stateful else draw(st.integers(1, 3))
        pattern = Pattern.PAR if replicas > 1 else Pattern.SEQ
        built.append(Group(tuple(each.name for each in members), pattern, replicas))
    return Composition("/".join(f"{'+'.join(group.stages)}*{group.replicas}" for group in built), tuple(built))


class Run:
    """An engine on a pool. Losses never make a dead letter here: it is the stages alone that do."""

    def __init__(self, pool: LocalPool | SimulatedPool, stages: tuple[Stage, ...], composition: Composition) -> None:
        limits = DispatcherSettings(losses=100, buffer_items=1000)
        self.pool, self.codec = pool, PickleCodec()
        self.engine = Engine(Dispatcher(stages, composition, limits, validate=True), pool)
        self.out: dict[int, list[int] | None] = {}
        self.admitted = 0
        self.engine.start()

    def admit(self, count: int) -> None:
        numbers = list(range(self.admitted, self.admitted + count))
        self.engine.admit(self.codec.encode(numbers), (self.engine.now_s,) * count)
        self.admitted += count

    def advance(self) -> None:
        for outcome in self.engine.advance(self.engine.now_s + 0.02):
            if isinstance(outcome, Delivered):
                self._take(outcome)

    def _take(self, out: Delivered) -> None:
        assert out.serial == len(self.out), "out of order"
        if out.error is not None:
            self.out[out.serial] = None
            return
        values = self.codec.decode(out.payload, out.start, out.start + out.count)
        for serial, value in zip(out.serials, values, strict=True):
            self.out[serial] = list(value) if isinstance(value, Outputs) else [value]

    def lose(self, pick: int) -> None:
        workers = self.engine.view().workers
        if workers:
            self.pool.lose(workers[pick % len(workers)].worker)

    def finish(self) -> None:
        for _ in range(20_000):
            if self.engine.idle and not self.engine.view().switching:
                return
            self.advance()
        raise AssertionError(f"stuck: {self.engine.view()}")


def check(run: Run, stages: tuple[Stage, ...], data: st.DataObject) -> None:
    try:
        for action in data.draw(st.lists(st.sampled_from(["admit", "admit", "go on", "lose", "switch"]), max_size=12)):
            if action == "admit":
                run.admit(data.draw(st.integers(1, 50)))
            elif action == "lose":
                run.lose(data.draw(st.integers(0, 5)))
            elif action == "switch":
                style = data.draw(st.sampled_from(list(SwitchStyle)))
                run.engine.switch(data.draw(compositions(stages)), style)
            else:
                run.advance()
        run.finish()
        assert run.out == plain_loop(stages, range(run.admitted))
    finally:
        run.engine.close()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_in_virtual_time(data: st.DataObject) -> None:
    stages = data.draw(stages_())
    cost = Cost(0.001, 0.001)
    pool = SimulatedPool(lambda stage, serial: cost, Machine(start_s=0.01), lambda: Shaped(stages))
    check(Run(pool, stages, data.draw(compositions(stages))), stages, data)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_in_threads(data: st.DataObject) -> None:
    stages = data.draw(stages_())
    check(Run(LocalPool(lambda: Shaped(stages)), stages, data.draw(compositions(stages))), stages, data)
