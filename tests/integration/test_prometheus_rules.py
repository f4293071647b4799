"""The rules in deploy/, read by Prometheus itself."""

import shutil
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"
pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool: make setup-promtool")


@pytest.mark.parametrize("asked", [("check", "prometheus-rules.yaml"), ("test", "prometheus-rules-test.yaml")])
def test_prometheus_takes_the_rules_and_each_alert_comes_when_it_should(asked: tuple[str, str]) -> None:
    done = subprocess.run(["promtool", asked[0], "rules", asked[1]], check=False, cwd=DEPLOY, capture_output=True)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
