"""What a demo comes to: every result is checked, and what was seen on the way is counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from service.cli.render import number

FETCH_EVERY_S = 1.0


class Tally:
    def __init__(self) -> None:
        self.last_serial = -1
        self.lost = self.doubled = self.misordered = self.errors = 0
        self._due_s = 0.0
        self._received = 0
        self._seen: set[int] = set()
        self._used: list[str] = []
        self._verdicts = {"met": 0, "missed": 0}
        self._throughput = self._latency_ms = 0.0
        self._measured = 0
        self._status: dict[str, Any] = {}
        self._decisions: Sequence[dict[str, Any]] = ()

    def due(self, now_s: float) -> bool:
        """Whether it is time to fetch results again."""
        if now_s < self._due_s:
            return False
        self._due_s = now_s + FETCH_EVERY_S
        return True

    def see(self, status: dict[str, Any]) -> None:
        composition = status["composition"]
        if composition and (not self._used or self._used[-1] != composition["name"]):
            self._used.append(composition["name"])
        if status["slo_status"] in ("met", "violated", "infeasible"):
            self._verdicts["met" if status["slo_status"] == "met" else "missed"] += 1
        rate, latency_ms = status["throughput_per_s"], status["latency_ms"]["mean"]
        if status["slo"] and rate is not None and latency_ms is not None:
            self._throughput += rate
            self._latency_ms += latency_ms
            self._measured += 1

    def take(self, results: Iterable[dict[str, Any]]) -> None:
        """Checks serial numbers: from 0, each once, in order, without gaps."""
        for result in results:
            serial = result["serial"]
            self._received += 1
            self.errors += "error" in result
            if serial in self._seen:
                self.doubled += 1
            elif serial < self.last_serial:
                self.misordered += 1
                self.lost -= 1  # counted as a gap before
            else:
                self.lost += serial - self.last_serial - 1
            self._seen.add(serial)
            self.last_serial = max(self.last_serial, serial)

    def finish(self, status: dict[str, Any], decisions: Sequence[dict[str, Any]]) -> None:
        """``status`` after the stop: what was accepted and never came out is lost too."""
        self._status, self._decisions = status, [each for each in decisions if each.get("kind") != "no_change"]
        items = status["items"]
        self.lost += max(0, items["accepted"] - (self.last_serial + 1))

    @property
    def damage(self) -> str | None:
        counts = {"lost": self.lost, "doubled": self.doubled, "misordered": self.misordered, "failed": self.errors}
        return ", ".join(f"{count} items {what}" for what, count in counts.items() if count) or None

    def rows(self) -> list[tuple[str, str]]:
        items = self._status["items"]
        settled = [each for each in self._decisions if each["trigger"] in ("slo", "violation", "input_rate")]
        settle = ", ".join(f"{number(each['duration_s'], ' s')} ({each['trigger']})" for each in reversed(settled))
        verdicts = sum(self._verdicts.values())
        count = max(self._measured, 1)
        return [
            ("items accepted, delivered", f"{items['accepted']:,}, {items['delivered']:,}"),
            ("items lost, doubled, misordered", f"{self.lost}, {self.doubled}, {self.misordered}"),
            ("results checked", f"{self._received:,}, by their serial numbers"),
            ("time to settle", settle or "no decision was needed"),
            ("compositions used", " → ".join(self._used)),
            ("switches", str(self._status["switches"])),
            ("throughput, mean", number(self._throughput / count, "/s", 2)),
            ("latency, mean", number(self._latency_ms / count, " ms")),
            ("SLO met", f"{self._verdicts['met'] / verdicts:.0%} of the time with an SLO" if verdicts else "–"),
        ]
