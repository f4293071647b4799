"""The rules in force: looked at once a second, kept over restarts."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection

import structlog

from compositions.errors import RecomposeError
from service.bodies.alerts import Alert, AlertsInForce, AlertsRequest
from service.bodies.base import utc_now
from service.bodies.refusals import NotFoundError
from service.bodies.status import Status
from service.daemon.alerting.judging import Judged, after
from service.daemon.alerting.webhook import Webhook
from service.daemon.storing.alerts_kept import AlertsKept

LOOK_S = 1.0
REMEMBERED = 200
log = structlog.get_logger()


class Alerts:
    """``names``: of the registered apps; ``status``: of one of them. Thread-safe."""

    def __init__(
        self,
        names: Collection[str],
        status: Callable[[str], Status],
        kept: AlertsKept,
        webhook: Webhook | None = None,
    ) -> None:
        self._names, self._status, self._kept = names, status, kept
        self._webhook = webhook or Webhook()
        self._asked = kept.rules()
        self._judged: dict[tuple[int, str], Judged] = {}
        self._told: deque[Alert] = deque(maxlen=REMEMBERED)
        self._lock = threading.Lock()

    def set(self, asked: AlertsRequest) -> AlertsInForce:
        """In place of all that were. Raises: NotFoundError for an app that is not registered; NotStoredError."""
        unknown = {rule.app for rule in asked.rules} - {None, *self._names}
        if unknown:
            raise NotFoundError(f"there is no app {min(map(str, unknown))!r}; registered are {', '.join(self._names)}")
        with self._lock:
            if "webhook" not in asked.model_fields_set:
                asked = asked.model_copy(update={"webhook": self._asked.webhook})
            self._kept.put_rules(asked)
            self._asked, self._judged = asked, {}
        return self.in_force()

    def in_force(self) -> AlertsInForce:
        with self._lock:
            asked, told = self._asked, list(reversed(self._told))
        host = AlertsInForce.host_of(asked.webhook)
        return AlertsInForce(rules=asked.rules, webhook=host, webhook_fault=self._webhook.fault, alerts=told)

    def look(self) -> float:
        """One turn. Returns the seconds until the next."""
        asked = self._asked
        wanted = [name for name in self._names if any(rule.app in (None, name) for rule in asked.rules)]
        seen = {name: status for name in wanted if (status := self._seen(name)) is not None}
        now_s = time.monotonic()
        with self._lock:
            if asked is self._asked:  # else they were replaced meanwhile
                for number, rule in enumerate(asked.rules):
                    for name in {rule.app or name for name in self._names} & seen.keys():
                        self._judge(number, seen[name], now_s)
        return LOOK_S

    def _seen(self, name: str) -> Status | None:
        """None: it cannot be told now, so that what was judged stays."""
        try:
            return self._status(name)
        except RecomposeError:
            return None

    def _judge(self, number: int, status: Status, now_s: float) -> None:
        rule, key = self._asked.rules[number], (number, status.app)
        before = self._judged.get(key, Judged())
        self._judged[key] = judged = after(rule, before, status, now_s)
        if judged.raised == before.raised:
            return
        told = judged.told if judged.raised else f"over: {judged.told}"
        alert = Alert(app=status.app, about=rule.about, raised=judged.raised, told=told, at=utc_now())
        self._told.append(alert)
        self._kept.put(number, alert)
        (log.warning if alert.raised else log.info)("alert", app=alert.app, about=alert.about, told=told)
        if self._asked.webhook is not None:
            self._webhook.send(self._asked.webhook, alert)

    def end(self) -> None:
        self._webhook.end()
