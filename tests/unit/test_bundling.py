"""Check how many items travel together in a run: what was asked for, what the composition says, what was measured."""

from dataclasses import replace
from typing import cast

import pytest

from compositions.batch_settings import BatchSettings, Gains, Sizes
from compositions.batching import Batching, BundleLimits, SizeControl
from compositions.model import Composition, Group, Pattern, Stage
from control.bundles.batch_control import Steering
from control.bundles.bundle_size import Grain
from control.bundles.port import Choice
from control.choices import Choices
from control.decisions import Mode
from control.manager import Manager
from control.settings import Settings
from control.strategies import make_strategy
from datapipe.sources.schedule import Offer
from profiler.slo import Slo
from profiler.snapshot import Demand, SizeLeftOpen
from runtime.dispatch.dispatcher import Dispatcher
from service.runner.bundling import PAYS_FOR_S, Bundling, Inlet
from tests.support.figures import NOTHING_SEEN, profile

STAGES = (Stage("a"), Stage("b"))
CHAIN = Composition("chain", (Group(("a",)), Group(("b",))))
OWN = replace(CHAIN, name="own", batch=Batching(100, 5000, 20.0))
MERGED = Composition("merged", (Group(("a", "b")),))
WIDE = Composition("wide", (Group(("a",)), Group(("b",), Pattern.PAR, 2)))
OPEN = replace(CHAIN, name="open", batch=Batching(linger_ms=3.0))
MIB = 2**20


class Source:
    """Keeps what it was told."""

    rate_per_s: float | None = 1000.0
    behind = 0

    def set_batching(self, limits: BundleLimits) -> None:
        self.limits = limits

    def offer(self) -> Offer:
        return Offer(0, 0, self.behind, 0.0)

    def offered_per_s(self, now_s: float) -> float | None:
        return self.rate_per_s


class Bench:
    """The bundling of a run whose stages take ``each_s``, looked at when the test says so."""

    def __init__(self, asked: Batching, active: Composition = CHAIN, slo: Slo | None = None) -> None:
        self.source = Source()
        self.bundling = Bundling(cast(Inlet, self.source), asked, active)
        choices = Choices(STAGES, (CHAIN, OWN, OPEN), active)
        self.manager = Manager(Settings(), make_strategy("expected-cost"), choices, Mode.AUTO, slo)

    def look(
        self, each_s: float, active: Composition = CHAIN, hop_s: float = 1e-3, now_s: float = 0, item_bytes: float = 0
    ) -> int:
        """The size after a turn of the loop."""
        profiles = tuple(profile(stage.name, each_s) for stage in STAGES)
        seen = replace(NOTHING_SEEN, composition=active.name, stages=profiles, cores=2, now_s=now_s, hop_s=hop_s)
        view = replace(Dispatcher(STAGES, active).view(0.0), item_bytes=item_bytes)
        self.bundling.decide(seen, view, self.manager)
        assert self.source.limits.items == self.bundling.grain.items
        return self.bundling.grain.items


def test_the_size_that_others_would_have_is_told_where_nobody_named_one() -> None:
    def told(bench: Bench, active: Composition = CHAIN) -> tuple[int, SizeLeftOpen | None]:
        bench.look(each_s=100e-6, active=active)
        demand = bench.bundling.tell(Demand(5, 4, 1, 0.5))
        assert (demand.offered, demand.admitted, demand.missed, demand.lag_s) == (5, 4, 1, 0.5)
        return demand.bundle_limit, demand.size_left_open

    assert told(Bench(Batching())) == (32, SizeLeftOpen(None))
    assert told(Bench(Batching()), OWN) == (100, SizeLeftOpen(None))  # that is of this one alone
    assert told(Bench(Batching(items=7))) == (7, None)
    assert told(Bench(Batching(control=SizeControl("pid")))) == (32, SizeLeftOpen(None))  # it has nothing to aim at
    assert told(Bench(Batching(control=SizeControl("pid")), slo=Slo("latency", 0.02)))[1] is None


