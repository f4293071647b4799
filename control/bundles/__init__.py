"""Batch controllers by name: each chooses the number of items of a bundle (docs/decisions/0023-controllers.md)."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, cast

from compositions.batch_settings import BatchSettings
from compositions.batching import ControllerName
from compositions.errors import RecomposeError
from control.bundles.port import BatchController
from control.bundles.published import Fixed, Pid, Stepping, faf, mbaf, pbaf, pbaf_wt, pmbaf
from control.bundles.slo_batch import SloBatch

BatchControllerName = Literal["fixed", ControllerName]
BATCH_CONTROLLERS: Mapping[BatchControllerName, Callable[[BatchSettings], BatchController]] = {
    "fixed": Fixed,
    "faf": partial(Stepping, "faf", faf),
    "pbaf": partial(Stepping, "pbaf", pbaf),
    "pbaf-wt": partial(Stepping, "pbaf-wt", pbaf_wt),
    "mbaf": partial(Stepping, "mbaf", mbaf),
    "pmbaf": partial(Stepping, "pmbaf", pmbaf),
    "pid": Pid,
    "slo-batch": SloBatch,
}


class BatchControllerError(RecomposeError):
    """No batch controller has the requested name."""


def make_batch_controller(name: str, settings: BatchSettings) -> BatchController:
    """Return a new controller. Raises: BatchControllerError if no controller is called ``name``."""
    make = BATCH_CONTROLLERS.get(cast(BatchControllerName, name))
    if make is None:
        raise BatchControllerError(f"unknown batch controller {name!r}; there are {', '.join(BATCH_CONTROLLERS)}")
    return make(settings)
