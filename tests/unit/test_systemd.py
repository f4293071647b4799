"""The systemd unit says what the service needs, and systemd understands it."""

import shutil
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path

import click
import pytest

from service.cli.serve import serve

UNIT = Path(__file__).parents[2] / "deploy" / "recompose.service"


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
