"""Render answers of the API as tables for the terminal."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.progress import Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from compositions.model import TransitionKind
from compositions.wording import figure
from service.schemas.base import read_time
from service.schemas.compositions import Choice
from service.schemas.decisions import Entry, NoChange, Resized
from service.schemas.slo import BudgetBody, MachineShares, ObjectiveInForce, SloInForce, StoredSlo, TermsBody
from service.schemas.status import Status

SLO_COLORS = {"met": "green", "violated": "red", "infeasible": "yellow"}
WIDE = 160
"""Width in columns if the output is not a terminal."""


def console(*, stderr: bool = False) -> Console:
    made = Console(stderr=stderr, highlight=False, markup=False)
    return made if made.is_terminal else Console(stderr=stderr, highlight=False, markup=False, width=WIDE)


def number(value: float | None, unit: str = "", digits: int = 1) -> str:
    """Return the value with its unit, or a dash if it was not measured."""
    return "–" if value is None else f"{value:,.{digits}f}{unit}"


def table(*columns: str, title: str | None = None, rows: Iterable[Iterable[RenderableType]] = ()) -> Table:
    made = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def statuses_table(statuses: Sequence[Status]) -> Table:
    made = table("app", "state", "composition", "input/s", "output/s", "latency", "SLO")
    for status in statuses:
        composition = status.composition
        made.add_row(
            status.app,
            status.state,
            f"{composition.name} {composition.notation}" if composition else "–",
            number(status.input_rate_per_s),
            number(status.throughput_per_s),
            judged_latency(status),
            slo_text(status),
        )
    return made


_UNITS = {"latency": "ms", "throughput": "/s"}


def judged_latency(status: Status) -> str:
    """Return the latency in the objective's statistic, or the mean if the objective names none."""
    slo = status.requested.slo
    statistic = slo.statistic if slo is not None and slo.statistic else "mean"
    value = number(dict(status.latency_ms)[statistic], " ms", 0)
    if statistic == "share" and slo is not None and slo.share is not None:
        return f"{figure(100 * slo.share, 6)} % within {value}"
    return value if statistic == "mean" else f"{statistic} {value}"


def slo_text(status: Status) -> Text:
    slo = status.requested.slo
    if slo is None:
        return Text("none")
    each = " and ".join(_short(objective) for objective in slo.objectives or [slo])
    verdict = (status.requested.slo_status.value, SLO_COLORS.get(status.requested.slo_status, ""))
    return Text.assemble(f"{each}{_within(slo)}: ", verdict)


def _short(slo: ObjectiveInForce) -> str:
    name, target, bound = _named(slo)
    return f"{name} {target} (bound {bound})"


def _named(slo: ObjectiveInForce) -> tuple[str, str, str]:
    """Return the statistic, the target and the bound of an objective, with their units."""
    unit = _UNITS[slo.metric]
    name = slo.metric if slo.statistic in (None, "mean") else f"{slo.statistic} {slo.metric}"
    target = slo.target if isinstance(slo.target, str) else f"{figure(slo.target, 6)} {unit}"
    return name, target, "–" if slo.bound is None else f"{figure(slo.bound, 6)} {unit}"


def _within(slo: SloInForce) -> str:
    return "" if slo.budget is None else f", within {slo.budget.budget().told()}"


def slo_line(slo: StoredSlo) -> str:
    """Return the accepted objective as a sentence."""
    return f"{slo.app}: {' and '.join(objective_text(each) for each in slo.objectives or [slo])}{_within(slo)}"


def objective_text(slo: ObjectiveInForce) -> str:
    """Return the objective with its bound."""
    name, target, bound = _named(slo)
    name = name if slo.share is None else f"{slo.metric} of {figure(100 * slo.share, 6)} % of the items"
    return f"{name} {target}" + ("" if slo.bound is None else f", violated beyond {bound}")


def budget_table(found: MachineShares) -> RenderableType:
    """Return the machine's budget, and a line for each app with a priority, a floor or a share."""
    if found.workers is None and found.cores is None:
        return Text("no budget: each app plans with all cores")
    made = table("app", "priority", "floor", "share", "objective reached", "why")
    for app in sorted({*found.apps, *found.shares}):
        terms, share = found.apps.get(app, TermsBody()), found.shares.get(app)
        figures = ("–", "–", "–") if share is None else (share.told(), f"{share.reached:.0%}", share.reason)
        made.add_row(app, f"{figure(terms.priority, 6)}", f"{figure(terms.floor, 6)}", *figures)
    return Group(f"{BudgetBody(workers=found.workers, cores=found.cores).budget().told()} for all apps together", made)


def status_view(status: Status) -> RenderableType:
    """Return the status of one app in full."""
    return Group(statuses_table([status]), "", _figures(status), "", stages_table(status))


