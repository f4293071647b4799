"""Alert rules: evaluated once a second, stored across restarts, their alerts posted to a webhook."""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace

import httpx
import structlog
from pydantic import ValidationError

from compositions.errors import RecomposeError
from compositions.wording import figure
from control.decisions import State
from datapipe.sinks.webhook import LATER, Posts
from profiler.slo import SloStatus
from service.daemon.store.store import Facts, body_to_json
from service.schemas.base import plain, utc_now
from service.schemas.refusals import AppTypes, NotFoundError, no_app
from service.schemas.slo import Alert, AlertsInForce, AlertsRequest, BacklogRule, ObjectiveRule, Rule
from service.schemas.status import Status

WAITING = 100
"""Maximum number of alerts that wait for a webhook that does not answer; further ones are given up."""
PATIENCE_S = 5.0
WAITS_S = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Pauses before each further attempt, in seconds."""
Post = Callable[[str, object], int]
"""Function that posts JSON data to a URL. Returns the status. Raises: httpx.HTTPError; ValueError for a bad URL."""


def _post(url: str, body: object) -> int:
    with closing(Posts(PATIENCE_S, trust_env=False)) as posts:
        return posts.post(url, body)


class Webhook:
    """Posts alerts. Thread-safe; its thread begins with the first alert."""

    def __init__(self, post: Post = _post, waits_s: Sequence[float] = WAITS_S) -> None:
        self.fault: str | None = None
        """Reason why the last alert could not be posted."""
        self._post, self._waits_s = post, waits_s
        self._queue: queue.Queue[tuple[str, Alert]] = queue.Queue(WAITING)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def send(self, url: str, alert: Alert) -> None:
        """Queue an alert; return at once."""
        try:
            self._queue.put_nowait((url, alert))
        except queue.Full:
            self.fault = f"{WAITING} alerts wait for the webhook; later ones were given up"
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Prevent further attempts."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                url, alert = self._queue.get(timeout=1.0)
            except queue.Empty:
                continue
            self.fault = self._delivered(url, alert)
            if self.fault is not None:
                log.warning("alert not posted", app=alert.app, reason=self.fault)

    def _delivered(self, url: str, alert: Alert) -> str | None:
        """Post an alert; return the reason of a failure, or None."""
        said = "the service ended"
        for wait_s in (0.0, *self._waits_s):
            if self._ended.wait(wait_s):
                break
            try:
                status = self._post(url, plain(alert))
            except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:  # UnicodeError, for an invalid host
                said = f"no answer from the webhook ({type(error).__name__})"
                continue
            if 200 <= status < 300:
                return None
            said = f"the webhook answered {status}"
            if status < 500 and status not in LATER:
                break
        return said


MISSED = {SloStatus.VIOLATED: "violated", SloStatus.INFEASIBLE: "out of reach"}


@dataclass(frozen=True, slots=True)
class Judged:
    """The state of one rule for one app."""

    since_s: float | None = None
    """Time since when the rule's condition holds; None: it does not."""
    raised: bool = False
    told: str = ""
    known_restarts: tuple[int, int] | None = None
    """Restarts of workers and of runners at the last evaluation."""
    restarts: tuple[tuple[float, int], ...] = ()
    """Times and numbers of restarts."""


def after(rule: Rule, judged: Judged, status: Status, now_s: float) -> Judged:
    """Return the state after an evaluation. ``now_s``: seconds of any steady clock."""
    if isinstance(rule, ObjectiveRule):
        return _lasting(judged, _objective(status), rule.for_s, now_s)
    if isinstance(rule, BacklogRule):
        waits = status.queued > rule.above
        told = f"{status.queued:,} items wait, which is more than {rule.above:,}" if waits else ""
        return _lasting(judged, told, rule.for_s, now_s)
    counted = _counted(judged, status, now_s, rule.within_s)
    count = sum(number for _, number in counted.restarts)
    restarts = f"{count:,} {'restart' if count == 1 else 'restarts'}"
    told = f"{restarts} within {figure(rule.within_s, 6)} s, which is more than {rule.above:,}"
    return _lasting(counted, told if count > rule.above else "", 0.0, now_s)


def _objective(status: Status) -> str | None:
    """Return what is wrong; empty if nothing is, None if it is unknown."""
    if status.state is State.FAILED:
        return "it has failed"
    if status.requested.slo_status in MISSED:
        return f"its objective is {MISSED[status.requested.slo_status]}"
    return None if status.requested.slo_status is SloStatus.UNKNOWN and status.state is not State.STOPPED else ""


