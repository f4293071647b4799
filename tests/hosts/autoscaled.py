"""On a machine of its own, a Ray with its autoscaler and nodes that are processes: prints the CPUs of all nodes before
a request, after it, and after another one. They join the Ray at the usual port, so no other may be there."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import ray

from compositions.resources import Need
from runtime.pools.ray import nodes
from tests.support.waiting import eventually

ADDRESS = "127.0.0.1"
NODE = {"node_config": {}, "min_workers": 0, "max_workers": 2}
EMPTY = "initialization", "setup", "head_setup", "worker_setup", "head_start_ray", "worker_start_ray"
CONFIG = {
    "cluster_name": "fake_multinode", "max_workers": 2, "idle_timeout_minutes": 0.05, "upscaling_speed": 1.0,
    "provider": {"type": "fake_multinode", "disable_node_updaters": True}, "auth": {},
    "head_node_type": "ray.head.default",
    **{f"{each}_commands": [] for each in EMPTY}, "file_mounts": {}, "cluster_synced_files": [],
    "available_node_types": {
        "ray.head.default": {"resources": {"CPU": 1}, "node_config": {}, "max_workers": 0},
        "plain": {"resources": {"CPU": 2}, **NODE},
        "with_decoder": {"resources": {"CPU": 1, "decoder": 1}, **NODE},
    },
}  # fmt: skip


def cpus() -> list[float]:
    return sorted(node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"])


def main() -> None:
    config = Path(tempfile.mkdtemp(), "cluster.json")
    config.write_text(json.dumps(CONFIG))
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--num-cpus=1"]
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    there = {**os.environ, "AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_FAKE_CLUSTER": "1"}
    more = [f"--autoscaling-config={config}", f"--node-ip-address={ADDRESS}", "--include-dashboard=false"]
    subprocess.run([*start, *more], env=there, check=True, stdout=subprocess.DEVNULL)
    ray.init(f"{ADDRESS}:6379", log_to_driver=False)
    print(json.dumps(cpus()))
    for wanted in ([Need(cpus=1.0)] * 3, [Need(cpus=1.0, custom={"decoder": 1.0})]):
        there_before = len(cpus())
        nodes.request(wanted)
        print(json.dumps(eventually(cpus, lambda found: len(found) > there_before, 120)))  # noqa: B023


if __name__ == "__main__":
    main()
