"""The group of all commands, the output of their errors, and ``recompose completion``."""

import signal
import sys
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, NoReturn

import click
from click.exceptions import NoArgsIsHelpError
from click.shell_completion import CompletionItem, get_completion_class

from compositions.errors import RecomposeError
from compositions.extras import extras_named

COMMANDS = {
    "serve": ("serve:serve", "Run the service."),
    "demo": ("demo:demo", "Show on this machine how Recompose keeps an app at an SLO."),
    "run": ("run:run", "Run an app once, without the service."),
    "start": ("start:start", "Start an app in the service."),
    "stop": ("start:stop", "Stop an app after its accepted items are delivered."),
    "push": ("start:push", "Push items into an app, as JSON lines."),
    "results": ("start:results", "Print the results of an app, as JSON lines."),
    "apps": ("clients:apps", "List the apps that the service can run."),
    "logs": ("clients:logs", "Print the latest lines of the service's log."),
    "trace": ("runs:trace", "Show where an item of an app waited and was processed."),
    "runs": ("runs:runs", "List the runs of an app."),
    "compare": ("runs:compare", "Compare runs of an app."),
    "slo": ("objectives:slo", "Set the SLO of an app."),
    "announce": ("objectives:announce", "Announce an upcoming load, so that workers are ready."),
    "budget": ("objectives:budget", "Show or set the machine's budget and each app's share."),
    "alerts": ("objectives:alerts", "Show or set alert rules."),
    "status": ("clients:status", "Show the status of the apps."),
    "watch": ("clients:watch", "Show an app live."),
    "decisions": ("clients:decisions", "Show the decisions for an app and their reasons."),
    "compositions": ("clients:compositions", "Show or add compositions of an app."),
    "new": ("check:new", "Create an app from a template."),
    "check": ("check:check", "Validate a compositions file, and load the apps."),
    "doctor": ("doctor:doctor", "Check that this machine can run Recompose."),
    "backup": ("backup:backup", "Copy the state of a service, which may run meanwhile."),
    "tokens": ("backup:tokens", "Add, list and revoke named tokens of a service."),
    "completion": ("main:completion", "Print the completion script of a shell."),
    "ingest": ("ingest:ingest", "Build an app's data set from the files in a folder."),
    "backfill": ("ingest:backfill", "Compute an app's results over a table with Spark."),
    "telemetry": ("telemetry:telemetry", "Build tables from the telemetry in a folder."),
    "report": ("telemetry:report", "Write a report on an app into one HTML file."),
}
"""Module, function and help line of each command, so that ``--help`` lists them without an import."""
PLUGINS = "recompose.commands"
"""Group of entry points that add further commands, such as those of package ``lab``."""


def _plugins() -> dict[str, click.Command]:
    return {entry.name: entry.load() for entry in sorted(entry_points(group=PLUGINS)) if entry.name not in COMMANDS}


def _lines() -> list[tuple[str, str]]:
    """Return the name and the help line of each command."""
    ours = [(name, line) for name, (_, line) in COMMANDS.items()]
    return ours + [(name, command.get_short_help_str(limit=80)) for name, command in _plugins().items()]


class Commands(click.Group):
    """Import a command only when it is used, so that ``recompose slo`` loads neither a web server nor OpenCV."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *_plugins()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            module, _, name = COMMANDS[cmd_name][0].partition(":")
            command: click.Command = getattr(import_module(f"{__package__}.{module}"), name)
            return command
        return _plugins().get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(_lines())

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        fitting = [CompletionItem(name, help=line) for name, line in _lines() if name.startswith(incomplete)]
        return fitting + click.Command.shell_complete(self, ctx, incomplete)

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command; print each error, also a usage error, as one sentence on stderr."""
        extra["standalone_mode"] = False
        try:
            with extras_named():
                sys.exit(super().main(*args, **extra) or 0)
        except NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            sys.exit(error.exit_code)
        except click.ClickException as error:
            _end(error.format_message(), error.exit_code)
        except RecomposeError as error:
            _end(str(error), 1)
        except UnicodeEncodeError as error:  # raised for an argument; only file names may contain such bytes
            _end(f"{error.object!r} is not text in UTF-8", 2)
        except (click.Abort, KeyboardInterrupt):
            _end("interrupted", 128 + signal.SIGINT)


def _end(sentence: str, code: int) -> NoReturn:
    click.echo(f"Error: {sentence}", err=True)
    sys.exit(code)


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(package_name="recompose", prog_name="recompose")
def main() -> None:
    """Keep stream applications at their service-level objectives."""


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL; to use it: eval "$(recompose completion bash)"."""
    made = get_completion_class(shell)
    assert made is not None, "click knows these"
    command = ctx.find_root().command
    click.echo(made(command, {}, "recompose", "_RECOMPOSE_COMPLETE").source())
