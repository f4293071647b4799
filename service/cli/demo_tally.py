"""The tally of a demo: every serial number checked, and the figures of its summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from control.decisions import Mode, Trigger
from profiler.slo import SloStatus
from service.cli.render import number
from service.schemas.decisions import Decision, Entry
from service.schemas.figures import Items
from service.schemas.results import Result
from service.schemas.status import Status

FETCH_EVERY_S = 1.0
JUDGED = (SloStatus.MET, SloStatus.VIOLATED, SloStatus.INFEASIBLE)
ASKED_FOR = (Trigger.SLO, Trigger.MANUAL, Trigger.VIOLATION, Trigger.INPUT_RATE)


class SerialCheck:
    """Serial numbers must come from 0, each once, in order, without gaps."""

    def __init__(self) -> None:
        self.last = -1
        self.received = self.lost = self.doubled = self.misordered = self.errors = 0
        self._seen: set[int] = set()

    def take(self, results: Iterable[Result]) -> None:
        for result in results:
            self.received += 1
            self.errors += result.error is not None
            if not result.part:  # the first of its values stands for an item
                self._take(result.serial)

    def _take(self, serial: int) -> None:
        if serial in self._seen:
            self.doubled += 1
        elif serial < self.last:
            self.misordered += 1
            self.lost -= 1  # counted as a gap before
        else:
            self.lost += serial - self.last - 1
        self._seen.add(serial)
        self.last = max(self.last, serial)

    def finish(self, accepted: int) -> None:
        """Count as lost what was accepted and never came out."""
        self.lost += max(0, accepted - (self.last + 1))

    @property
    def damage(self) -> str | None:
        counts = {"lost": self.lost, "doubled": self.doubled, "misordered": self.misordered, "failed": self.errors}
        return ", ".join(f"{count} items {what}" for what, count in counts.items() if count) or None


class Tally:
    def __init__(self) -> None:
        self.serials = SerialCheck()
        self._due_s = 0.0
        self._used: list[str] = []
        self._verdicts: list[bool] = []
        self._rates: list[float] = []
        self._latencies_ms: list[float] = []
        self._items: Items | None = None
        self._switches = 0
        self._high: dict[Mode, Status] = {}
        self._decisions: Sequence[Decision] = ()

    def due(self, now_s: float) -> bool:
        """Return whether it is time to fetch results again."""
        if now_s < self._due_s:
            return False
        self._due_s = now_s + FETCH_EVERY_S
        return True

    def see(self, status: Status) -> None:
        composition = status.composition
        if composition and (not self._used or self._used[-1] != composition.name):
            self._used.append(composition.name)
        if status.requested.slo_status in JUDGED:
            self._verdicts.append(status.requested.slo_status is SloStatus.MET)
        rate, latency_ms = status.throughput_per_s, status.latency_ms.mean
        if status.requested.slo and rate is not None and latency_ms is not None:
            self._rates.append(rate)
            self._latencies_ms.append(latency_ms)

    def note(self, mode: Mode, status: Status) -> None:
        """Keep the last status under the high input: of the first composition, and of the chosen one."""
        self._high[mode] = status

    def _gain(self) -> list[tuple[str, str]]:
        """Return the latency under the high input before and after the manager chose."""
        both = [self._high.get(mode) for mode in (Mode.OBSERVE, Mode.AUTO)]
        told = [
            f"{each.composition.name if each.composition else '–'}: {number(each.latency_ms.mean, ' ms', 0)}"
            for each in both
            if each is not None
        ]
        return [("latency at high input", " → ".join(told))] if told else []

    def take(self, results: Iterable[Result]) -> None:
        self.serials.take(results)

    def finish(self, status: Status, entries: Sequence[Entry]) -> None:
        """``status`` after the stop."""
        self._items, self._switches = status.items, status.changes.switches
        self._decisions = [each for each in entries if isinstance(each, Decision)]
        self.serials.finish(status.items.accepted)

    @property
    def damage(self) -> str | None:
        return self.serials.damage

    def rows(self) -> list[tuple[str, str]]:
        items, serials = self._items, self.serials
        assert items is not None, "the summary comes after the end"
        settled = [each for each in reversed(self._decisions) if each.trigger in ASKED_FOR]
        settle = ", ".join(f"{number(each.duration_s, ' s')} ({each.trigger})" for each in settled)
        return [
            ("items accepted, delivered", f"{items.accepted:,}, {items.delivered:,}"),
            ("items lost, doubled, misordered", f"{serials.lost}, {serials.doubled}, {serials.misordered}"),
            ("results checked", f"{serials.received:,}, by their serial numbers"),
            ("time to settle", settle or "no decision was needed"),
            ("compositions used", " → ".join(self._used)),
            *self._gain(),
            ("switches", str(self._switches)),
            ("throughput, mean", number(_mean(self._rates), "/s", 2)),
            ("latency, mean", number(_mean(self._latencies_ms), " ms")),
            ("SLO met", f"{_mean(self._verdicts):.0%} of the time with an SLO" if self._verdicts else "–"),
        ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(len(values), 1)
