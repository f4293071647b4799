"""Settings: one error names every value that is wrong."""

import pytest

from compositions.settings import SettingsError, names, overridden
from control.settings import GONE, Measuring, Settings, Trials
from profiler.drain_samples import PaperSample, ScheduleSample
from profiler.monitor import MonitorSettings
from profiler.service_time import ProfileSettings
from runtime.dispatch.settings import DispatcherSettings
from service.runner.validation.resolution import RunSettings, settings_for


def test_defaults_are_those_of_the_paper() -> None:
    settings = Settings()
    assert settings.trials.trial_s == 5.0
    assert settings.trials.pdp21_trial_s == 1.0
    assert settings.rhythm.check_interval_s == 10.0
    assert settings.rhythm.change_ratio == 0.2


def test_fields_are_replaced_by_their_plain_names() -> None:
    settings = Settings().overridden({"trial_s": 2.5, "threads": 3})
    assert (settings.trials.trial_s, settings.regulation.threads) == (2.5, 3)
    assert settings.measuring == Measuring()


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(SettingsError) as error:
        Settings().overridden({"trial_s": 0, "min_samples": 0, "change_ratio": -1})
    text = str(error.value)
    assert "trial_s = 0, must be in [0.1, 600] s" in text
    assert "min_samples = 0, must be in [1, 100,000]" in text
    assert "change_ratio = -1, must be in [0.01, 10]" in text


def test_a_group_out_of_range_is_refused_however_it_is_built() -> None:
    with pytest.raises(SettingsError, match=r"trial_s = 1000, must be in \[0.1, 600\] s"):
        Settings(trials=Trials(trial_s=1000))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"trail_s": 3}, "unknown setting 'trail_s'; there are backlog_patience_s, bottleneck_threshold"),
        ({"trial_s": "3"}, "trial_s = '3', must be a number"),
        ({"min_samples": 1.5}, "min_samples = 1.5, must be a whole number"),
        ({"trial_s": True}, "trial_s = True, must be a number"),
        ({"trial_s": float("nan")}, "trial_s = nan, must be in"),
    ],
)
def test_faults_are_sentences(values: dict[str, object], text: str) -> None:
    with pytest.raises(SettingsError) as error:
        Settings().overridden(values)
    assert text in str(error.value)


def test_which_sample_a_drain_is_estimated_from_can_be_chosen() -> None:
    assert isinstance(RunSettings().drain.made, ScheduleSample)
    assert isinstance(overridden(RunSettings(), {"drain_sample": "paper"}).drain.made, PaperSample)
    for wrong in ("papers", 3, None):
        with pytest.raises(SettingsError, match=f"drain_sample = {wrong!r}, must be schedule or paper"):
            overridden(RunSettings(), {"drain_sample": wrong})


def test_settings_of_the_monitor_are_replaced_by_their_plain_names_as_well() -> None:
    settings = overridden(RunSettings(), {"window_s": 5, "horizon_s": 60, "trial_s": 2})
    assert (settings.monitor.window_s, settings.monitor.profile.horizon_s, settings.manager.trials.trial_s) == (
        5,
        60,
        2,
    )


def test_all_faults_of_manager_and_monitor_are_named_at_once() -> None:
    with pytest.raises(SettingsError) as error:
        overridden(RunSettings(), {"window_s": 0, "hop_samples": 1.5, "min_samples": 0, "widow_s": 1})
    text = str(error.value)
    assert "window_s = 0, must be in [0.5, 3600] s" in text
    assert "hop_samples = 1.5, must be a whole number" in text
    assert "min_samples = 0, must be in [1, 100,000]" in text
    assert "unknown setting 'widow_s'" in text


def test_the_monitor_refuses_what_is_out_of_range_however_it_is_built() -> None:
    with pytest.raises(SettingsError, match=r"window_s = 0, must be in \[0.5, 3600\] s"):
        MonitorSettings(window_s=0)
    with pytest.raises(SettingsError, match="timings_kept = 1, must be in"):
        ProfileSettings(timings_kept=1)


def test_settings_of_the_strategy_that_is_gone_are_accepted_and_mean_nothing() -> None:
    gone = dict.fromkeys(GONE, "whatever")
    assert settings_for({**gone, "trial_s": 2.5}) == settings_for({"trial_s": 2.5})
    with pytest.raises(SettingsError, match="unknown setting 'vote'"):
        settings_for({"vote": 1})


def test_no_two_settings_of_a_run_share_a_plain_name() -> None:
    known = names(RunSettings())
    assert len(known) == len(set(known))


def test_the_dispatcher_is_set_by_plain_names_too_and_refuses_what_is_out_of_range() -> None:
    assert overridden(RunSettings(), {"drain_limit_s": 2.5, "spares": 0}).dispatcher.drain_limit_s == 2.5
    with pytest.raises(SettingsError) as error:
        overridden(RunSettings(), {"spares": -1, "attempts": 1.5, "prepare_limit_s": 0})
    text = str(error.value)
    assert "spares = -1, must be in [0, 1000]" in text
    assert "attempts = 1.5, must be a whole number" in text
    assert "prepare_limit_s = 0, must be in [0.1, 3600] s" in text
    with pytest.raises(SettingsError, match="losses = 0, must be in"):
        DispatcherSettings(losses=0)
