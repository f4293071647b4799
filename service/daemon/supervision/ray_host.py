"""Runners as named, detached Ray actors: they outlive the daemon when their Ray does."""

from __future__ import annotations

import os
import sys
from typing import TypeVar

import structlog

from compositions.errors import NotNow
from runtime.housekeeping import settle
from runtime.placement.cluster import Cluster
from runtime.pools.ray import actors, cluster, nodes
from runtime.pools.ray.guard import LOST_RAY, Guard
from service import logs
from service.daemon.supervision.runner_slot import GivenUp, waited_for
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
        """Trouble of the cluster is not the user's: it must not look like a refusal."""
        try:
            answer: A = self._remote.ask(request, timeout_s=timeout_s)
            return answer
        except cluster.RemoteTimeout as error:
            raise TimeoutError(str(error)) from error
        except cluster.ClusterError as error:
            raise ConnectionError(str(error)) from error

    def vital(self) -> Vital:
        match self._remote.state():
            case cluster.Seen.DEAD:
                return Vital.DEAD
            case cluster.Seen.AWAY:
                return Vital.CUT_OFF
        return Vital.REACHABLE

    def kill(self) -> None:
        self._remote.kill()


class RayHost:
    """Joins the Ray at ``address``, or starts one here. Raises: ClusterError when there is none at that address."""

    def __init__(self, address: str | None = None) -> None:
        cluster.connect(address, hear=Printed(logs.relay).line)
        self._guard = Guard(_leave)

    def spawn(self, name: str, spec: RunSpec, given_up: GivenUp = waited_for) -> RunnerPort:
        left_over = cluster.find(name)
        if left_over is not None:
            left_over.kill()
        try:
            return RayRunner(cluster.spawn(name, _runner, spec, detached=True, given_up=given_up))
        except cluster.RemoteTimeout as error:
            raise NotNow(str(error)) from error
        except cluster.ClusterError as error:
            raise ConnectionError(str(error)) from error

    def find(self, name: str) -> RunnerPort | None:
        remote = cluster.find(name)
        return None if remote is None or remote.state() is cluster.Seen.DEAD else RayRunner(remote)

    def sweep(self, name: str) -> None:
        actors.end_workers_of(name)

    def ready(self) -> bool:
        return cluster.head_answers()

    def joined(self) -> bool:
        return cluster.joined()

    def cluster(self) -> Cluster:
        return nodes.WATCH.recent()

    def drain(self, node: str, deadline_s: float) -> None:
        try:
            nodes.drain(node, deadline_s)
        except cluster.ClusterError as error:
            raise ConflictError(str(error)) from error

    def close(self) -> None:
        self._guard.close()
        cluster.shutdown()


def _runner(spec: RunSpec) -> RunnerPort:
    from service.runner.runner import Runner  # imported where it runs: the daemon needs none of it

    logs.configure(console=False)
    runner = Runner(spec)
    runner.at(cluster.own_address())
    settle()
    return runner


def _leave(why: str) -> None:
    """The state file has what is to run; runners that Ray still has are found again."""
    structlog.get_logger().error("service ends: start it again", reason=why, code=LOST_RAY)
    sys.stderr.flush()
    os._exit(LOST_RAY)
