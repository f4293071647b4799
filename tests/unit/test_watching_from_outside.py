"""Check that what Prometheus, Grafana, the page, the report and systemd name is there: metrics, values, colours."""

import json
import re
import shutil
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path

import click
import pytest
import yaml

from control.decisions import State
from control.strategies import STRATEGIES
from datapipe.source_kinds import KINDS
from profiler.slo import SloStatus
from service.api.metrics import METRICS
from service.cli.serve import serve

DEPLOY = Path(__file__).parents[2] / "deploy"
KNOWN = {metric.name: {"app", *metric.labels} for metric in METRICS}
VALUES = {"recompose_app_state": {*map(str, State)}, "recompose_slo_status": {*map(str, SloStatus)}}


(GROUP,) = yaml.safe_load((DEPLOY / "prometheus-rules.yaml").read_text())["groups"]
PANELS = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
EXPRESSIONS = [each["expr"] for each in (*GROUP["rules"], *(ask for panel in PANELS for ask in panel["targets"]))]
ACT = (Path(__file__).parents[2] / "service" / "dashboard" / "act.js").read_text(encoding="utf-8")
STYLE = Path(__file__).parents[2] / "service" / "dashboard" / "style.css"
UNIT = Path(__file__).parents[2] / "deploy" / "recompose.service"


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


def test_the_page_offers_every_strategy() -> None:
    (listed,) = re.findall(r"^const STRATEGIES = \[(.+)\];$", ACT, re.MULTILINE)
    assert re.findall(r'\["([\w-]+)",', listed) == list(STRATEGIES)


def test_the_page_offers_every_source_that_a_path_or_nothing_describes() -> None:
    (listed,) = re.findall(r'name: "kind".+?options: \[(.+)\] \}\);$', ACT, re.MULTILINE)
    assert set(re.findall(r'\["([\w-]+)",', listed)) == {kind.name for kind in KINDS.values() if not kind.driven}


@pytest.fixture
def unit() -> RawConfigParser:
    parser = RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # systemd minds the case
    parser.read_string(UNIT.read_text())
    return parser


def test_its_command_is_one_of_ours(unit: RawConfigParser, tmp_path: Path) -> None:
    program, command, *words = unit["Service"]["ExecStart"].split()
    assert (program, command) == ("/opt/recompose/bin/recompose", "serve")
    (tmp_path / "service.yaml").write_text("service: {port: 9999}")
    words[words.index("--config") + 1] = str(tmp_path / "service.yaml")
    with click.Context(serve) as context:
        serve.parse_args(context, words)
    assert (context.params["port"], str(context.params["state_dir"])) == (9999, "/var/lib/recompose")


def test_it_waits_for_the_drain_and_keeps_the_token_out_of_the_unit(unit: RawConfigParser) -> None:
    service = unit["Service"]
    assert int(service["TimeoutStopSec"]) > 30 + 5, "the drain of the apps, and requests under way"
    assert service["KillMode"] == "mixed", "Ray's processes are ended by the service, not beside it"
    assert service["EnvironmentFile"].startswith("-/etc/")
    assert not [line for line in UNIT.read_text().splitlines() if "TOKEN" in line and not line.startswith("#")]
    assert (service["StateDirectory"], service["StateDirectoryMode"]) == ("recompose", "0700")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_systemd_understands_it(tmp_path: Path) -> None:
    here = str(Path(sys.executable).with_name("recompose"))
    (tmp_path / UNIT.name).write_text(UNIT.read_text().replace("/opt/recompose/bin/recompose", here))
    command = ["systemd-analyze", "verify", str(tmp_path / UNIT.name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
