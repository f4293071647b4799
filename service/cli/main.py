"""The group of all commands, and how their errors are told."""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from typing import Any, NoReturn

import click
from click.exceptions import NoArgsIsHelpError
from click.shell_completion import CompletionItem

from compositions.errors import RecomposeError

COMMANDS = {
    "serve": ("serve:serve", "Runs the service."),
    "demo": ("demo:demo", "Shows on this machine how an app is kept at an SLO."),
    "run": ("run:run", "Runs an app once, without the service."),
    "start": ("start:start", "Starts an app in the service."),
    "stop": ("start:stop", "Stops an app when all that it accepted is delivered."),
    "push": ("push:push", "Pushes items into an app, as JSON lines."),
    "results": ("results:results", "Prints the results of an app, as JSON lines."),
    "apps": ("listing:apps", "Lists the apps that the service can run."),
    "logs": ("listing:logs", "Prints what the service logged last."),
    "trace": ("trace:trace", "Shows where one item of an app waited and was worked on."),
    "runs": ("runs:runs", "Lists the runs of an app."),
    "compare": ("runs:compare", "Lays runs of an app side by side."),
    "slo": ("slo_command:slo", "Sets the SLO of an app."),
    "announce": ("announce_command:announce", "Says that an app is to get another rate for a while."),
    "budget": ("budget_command:budget", "Shows or sets the machine's budget and each app's share."),
    "alerts": ("alerts:alerts", "Shows or sets the rules of when somebody is told."),
    "status": ("clients:status", "Shows what the apps do."),
    "watch": ("clients:watch", "Shows an app live."),
    "decisions": ("clients:decisions", "Shows what was decided for an app and why."),
    "compositions": ("clients:compositions", "Shows or adds what can be chosen for an app."),
    "new": ("new:new", "Makes an app from a template."),
    "check": ("check:check", "Validates a compositions file, and loads the apps."),
    "doctor": ("doctor:doctor", "Looks whether this machine has what Recompose needs."),
    "completion": ("completion:completion", "Prints the completion script of a shell."),
    "experiment": ("experiment:experiment", "Runs experiments that a file describes."),
    "gym": ("gym:gym", "Compares policies over loads that move, in virtual time."),
    "ingest": ("ingest:ingest", "Makes an app's data set from the files in a folder."),
    "telemetry": ("telemetry:telemetry", "Makes tables from the telemetry in a folder."),
    "report": ("report:report", "Writes what an app did into one HTML file."),
}
"""Where each is, and what it does in a line: the list of commands is told without importing them."""


class Commands(click.Group):
    """Imports a command when it is used: ``recompose slo`` needs neither a web server nor OpenCV."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"{__package__}.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        fitting = [
            CompletionItem(name, help=line) for name, (_, line) in COMMANDS.items() if name.startswith(incomplete)
        ]
        return fitting + click.Command.shell_complete(self, ctx, incomplete)

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
