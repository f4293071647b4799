"""What it costs to get from the active composition to another, in time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compositions.model import Composition
from control.forecast.catalogue import Catalogue
from control.situation import Situation
from profiler.service_time import stage_costs
from runtime.dispatch.events import SwitchStyle


def transition_s(situation: Situation, catalogue: Catalogue) -> npt.NDArray[np.float64]:
    """Seconds until each of ``catalogue`` has the stream to itself; 0 for the active one. A resize costs the start of
    workers that are not warm, and nothing when they are; a switch costs a drain as well."""
    table, active = catalogue.table, catalogue.row_of(situation.active)
    start_s = np.where(table.workers > situation.snapshot.workers_alive, situation.settings.trust.worker_start_s, 0.0)
    drains = np.ones(len(table), dtype=bool)
    if situation.settings.style is not SwitchStyle.DRAIN:
        drains = ~table.grouped_as(active)
    costs = start_s + np.where(drains, _drain_s(situation), 0.0)
    costs[active] = 0.0
    return costs


def resize_in_words(situation: Situation, composition: Composition) -> str:
    """That ``composition`` is a resize away, and what that waits for."""
    missing = composition.workers - situation.snapshot.workers_alive
    if missing <= 0:
        return "a resize in place"
    return f"a resize in place, for which {missing} {'worker starts' if missing == 1 else 'workers start'}"


def _drain_s(situation: Situation) -> float:
    """How long what is in flight stays: as long as items do."""
    snapshot = situation.snapshot
    if snapshot.inside is not None:
        return snapshot.inside.mean_s
    item_s = sum(cost.service_s for cost in stage_costs(snapshot.stages, snapshot.cores).values())
    return snapshot.bundle_items * item_s
