"""Settings: one error names every value that is wrong."""

import pytest

from compositions.settings import SettingsError, names, overridden
from control.settings import GONE, Measuring
from profiler.drain_samples import PaperSample, ScheduleSample
from service.runner.validation.resolution import RunSettings, settings_for


def test_which_sample_a_drain_is_estimated_from_can_be_chosen() -> None:
    assert isinstance(RunSettings().drain.made, ScheduleSample)
    assert isinstance(overridden(RunSettings(), {"drain_sample": "paper"}).drain.made, PaperSample)


def test_settings_of_all_parts_are_replaced_by_their_plain_names() -> None:
    asked = {"window_s": 5, "horizon_s": 60, "trial_s": 2.5, "threads": 3, "drain_limit_s": 2.5, "spares": 0}
    found = overridden(RunSettings(), asked | {"worker_cpus": 0.5, "start_timeout_s": 90.0, "strangers": 16})
    assert (found.monitor.window_s, found.monitor.profile.horizon_s) == (5, 60)
    assert (found.manager.trials.trial_s, found.manager.regulation.threads) == (2.5, 3)
    assert (found.dispatcher.drain_limit_s, found.dispatcher.spares) == (2.5, 0)
    assert found.manager.measuring == Measuring()
    assert (found.pool.worker_cpus, found.pool.start_timeout_s, found.pool.lobby.strangers) == (0.5, 90.0, 16)


def test_all_faults_of_all_parts_are_named_at_once() -> None:
    told = {
        ("window_s", 0): "window_s = 0, must be in [0.5, 3600] s",
        ("hop_samples", 1.5): "hop_samples = 1.5, must be a whole number",
        ("min_samples", 0): "min_samples = 0, must be in [1, 100,000]",
        ("trial_s", "3"): "trial_s = '3', must be a number",
        ("drain_sample", "papers"): "drain_sample = 'papers', must be schedule or paper",
        ("widow_s", 1): "unknown setting 'widow_s'; there are ",
        ("spares", -1): "spares = -1, must be in [0, 1000]",
    }
    with pytest.raises(SettingsError) as error:
        overridden(RunSettings(), dict(told.keys()))
    for sentence in told.values():
        assert sentence in str(error.value)


def test_settings_of_the_strategy_that_is_gone_are_accepted_and_mean_nothing() -> None:
    gone = dict.fromkeys(GONE, "whatever")
    assert settings_for({**gone, "trial_s": 2.5}) == settings_for({"trial_s": 2.5})
    with pytest.raises(SettingsError, match="unknown setting 'vote'"):
        settings_for({"vote": 1})


def test_no_two_settings_of_a_run_share_a_name() -> None:
    known = names(RunSettings())
    assert len(known) == len(set(known))
