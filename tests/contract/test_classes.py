"""Classes of workers: a stage that only its group loads, on every driver."""

from collections import Counter
from pathlib import Path

import pytest
from rig import Rig

from runtime.dispatch.events import SwitchStyle
from runtime.dispatch.settings import DispatcherSettings

NO_SPARES = DispatcherSettings(spares=0, idle_worker_s=0.0)
SPLIT, WIDE = "Par*2(read)-Par*2(find)-Seq-Seq", "Seq-Par*3(find)-Seq-Seq"
FUSED = "Seq(read)-Par*2(find,rank)-Seq(write)"


def notes(folder: Path, what: str = "set up") -> Counter[str]:
    """Return how often each class was set up, or torn down."""
    found = (each.name.removeprefix(what).split() for each in folder.iterdir() if each.name.startswith(what))
    return Counter(words[0] if len(words) > 1 else "" for words in found)


@pytest.fixture
def rig(make_rig, tmp_path: Path) -> Rig:
    return make_rig("loaded", settings=NO_SPARES, notes=tmp_path)


def passed(rig: Rig, count: int) -> None:
    """Every item went through all stages, in workers that had loaded them."""
    rig.finish()
    rig.check_order(count)
    assert rig.values == [[number, "find", "rank"] for number in range(count)]


def test_only_the_workers_that_run_a_stage_set_it_up(rig: Rig, tmp_path: Path) -> None:
    rig.open(SPLIT).feed(range(30))
    passed(rig, 30)
    rig.run_until(lambda: notes(tmp_path).total() == 6)  # the last one may start after the last item
    assert notes(tmp_path) == {"": 3, "find": 2, "rank": 1}


def test_a_resize_starts_and_ends_workers_of_the_class_of_its_group(rig: Rig, tmp_path: Path) -> None:
    rig.open(SPLIT).feed(range(20))
    rig.run_until(lambda: notes(tmp_path).total() == 6)
    rig.switch(WIDE, SwitchStyle.SEAMLESS)
    rig.feed(range(20, 40))
    rig.run_until(lambda: not rig.engine.view().switching)
    rig.switch("Seq-Seq-Seq-Seq", SwitchStyle.SEAMLESS)
    rig.feed(range(40, 60))
    passed(rig, 60)
    assert [switch.error for switch in rig.switches] == [None, None]
    assert notes(tmp_path) == {"": 3, "find": 3, "rank": 1}
    rig.run_until(lambda: notes(tmp_path, "torn down") == {"": 1, "find": 2})
    assert len(rig.engine.view().workers) == 4
    rig.switch("Seq(read)-Seq(find)-Seq(rank,write)", SwitchStyle.SEAMLESS)
    rig.run_until(lambda: not rig.engine.view().switching)
    assert notes(tmp_path) == {"": 3, "find": 3, "rank": 1}, "regrouped with a light stage, it is not loaded again"


@pytest.mark.parametrize("style", list(SwitchStyle))
def test_a_switch_loads_first_what_its_groups_need(rig: Rig, tmp_path: Path, style: SwitchStyle) -> None:
    rig.open(SPLIT).feed(range(20))
    rig.run_until(lambda: notes(tmp_path).total() == 6)  # one that comes up during the switch would not be wanted
    rig.switch(FUSED, style, drain_estimate_s=0.05)
    count = rig.feed_until_handed_over(20, FUSED)
    rig.feed(range(count, count + 20))
    rig.run_until(lambda: not rig.engine.view().switching)
    assert notes(tmp_path) == {"": 3, "find": 2, "rank": 1, "find+rank": 2}, "workers without a load are used again"
    rig.switch(SPLIT, style, drain_estimate_s=0.05)
    passed(rig, rig.feed_until_handed_over(count + 20, SPLIT))
    assert [switch.error for switch in rig.switches] == [None, None]


@pytest.mark.parametrize("shape", ["Seq-Seq-Seq-Seq", FUSED])
def test_a_lost_worker_is_replaced_by_one_of_its_class(rig: Rig, tmp_path: Path, shape: str) -> None:
    rig.open(shape).feed(range(10))
    rig.run_until(lambda: len(rig.engine.view().workers) == 4)
    before = notes(tmp_path)
    for turn in range(3):
        view = rig.engine.view()
        lost = next(each for each in view.workers if each.group is not None and 0 < each.group < 3 - (shape == FUSED))
        rig.lose(lost)
        rig.feed(range(10 + 10 * turn, 20 + 10 * turn))
        rig.run_until(lambda gone=lost.worker: gone not in [each.worker for each in rig.engine.view().workers])
        rig.run_until(lambda: len(rig.engine.view().workers) == 4)
    passed(rig, 40)
    more = notes(tmp_path) - before
    assert "" not in more, "light workers took no part"
    assert 3 <= more.total() <= 6, "one for each, and one beside it where the lost one had an item"


def test_workers_that_choose_their_stage_load_all(rig: Rig, tmp_path: Path) -> None:
    rig.open(SPLIT).feed(range(10))
    rig.switch("Dyn*2(ct)", SwitchStyle.SEAMLESS)
    count = rig.feed_until_handed_over(10, "Dyn*2(ct)")
    rig.feed(range(count, count + 10))
    passed(rig, count + 10)
    assert notes(tmp_path)["find+rank"] == 2
