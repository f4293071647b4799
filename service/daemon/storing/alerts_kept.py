"""Rules of alerts, which survive a restart, and the alerts in force, which are found anew after it."""

from __future__ import annotations

import threading

from service.bodies.alerts import Alert, AlertsRequest
from service.daemon.storing.facts import Facts

NAME = "alerts"


class AlertsKept:
    """Thread-safe."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._lock = threading.Lock()
        self._raised: dict[tuple[int, str], Alert] = {}

    def put_rules(self, asked: AlertsRequest) -> None:
        """In place of those that were; nothing is in force then. Raises: NotStoredError."""
        self._facts.put(NAME, asked.model_dump_json())
        with self._lock:
            self._raised.clear()

    def rules(self) -> AlertsRequest:
        found = self._facts.get(NAME)
        return AlertsRequest() if found is None else AlertsRequest.model_validate_json(found)

    def put(self, rule: int, alert: Alert) -> None:
        """Raised, or over. ``rule``: its place among the rules."""
        with self._lock:
            if alert.raised:
                self._raised[rule, alert.app] = alert
            else:
                self._raised.pop((rule, alert.app), None)

    def of(self, app: str) -> list[Alert]:
        """In force."""
        with self._lock:
            return [alert for (_, name), alert in self._raised.items() if name == app]
