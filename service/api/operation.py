"""``/metrics``, ``/logs``, ``/healthz`` and ``/readyz``; ``/nodes``; and the rendering of the metrics."""

from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from typing import Annotated

import prometheus_client
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric as Family

from control.decisions import State
from service.api import problems
from service.api.deps import ExpectJson, KnownQuery, Responses, ThisDaemon, answers, documented
from service.api.metrics import METRICS, NODE_METRICS, Metric, Sample
from service.logs import Recent
from service.schemas.figures import DrainRequest, NodeBody
from service.schemas.refusals import UnavailableError
from service.schemas.results import Health, LogLine
from service.schemas.status import Status

LATENCY = "recompose_item_latency_seconds"


class Exposition:
    """The metrics of a service's apps, nodes and own process; the apps are read once per scrape."""

    def __init__(self, statuses: Callable[[], list[Status]], nodes: Callable[[], list[NodeBody]] = list) -> None:
        self._statuses, self._nodes = statuses, nodes
        self._registry = prometheus_client.CollectorRegistry(auto_describe=False)
        self._calls = prometheus_client.Histogram(
            "recompose_status_call_seconds",
            "Time until all runners had reported their status, at most one second. Unit: seconds.",
            registry=self._registry,
        )
        self._registry.register(self)
        prometheus_client.ProcessCollector(registry=self._registry)
        prometheus_client.GCCollector(registry=self._registry)

    def text(self) -> bytes:
        return prometheus_client.generate_latest(self._registry)

    def collect(self) -> Iterator[Family]:
        """Collect the metrics; the registry calls this."""
        with self._calls.time():
            statuses = self._statuses()
        for metric in METRICS:
            for name in (metric.name, metric.earlier):
                if name is not None:
                    yield _family(metric, name, ["app"], (([each.app], _samples(metric, each)) for each in statuses))
        nodes = self._nodes()
        for metric in NODE_METRICS:
            told = (([each.node, each.address], metric.samples(each)) for each in nodes)
            yield _family(metric, metric.name, ["node", "address"], told)
        yield _latencies(statuses)
        yield InfoMetricFamily("recompose_build", "Version of the service.", {"version": version("recompose")})


def _family(metric: Metric, name: str, of: list[str], told: Iterable[tuple[list[str], Iterable[Sample]]]) -> Family:
    """Return a metric with its samples. ``of``: label names of the apps or nodes, whose values precede ``told``'s."""
    make = CounterMetricFamily if metric.name.endswith("_total") else GaugeMetricFamily
    meaning = metric.meaning if name == metric.name else f"Earlier name of {metric.name}."
    family = make(name, f"{meaning} Unit: {metric.unit}.", labels=[*of, *metric.labels])
    for whose, samples in told:
        for labels, value in samples:
            if value is not None:
                family.add_metric([*whose, *labels], float(value))
    return family


def _samples(metric: Metric, status: Status) -> Iterator[Sample]:
    """Return the samples of an app; if it does not run, only its state, so that stopped apps add few series."""
    if status.state is not State.STOPPED:
        yield from metric.samples(status)
    elif metric.name == "recompose_app_state":
        yield (str(State.STOPPED),), 1.0


def _latencies(statuses: list[Status]) -> Family:
    told = "Time from when an item was due, or arrived, to its delivery, since the runner started. Unit: seconds."
    family = HistogramMetricFamily(LATENCY, told, labels=["app"])
    for status in statuses:
        counted = status.demand.latency_histogram
        if counted is not None and status.state is not State.STOPPED:
            bounds = [*map(str, counted.le_s), "+Inf"]
            family.add_metric([status.app], list(zip(bounds, counted.counts, strict=True)), counted.sum_s)
    return family


router = APIRouter(tags=["operation"], dependencies=[KnownQuery])
After = Annotated[int, Query(ge=0, description="Only lines with a higher id.")]
Most = Annotated[int, Query(ge=1, le=2000)]
TEXT: Responses = {
    200: {"description": "Prometheus text format.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


@router.get("/metrics", response_class=PlainTextResponse, responses={**TEXT, **documented()})
def prometheus(request: Request) -> Response:
    """Return metrics for Prometheus, with stable names (docs/operate/metrics.md explains each metric)."""
    metrics: Exposition = request.app.state.metrics
    return Response(metrics.text(), media_type=prometheus_client.CONTENT_TYPE_LATEST)


@router.get("/logs", responses=answers(list[LogLine], 404))
def logs(request: Request, daemon: ThisDaemon, app: str | None = None, after: After = 0, limit: Most = 100) -> Response:
    """Return the latest lines of the service's log, oldest first; with ``app``, those about it and its prints."""
    if app is not None:
        daemon.observation.status(app)
    recent: Recent = request.app.state.recent
    return problems.Body(recent.read(app, after, limit))


@router.get("/healthz", responses=answers(Health))
async def alive() -> Response:
    """Report that the process is alive. Needs no token. The event loop answers, even if all threads are busy."""
    return problems.Body(Health(status="alive"))


@router.get("/readyz", responses=answers(Health, 503))
def ready(daemon: ThisDaemon) -> Response:
    """Report ready if Ray answers, the state can be stored, the apps that were running are restored, and starts do not
    fail. Needs no token; the reasons name apps but none of their inputs."""
    missing = daemon.readiness()
    if missing:
        raise UnavailableError(f"not ready: {'; '.join(missing)}")
    return problems.Body(Health(status="ready"))


nodes = APIRouter(tags=["nodes"], dependencies=[KnownQuery, ExpectJson])


@nodes.get("/nodes", responses=answers(list[NodeBody], 503))
def all_nodes(daemon: ThisDaemon) -> Response:
    """Return the nodes that may have workers: their cores, GPUs, memory and state, and each app's workers."""
    return problems.Body(daemon.nodes.all())


@nodes.post("/nodes/{node}/drain", responses=answers(NodeBody, 404, 409, 503))
def drain_node(node: str, daemon: ThisDaemon, asked: DrainRequest | None = None) -> Response:
    """Empty a node, given by its id or address: workers on other nodes take over, then its workers end. At the
    deadline, Ray ends the node."""
    return problems.Body(daemon.nodes.drain(node, asked or DrainRequest(deadline_s=30.0)))
