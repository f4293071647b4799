"""Runners as named, detached Ray actors, which outlive the daemon if their Ray does."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import structlog

from compositions.errors import NotNow
from compositions.resources import Need
from runtime.housekeeping import settle
from runtime.placement.cluster import Cluster
from runtime.pools.ray import actors, cluster, nodes
from runtime.pools.ray.guard import LOST_RAY, Guard
from runtime.pools.ray.hosted import names_of
from service import logs
from service.daemon.supervision.runner_slot import GivenUp, Successor, waited_for
from service.logs import Printed
from service.runner.rpc.port import ANSWER_S, RunnerPort
from service.runner.rpc.requests import Request
from service.runner.rpc.vital import Vital
from service.schemas.refusals import ConflictError
from service.schemas.spec import RunSpec

A = TypeVar("A")


class RayRunner:
    def __init__(self, remote: cluster.RemoteObject) -> None:
        self._remote = remote

    def ask(self, request: Request[A], *, timeout_s: float = ANSWER_S) -> A:
        with _trouble(TimeoutError):
            answer: A = self._remote.ask(request, timeout_s=timeout_s)
            return answer

    def vital(self) -> Vital:
        match self._remote.state():
            case cluster.Seen.DEAD:
                return Vital.DEAD
            case cluster.Seen.AWAY:
                return Vital.CUT_OFF
        return Vital.REACHABLE

    def kill(self) -> None:
        self._remote.kill()


class RaySuccessor:
    """A process that has loaded the runner's libraries and waits for the spec."""

    def __init__(self, remote: cluster.RemoteObject) -> None:
        self._remote = remote

    @property
    def is_ready(self) -> bool:
        return self._remote.is_warm

    def become(self, spec: RunSpec, given_up: GivenUp) -> RunnerPort:
        with _trouble(NotNow):
            self._remote.build(_runner, (spec,), given_up)
        return RayRunner(self._remote)

    def kill(self) -> None:
        self._remote.kill()


@contextmanager
def _trouble(late: type[Exception]) -> Iterator[None]:
    """Turn faults of the cluster into ConnectionError; they are no refusals. ``late``: text for a timeout."""
    try:
        yield
    except cluster.RemoteTimeout as error:
        raise late(str(error)) from error
    except cluster.ClusterError as error:
        raise ConnectionError(str(error)) from error


def _present(name: str) -> list[cluster.RemoteObject]:
    return [remote for each in names_of(name) if (remote := cluster.find(each)) is not None]


class RayHost:
    """Hosts runners on the Ray at ``address``, or on a new one here. Raises: ClusterError if it is not there."""

    def __init__(self, address: str | None = None) -> None:
        cluster.connect(address, hear=Printed(logs.relay).line)
        self._guard = Guard(_leave)

    def spawn(self, name: str, spec: RunSpec, given_up: GivenUp = waited_for) -> RunnerPort:
        for left_over in _present(name):
            left_over.kill()
        with _trouble(NotNow):
            return RayRunner(cluster.spawn(name, _runner, spec, detached=True, given_up=given_up))

    def prepare(self, name: str, spec: RunSpec) -> Successor:
        present = _present(name)
        for unbuilt in [each for each in present if not each.is_built]:
            unbuilt.kill()
        free = next(each for each in names_of(name) if cluster.find(each) is None)
        remote = cluster.begun(free, detached=True)
        remote.warm(_warm, spec)
        return RaySuccessor(remote)

    def find(self, name: str) -> RunnerPort | None:
        """Find a runner; a successor that was never built is of no use to another daemon."""
        found = [each for each in _present(name) if each.state() is not cluster.Seen.DEAD]
        for each in found:
            if each.is_built:
                return RayRunner(each)
            each.kill()
        return None

    def sweep(self, name: str) -> None:
        actors.end_workers_of(name)

    def ready(self) -> bool:
        return cluster.head_answers()

    def joined(self) -> bool:
        return cluster.joined()

    def cluster(self) -> Cluster:
        return nodes.WATCH.recent()

    def request(self, workers: Sequence[Need]) -> None:
        nodes.request(workers)

    def drain(self, node: str, deadline_s: float) -> None:
        try:
            nodes.drain(node, deadline_s)
        except cluster.ClusterError as error:
            raise ConflictError(str(error)) from error

    def close(self) -> None:
        self._guard.close()
        cluster.shutdown()


def _warm(spec: RunSpec) -> None:
    """Load the libraries of a runner of this spec, and call the app's ``prepare`` on this machine."""
    from runtime.pools.ray import pool  # noqa: F401
    from service.runner import runner  # noqa: F401
    from service.runner.validation.resolution import NO_OVERRIDES

    NO_OVERRIDES.maker(spec)().prepare()


def _runner(spec: RunSpec) -> RunnerPort:
    from service.runner.runner import Runner  # imported in the runner's process: the daemon does not need it

    logs.configure(console=False)
    runner = Runner(spec)
    runner.at(cluster.own_address())
    settle()
    return runner


def _leave(why: str) -> None:
    """Leave the place. The state file lists the runs to continue; runners that still live are found again."""
    structlog.get_logger().error("service ends: start it again", reason=why, code=LOST_RAY)
    sys.stderr.flush()
    os._exit(LOST_RAY)
