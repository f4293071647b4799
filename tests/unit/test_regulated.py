"""Regulators as strategies: which group, which latency, and what is said where there is nothing to regulate."""

from dataclasses import replace
from typing import Any

import pytest

from compositions.model import Composition, Group, Pattern
from control.assess import Assessment
from control.decisions import Trigger
from control.objectives import objective_of
from control.settings import Settings
from control.situation import Situation
from control.strategies import make_strategy
from control.strategies.base import Stay
from profiler.slo import Slo, SloStatus
from profiler.snapshot import LatencyFrom, LatencyStats, Snapshot, StageProfile

FARM = Composition(
    "farm", (Group(("load",)), Group(("scale",), Pattern.PAR, 2), Group(("detect",), Pattern.PAR, 3), Group(("store",)))
)
PLAIN = Composition("plain", tuple(Group((name,)) for name in ("load", "scale", "detect", "store")))
NAMED = replace(FARM, name="four", groups=(*FARM.groups[:2], replace(FARM.groups[2], replicas=4), FARM.groups[3]))


def situation(inside_ms: float | None, active: Composition = FARM, slo: Slo | None = None, **told: object) -> Situation:
    stages = tuple(
        StageProfile(name, ms / 1e3, ms / 1e3, 0.0, ms / 1e3, ms / 1e3, 100)
        for name, ms in (("load", 90.0), ("scale", 5.0), ("detect", 60.0), ("store", 1.0))
    )
    inside = None if inside_ms is None else LatencyStats(*[inside_ms / 1e3] * 4, 50)
    waited = LatencyStats(*[9.0] * 4, 50)
    nothing = {"throughput_per_s": None, "queued_change_per_s": None, "input_rate_per_s": 30.0}
    zeros = dict.fromkeys(("now_s", "stable_since_s", "window_start_s", "delivered", "queued", "in_flight"), 0)
    seen = Snapshot(
        composition=active.name, switching=False, latency=waited, inside=inside, stages=stages, cores=12,
        workers_alive=7, hop_s=1e-4, **{**nothing, **zeros, **told},  # type: ignore[arg-type]
    )  # fmt: skip
    objective = objective_of(slo or Slo("latency", 90.0), LatencyFrom.READ)
    judged = Assessment(SloStatus.MET, True, "met")
    return Situation(Trigger.PROFILE, seen, objective, judged, active, (FARM, PLAIN), Settings())


def test_the_slowest_replicated_group_is_resized_in_place_by_the_latency_inside() -> None:
    proposal = make_strategy("spar").propose(situation(60.0), ())
    assert [group.replicas for group in proposal.composition.groups] == [1, 2, 4, 1]
    assert (proposal.composition.grouping, proposal.composition.name) == (FARM.grouping, "detect x 4")
    assert proposal.reason == "spar: latency 60 ms against 72 to 90 ms: 4 of at most 10"
    known = make_strategy("spar").propose(replace(situation(60.0), compositions=(FARM, NAMED)), ())
    assert known.composition is NAMED, "one that has a name keeps it"


@pytest.mark.parametrize("strategy", ["spar", "two-sided"])
@pytest.mark.parametrize(
    ("seen", "why"),
    [
        ((60.0, PLAIN), " regulates a replicated group, and composition plain has none"),
        ((60.0, FARM, Slo("throughput", 30.0)), " regulates a latency, and none is asked for; set one with"),
        ((None,), ": no item was finished in this step"),
    ],
)
def test_where_there_is_nothing_to_regulate_it_says_so(strategy: str, seen: tuple[Any, ...], why: str) -> None:
    stay = make_strategy(strategy).propose(situation(*seen), ())
    assert isinstance(stay, Stay)
    assert stay.reason.startswith(strategy + why)


def test_settings_are_those_of_the_run() -> None:
    told = Settings().overridden({"scaling_factor": 2, "threads": 6, "control_step_s": 0.5})
    proposal = make_strategy("spar").propose(replace(situation(60.0), settings=told), ())
    assert proposal.composition.groups[2].replicas == 4  # 3 + 2, held to 6 - 2
    assert make_strategy("spar").pace(told).check_interval_s == 0.5
