"""Cores of two hardware threads in the simulation, by hand."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lab.simulation.machine import PairedCores, Threads


@dataclass(eq=False)
class Worker:
    computing: bool = False
    steps: int = 0


def test_who_shares_a_core_is_slower_until_the_other_is_done() -> None:
    """Two cores: the third worker joins the first on its core, where both have 0.6 of its speed."""
    cores, (one, two, three) = PairedCores[Worker](2, Threads(0.6)), (Worker(), Worker(), Worker())
    cores.begin(one, 1.0)
    cores.begin(two, 1.0)
    assert cores.next_in_s() == pytest.approx(1.0)
    cores.begin(three, 0.3)
    assert cores.next_in_s() == pytest.approx(0.5)
    cores.pass_s(0.5)
    assert cores.first_done() is three
    assert (cores.busy, cores.next_in_s()) == (2, pytest.approx(0.5)), "the second; the first has 0.7 s left"
    cores.pass_s(0.5)
    assert cores.first_done() is two
    assert cores.next_in_s() == pytest.approx(0.2)
    cores.stop(one)
    assert (cores.busy, cores.next_in_s()) == (0, float("inf"))


def test_threads_beside_the_workers_take_the_first_cores() -> None:
    cores, workers = PairedCores[Worker](2, Threads(0.5, beside=1)), [Worker(), Worker(), Worker()]
    cores.begin(workers[0], 1.0)
    assert cores.next_in_s() == pytest.approx(1.0), "the other core"
    cores.begin(workers[1], 0.1)
    assert cores.next_in_s() == pytest.approx(0.2), "beside the thread that is no worker"
    cores.begin(workers[2], 0.1)
    assert cores.next_in_s() == pytest.approx(0.2)
    with pytest.raises(ValueError, match="cannot be shared"):
        cores.share(1.0)