def _lasting(judged: Judged, told: str | None, for_s: float, now_s: float) -> Judged:
    """Raise the alert once the condition has held long enough; end it as soon as the condition does not hold."""
    if told is None:
        return judged
    if not told:
        return replace(judged, since_s=None, raised=False)
    since_s = now_s if judged.since_s is None else judged.since_s
    raised = judged.raised or now_s - since_s >= for_s
    lasts = f" for {figure(for_s, 6)} s" if for_s else ""
    return replace(judged, since_s=since_s, raised=raised, told=told if judged.raised else told + lasts)


def _counted(judged: Judged, status: Status, now_s: float, within_s: float) -> Judged:
    """Count restarts; a new runner counts its workers' restarts from 0."""
    runners = status.supervision.runner_restarts
    workers_before, runners_before = judged.known_restarts or (status.health.restarts or 0, runners)
    workers = workers_before if status.health.restarts is None else status.health.restarts
    more = max(0, workers - workers_before) + max(0, runners - runners_before)
    kept = tuple(each for each in judged.restarts if now_s - each[0] < within_s)
    counted = (*kept, (now_s, more)) if more else kept
    return replace(judged, known_restarts=(workers, runners), restarts=counted)


LOOK_S = 1.0
REMEMBERED = 200
NAME = "alerts"
log = structlog.get_logger()


def _stored(facts: Facts) -> AlertsRequest:
    """Return the stored rules; none if they were stored by an earlier version and cannot be read."""
    try:
        return AlertsRequest.model_validate_json(facts.get(NAME) or "{}")
    except ValidationError as error:
        log.error("the stored alert rules cannot be read, so no rule is active; set them again", error=str(error))
        return AlertsRequest()


class Alerts:
    """Evaluates the rules. ``apps``: registered ones; ``status``: returns the status of one. Thread-safe."""

    def __init__(self, apps: AppTypes, status: Callable[[str], Status], facts: Facts) -> None:
        self._apps, self._status, self._facts = apps, status, facts
        self._webhook = Webhook()
        self._asked = _stored(facts)
        self._judged: dict[tuple[int, str], Judged] = {}
        """State by position of the rule and by app, as for the raised alerts."""
        self._raised: dict[tuple[int, str], Alert] = {}
        self._told: deque[Alert] = deque(maxlen=REMEMBERED)
        self._lock = threading.Lock()

    def set(self, asked: AlertsRequest) -> AlertsInForce:
        """Replace all rules. Raises: NotFoundError for an app that is not registered; NotStoredError; BadValueError."""
        unknown = {rule.app for rule in asked.rules} - {None, *self._apps}
        if unknown:
            raise NotFoundError(no_app(min(map(str, unknown)), self._apps))
        with self._lock:
            if "webhook" not in asked.model_fields_set:
                asked = asked.model_copy(update={"webhook": self._asked.webhook})
            self._facts.put(NAME, body_to_json(asked))
            self._asked, self._judged, self._raised = asked, {}, {}
        return self.in_force()

    def in_force(self) -> AlertsInForce:
        with self._lock:
            asked, told = self._asked, list(reversed(self._told))
        host = AlertsInForce.host_of(asked.webhook)
        return AlertsInForce(rules=asked.rules, webhook=host, webhook_fault=self._webhook.fault, alerts=told)

    def of(self, app: str) -> list[Alert]:
        """Return the active alerts of an app; without the lock, as a status waits for no disk."""
        return [alert for (_, name), alert in list(self._raised.items()) if name == app]

    def look(self) -> float:
        """Evaluate all rules once. Return the seconds until the next time."""
        asked = self._asked
        wanted = [name for name in self._apps if any(rule.app in (None, name) for rule in asked.rules)]
        seen = {name: status for name in wanted if (status := self._seen(name)) is not None}
        now_s = time.monotonic()
        with self._lock:
            if asked is self._asked:  # otherwise the rules were replaced meanwhile
                for number, rule in enumerate(asked.rules):
                    for name in {rule.app or name for name in self._apps} & seen.keys():
                        self._judge(number, seen[name], now_s)
        return LOOK_S

    def _seen(self, name: str) -> Status | None:
        """Return the status for a rule; None: it is unknown now, so the last judgement stays."""
        with suppress(RecomposeError):
            return self._status(name)
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
        self._raised.pop(key, None)
        if alert.raised:
            self._raised[key] = alert
        (log.warning if alert.raised else log.info)("alert", app=alert.app, about=alert.about, told=told)
        if self._asked.webhook is not None:
            self._webhook.send(self._asked.webhook, alert)

    def end(self) -> None:
        self._webhook.end()
