"""How an app is doing, as the outside is told."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from apps.contract import App
from control.decisions import State
from service.bodies.base import utc_now
from service.bodies.spec import RunSpec
from service.bodies.status import Status, resting


@dataclass(slots=True)
class Standing:
    """Changed by the loop's thread, read by any."""

    state: State = State.STARTING
    failure: str | None = None
    began_at: str = field(default_factory=utc_now)

    def close(self) -> None:
        """Nothing runs any more; what is open is being closed."""
        self.state = State.CLOSING

    def end(self) -> None:
        self.state = State.FAILED if self.failure else State.STOPPED

    def status(self, app: type[App], spec: RunSpec) -> Status:
        """What is known without a run."""
        known = resting(app, self.state, spec, None)
        own = {"failure": self.failure, "runner_pid": os.getpid(), "began_at": self.began_at}
        return known.model_copy(update=own)
