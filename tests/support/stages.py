"""Run the stages of an app as a worker does, without a worker."""

from collections.abc import Mapping, Sequence
from typing import Any

from apps.contract import App
from runtime.pools.calls import Calls
from runtime.pools.execute import Executed, execute, run_now


def run_stages(app: App, stages: tuple[str, ...], values: Sequence[Any], states: Mapping[str, Any]) -> Executed:
    """For stages of which none is an ``async def``."""
    return run_now(execute(Calls(app), stages, values, states))
