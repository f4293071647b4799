"""The slot of an app's runner at a host: at most one runner, under a name that outlives the daemon; and the queue of
starts. Only a few apps start at a time: twenty at once would slow each other down until none is ready in time."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

import structlog

from compositions.resources import Need
from runtime.housekeeping import available_cores
from runtime.placement.cluster import Amounts, Cluster, Node
from service.runner.rpc.port import ANSWER_S, RunnerPort
from service.runner.rpc.requests import ReadStatus, Request, Stop
from service.runner.rpc.vital import Vital
from service.schemas.refusals import ConflictError
from service.schemas.spec import RunSpec
from service.schemas.status import Status

GivenUp = Callable[[], bool]
"""Function that returns whether nobody waits for the runner any more."""


def waited_for() -> bool:
    return False


class Successor(Protocol):
    """A process on another node in which the next runner can begin at once."""

    @property
    def is_ready(self) -> bool:
        """Return whether everything is loaded that can be loaded in advance."""

    def become(self, spec: RunSpec, given_up: GivenUp) -> RunnerPort:
        """Return the runner of ``spec``, not started. Raises: as ``Host.spawn``."""

    def kill(self) -> None: ...


class Host(Protocol):
    """The place of runners. Default methods suit a place that ends with this process."""

    def spawn(self, name: str, spec: RunSpec, given_up: GivenUp = waited_for) -> RunnerPort:
        """Return a new runner, not started. Raises: RecomposeError if the spec is refused; NotNow if no runner can be
        had now; ConnectionError if it died, or was ``given_up`` meanwhile."""

    def prepare(self, name: str, spec: RunSpec) -> Successor | None:
        """Begin a successor beside the runner; None: it saves no time. Raises: ClusterError if no node takes it."""
        return None

    def find(self, name: str) -> RunnerPort | None:
        """Return a runner that an earlier daemon left running; it may be silent."""
        return None

    def sweep(self, name: str) -> None:
        """End remains of runners of that name, such as workers, as no runner will follow."""
        return

    def ready(self) -> bool:
        return True

    def joined(self) -> bool:
        """Return whether the place is still joined."""
        return True

    def cluster(self) -> Cluster:
        """Return the nodes that workers may be on."""

    def request(self, workers: Sequence[Need]) -> None:
        """Ask for nodes that could hold these workers; this replaces the previous request."""
        return

    def drain(self, node: str, deadline_s: float) -> None:
        """Place no more workers on a node, which ends at the deadline. Raises: ConflictError if that is impossible."""

    def close(self) -> None:
        """Leave the place; runners that can outlive the daemon stay."""
        return


class LocalHost(Host):
    """Hosts runners in this process; they end with it. ``make`` creates the runner of a spec."""

    def __init__(self, make: Callable[[RunSpec], RunnerPort]) -> None:
        self._make = make

    def spawn(self, name: str, spec: RunSpec, given_up: GivenUp = waited_for) -> RunnerPort:
        return self._make(spec)

    def cluster(self) -> Cluster:
        return Cluster((Node("local", Amounts(available_cores()), address="local"),), "local")

    def drain(self, node: str, deadline_s: float) -> None:
        raise ConflictError("a local service has no node to drain: its workers are threads")


AT_ONCE = 4
"""Number of starts at the same time: while one waits for Ray or a disk, another computes."""
HOLD_S = 60.0
"""Time in seconds after which a start no longer counts, so that a long one does not block others."""


class StartQueue:
    """Admits starts in the order of the requests, a few at a time. Thread-safe; no call blocks."""

    def __init__(self, at_once: int = AT_ONCE, clock: Callable[[], float] = time.monotonic) -> None:
        self._at_once, self._clock = at_once, clock
        self._waiting: list[str] = []
        self._under_way: dict[str, float] = {}
        self._lock = threading.Lock()

    def ahead(self, app: str) -> int:
        """Return the number of apps that start before ``app``; 0: it may start now, and counts until it leaves."""
        with self._lock:
            if app in self._under_way:
                return 0
            now_s = self._clock()
            busy = sum(now_s - since_s < HOLD_S for since_s in self._under_way.values())
            if app not in self._waiting:
                self._waiting.append(app)
            before = self._waiting.index(app)
            if busy + before >= self._at_once:
                return busy + before
            self._waiting.remove(app)
            self._under_way[app] = now_s
            return 0

    def leave(self, app: str) -> None:
        """Leave the queue: the app is up, or does not start for now."""
        with self._lock:
            self._under_way.pop(app, None)
            if app in self._waiting:
                self._waiting.remove(app)


A = TypeVar("A")
log = structlog.get_logger()


class RunnerSlot:
    """The slot. ``attach``: the first runner may be one that an earlier daemon left. Used from several threads."""

    def __init__(self, name: str, host: Host, queue: StartQueue | None = None, *, attach: bool = False) -> None:
        self._name, self._host, self._attach = name, host, attach
        self._queue = queue or StartQueue()
        self._runner: RunnerPort | None = None
        self._successor: Successor | None = None
        self._prepared_s = 0.0
        """Time when the successor was requested."""
        self._left = False
        """True after the last call: a runner that is being started has no place any more."""

    def find(self) -> bool:
        """Take over the runner that an earlier daemon left here; only the first call does."""
        attach, self._attach = self._attach, False
        if attach:
            with self._trying():
                self._runner = self._host.find(self._name)
        return attach and self._runner is not None

    def ahead(self) -> int:
        """Return the number of starts that come first; 0: this one may begin, until ``started``."""
        return self._queue.ahead(self._name)

    def started(self) -> None:
        """Leave the queue: the start is over, with or without success."""
        self._queue.leave(self._name)

    def spawn(self, spec: RunSpec) -> None:
        """Make a runner, not started, in the successor's process if there is one. Raises: as ``Host.spawn``."""
        successor, self._successor = self._successor, None
        if successor is None:
            self._runner = self._host.spawn(self._name, spec, lambda: self._left)
        else:
            self._runner = successor.become(spec, lambda: self._left)

    def followed(self, spec: RunSpec, patience_s: float) -> bool:
        """Return whether a successor is ready for the runner that is to move, and none of its workers is left on its
        node, or that will take longer than ``patience_s``. The first call begins a successor."""
        if not self._prepared_s:
            self._prepared_s = time.monotonic()
            with self._trying():
                self._successor = self._host.prepare(self._name, spec)
        late = time.monotonic() - self._prepared_s >= patience_s
        if late or self._successor is None or (self._successor.is_ready and not self._has_workers_beside()):
            self._prepared_s = 0.0
            return True
        return False

    def _has_workers_beside(self) -> bool:
        """Return whether workers are on the runner's node; moving now would lose the starts that replace them."""
        with self._trying():
            status = self.ask(ReadStatus())
            runner = status.health.runner
            return runner is not None and any(worker.node == runner.node for worker in status.workers)
        return False

    def ask(self, request: Request[A], timeout_s: float = ANSWER_S) -> A:
        """Ask the runner. Raises: as the runner's port; ConnectionError if there is no runner."""
        runner = self._runner
        if runner is None:
            raise ConnectionError("there is no runner")
        return runner.ask(request, timeout_s=timeout_s)

    def vital(self) -> Vital:
        """Return the runner's vital state as seen from here; if nothing can be known, it is cut off."""
        runner = self._runner
        if runner is None:
            return Vital.DEAD
        try:
            return runner.vital()
        except Exception as error:
            log.debug("runner out of reach", name=self._name, error=str(error))
            return Vital.CUT_OFF

    def hand_over(self, timeout_s: float, pull: Callable[[], object]) -> Status | None:
        """Have the runner take no more items and deliver those it has; ``pull`` reads the rest of its history. Return
        its last status; None if it did not deliver in time, so that its items are tried again as after a loss."""
        try:
            self.ask(Stop(timeout_s=timeout_s, hands_over=True), timeout_s + ANSWER_S)
            pull()
            return self.ask(ReadStatus())
        except Exception as error:
            log.warning("items not handed over by the runner are processed again", name=self._name, error=str(error))
            return None

    def clear(self, *, with_workers: bool = False) -> None:
        """End the runner, if any; one that is cut off ends itself. Its workers wait for the successor, or end too."""
        runner, self._runner = self._runner, None
        if runner is not None:
            with self._trying():
                runner.kill()
        if with_workers:
            with self._trying():
                self._host.sweep(self._name)

    def leave(self) -> None:
        """Clear the slot for the last time: workers that wait for another runner end too."""
        self._left = True
        self.started()
        successor, self._successor = self._successor, None
        if successor is not None:
            with self._trying():
                successor.kill()
        self.clear(with_workers=True)

    @contextmanager
    def _trying(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # the runner was dead already, or its host is gone
            log.debug("runner out of reach", name=self._name, error=str(error))
