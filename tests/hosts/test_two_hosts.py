"""Over a network: two machines with addresses of their own, 1 ms apart. See ``hosts.py`` for how they are made."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hosts import CPUS, SEEN, address_of, alone, ran, why_not

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")


def scene(name: str, cpus: Sequence[int | str] = CPUS) -> dict[str, Any]:
    printed = ran("tests/hosts/scenes.py", name, patience_s=300, cpus=cpus)
    (figures,) = re.findall(r"^\{.*\}$", printed, re.MULTILINE)
    seen: dict[str, Any] = json.loads(figures)
    return seen


def all_once_and_in_order(seen: dict[str, Any]) -> None:
    assert seen["accepted"] == seen["delivered"] > 100
    assert [seen[name] for name in ("failed", "lost", "doubled", "misordered", "wrong")] == [0, 0, 0, 0, 0]


@pytest.mark.long  # for every change: tests/faults/test_workers_killed.py
def test_a_machine_that_goes_with_most_of_the_workers_costs_nothing() -> None:
    seen = scene("killed")
    assert seen["workers_lost"] > seen["workers"] / 2
    all_once_and_in_order(seen)
    assert seen["longest_gap_s"] <= 2.0  # what the stream is held to while a worker lives


@pytest.mark.long  # for every change: tests/property/test_dispatcher.py
def test_a_machine_that_is_cut_off_and_comes_back_doubles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("period_ms", "500"), ("timeout_ms", "500"), ("failure_threshold", "4")):
        monkeypatch.setenv(f"RAY_health_check_{name}", value)  # Ray gives it up within seconds instead of half a minute
    seen = scene("parted")
    assert seen["far"] > 0
    all_once_and_in_order(seen)


@pytest.mark.long
def test_ray_s_autoscaler_adds_the_nodes_that_are_asked_for() -> None:
    """One core of three is there; then one with a decoder is needed."""
    printed = alone("tests/hosts/autoscaled.py", patience_s=170)
    assert re.findall(r"^\[.*\]$", printed, re.MULTILINE) == ["[1.0]", "[1.0, 2.0]", "[1.0, 1.0, 2.0]"]


def test_three_machines_are_counted_filled_up_to_their_cpus_and_one_is_drained_without_a_retry() -> None:
    """Six workers that compute, on 1, 4 and 2 CPUs: the near machine first. The last one is drained."""
    seen, cpus = scene("cores", (1, 4, 2)), {address_of(0): 1, address_of(1): 4, address_of(2): 2}
    assert seen["gone"] == 0, "the command that a pod runs before it ends has seen the end of its node"
    assert (seen["cost"], seen["what_if"], seen["after"]) == (7, 7, 5)
    assert sum(seen["workers"].values()) == sum(seen["left"].values()) == 6
    assert all(count <= cpus[node] for node, count in seen["workers"].items())
    assert seen["workers"][address_of(0)] == 1
    assert set(seen["left"]) == {address_of(0), address_of(1)}
    all_once_and_in_order(seen)
    assert seen["restarts"] == 0


@pytest.mark.long  # for every change: tests/unit/test_placement.py
def test_workers_move_to_a_machine_that_joins_one_whose_core_they_share() -> None:
    """Six workers on one core; a machine with five joins. Each moves by a start there; the decision has the price."""
    seen = scene("joined", (1, "+5"))
    assert seen["workers"] == {address_of(0): 1, address_of(1): 5}
    assert seen["first_s"] <= 20.0  # 5.5 s at a load of 7
    (why,) = seen["why"]
    assert why.startswith(f"workers move, 5 from {address_of(0)} to {address_of(1)}: this gains 4.8 cores")
    all_once_and_in_order(seen)
    assert seen["restarts"] == 0


def supervised(name: str) -> dict[str, Any]:
    printed = ran("tests/hosts/supervised.py", name, patience_s=175)
    seen: dict[str, Any] = json.loads(re.findall(r"^\{\"(?:same|again|left).*\}$", printed, re.MULTILINE)[-1])
    return seen


@pytest.mark.long  # for every change: tests/unit/test_watchdog.py
@pytest.mark.parametrize("durability", ["none", "exactly-once"])
def test_a_cut_between_service_and_runner_that_is_shorter_than_the_lease_costs_nothing(durability: str) -> None:
    seen = supervised(f"briefly-{durability}")
    assert (seen["same_runner"], seen["same_run"], seen["killed"]) == (True, True, 0)


@pytest.mark.long
def test_a_runner_that_is_cut_off_for_longer_is_followed_by_one_on_a_machine_that_answers_and_ends_itself() -> None:
    seen = supervised("long")
    assert seen["node"] == seen["near"]
    assert seen["again_after_lease_s"] <= 15.0
    assert (seen["epoch"], seen["in_order"]) == (2, True)
    assert seen["zombie_gone_s"] < 60.0


@pytest.mark.long  # for every change: tests/unit/test_watchdog_ends.py
@pytest.mark.parametrize("durability", ["none", "exactly-once"])
def test_a_runner_whose_machine_is_to_go_moves_with_its_workers(durability: str) -> None:
    seen = supervised(f"drained-{durability}")
    assert seen["left"] == seen["near"]
    assert (seen["epoch"], seen["same_run"], seen["in_order"]) == (2, durability != "none", True)
    assert (seen["restarts"], seen["lost_workers"], seen["failed"]) == (0, 0, 0)
    assert seen["gap_s"] <= 2.0  # 0.2 to 0.5 s at a load of 6; without a successor it was the start of a process, 10 s
    assert seen["emptied_after_s"] <= 30.0  # most of it is the start of the successors, on two busy cores


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)  # minutes: Ray starts the workers of forty tests
def test_the_contract_of_pools_holds_over_the_network(tmp_path: Path) -> None:
    """Switches, resizes, kills and bundles of several sizes are in it. Files that its tests share with workers are
    where both machines find them."""
    suite = ("-m", "pytest", "-q", "-k", "ray", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'shared'}")
    printed = ran(*suite, "tests/contract", patience_s=880)
    assert re.search(r"\d\d passed", printed), printed[-2000:]
    assert int(printed.rpartition(SEEN)[2]) > 1_000_000


@pytest.mark.long
def test_doctor_looks_at_each_machine_of_a_cluster() -> None:
    """Its Ray is started without a token and TLS, and with a word of its own on CPUs."""
    told = ran("-m", "recompose", "doctor", "--ray", f"{address_of(0)}:6379", "--json", patience_s=170)
    found = json.loads(told[told.index("[\n") : told.rindex("]") + 1])
    grades = {each["about"].removeprefix("cluster "): each["grade"] for each in found if "cluster" in each["about"]}
    assert grades.pop("token") == grades.pop("TLS") == "note"
    assert set(grades.values()) == {"good"}


@pytest.mark.long  # for every change: tests/unit/test_slow_workers.py
def test_items_avoid_a_machine_that_is_slow() -> None:
    """Two of six workers are 50 ms away, and then not. Without a choice by node the share was 0.57 for as long as they
    were away."""
    seen = scene("slowed", (1, 4, 2))
    assert seen["workers"][address_of(2)] == 2
    assert min(seen["before"]) >= 0.9
    assert sum(seen["after"][5:]) / len(seen["after"][5:]) >= 0.9
    assert seen["again"][-1] >= 0.9
