"""A dynamic composition measures selectivities: its schedulers decide as those of the simulated paper do."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from apps.contract import Outputs
from compositions.batch_settings import SchedulerSettings
from compositions.model import Stage, StageKind
from compositions.notation import parse
from lab.papers.prasaad.operators import Operator
from lab.papers.prasaad.plant import Plant, Setup
from lab.simulation.machine import Cost, Machine
from lab.simulation.pool import SimulatedPool
from recompose import pipeline
from runtime import scheduling
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.outcomes import Delivered, TaskTimed
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from runtime.pools.local import PickleCodec
from runtime.scheduling.port import Look

SELECTIVITIES = {"first": 1.0, "filter": 0.01, "last": 1.0}
OPERATORS = [Operator(name, StageKind.STATELESS, 0.01, selectivity=each) for name, each in SELECTIVITIES.items()]
WORKERS, INPUTS = 2, 600
SETTINGS: dict[str, dict[str, Any]] = {name: {"slice_s": 0.009} for name in ("qst", "ct", "lp", "et")}
SETTINGS["qst"]["capacity"] = 3
SETTINGS["ct"]["window_s"] = 1.0
"""A slice holds one tuple, so every tuple is a decision. QST's thresholds are 2.94, 0.03, 0.03 once the selectivity is
known, and would be 1, 1, 1 without it."""


def step(operator: Operator) -> tuple[Stage, Any]:
    return Stage(operator.name), lambda value: Outputs(operator.outputs(value, 0)[0])


Filtering = pipeline(*map(step, OPERATORS))
"""The operators, as an app."""


class Spy:
    """Notes the operator that each question was answered with, and the selectivities that the answer knew."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: Any) -> None:
        self.chosen: list[int] = []
        self.selectivities: list[float] = []
        spy, real = self, scheduling.SCHEDULERS[name]

        class Noting(real):  # type: ignore[misc, valid-type]
            def choose(self, looks: Sequence[Look]) -> int | None:
                found: int | None = super().choose(looks)
                if found is not None:
                    spy.chosen.append(found)
                spy.selectivities = [look.selectivity for look in looks]
                return found

        monkeypatch.setitem(scheduling.SCHEDULERS, name, Noting)  # type: ignore[arg-type]


def live(rate_per_s: float, notation: str) -> list[object]:
    """Run the dispatcher in virtual time, without hops and without a second task at a worker; return its outcomes."""
    machine = Machine(cores=WORKERS, hop_s=0, hop_cpu_s=0, start_s=0)
    pool = SimulatedPool(lambda stage, serial: Cost(0.01), machine, Filtering)
    settings = DispatcherSettings(spares=0, prefetch_below_s=0.0)
    engine = Engine(Dispatcher(Filtering.stages, parse(notation, Filtering.stages), settings), pool)
    outcomes: list[object] = []
    engine.start()
    while len(engine.view().workers) < WORKERS:
        engine.advance(engine.now_s + 1e-9)
    codec, began_s = PickleCodec(), engine.now_s
    for number in range(INPUTS):
        while engine.now_s < began_s + number / rate_per_s:
            outcomes += engine.advance(began_s + number / rate_per_s)
        engine.admit(codec.encode([number]), (engine.now_s,))
    while not engine.idle:
        outcomes += engine.advance(engine.now_s + 1.0)
    return outcomes


def notation(name: str, **more: Any) -> str:
    said = ", ".join(f"{key}={value}" for key, value in {**SETTINGS[name], **more}.items())
    return f"Dyn*{WORKERS}({name}, {said})"


def simulated(rate_per_s: float, name: str, operators: Sequence[Operator] = OPERATORS) -> None:
    setup = Setup(name, workers=WORKERS, settings=SchedulerSettings(**SETTINGS[name]))
    Plant(operators, setup).run(range(INPUTS), rate_per_s)


@pytest.mark.parametrize(("name", "rate_per_s"), [*product(("qst", "ct"), (60.0, 130.0)), ("lp", 130.0), ("et", 60.0)])
def test_a_scheduler_decides_as_in_the_paper(name: str, rate_per_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """130 inputs/s are more than two workers can do (100): lists grow, and thresholds decide."""
    with monkeypatch.context() as patch:
        ours = Spy(patch, name)
        live(rate_per_s, notation(name))
    paper = Spy(monkeypatch, name)
    simulated(rate_per_s, name)
    assert len(ours.chosen) > 2 * INPUTS
    assert ours.chosen == paper.chosen
    assert ours.selectivities == pytest.approx([*SELECTIVITIES.values()], abs=0.005)


def test_a_filtered_item_goes_to_no_further_worker_and_counts_in_the_profile() -> None:
    outcomes = live(60.0, notation("lp"))
    timed = [each for each in outcomes if isinstance(each, TaskTimed)]
    at_last = [each.timings[-1].wall_s for each in timed if each.timings[-1].stage == "last"]
    assert len(at_last) == INPUTS, "a mean over items is over all of them"
    assert 0 < sum(wall_s > 0 for wall_s in at_last) < 0.03 * INPUTS
    assert sum(isinstance(each, Delivered) for each in outcomes) == INPUTS
