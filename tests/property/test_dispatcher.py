"""Whatever happens to workers, tasks and switches, in whatever order: every item leaves once, in order, complete.
Invariants are checked after each event, and the log is played again. A log in ``logs/`` becomes a test."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compositions.dynamic import SCHEDULER_NAMES, Dyn, SchedulerName
from compositions.model import Composition, Group, Pattern, Stage, StageKind
from compositions.rules import groups_of_dyn, most_replicas
from runtime.dispatch import event_log
from runtime.dispatch.checkpoint import BEGINNING, Checkpoint
from runtime.dispatch.events import SwitchRequested, SwitchStyle, Tick
from runtime.dispatch.keyed import partitions as keyed_partitions
from runtime.dispatch.outcomes import Delivered, Shed
from runtime.dispatch.settings import DispatcherSettings
from tests.support.dispatcher_world import (
    HEAVY,
    HEAVY_KEYED,
    KEYED,
    KEYED_FIRST,
    NAMES,
    STAGES,
    WAITING,
    History,
    World,
    key_of,
    serial_of,
)
from tests.support.examples import examples
from tests.support.replay import replay

LIMITS = DispatcherSettings(buffer_items=4, losses=2, time_limit_s=1e9, drain_limit_s=0.5)
Outs = Sequence[Delivered | Shed]
ACTIONS = ["leave", "join", "fail", "partly", "lose", "switch", "resize", "tick", "late", "call off"]
ACTIONS += ["admit"] * 3 + ["done"] * 4

WIDE_END = Group(NAMES[3:], Pattern.PAR, 3)
FLAKY = (
    Composition("together", (Group(NAMES[:3], Pattern.SEQ, 1), WIDE_END)),
    Composition("apart", (*(Group((name,), Pattern.SEQ, 1) for name in NAMES[:3]), WIDE_END)),
)


@st.composite
def compositions(draw: st.DrawFn, stages: tuple[Stage, ...] = STAGES) -> Composition:
    if draw(st.integers(0, 3)) == 0:
        return dynamic(draw(st.integers(1, 4)), draw(st.sampled_from(SCHEDULER_NAMES)), stages)
    cuts = [0, *(place for place in (1, 2, 3) if draw(st.booleans())), 4]
    built = tuple(draw(groups_of(NAMES[begin:end], stages)) for begin, end in pairwise(cuts))
    return Composition("/".join("".join(group.stages) + str(group.replicas) for group in built), built)


@st.composite
def groups_of(draw: st.DrawFn, names: tuple[str, ...], stages: tuple[Stage, ...]) -> Group:
    most = min(3, most_replicas([stage for stage in stages if stage.name in names]))
    replicas = draw(st.integers(1, most))
    return Group(names, Pattern.PAR if replicas > 1 else Pattern.SEQ, replicas)


def dynamic(workers: int, scheduler: SchedulerName, stages: tuple[Stage, ...]) -> Composition:
    return Composition(f"Dyn{workers}{scheduler}", groups_of_dyn(stages, workers), dyn=Dyn(workers, scheduler))


@st.composite
def resized(draw: st.DrawFn, composition: Composition, stages: tuple[Stage, ...] = STAGES) -> Composition:
    """The same groups with other numbers of replicas, or only another name."""
    if composition.dyn is not None:
        return dynamic(draw(st.integers(1, 4)), composition.dyn.scheduler, stages)
    built = tuple(draw(groups_of(group.stages, stages)) for group in composition.groups)
    return Composition(draw(st.sampled_from(["this", "that"])), built)


@pytest.mark.parametrize(
    "stages",
    [STAGES, WAITING, KEYED, KEYED_FIRST, HEAVY, HEAVY_KEYED],
    ids=["one at a time", "at once", "by key", "by two keys", "loaded", "by key, loaded"],
)
@examples(300)
@given(data=st.data())
def test_every_item_leaves_once_in_order_and_complete(stages: tuple[Stage, ...], data: st.DataObject) -> None:
    drawn = {
        "overload": ["block", "shed"],
        "scheduling": ["on-demand", "round-robin"],
        "started_bytes": [1, 100, 2**31],
        "buffer_bytes": [50, 2**30],
    }
    limits = replace(LIMITS, **{name: data.draw(st.sampled_from(values)) for name, values in drawn.items()})
    with (
        patch.object(event_log, "PART_CELLS", data.draw(st.sampled_from([60, 50_000]))),
        patch.object(keyed_partitions, "COUNTED", data.draw(st.sampled_from([1, 64]))),
    ):
        world = World(data.draw(compositions(stages)), limits, stages)
        play(world, data)
    world.finish()
    check(world)
    check_replay(world)


def play(world: World, data: st.DataObject) -> None:
    for action in data.draw(st.lists(st.sampled_from(ACTIONS), max_size=120)):
        world.now_s += data.draw(st.sampled_from([0.0, 0.001, 0.2]))
        if action == "admit":
            world.admit(data.draw(st.sampled_from([1, 1, 2, 3, 7])))
        elif action == "join":
            world.join()
        elif action == "switch":
            world.requested += 1
            style = data.draw(st.sampled_from(list(SwitchStyle)))
            estimate_s = data.draw(st.sampled_from([0.0, 0.05]))
            wait_s = data.draw(st.sampled_from([0.0, estimate_s]))
            target = data.draw(compositions(world.stages))
            world.handle(SwitchRequested(world.now_s, target, style, estimate_s, estimate_s, wait_s=wait_s))
        elif action == "resize":
            active = world.dispatcher.view(world.now_s).composition
            asked = data.draw(resized(active, world.stages))
            if active.dyn is None:
                world.resize(asked)
            else:  # its workers have no group that could be resized
                world.requested += 1
                world.handle(SwitchRequested(world.now_s, asked))
        elif action == "call off":
            world.call_off()
        elif action == "tick":
            world.handle(Tick(world.now_s))
        elif action in ("lose", "late", "leave"):
            getattr(world, action)(data.draw(st.integers(0, 5)))
        else:
            world.answer(data.draw(st.integers(0, 5)), how=action)


def play_flaky(world: World, chance: Random) -> None:
    """Most bundles have an item that is tried again after a state has seen them together."""
    for _ in range(6):
        world.join()
    for _ in range(70):
        if chance.random() < 0.2:
            world.admit(chance.choice([2, 3, 7]))
        else:
            world.answer(chance.randrange(12), how=chance.choice(["done", "done", "done", "partly", "fail"]))


def check(world: World) -> None:
    assert [serial for out in world.out for serial in out.serials] == list(range(world.admitted))
    whole, counts = whole_items(world.out), seen_by_state(world.out)
    done = [out for out in world.out if isinstance(out, Delivered) and out.error is None]
    assert [serial_of(history) for history in whole] == [serial for out in done for serial in out.serials]
    assert [tuple(entry for entry in history if entry in NAMES) for history in whole] == [NAMES] * len(whole)
    assert counts == sorted(set(counts)), "the stateful stage saw its items out of order or twice"
    check_keys(world, whole)
    view = world.dispatcher.view(world.now_s)
    assert view.accepted == view.delivered + view.failed + view.shed == world.admitted
    assert (view.queued, view.in_flight, view.positions) == (0, 0, {})
    assert world.ended == world.requested


def whole_items(outs: Outs) -> list[History]:
    """The history of each item that came out whole."""
    done = [out for out in outs if isinstance(out, Delivered) and out.error is None]
    return [history for out in done for history in out.payload[out.start : out.start + out.count]]


def seen_by_state(outs: Outs) -> list[int]:
    """What the stateful stage counted at each of them."""
    return [next(entry for entry in history if isinstance(entry, int)) for history in whole_items(outs)]


@pytest.mark.parametrize("stages", [STAGES, KEYED_FIRST], ids=["one state", "states by key"])
@examples(150)
@given(data=st.data())
def test_a_checkpoint_has_what_left_and_the_state_of_just_that(stages: tuple[Stage, ...], data: st.DataObject) -> None:
    flaky = data.draw(st.sampled_from([None, None, *FLAKY]))
    first = World(flaky or data.draw(compositions(stages)), LIMITS, stages)
    if flaky:
        play_flaky(first, Random(data.draw(st.integers(0, 10_000))))
    else:
        play(first, data)
    for outcomes, checkpoint in first.checkpoints:
        before, behind = seen_by_state(first.out[:outcomes]), seen_by_state(first.out[outcomes:])
        state = checkpoint.states.get("c") or 0
        assert max(before, default=0) <= state < min(behind, default=state + 1)
        assert checkpoint.next_serial == sum(out.count for out in first.out[:outcomes])
        check_kept(first.stages, first.out[:outcomes], first.out[outcomes:], checkpoint)
    outcomes, begin = data.draw(st.sampled_from(first.checkpoints)) if first.checkpoints else (0, BEGINNING)
    del first.out[outcomes:]
    second = World(data.draw(compositions(stages)), LIMITS, stages, begin=begin)
    play(second, data)
    second.finish()
    check_kept(stages, first.out, second.out, begin)
    assert [serial for out in second.out for serial in out.serials] == list(range(begin.next_serial, second.admitted))
    counts = seen_by_state([*first.out, *second.out])
    assert counts == sorted(set(counts)), "the second one began with another state than the first one left"


def counted_by_key(outs: Outs, stage: str) -> Iterator[tuple[int, int]]:
    """Keys and their counts, of the items that came out whole."""
    for history in whole_items(outs):
        yield from ((entry[1], entry[2]) for entry in history if isinstance(entry, tuple) and entry[0] == stage)


def check_kept(stages: tuple[Stage, ...], before: Outs, behind: Outs, checkpoint: Checkpoint) -> None:
    """What is kept of each key is not behind what left, and before what leaves next."""
    for stage in (stage.name for stage in stages if stage.kind is StageKind.PARTITIONED):
        kept = {key: int(count) for states in checkpoint.keyed.get(stage, {}).values() for key, count in states.items()}
        for key, count in counted_by_key(before, stage):
            assert count <= kept.get(key, 0), f"{stage} has less of key {key} than left"
        for key, count in counted_by_key(behind, stage):
            assert kept.get(key, 0) < count, f"{stage} has more of key {key} than left"


def check_keys(world: World, whole: list[History]) -> None:
    """The count of each key went up by one with each of its items; those missing are no more than died on their way."""
    for stage in (stage for stage in world.stages if stage.kind is StageKind.PARTITIONED):
        counts: dict[int, list[int]] = {}
        for history in whole:
            [(_, key, count)] = [each for each in history if isinstance(each, tuple) and each[0] == stage.name]
            assert key == key_of(serial_of(history), stage.name)
            counts.setdefault(key, []).append(count)
        dead = sum(out.error is not None for out in world.out if isinstance(out, Delivered))
        missing = 0
        for each in counts.values():
            assert each == sorted(set(each)), f"{stage.name} saw items of a key out of order or twice, or lost a state"
            missing += each[-1] - len(each)
        assert missing <= dead, f"{stage.name} counted {missing} items too many, and {dead} died"


def check_replay(world: World) -> None:
    """The log, from its opening on, ends where the run ended, and says the same on the way."""
    lines = list(world.dispatcher.log.lines())
    replayed = replay(lines)
    assert replayed.dispatcher.view(world.now_s) == world.dispatcher.view(world.now_s)
    left = [each.serials for each in replayed.outcomes if isinstance(each, Delivered | Shed)]
    assert left == [out.serials for out in world.out][-len(left) :] if left else True


LOGS = sorted((Path(__file__).parent / "logs").glob("*.jsonl"))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_log_from_the_field_plays_without_a_fault(path: Path) -> None:
    replayed = replay(path.read_text().splitlines())
    assert replayed.dispatcher.accepted > 0
    assert replayed.instructions
