"""What a user may set of the pool of a run, by plain name beside the manager's settings."""

import pytest

from compositions.settings import SettingsError, names, overridden
from runtime.pools.ray.settings import WAYS, RayPoolSettings
from service.runner.validation.resolution import RunSettings


def test_the_pool_and_its_transport_are_set_with_the_run() -> None:
    settings = overridden(RunSettings(), {"worker_cpus": 0.5, "start_timeout_s": 90.0, "strangers": 16}).pool
    assert (settings.worker_cpus, settings.start_timeout_s, settings.lobby.strangers) == (0.5, 90.0, 16)


def test_what_is_out_of_range_is_named() -> None:
    with pytest.raises(SettingsError, match=r"start_timeout_s = 0.* \[0\.1, 3600\]"):
        overridden(RunSettings(), {"start_timeout_s": 0.0})


def test_no_two_settings_of_a_run_share_a_name() -> None:
    known = names(RunSettings())
    assert len(known) == len(set(known))


@pytest.mark.parametrize(
    ("transport", "unix", "alone", "with_others"),
    [("unix", True, False, False), ("tcp", False, True, True), ("auto", True, False, True)],
)
def test_workers_come_by_the_ways_that_the_transport_names(
    transport: str, unix: bool, alone: bool, with_others: bool
) -> None:
    ways = WAYS[transport]
    assert (ways.unix, ways.network(1), ways.network(2)) == (unix, alone, with_others)
    assert RayPoolSettings().transport in WAYS
