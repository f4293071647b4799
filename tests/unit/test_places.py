"""Where workers start while a machine may be gone, and which processes may be killed by number."""

from __future__ import annotations

import subprocess
import sys

from runtime.pools.limits import Process, pid_space
from runtime.pools.ray.actors import Places


def test_ray_chooses_the_machine_as_long_as_nothing_was_lost() -> None:
    assert Places(30.0).choose(["a", "b"], ["a"], 0.0) is None


def test_a_machine_that_lost_all_its_workers_gets_none_until_it_is_trusted_again() -> None:
    places = Places(30.0)
    places.lost("b", ["a", "c", "c"], 10.0)
    assert places.choose(["a", "b", "c"], ["a", "c", "c"], 11.0) == "a"
    assert places.choose(["a", "b", "c"], ["a", "a", "c"], 39.0) == "c"
    assert places.choose(["a", "b", "c"], [], 40.0) is None


def test_one_worker_lost_among_others_is_no_reason_for_suspicion() -> None:
    places = Places(30.0)
    places.lost("b", ["a", "b"], 10.0)
    assert places.choose(["a", "b"], [], 11.0) is None


def test_a_worker_that_joins_clears_its_machine_and_the_only_machine_is_always_good() -> None:
    places = Places(30.0)
    places.lost("b", [], 10.0)
    assert places.choose(["b"], [], 11.0) is None
    places.joined("b")
    assert places.choose(["a", "b"], [], 11.0) is None


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def test_a_process_of_our_own_is_killed() -> None:
    with sleeper() as child:
        process = Process(child.pid, pid_space())
        process.kill()
        assert child.wait() == -9
        process.kill()
        process.forget()
        process.forget()


def test_a_number_of_another_container_on_this_host_is_left_alone() -> None:
    with sleeper() as child:
        for space in ("", "another-boot 4026531836", pid_space() + "0"):
            Process(child.pid, space).kill()
        assert child.poll() is None
        child.communicate(b"\n")
        assert child.returncode == 0


def test_a_process_that_has_ended_is_nobody_else() -> None:
    with sleeper() as child:
        process = Process(child.pid, pid_space())
        child.communicate(b"\n")
    process.kill()
    process.forget()
    Process(child.pid, pid_space()).kill()
    assert child.returncode == 0, "it ended by itself, and nobody was killed in its place"
