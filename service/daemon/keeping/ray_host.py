"""Runners as named, detached Ray actors: they outlive the daemon when their Ray does."""

from __future__ import annotations

from typing import TypeVar

import structlog

from runtime.housekeeping import settle
from runtime.pools import ray_cluster, ray_named
from service.bodies.spec import RunSpec
from service.printed import Printed
from service.running.asking.port import ANSWER_S, RunnerPort
from service.running.asking.requests import Request

A = TypeVar("A")


class RayRunner:
    def __init__(self, remote: ray_cluster.RemoteObject) -> None:
        self._remote = remote

    def ask(self, request: Request[A], *, timeout_s: float = ANSWER_S) -> A:
        """Trouble of the cluster is not the user's: it must not look like a refusal."""
        try:
            answer: A = self._remote.ask(request, timeout_s=timeout_s)
            return answer
        except ray_cluster.RemoteTimeout as error:
            raise TimeoutError(str(error)) from error
        except ray_cluster.ClusterError as error:
            raise ConnectionError(str(error)) from error

    def alive(self) -> bool:
        return self._remote.alive()

    def kill(self) -> None:
        self._remote.kill()


class RayHost:
    """Joins the Ray at ``address``, or starts one here. Raises: ClusterError when there is none at that address."""

    def __init__(self, address: str | None = None) -> None:
        ray_cluster.connect(address, hear=Printed(_log).line)

    def spawn(self, name: str, spec: RunSpec) -> RunnerPort:
        left_over = ray_cluster.find(name)
        if left_over is not None:
            left_over.kill()
        try:
            return RayRunner(ray_cluster.spawn(name, _runner, spec, detached=True))
        except ray_cluster.ClusterError as error:
            raise ConnectionError(str(error)) from error

    def find(self, name: str) -> RunnerPort | None:
        remote = ray_cluster.find(name)
        return RayRunner(remote) if remote is not None and remote.alive() else None

    def sweep(self, name: str) -> None:
        ray_named.end_workers_of(name)

    def ready(self) -> bool:
        return ray_cluster.ready()

    def cores(self) -> int:
        return int(sum(node.cores for node in ray_cluster.nodes()))

    def close(self) -> None:
        ray_cluster.shutdown()


def _runner(spec: RunSpec) -> RunnerPort:
    from service.running.runner import Runner  # imported where it runs: the daemon needs none of it

    runner = Runner(spec)
    settle()
    return runner


def _log(who: str, line: str) -> None:
    structlog.get_logger().info("printed", by=who, line=line)
