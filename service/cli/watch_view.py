"""``watch``: show the running pipeline, rates, SLO and the last decisions in a terminal."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from rich import console as rich
from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from control.decisions import Mode
from service.cli import render
from service.cli.http import ServiceError
from service.schemas.compositions import Group
from service.schemas.decisions import Decision, Entry
from service.schemas.figures import StageStatus, Worker
from service.schemas.status import Status

REMEMBERED = 40
"""Number of statuses in a timeline, one per second."""
PER_S = 4
BESIDE_SPARK = 48
"""Columns that a line needs besides its timeline."""
DECISIONS = 5
BARS = "▁▂▃▄▅▆▇█"
Entries = Sequence[Entry]


class WatchView:
    """The live view. ``decisions`` returns the newest entries; it is called if a status shows another decision."""

    def __init__(self, decisions: Callable[[], Entries]) -> None:
        self._ask = decisions
        self._entries: Entries = ()
        self._known: tuple[Decision | None, str | None] | None = None
        self._course: deque[tuple[float | None, float | None]] = deque(maxlen=REMEMBERED)
        self._seen = 0

    def fitting(self, status: Status, console: rich.Console) -> RenderableType:
        """Return a view that fits the terminal: first reasons are cut to one line, then decisions are left out."""
        self._note(status)
        shapes = [(len(self._entries), False), *((count, True) for count in range(len(self._entries), -1, -1))]
        for count, short in shapes:
            drawn = self._drawn(status, count, short, console.width)
            if not console.is_terminal or len(console.render_lines(drawn, pad=False)) < console.height:
                break
        return drawn

    def _drawn(self, status: Status, decisions: int, short: bool, width: int) -> RenderableType:
        """Return the view with this number of decisions. ``short``: one line each. ``width``: columns."""
        mode = "" if status.requested.mode is Mode.AUTO else f" · {status.requested.mode}"
        composition = status.composition
        name = f"composition {composition.name}, {composition.workers} workers" if composition else "not running"
        inside = Panel(pipeline(status), title=name, title_align="left", border_style="dim")
        parts: list[RenderableType] = [self._figures(status, width), inside]
        alerts = status.supervision.alerts or ()
        parts += [Text(f"alert since {render.clock(each.at)}: {each.told}", style="red") for each in alerts]
        if status.health.held_up:
            parts.append(Text(status.health.held_up, style="yellow"))
        if status.health.failure:
            parts.append(Text(status.health.failure.strip().splitlines()[-1], style="red"))
        if decisions:
            shown = self._entries[:decisions]
            parts += [Text("last decisions", style="bold"), render.decisions_table(shown, short=short)]
        return Panel(rich.Group(*parts), title=f"{status.app} · {status.state}{mode}", title_align="left")

    def _note(self, status: Status) -> None:
        if self._seen % PER_S == 0:
            self._course.append((status.throughput_per_s, status.latency_ms.mean))
        self._seen += 1
        known = (status.changes.last_decision, status.changes.no_change)
        if known != self._known:
            with suppress(ServiceError):  # the next status tries again
                self._entries, self._known = self._ask(), known

    def _figures(self, status: Status, width: int) -> RenderableType:
        latency, items = status.latency_ms, status.items
        room = max(8, min(REMEMBERED, width - BESIDE_SPARK))
        course = _grid()
        rates = f"in {render.number(status.input_rate_per_s)}/s   out {render.number(status.throughput_per_s)}/s"
        course.add_row("rate", rates, _bars([rate for rate, _ in self._course][-room:]))
        told = f"mean {render.number(latency.mean, ' ms', 0)}   p95 {render.number(latency.p95, ' ms', 0)}"
        course.add_row("latency", told, _bars([mean for _, mean in self._course][-room:]))
        made = _grid()
        made.add_row("SLO", render.slo_text(status))
        ways = (("failed", items.failed), ("shed", items.shed))
        lost = "".join(f", {count:,} {name}" for name, count in ways if count)
        counts = f"{items.delivered:,} out of {items.accepted:,}{lost}"
        made.add_row("items", f"{counts}; {status.changes.switches} switches")
        if bundle := render.batching_text(status):
            made.add_row("bundle size", bundle)
        return rich.Group(course, made)


def _grid() -> Table:
    made = Table.grid(padding=(0, 2))
    made.add_column(min_width=len("together"))
    return made


def _bars(values: Sequence[float | None]) -> Text:
    return Text(spark(values), style="cyan", no_wrap=True)


def pipeline(status: Status) -> Table:
    """Draw a line for each group: its queue, its pattern, its stages with their service times, its workers."""
    stages = {stage.name: stage for stage in status.stages}
    alone = [Group(stages=[name], pattern="seq", replicas=1) for name in stages]
    made = Table.grid(padding=(0, 2))
    for index, group in enumerate(status.composition.groups if status.composition else alone):
        workers = [worker for worker in status.workers if worker.group == index]
        waits = status.queued if index == 0 else waiting(status.resources.in_flight_by_stage or {}, group, workers)
        busy = sum(worker.outstanding > 0 for worker in workers)
        pattern = f"Par × {group.replicas}" if group.pattern == "par" else "Seq"
        depth = Text(f"{waits:>5} waiting ▶", style="yellow" if waits else "dim")
        inside = Text(" + ").join(_stage(stages[name]) for name in group.stages)
        made.add_row(depth, Text(pattern, style="bold"), inside, Text(f"{busy} of {len(workers)} busy", style="dim"))
    return made


def waiting(in_flight_by_stage: Mapping[str, int], group: Group, workers: Iterable[Worker]) -> int:
    """Return the number of items that are due for a group but not yet with a worker."""
    here = sum(in_flight_by_stage.get(name, 0) for name in group.stages)
    return max(0, here - sum(worker.outstanding for worker in workers))


def _stage(stage: StageStatus) -> Text:
    text = Text(f"{stage.name} {render.number(stage.service_time_ms, ' ms')}")
    return text.append(" ▲ bottleneck", style="red") if stage.bottleneck else text


def spark(values: Iterable[float | None]) -> str:
    """Draw a timeline from 0 to its highest value, with a space where no value was measured."""
    known = list(values)
    top = max((value for value in known if value is not None), default=0.0) or 1.0
    return "".join(" " if value is None else BARS[min(7, int(8 * value / top))] for value in known)