def test_the_size_follows_the_hop() -> None:
    bench = Bench(Batching())
    assert bench.source.limits == BundleLimits(1, 4 * MIB, 0.0)
    assert bench.look(each_s=100e-6, hop_s=10e-6) == 1  # 2 hops of 10 us are a tenth of 200 us of work
    assert bench.look(each_s=100e-6, hop_s=1e-3) == 32  # a tenth of the work is 20 us; 10 ms of waiting bear 50 items
    assert bench.look(each_s=100e-6, hop_s=50e-6) == 4
    assert bench.bundling.runs.used == [1, 32, 4]
    assert bench.bundling.grain.reason == "a hop takes 0.05 ms, much against 0.2 ms of work"


def test_large_results_keep_bundles_small() -> None:
    bench = Bench(Batching())
    assert bench.look(each_s=100e-6, hop_s=1e-3, item_bytes=1000) == 32
    assert bench.look(each_s=100e-6, hop_s=1e-3, item_bytes=MIB) == 4
    assert bench.bundling.grain.reason.endswith("; 4 items have 4 MiB")
    assert bench.look(each_s=100e-6, hop_s=1e-3, item_bytes=100 * MIB) == 1
    assert Bench(Batching(items=32)).look(each_s=100e-6, item_bytes=MIB) == 32, "as asked for"


def test_an_objective_of_latency_bounds_what_items_wait_for_each_other() -> None:
    bench = Bench(Batching(linger_ms=50.0), slo=Slo("latency", 4.0))
    assert bench.look(each_s=50e-6) == 8  # a quarter of 4 ms bears 10 items of 0.1 ms
    assert bench.source.limits.linger_s == pytest.approx(1e-3)
    bench.manager.set_slo(Slo("throughput", 100.0))
    assert bench.look(each_s=50e-6) == 64
    assert bench.source.limits.linger_s == pytest.approx(0.05)


def test_what_is_asked_for_holds_from_the_next_bundle_on() -> None:
    bench = Bench(Batching())
    assert bench.look(each_s=50e-6) == 64
    bench.bundling.set(Batching(512, 1000, 5.0))
    assert bench.source.limits == BundleLimits(512, 1000, 0.005)
    assert (bench.look(each_s=50e-6), bench.bundling.grain.reason) == (512, "as requested")
    bench.bundling.set(Batching())
    assert bench.source.limits == BundleLimits(512, 4 * MIB, 0.0)
    assert bench.look(each_s=50e-6) == 64


def test_a_composition_that_says_it_itself_is_obeyed_while_it_is_active() -> None:
    bench = Bench(Batching(7), OWN)
    assert bench.source.limits == BundleLimits(100, 5000, 0.02)
    assert bench.bundling.grain.reason == "set by composition own"
    bench.bundling.set(Batching(9))
    assert bench.bundling.in_force == OWN.batch
    assert bench.look(50e-6, OWN) == 100
    assert bench.look(50e-6, OPEN) == 64
    assert bench.source.limits.linger_s == pytest.approx(0.003)
    assert bench.look(50e-6, CHAIN) == 9
    assert bench.bundling.in_force == Batching(9)


PID = Batching(control=SizeControl("pid", BatchSettings(sizes=Sizes(first=6))))


def test_where_a_latency_is_asked_for_and_bundles_pay_ours_chooses() -> None:
    bench = Bench(Batching(), slo=Slo("latency", 4.0))
    assert bench.bundling.controller == "auto"
    assert bench.look(each_s=50e-6) == 8
    status = bench.bundling.status
    assert (status.controller, status.size, status.reason) == ("slo-batch", 8, "first: nothing was measured yet")
    assert status.settings["target_ms"] == pytest.approx(3.0)
    bench.manager.set_slo(None)
    bench.look(each_s=50e-6)
    assert (bench.bundling.controller, bench.bundling.status.settings) == ("auto", None)
    assert [(each.controller, each.to_items) for each in bench.bundling.runs.kept] == [("slo-batch", 8), ("auto", 64)]


