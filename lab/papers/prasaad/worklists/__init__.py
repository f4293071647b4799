"""Worklists of operators: ``fifo``, and three designs for partitioned ones (Prasaad et al., section 4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, get_args

from compositions.errors import RecomposeError
from lab.papers.prasaad.worklists.hybrid import Hybrid
from lab.papers.prasaad.worklists.partitioned import Partitioned
from lab.papers.prasaad.worklists.port import Worklist
from lab.papers.prasaad.worklists.shared import Shared

QueueName = Literal["hybrid", "partitioned", "shared"]
QUEUE_NAMES: tuple[QueueName, ...] = get_args(QueueName)
_MAKE: Mapping[str, Callable[[int], Worklist]] = {
    "hybrid": Hybrid,
    "partitioned": Partitioned,
    "shared": lambda partitions: Shared(),
}


def make_worklist(name: str, partitions: int) -> Worklist:
    """For a partitioned operator. Raises: RecomposeError when none is called ``name``, or there is no partition."""
    make = _MAKE.get(name)
    if make is None:
        raise RecomposeError(f"unknown queue {name!r}; there are {', '.join(_MAKE)}")
    if partitions < 1:
        raise RecomposeError(f"partitions is {partitions}; it must be at least 1")
    return make(partitions)
