"""Latency where bundles are just as large as the rate needs: each is what came while those before were in work."""

from __future__ import annotations

from compositions.capacity.queueing import Array
from compositions.capacity.table import CompositionTable

_GATHERED = 1.5
"""Half a bundle that gathers and one that is admitted; beside them there are one a worker, in work or on its way to it,
and one that waits for each group, as long as the weakest group never rests. Groups after it have fewer."""


def latency_while_growing(
    table: CompositionTable, smaller: tuple[float, Array], larger: tuple[float, Array], rate_per_s: float
) -> Array:
    """Mean, seconds, for rates between what the ``smaller`` and the ``larger`` bundles carry, each given as its items
    and its items/s; no meaning elsewhere.

    The time a bundle takes at the weakest group grows evenly with its size, and the stream has the size at which that
    is the time in which the next one gathers.
    """
    (few, few_per_s), (many, many_per_s) = smaller, larger
    item_s = (many / many_per_s - few / few_per_s) / (many - few)
    bundle_s = few / few_per_s - few * item_s
    gathers_s = bundle_s / (1.0 - rate_per_s * item_s)
    return gathers_s * (_GATHERED + table.workers + table.groups)