def test_behind_a_source_that_is_read_as_fast_as_it_goes_the_rule_stays_unless_a_controller_is_named() -> None:
    bench = Bench(Batching(), slo=Slo("latency", 4.0))
    bench.source.rate_per_s = None
    assert (bench.look(each_s=50e-6), bench.bundling.controller) == (8, "auto")
    bench.bundling.set(PID)
    assert bench.bundling.controller == "pid"


@pytest.mark.parametrize(("asked", "size"), [(1000, 32), (20, 20), (1, 8)])
def test_ours_goes_from_the_rule_to_four_times_that(monkeypatch: pytest.MonkeyPatch, asked: int, size: int) -> None:
    bench = Bench(Batching(), slo=Slo("latency", 4.0))
    bench.look(each_s=50e-6)
    monkeypatch.setattr(Steering, "admitted", lambda *_: Choice(asked, "a law that was learned in noise"))
    bench.bundling.admitted(0, 8, 1.0)
    assert bench.bundling.grain == Grain(size, "a law that was learned in noise")


@pytest.mark.parametrize(("behind", "size"), [(0, 32), (160, 32), (1100, 256), (100_000, 1000)])
def test_ours_goes_to_a_quarter_of_what_piles_up(monkeypatch: pytest.MonkeyPatch, behind: int, size: int) -> None:
    bench = Bench(Batching(), slo=Slo("latency", 4.0))
    bench.look(each_s=50e-6)
    choice = Choice(1000, "whole bundles wait")
    monkeypatch.setattr(Steering, "admitted", lambda *_: choice)
    bench.source.behind = behind
    bench.bundling.admitted(0, 8, 1.0)
    assert bench.bundling.grain.items == size
    bench.source.behind = 0
    bench.bundling.admitted(8, 8, 2.0)
    assert bench.bundling.grain.items == 32, "what had piled up is gone"


def test_a_controller_does_not_come_and_go_with_noise() -> None:
    bench = Bench(Batching(), slo=Slo("latency", 400.0))
    bench.look(each_s=50e-6)
    bench.look(each_s=50e-3)  # for a moment
    assert bench.bundling.controller == "slo-batch"
    bench.look(each_s=50e-3, now_s=PAYS_FOR_S)
    assert bench.bundling.controller == "auto"


def test_a_controller_without_an_objective_says_so_and_leaves_the_size_to_the_rule() -> None:
    bench = Bench(PID)
    assert bench.look(each_s=50e-6) == 64
    status = bench.bundling.status
    assert (status.controller, status.asked, status.size) == ("auto", "pid", 64)
    assert str(status.reason).startswith("pid needs a latency objective and has none, so auto decides: ")
    bench.manager.set_slo(Slo("latency", 20.0))
    assert bench.look(each_s=50e-6) == 6
    assert (bench.bundling.controller, bench.bundling.status.asked) == ("pid", "pid")


def test_a_controller_can_be_named_and_taken_back_while_it_runs() -> None:
    bench = Bench(Batching(3), slo=Slo("latency", 20.0))
    bench.look(each_s=50e-6)
    bench.bundling.set(PID)
    assert (bench.bundling.controller, bench.bundling.grain.items) == ("pid", 6)
    first = bench.bundling.status.settings
    bench.bundling.set(replace(PID, control=SizeControl("pid", BatchSettings(gains=Gains(kp=20)))))
    assert bench.bundling.status.settings != first
    bench.bundling.set(Batching(9))
    assert (bench.bundling.controller, bench.bundling.grain.items) == ("fixed", 9)
    assert [each.controller for each in bench.bundling.runs.kept] == ["pid", "fixed"]


def test_another_grouping_is_another_law() -> None:
    bench = Bench(PID, slo=Slo("latency", 20.0))
    bench.look(each_s=50e-6)
    first = bench.bundling._steering
    bench.look(each_s=50e-6)
    assert bench.bundling._steering is first
    bench.look(each_s=50e-6, active=WIDE)
    assert bench.bundling._steering is first, "a resize changes nothing of what a bundle costs"
    bench.look(each_s=50e-6, active=MERGED)
    assert bench.bundling._steering is not first
