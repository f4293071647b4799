"""Runners as named, detached Ray actors: they outlive the daemon when their Ray does."""

from __future__ import annotations

from typing import Any

from runtime.pools import ray_cluster
from service.bodies.spec import RunSpec
from service.daemon.hosts import CALL_TIMEOUT_S, RunnerHandle

RUNNER = "service.running.runner:Runner"


class RayHandle:
    def __init__(self, remote: ray_cluster.RemoteObject) -> None:
        self._remote = remote

    def call(self, method: str, *args: Any, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        """Trouble of the cluster is not the user's: it must not look like a refusal."""
        try:
            return self._remote.call(method, *args, timeout_s=timeout_s)
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
        ray_cluster.connect(address)

    def spawn(self, name: str, spec: RunSpec) -> RunnerHandle:
        left_over = ray_cluster.find(name)
        if left_over is not None:
            left_over.kill()
        try:
            return RayHandle(ray_cluster.spawn(name, RUNNER, spec, detached=True))
        except ray_cluster.ClusterError as error:
            raise ConnectionError(str(error)) from error

    def find(self, name: str) -> RunnerHandle | None:
        remote = ray_cluster.find(name)
        return RayHandle(remote) if remote is not None and remote.alive() else None

    def ready(self) -> bool:
        return ray_cluster.ready()

    def close(self) -> None:
        ray_cluster.shutdown()
