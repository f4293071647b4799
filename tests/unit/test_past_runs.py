"""Runs of an app beside each other, from their telemetry."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from written_telemetry import BEGAN_S, write, write_items, write_switches

from datapipe.telemetry import runs
from datapipe.telemetry.runs import records_of, runs_of
from service.daemon.past import compared, known_runs
from service.schemas.refusals import NotFoundError
from service.schemas.spec import TelemetrySpec


def two_runs(folder: Path) -> TelemetrySpec:
    """``old`` missed its objective for half of its twenty seconds, ``new-one`` never did, with more workers."""
    write(folder, 0, run="old", slo_status="violated", composition="1")
    write(folder, 1, run="old", throughput_per_s=5.9)
    write_items(folder, 0, [0.1, 0.2, 0.3, 2.0], run="old")
    write_switches(folder, "old", [1, 1, 2])
    write(folder, 6, run="new-one", workers=7)
    write_items(folder, 6, [0.1], run="new-one")
    write(folder, 7, "other", run="elsewhere")
    return TelemetrySpec(folder=str(folder))


def test_runs_are_known_the_latest_first(tmp_path: Path) -> None:
    known = known_runs(two_runs(tmp_path), "ferret")
    assert [each.run for each in known] == ["new-one", "old"]
    assert runs_of(tmp_path, "ferret")[1].began_s == BEGAN_S
    assert runs_of(tmp_path, "ferret", most=1)[0].ended_s == BEGAN_S + 70
    assert known_runs(None, "ferret") == []


def test_what_runs_came_to_stands_side_by_side_the_earlier_one_first(tmp_path: Path) -> None:
    old, new = compared(two_runs(tmp_path), "ferret", [])
    assert (old.run, old.slo_met_share, old.delivered_per_s, old.switches) == ("old", 0.5, 7.9, 2)
    assert (old.latency_ms.mean, old.latency_ms.p50) == (650.0, 250.0)
    assert [(each.name, each.share) for each in old.compositions] == [("1", 0.5), ("13", 0.5)]
    assert old.slo is not None
    assert (old.slo.bound, old.items.delivered, old.items.all_of_them) == (480.0, 4, True)
    assert (new.run, new.slo_met_share, new.workers, new.cpu_ms_per_item) == ("new-one", 1.0, 7.0, 90.0)
    assert new.worker_s == pytest.approx(7 * new.length_s)
    assert len(new.course) == 10


def test_runs_are_compared_in_the_order_in_which_they_are_asked_for(tmp_path: Path) -> None:
    telemetry = two_runs(tmp_path)
    assert [each.run for each in compared(telemetry, "ferret", ["new-one", "old"])] == ["new-one", "old"]
    assert compared(None, "ferret", []) == []
    for nothing in (None, telemetry):
        with pytest.raises(NotFoundError, match=r"run 'x' of ferret is not in the telemetry; GET /runs/ferret "):
            compared(nothing, "ferret", ["x"])


def test_a_run_whose_items_are_all_shed_or_torn_has_no_latency(tmp_path: Path) -> None:
    write(tmp_path, 0)
    torn = tmp_path / "items" / "ferret--r-000000.parquet"
    torn.parent.mkdir()
    torn.write_text("torn")
    (run,) = compared(TelemetrySpec(folder=str(tmp_path)), "ferret", ["r"])
    assert (run.latency_ms.mean, run.items.delivered, run.cpu_ms_per_item) == (None, 0, None)


def test_of_a_long_run_a_part_is_read_and_it_says_so(tmp_path: Path) -> None:
    for number in range(6):
        write(tmp_path, number)
        write_items(tmp_path, number, [0.1])
    found = records_of(tmp_path, "ferret", "r", most=3)
    assert found is not None
    assert (len(found.snapshots), found.items.delivered, found.items.all_of_them) == (30, 3, False)


def test_of_a_file_of_items_nothing_but_their_latencies_is_kept_while_the_next_one_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 0)
    for number, took_s in enumerate(([0.1, 0.2], [0.3], [0.4])):
        write_items(tmp_path, number, took_s)
    read, held = runs.columns_of, []

    def one_at_a_time(path: Path, columns: Sequence[str]) -> Any:
        table = read(path, columns)
        if path.parent.name == "items":
            assert [each() for each in held[:-1]] == [None] * len(held[:-1])
            held.append(weakref.ref(table))
        return table

    monkeypatch.setattr(runs, "columns_of", one_at_a_time)
    found = records_of(tmp_path, "ferret", "r")
    assert found is not None
    assert (len(held), found.items.delivered) == (3, 4)
    assert (found.items.mean_ms, found.items.p50_ms) == (250.0, 250.0)
