"""Choose the operator that an idle worker runs next (docs/decisions/0040-dynamic-scheduling.md)."""

from collections.abc import Mapping
from typing import cast

from compositions.batch_settings import SchedulerSettings
from compositions.dynamic import SchedulerName
from compositions.errors import RecomposeError
from runtime.scheduling.port import Scheduler
from runtime.scheduling.published import Ct, Et, Kanban, Lp, Qst

SCHEDULERS: Mapping[SchedulerName, type[Scheduler]] = {"qst": Qst, "lp": Lp, "et": Et, "ct": Ct, "kanban": Kanban}


class SchedulerError(RecomposeError):
    """No scheduler has the name asked for."""


def make_scheduler(name: str, settings: SchedulerSettings | None = None) -> Scheduler:
    """Return the scheduler called ``name``. Raises: SchedulerError if there is none."""
    make = SCHEDULERS.get(cast(SchedulerName, name))
    if make is None:
        raise SchedulerError(f"unknown scheduler {name!r}; there are {', '.join(SCHEDULERS)}")
    return make(settings or SchedulerSettings())