def _figures(status: Status) -> Text:
    counts = ", ".join(f"{name} {count:,}" for name, count in status.items)
    changes = status.changes
    switches = f"{changes.switches} ({changes.resizes} in place)" if changes.resizes else f"{changes.switches}"
    line = f"items: {counts}; queued {status.queued}, in flight {status.in_flight}, switches {switches}"
    bundle = batching_text(status)
    line += f"\nbundle size: {bundle}" if bundle else ""
    line += f"\nannounced: {planned_text(status)}" if status.requested.announced else ""
    shared = None if status.resources.grant is None else status.resources.grant.reason
    alerts = ((f"alert since {clock(each.at)}: {each.told}", "red") for each in status.supervision.alerts or ())
    told = [*alerts, (status.requested.slo_note, "yellow"), (shared, "")]
    told += [(status.health.held_up, "yellow"), (status.health.failure, "red")]
    return Text.assemble(line, _begin(status), *(("\n" + text, style) for text, style in told if text))


def planned_text(status: Status) -> str:
    """Return the announced loads, with times in the local time zone."""
    told = (
        f"{each.rate_per_s:,g} items/s from {_instant(each.from_)} to {_instant(each.until)}"
        for each in status.requested.announced or ()
    )
    return "; ".join(told) or "nothing is announced"


def _instant(text: str) -> str:
    return read_time(text).astimezone().isoformat(sep=" ", timespec="minutes")[:16]


def batching_text(status: Status) -> str | None:
    """Return the maximum bundle size and its reason; None if no run is active."""
    batching = status.requested.batching
    if batching is None or batching.size is None:
        return None
    items = "item" if batching.size == 1 else "items"
    return f"at most {batching.size:,} {items} ({batching.controller}: {batching.reason})"


def _begin(status: Status) -> str:
    """Describe the present runner, and why it replaced the first one."""
    origin = status.origin
    if origin.run is None:
        return ""
    since = f" since {clock(origin.began_at)}" if origin.began_at else ""
    again = f", started again: {origin.started_again}" if origin.started_again else ""
    return f"\nrun {origin.run}{since}{again}"


def stages_table(status: Status) -> Table:
    made = table("stage", "kind", "service time", "cpu time", "samples", "")
    for stage in status.stages:
        times = (number(stage.service_time_ms, " ms"), number(stage.cpu_time_ms, " ms"))
        mark = "bottleneck" if stage.bottleneck else ""
        made.add_row(stage.name, stage.kind, *times, str(stage.samples), mark)
    return made


def decisions_table(entries: Sequence[Entry], *, short: bool = False) -> Table:
    """Return the decisions as a table. ``short``: cut each reason, so that an entry takes one line."""
    made = table("at", "trigger", "from → to", "reason")
    if short:
        made.expand, made.columns[-1].ratio = True, 1
        for column in made.columns:
            column.no_wrap, column.overflow = True, "ellipsis"
    for entry in entries:
        if isinstance(entry, NoChange):
            made.add_row(clock(entry.at), "no change", f"× {entry.count}", entry.reason)
        elif isinstance(entry, Resized):
            way = f"{entry.from_:,} → {entry.to:,} items"
            times = f" (× {entry.count}, {entry.least:,} to {entry.most:,})" if entry.count > 1 else ""
            made.add_row(clock(entry.at), f"batching, {entry.controller}", way + times, entry.reason)
        else:
            way = f" ({entry.transition})" if entry.transition is TransitionKind.RESIZE else ""
            moved = f"stays with {entry.to}" if entry.from_ == entry.to else f"{entry.from_} → {entry.to}{way}"
            made.add_row(clock(entry.at), entry.trigger, moved, entry.reason)
    return made


def compositions_table(choices: Sequence[Choice]) -> Table:
    made = table("app", "name", "notation", "workers", "predicted/s", "predicted latency", "")
    for choice in choices:
        rates = (number(choice.predicted_throughput_per_s), number(choice.predicted_latency_ms, " ms"))
        active = "active" if choice.active else ""
        made.add_row(choice.app, choice.name, choice.notation, str(choice.workers), *rates, active)
    return made


def progress(*columns: ProgressColumn, quiet: bool = False) -> Progress:
    """Return a progress display on a terminal's stderr; without a terminal, it shows nothing."""
    output = console(stderr=True)
    return Progress(*columns, console=output, transient=True, disable=quiet or not output.is_terminal)


def spinner(*, quiet: bool = False) -> Progress:
    """Return a line with a spinner, the description of the task, and the elapsed time."""
    return progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), quiet=quiet)


@contextmanager
def doing(what: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show on a terminal's stderr what is being done, until it is done; the yielded function changes the text."""
    with spinner(quiet=quiet) as bar:
        task = bar.add_task(what, total=None)
        yield lambda words: bar.update(task, description=words)


def progress_text(status: Status) -> str:
    """Return the progress of a run in one line."""
    composition = status.composition.name if status.composition else "–"
    rate, latency = number(status.throughput_per_s, "/s"), number(status.latency_ms.mean, " ms")
    return f"{status.state}: composition {composition}, {status.items.delivered:,} items, {rate}, {latency}"


def clock(at: str) -> str:
    """Return the time of day of an RFC 3339 time stamp."""
    return at[11:19]
