"""The files for Prometheus and Grafana ask for metrics, labels and values that there are."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from control.decisions import State
from profiler.slo import SloStatus
from service.api.metrics import METRICS

DEPLOY = Path(__file__).parents[2] / "deploy"
KNOWN = {metric.name: {"app", *metric.labels} for metric in METRICS}
VALUES = {"recompose_app_state": {*map(str, State)}, "recompose_slo_status": {*map(str, SloStatus)}}


def _rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((DEPLOY / "prometheus-rules.yaml").read_text())["groups"]
    return list(group["rules"])


def _panels() -> list[dict[str, Any]]:
    return list(json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"])


EXPRESSIONS = [rule["expr"] for rule in _rules()] + [ask["expr"] for panel in _panels() for ask in panel["targets"]]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_expression_asks_for_what_there_is(expression: str) -> None:
    found = re.findall(r"(recompose_\w+)(?:\{([^}]*)\})?", expression)
    assert found
    for name, labels in found:
        assert name in KNOWN
        for label, values in re.findall(r'(\w+)[=!]=?~?"([^"]*)"', labels):
            assert label in KNOWN[name]
            if label in ("state", "status"):
                assert set(values.split("|")) <= VALUES[name]


def test_every_panel_has_a_place_of_its_own_and_a_title() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in _panels()]
    assert len(set(places)) == len(places)
    assert all(panel["title"] for panel in _panels())
