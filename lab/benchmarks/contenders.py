"""Contenders of a comparison: ours and the peers. Each can carry one item through, or a stream of items, in order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import ray
from ray.dag import InputNode

from apps.contract import App
from compositions.model import Composition, Stage
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.outcomes import Delivered
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from runtime.pools.ray.pool import RayPool

IN_FLIGHT = 32


class Contender(Protocol):
    def one(self, value: Any) -> Any:
        """Carries one item through all stages and waits for it."""

    def stream(self, values: Iterable[Any]) -> int:
        """Carries items through, several at a time; returns how many came out, in order."""

    def close(self) -> None: ...


class Recompose:
    """A composition on the ray pool, driven as the runner does: dispatcher and engine included."""

    def __init__(
        self,
        make_app: Callable[[], App],
        stages: Sequence[Stage],
        composition: Composition,
    ) -> None:
        self._pool = RayPool(make_app, [stage.name for stage in stages])
        self._codec = self._pool.codec
        settings_ = DispatcherSettings(buffer_items=IN_FLIGHT, spares=0)
        dispatcher = Dispatcher(stages, composition, settings_, self._codec.size_bytes)
        self._engine = Engine(dispatcher, self._pool)
        self._engine.start()
        while len(self._engine.view().workers) < composition.workers:
            self._engine.advance(self._engine.now_s + 0.1)

    def one(self, value: Any) -> Any:
        engine = self._engine
        engine.admit(self._codec.encode([value]), (engine.now_s,))
        while True:
            for outcome in engine.advance(engine.now_s + 1.0):
                if isinstance(outcome, Delivered):
                    return self._codec.decode(outcome.payload)[0]

    def stream(self, values: Iterable[Any]) -> int:
        engine, delivered = self._engine, 0
        for value in values:
            while not engine.has_room:
                delivered += self._collect()
            engine.admit(self._codec.encode([value]), (engine.now_s,))
        while not engine.idle:
            delivered += self._collect()
        return delivered + self._collect(0.0)

    def _collect(self, timeout_s: float = 1.0) -> int:
        count = 0
        for outcome in self._engine.advance(self._engine.now_s + timeout_s):
            if isinstance(outcome, Delivered):
                self._codec.decode(outcome.payload)
                count += 1
        return count

    def close(self) -> None:
        self._engine.close()


class _Step:
    def step(self, value: Any) -> Any:
        return value


def _actors(count: int) -> list[Any]:
    step: Any = ray.remote(num_cpus=0)(_Step)
    return [step.remote() for _ in range(count)]


class ActorChain:
    """Ray actors, the result of each handed to the next by reference."""

    def __init__(self, stages: int) -> None:
        self._steps = _actors(stages)

    def _submit(self, value: Any) -> Any:
        for actor in self._steps:
            value = actor.step.remote(value)
        return value

    def one(self, value: Any) -> Any:
        return ray.get(self._submit(value))

    def stream(self, values: Iterable[Any]) -> int:
        return _windowed(self._submit, values)

    def close(self) -> None:
        for actor in self._steps:
            ray.kill(actor)


class CompiledGraph:
    """The same actors as a static graph, compiled by Ray."""

    def __init__(self, stages: int) -> None:
        self._steps = _actors(stages)
        with InputNode() as node:
            for actor in self._steps:
                node = actor.step.bind(node)
        self._graph = node.experimental_compile(_max_inflight_executions=IN_FLIGHT)

    def one(self, value: Any) -> Any:
        return ray.get(self._graph.execute(value))

    def stream(self, values: Iterable[Any]) -> int:
        # More at once than the graph has places blocks it: each place between two actors holds one item.
        return _windowed(self._graph.execute, values, len(self._steps))

    def close(self) -> None:
        self._graph.teardown()
        for actor in self._steps:
            ray.kill(actor)


def _windowed(submit: Callable[[Any], Any], values: Iterable[Any], size: int = IN_FLIGHT) -> int:
    waiting: deque[Any] = deque()
    count = 0
    for value in values:
        if len(waiting) == size:
            ray.get(waiting.popleft())
            count += 1
        waiting.append(submit(value))
    for promise in waiting:
        ray.get(promise)
    return count + len(waiting)


def p50_ms(contender: Contender, value: Any, items: int) -> float:
    """Median time of one item at a time, in milliseconds; the first few warm up."""
    for _ in range(5):
        contender.one(value)
    times = []
    for _ in range(items):
        began_s = time.perf_counter()
        contender.one(value)
        times.append(time.perf_counter() - began_s)
    return sorted(times)[items // 2] * 1e3


def rate_per_s(contender: Contender, values: Sequence[Any]) -> float:
    """Items per second of a stream."""
    began_s = time.perf_counter()
    count = contender.stream(values)
    assert count == len(values), f"{len(values)} items went in and {count} came out"
    return count / (time.perf_counter() - began_s)
