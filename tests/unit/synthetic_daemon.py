"""Say and ask what tests of a daemon with the synthetic app need; its fixtures are in ``conftest.py``."""

from typing import Any

from fastapi.testclient import TestClient

from tests.support.fakes import FakeRunner

LATENCY = {"app": "synthetic", "metric": "latency", "target": 400, "threshold": 0.2, "statistic": "mean"}
PUSHED = {"source": {"kind": "push"}, "input": {"rate_per_s": 10}}
WIDE = b'app: synthetic\ncompositions: [{name: wide, notation: "Par*4(f1,f2,f3)"}]\n'
YAML = {"content-type": "application/yaml"}


def detail(response: Any, status: int = 422) -> str:
    """The sentence of a refusal."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    assert body["title"]
    if status == 422 and "serials" not in body:
        assert body["errors"]
        assert all({"loc", "msg"} <= set(error) for error in body["errors"])
    return str(body["detail"])


def runner_of(client: TestClient) -> FakeRunner:
    runner = client.app.state.daemon._runs.last("synthetic")._slot._runner  # type: ignore[attr-defined]
    assert isinstance(runner, FakeRunner)
    return runner


def known(client: TestClient) -> Any:
    status = client.get("/status/synthetic").json()
    told = {key: status[key] for key in ("state", "mode", "composition", "slo", "input_rate_per_s", "batching")}
    return told, client.get("/compositions/synthetic").json(), client.get("/slo").json()
