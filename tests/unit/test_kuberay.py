"""The Helm chart for KubeRay: what it renders is valid, and has what the docs promise."""

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = Path(sys.prefix) / "kube" / "bin" / "python"
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="rendering a Helm chart needs its library: make setup-kube")
GPUS = {
    "workers": [
        {"name": "cpu", "min": 2, "max": 4, "resources": {"cpu": "2", "memory": "4Gi"}, "rayMemory": "200Mi"},
        {"name": "gpu", "min": 0, "max": 2, "resources": {"cpu": "4", "memory": "16Gi"}, "rayMemory": "400Mi",
         "gpus": 1, "rayStartParams": {"labels": "zone=a"}, "nodeSelector": {"pool": "gpu"},
         "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]},
    ],
    "journals": {"enabled": True, "size": "9Gi", "storageClass": "shared"},
    "apps": {"claim": "my-apps"},
    "service": {"args": ["--log-level", "debug"], "from": [{"namespaceSelector": {"matchLabels": {"team": "ops"}}}]},
    "env": [{"name": "RAY_USE_TLS", "value": "1"}],
    "volumes": [{"name": "tls", "secret": {"secretName": "ray-tls"}}],
    "volumeMounts": [{"name": "tls", "mountPath": "/tls", "readOnly": True}],
}  # fmt: skip


@cache
def rendered(values: str = "{}") -> tuple[dict[str, Any], list[str]]:
    """Return the objects of a release, by kind and name, and what is wrong with them."""
    line = [str(PYTHON), "tests/support/render_chart.py", "deploy/kuberay", values]
    told = json.loads(subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    return {f"{each['kind']} {each['metadata']['name']}": each for each in told["objects"]}, told["wrong"]


def containers(found: dict[str, Any]) -> list[dict[str, Any]]:
    ray, service = found["RayCluster demo"]["spec"], found["Deployment demo"]["spec"]["template"]["spec"]
    pods = [each["template"]["spec"] for each in (ray["headGroupSpec"], *ray["workerGroupSpecs"])] + [service]
    return [each for pod in pods for each in pod["containers"] + pod.get("initContainers", [])]


KINDS = {"RayCluster", "Deployment", "Service", "PersistentVolumeClaim", "PodDisruptionBudget", "NetworkPolicy"}


@pytest.mark.parametrize("values", ["{}", json.dumps(GPUS)])
def test_all_objects_fit_the_schemas(values: str) -> None:
    found, wrong = rendered(values)
    assert (wrong, {name.partition(" ")[0] for name in found}) == ([], KINDS)


WRONG = (
    {"volumes": [{"name": "a", "nonsense": {}}]},
    {"idleTimeoutSeconds": "soon"},
    {"service": {"from": [{"pod": {}}]}},
)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_field_that_does_not_exist_is_found(wrong: dict[str, Any]) -> None:
    assert rendered(json.dumps(wrong))[1]


def test_every_container_has_tokens_from_the_secret_bounds_and_no_rights() -> None:
    for container in containers(rendered(json.dumps(GPUS))[0]):
        env = {each["name"]: each for each in container["env"]}
        assert env["RAY_AUTH_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "recompose-tokens", "key": "ray"}
        assert env["RAY_USE_TLS"]["value"] == "1"
        assert ("RECOMPOSE_TOKEN" in env) == (container["name"] == "recompose"), "stages do not get the service's token"
        assert set(container["resources"]["limits"]) >= {"cpu", "memory"}
        assert container["securityContext"]["readOnlyRootFilesystem"]
        mounts = [each["mountPath"] for each in container["volumeMounts"]]
        assert {"/dev/shm", "/tmp", "/apps", "/tls", "/var/lib/recompose/journals"} <= set(mounts)


def test_ray_scales_between_bounds_and_a_pod_is_left_before_it_ends() -> None:
    spec = rendered(json.dumps(GPUS))[0]["RayCluster demo"]["spec"]
    version = re.search(r"^ray==(\S+)", (ROOT / "requirements-run.lock").read_text(), re.MULTILINE)
    assert spec["rayVersion"] == version[1], "of the image"
    assert spec["enableInTreeAutoscaling"]
    cpu, gpu = spec["workerGroupSpecs"]
    assert [(each["minReplicas"], each["maxReplicas"]) for each in (cpu, gpu)] == [(2, 4), (0, 2)]
    pod = gpu["template"]["spec"]
    (worker,) = pod["containers"]
    assert worker["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert gpu["rayStartParams"]["labels"] == "zone=a"
    (*command, seconds) = worker["lifecycle"]["preStop"]["exec"]["command"]
    assert command == ["python", "-m", "recompose.runtime.pools.ray.leave"]
    assert (ROOT / "runtime/pools/ray/leave.py").exists()
    assert int(seconds) < pod["terminationGracePeriodSeconds"]


def test_only_who_may_reaches_the_service_and_nobody_else_ray() -> None:
    found = rendered(json.dumps(GPUS))[0]
    own = {"app.kubernetes.io/instance": "demo"}
    ray, service = found["NetworkPolicy demo"]["spec"], found["NetworkPolicy demo-service"]["spec"]
    assert ray["podSelector"] == {"matchLabels": own}
    assert ray["ingress"] == [{"from": [{"podSelector": {"matchLabels": own}}]}]
    assert service["ingress"][0]["from"] == GPUS["service"]["from"]  # type: ignore[index]
    assert rendered()[0]["NetworkPolicy demo-service"]["spec"]["ingress"] == []
    pods = [each["template"]["metadata"]["labels"] for each in found["RayCluster demo"]["spec"]["workerGroupSpecs"]]
    assert all(own.items() <= labels.items() for labels in pods)


def test_the_service_is_one_and_probed_and_its_state_stays() -> None:
    found = rendered()[0]
    spec = found["Deployment demo"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    (container,) = spec["template"]["spec"]["containers"]
    paths = [container[f"{each}Probe"]["httpGet"]["path"] for each in ("liveness", "readiness")]
    assert paths == ["/healthz", "/readyz"]
    assert found["PersistentVolumeClaim demo-state"]["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    budgets = {name: each["spec"]["maxUnavailable"] for name, each in found.items() if "Budget" in name}
    assert budgets == {"PodDisruptionBudget demo-head": 0, "PodDisruptionBudget demo-worker": 1}
