"""A runner that is started again: the load before is read from telemetry, and its season foretells the next crowd."""

from __future__ import annotations

from pathlib import Path
from time import time

import numpy as np
import pytest
from written_telemetry import write_items

from control.forecast.load.arrivals import BIN_S, KEPT
from control.forecast.load.looking_ahead import LookingAhead
from control.forecast.load.predictors import completed
from service.runner.wiring.assembly import past_load
from service.schemas.spec import RunSpec, TelemetrySpec
from tests.support.bodies import having

AGAIN = RunSpec(app="ferret", started_again="its runner died")


def written(folder: Path) -> RunSpec:
    return having(AGAIN, {"telemetry": TelemetrySpec(folder=str(folder))})


def test_arrivals_are_counted_up_to_the_last_that_was_written(tmp_path: Path) -> None:
    began_s = time() - 60.0
    for number in range(4):  # one item a second, for forty seconds; the rest was lost with the runner
        write_items(tmp_path, number, [0.0] * 10, began_s=began_s)
    rates = past_load(written(tmp_path))
    known = rates[~np.isnan(rates)]
    assert float(known.sum()) * BIN_S == pytest.approx(40.0)
    assert len(known) == pytest.approx(40.0 / BIN_S, abs=2)
    assert np.isnan(rates[-int(15 / BIN_S) :]).all()
    assert 60.0 / BIN_S <= len(rates) < 90.0 / BIN_S


def test_other_apps_torn_files_and_longer_ago_do_not_count(tmp_path: Path) -> None:
    write_items(tmp_path, 0, [0.0] * 10, app="lane_detection", began_s=time() - 60.0)
    write_items(tmp_path, 1, [0.0] * 10, began_s=time() - KEPT * BIN_S - 60.0)
    (tmp_path / "items" / "ferret--r-000009.parquet").write_bytes(b"PAR1")
    assert not len(past_load(written(tmp_path)))


def test_a_run_that_begins_has_no_past(tmp_path: Path) -> None:
    write_items(tmp_path, 0, [0.0] * 30, began_s=time() - 60.0)
    assert not len(past_load(having(written(tmp_path), {"started_again": None})))
    assert not len(past_load(AGAIN))


def test_the_next_crowd_is_foretold_though_what_came_last_is_missing() -> None:
    seen = np.array([70.0 if at_s % 60 >= 48 else 8.0 for at_s in np.arange(0, 227, BIN_S)])
    ahead = LookingAhead()
    ahead.warm(np.concatenate((seen, np.full(int(13 / BIN_S), np.nan))))  # up to 240 s
    for turn in range(int(47 / 0.25)):
        ahead.observe(turn * 0.25, 8.0, 0)
    expected, upper, by = ahead.within(2.5)
    assert (by, expected) == ("the season", 70.0)
    assert upper >= 70.0


def test_without_a_season_what_is_missing_is_the_mean() -> None:
    assert completed(np.array([1.0, 2.0, 3.0, np.nan])).tolist() == [1.0, 2.0, 3.0, 2.0]
    assert completed(np.array([np.nan])).size == completed(np.zeros(0)).size == 0
