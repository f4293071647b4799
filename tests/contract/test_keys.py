"""Partitioned stages, on every pool: in any composition what a plain loop gives, whatever happens on the way."""

import random
import sys
from pathlib import Path
from typing import Any

import pytest
from rig import Rig

from apps.contract import Outputs
from runtime.dispatch.settings import DispatcherSettings

sys.path.append(str(Path(__file__).parent / "apps"))

from contract_apps import Keys, KeysOptions

ALONE = "Seq-Seq-Seq-Seq-Seq"
SPLIT = "Par*3-Par*2-Par*4(count)-Par*2(place,show)"
SHAPES = [
    ALONE,
    SPLIT,
    "Par*2(seen,spread)-Par*2-Par*3(place,show)",
    "Seq(seen,spread,count)-Par*2(place,show)",
    "Seq(seen,spread,count,place,show)",
    *("Dyn*1", "Dyn*3(ct)", "Dyn*3(kanban)", "Dyn*2(qst)"),
]
RESIZED = "Par*2-Seq-Par*3(count)-Par*3(place,show)"
"""``SPLIT`` with other numbers of workers."""


def loop(numbers: range, fail_at: int | None = None) -> dict[int, list[str]]:
    """Each stage on each value of an item, one after the other; items that die in ``count`` are left out."""
    app, states = Keys(KeysOptions()), dict[tuple[str, Any], Any]()

    def step(stage: str, value: Any) -> Any:
        if stage in ("spread", "show"):
            return getattr(app, stage)(value)
        key = stage, getattr(app, f"{stage}_key")(value)
        if stage == "place":  # gets all values of a task, and the states of their keys
            (result,), new = app.place([value], {key[1]: states.get(key)})
            states[key] = new[key[1]]
        else:
            result, states[key] = getattr(app, stage)(value, states.get(key))
        return result

    out = {}
    for serial, number in enumerate(numbers):
        values = [number]
        for stage in app.stages:
            if stage.name == "count" and any(seen == fail_at for _, seen in values):
                break
            made = [step(stage.name, value) for value in values]
            values = [each for result in made for each in (result if isinstance(result, Outputs) else [result])]
        else:
            out[serial] = values
    return out


@pytest.mark.parametrize("shape", SHAPES)
def test_any_composition_and_size_of_bundle_gives_what_a_loop_gives(make_rig, shape):
    rig: Rig = make_rig("keys").open(shape)
    fed = 0
    for size in (1, 30):
        for first in range(fed, fed + 120, size):
            rig.feed_bundle(range(first, first + size))
        fed += 120
        rig.finish()
        rig.check_order(fed)
        assert rig.by_serial == loop(range(fed))


def test_a_mixed_run(make_rig):
    rig: Rig = make_rig("keys", settings=DispatcherSettings()).open(SPLIT)
    rig.patience_s = 120.0  # a worker of Ray's takes seconds to start where the machine is busy
    fed = rig.mix(random.Random(5), 10, [*SHAPES, SPLIT, RESIZED, RESIZED], lose_every=2)
    assert rig.by_serial == loop(range(fed))


def test_a_value_at_fault_dies_with_its_item_and_leaves_its_key_as_it_was(make_rig):
    """``seen`` is 2 for the second number of each key: those items die in ``count``, one value after the other."""
    rig: Rig = make_rig("keys", fail_at=(2,)).open(SPLIT)
    rig.feed_bundle(range(60))
    rig.feed_bundle(range(60, 120))
    rig.finish()
    rig.check_order(120)
    dead = [out.serial for out in rig.delivered if out.error is not None]
    assert dead == [serial for serial in range(7, 14) if serial % 4]
    assert all("cannot count 2" in out.error for out in rig.delivered if out.error is not None)
    assert rig.by_serial == loop(range(120), fail_at=2)
