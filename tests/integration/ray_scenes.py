"""Scenes with a cluster that has GPUs and then loses its head, in a process of its own."""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from ray.cluster_utils import Cluster

from apps.registry import create
from compositions.model import Stage
from runtime.dispatch.events import Event, TaskDone, WorkerJoined, WorkerLost, WorkerStartFailed
from runtime.dispatch.instructions import Task
from runtime.pools.ray import cluster as ray_cluster
from runtime.pools.ray.pool import RayPool
from runtime.pools.ray.settings import RayPoolSettings

APPS = Path(__file__).parent / "ray_apps"
PATIENCE_S = 60.0
MEMORY_BYTES = 100 * 2**20


def pool_on(cluster: Cluster, settings: RayPoolSettings | None = None) -> RayPool:
    ray_cluster.connect(cluster.address)
    return RayPool(partial(create, "ray-probe", {}, [APPS]), ("double", "count", "misbehave"), settings)


def until(pool: RayPool, enough: Callable[[list[Event]], bool]) -> list[Event]:
    events: list[Event] = []
    give_up_s = pool.now_s() + PATIENCE_S
    while not enough(events):
        assert pool.now_s() < give_up_s, events
        events += pool.wait(give_up_s)
    return events


def of(events: list[Event], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def started(pool: RayPool, count: int) -> list[WorkerJoined]:
    pool.start(count)
    return of(until(pool, lambda events: len(of(events, WorkerJoined)) == count), WorkerJoined)


def head_lost(cluster: Cluster) -> None:
    pool = pool_on(cluster)
    lost, left = started(pool, 2)
    os.kill(cluster.head_node.all_processes["gcs_server"][0].process.pid, signal.SIGKILL)
    os.kill(lost.pid, signal.SIGKILL)
    until(pool, lambda events: bool(of(events, WorkerLost)))
    pool.start(1)  # as the dispatcher asks for
    pool.send(left.worker, [Task(1, 0, ("double",), pool.codec.encode([21]))])
    (done,) = of(until(pool, lambda events: bool(of(events, TaskDone))), TaskDone)
    assert pool.codec.decode(done.payload) == [42]
    pool.close()
    print("the worker that was left answered", flush=True)


HALF = (Stage("half", gpus=0.5),)


def gpus(cluster: Cluster) -> None:
    """Halves of two logical GPUs, on a node beside that of the pool: four workers, of which each sees one device."""
    far = cluster.add_node(num_cpus=2, num_gpus=2, object_store_memory=MEMORY_BYTES)
    pool = pool_on(cluster, RayPoolSettings(stages=HALF))
    workers = started(pool, 4)
    raylet = far.all_processes["raylet"][0].process.pid
    assert all(psutil.Process(worker.pid).ppid() == raylet for worker in workers)
    devices = [_device(pool, worker.worker) for worker in workers]
    assert sorted(devices) == ["0", "0", "1", "1"], devices
    pool.start(1)
    (failed,) = of(until(pool, bool), WorkerStartFailed)
    assert failed.passing, "another worker may leave"
    assert pool.room() == {(): 4}
    os.kill(workers[0].pid, signal.SIGKILL)
    until(pool, lambda events: bool(of(events, WorkerLost)))
    pool.end(workers[1].worker)
    again = _started_at_last(pool, 2)
    assert sorted([*devices[2:], *(_device(pool, worker) for worker in again)]) == ["0", "0", "1", "1"]
    pool.close()
    print("each worker saw its device", flush=True)


def _started_at_last(pool: RayPool, count: int) -> list[str]:
    """Ray takes some time to note that the resources of workers that ended are free."""
    joined: list[WorkerJoined] = []
    give_up_s = pool.now_s() + PATIENCE_S
    while len(joined) < count:
        assert pool.now_s() < give_up_s, joined
        pool.start(count - len(joined))
        found = until(pool, lambda events: bool(of(events, WorkerJoined) + of(events, WorkerStartFailed)))
        joined += of(found, WorkerJoined)
    return [each.worker for each in joined]


def _device(pool: RayPool, worker: str) -> str:
    pool.send(worker, [Task(1, 0, ("misbehave",), pool.codec.encode(["environment"]))])
    (done,) = of(until(pool, lambda events: bool(of(events, TaskDone))), TaskDone)
    (environment,) = pool.codec.decode(done.payload)
    return str(environment.get("CUDA_VISIBLE_DEVICES"))


def main() -> None:
    cluster = Cluster()
    cluster.add_node(num_cpus=1, include_dashboard=False, object_store_memory=MEMORY_BYTES)
    try:
        gpus(cluster)
        head_lost(cluster)
    except BaseException:
        traceback.print_exc()
    for process in psutil.Process().children(recursive=True):
        process.kill()
    sys.stderr.flush()
    os._exit(0)  # Ray would wait for what is gone


if __name__ == "__main__":
    main()
