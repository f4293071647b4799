"""The group of all commands, and how their errors are told."""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from typing import Any, NoReturn

import click
from click.exceptions import NoArgsIsHelpError

from compositions.errors import RecomposeError

COMMANDS = {
    "serve": "serve:serve",
    "demo": "demo:demo",
    "run": "run:run",
    "start": "start:start",
    "stop": "start:stop",
    "push": "push:push",
    "results": "results:results",
    "apps": "listing:apps",
    "logs": "listing:logs",
    "trace": "trace:trace",
    "runs": "runs:runs",
    "compare": "runs:compare",
    "slo": "slo_command:slo",
    "announce": "announce_command:announce",
    "budget": "budget_command:budget",
    "alerts": "alerts:alerts",
    "status": "clients:status",
    "watch": "clients:watch",
    "decisions": "clients:decisions",
    "compositions": "clients:compositions",
    "new": "new:new",
    "check": "check:check",
    "doctor": "doctor:doctor",
    "completion": "completion:completion",
    "experiment": "experiment:experiment",
    "gym": "gym:gym",
    "ingest": "ingest:ingest",
    "telemetry": "telemetry:telemetry",
    "report": "report:report",
}


class Commands(click.Group):
    """Imports a command when it is used: ``recompose slo`` needs neither a web server nor OpenCV."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(f"{__package__}.{module}"), name)
        return command

    def main(self, *args: Any, **extra: Any) -> Any:
        """Every error is one sentence on stderr, usage errors too."""
        extra["standalone_mode"] = False
        try:
            sys.exit(super().main(*args, **extra) or 0)
        except NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            sys.exit(error.exit_code)
        except click.ClickException as error:
            _end(error.format_message(), error.exit_code)
        except RecomposeError as error:
            _end(str(error), 1)
        except (click.Abort, KeyboardInterrupt):
            _end("interrupted", 128 + signal.SIGINT)


def _end(sentence: str, code: int) -> NoReturn:
    click.echo(f"Error: {sentence}", err=True)
    sys.exit(code)


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="recompose", prog_name="recompose")
def main() -> None:
    """Keeps stream applications at their service-level objectives."""
