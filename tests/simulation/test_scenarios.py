"""All scenarios of this folder: the real controller on a simulated plant, with a sentence and ranges of what should be.

A file holds ``should`` (the sentence), the app (``stages`` in ms, ``compositions``), the plant (``cores``, by default
eight, ``hop_ms``, ``worker_start_s``), the load (``rate``: steps of [from s, items/s], or a pattern), how items travel
together (``batch``), ``slo``, ``strategies`` (by default ``expected-cost``), and what is expected: by spans of time
(``spans``) and by decision (``decisions``). A run ends with its last span, or after ``duration_s``.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import yaml

from compositions.document.loader import load
from compositions.enumeration import generate
from compositions.model import Composition, Stage
from compositions.notation import parse
from control.decisions import CandidateStatus, Decision, Mode
from control.settings import Settings
from datapipe.sources.rate_spec import RateSpec, from_spec
from lab.simulation.machine import Machine
from lab.simulation.scenario import Happening, Scenario, SimulatedStage, steps
from lab.simulation.simulation import simulate
from lab.simulation.trace import Trace
from profiler.budget import parse_budget
from profiler.slo import parse_slo, together
from profiler.snapshot import LatencyFrom
from service.schemas.spec import BatchingSpec

HERE = Path(__file__).parent
SHIPPED = HERE.parent.parent / "compositions"
SCENARIOS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(HERE.glob("*.yaml"))}


def runs() -> Iterator[Any]:
    """Each scenario with its first strategy, for every change."""
    for name, document in SCENARIOS.items():
        for number, strategy in enumerate(document.get("strategies", ["expected-cost"])):
            yield pytest.param(name, strategy, marks=pytest.mark.long if number else [])


@pytest.mark.parametrize(("name", "strategy"), [*runs()])
def test_scenario(name: str, strategy: str) -> None:
    document = SCENARIOS[name]
    trace = simulate(scenario_of(document, strategy))
    said = [f"{d.at_s:.2f} s, {d.trigger}: {d.from_name} -> {d.to_name}: {d.reason}" for d in trace.decisions]
    problems = [*span_problems(document, trace), *decision_problems(document, trace)]
    assert not problems, "\n".join([document["should"], *problems, "it decided:", *said])
    assert trace.in_order, "every item once, in order"


# --- reading a scenario ----------------------------------------------------------------------------------------------


def scenario_of(document: dict[str, Any], strategy: str) -> Scenario:
    stages = tuple(stage_of(name, spec) for name, spec in document["stages"].items())
    plain = [Stage(stage.name, setup="per-group" if stage.load_s else "all") for stage in stages]
    compositions = compositions_of(document["compositions"], plain)
    return Scenario(
        stages=stages,
        compositions=compositions,
        slo=slo_of(document.get("slo")),
        rate=rate_of(document["rate"]),
        duration_s=document.get("duration_s", max(span["to_s"] for span in document["spans"])),
        machine=machine_of(document),
        strategy=strategy,
        mode=Mode(document.get("mode", "auto")),
        settings=settings_of(document),
        first=next((c for c in compositions if c.name == document.get("first")), None),
        arrivals=document.get("arrivals", "paced"),
        happenings=tuple(happening_of(spec, plain) for spec in document.get("happenings", [])),
        seed=document.get("seed", 1),
        batching=BatchingSpec(**document.get("batch", {"items": 1})).batching,
    )


def machine_of(document: dict[str, Any]) -> Machine:
    hop_s = document.get("hop_ms", 0.1) / 1e3
    machine = Machine(document.get("cores", 8), hop_s, hop_s)
    return replace(machine, start_s=document.get("worker_start_s", machine.start_s))


def settings_of(document: dict[str, Any]) -> Settings:
    """``latency_from``: what is judged, ``due`` or (as the papers measure, the default) ``read``."""
    settings = Settings().overridden(document.get("settings", {}))
    judged = LatencyFrom(document.get("latency_from", "read"))
    return replace(settings, measuring=replace(settings.measuring, latency_from=judged))


def stage_of(name: str, spec: dict[str, Any]) -> SimulatedStage:
    factors = tuple((at_s, factor) for at_s, factor in spec.get("factors", []))
    cv, wait_share, load_s = spec.get("cv", 0.0), spec.get("wait_share", 0.0), spec.get("load_s", 0.0)
    return SimulatedStage(name, spec["ms"] / 1e3, cv, wait_share, factors, load_s)


def compositions_of(spec: Any, stages: list[Stage]) -> tuple[Composition, ...]:
    """``synthetic`` for the shipped file, a list as in such a file, ``{generate: …}``, or notations by
    name."""
    if isinstance(spec, str):
        return load((SHIPPED / f"{spec}.yaml").read_text(), {spec: stages}).compositions
    if isinstance(spec, list):
        document = {"app": "scenario", "compositions": spec}
        return load(yaml.safe_dump(document), {"scenario": stages}).compositions
    if "generate" in spec:
        return tuple(generate(stages, **spec["generate"]))
    return tuple(parse(text, stages, app="scenario", name=name, default_replicas=2) for name, text in spec.items())


def slo_of(spec: Any) -> Any:
    """One as on the command line, with its statistic in a list; or ``{all: [several], budget: workers=8}``."""
    if spec is None:
        return None
    if isinstance(spec, dict):
        budget = parse_budget(spec["budget"]) if "budget" in spec else None
        return together([parse_slo(text) for text in spec["all"]], budget)
    text, statistic = spec if isinstance(spec, list) else (spec, "mean")
    return parse_slo(text, statistic=statistic)


def rate_of(spec: Any) -> Any:
    return steps([(from_s, rate) for from_s, rate in spec]) if isinstance(spec, list) else from_spec(RateSpec(**spec))


def happening_of(spec: dict[str, Any], stages: list[Stage]) -> Happening:
    compositions = compositions_of(spec["compositions"], stages) if "compositions" in spec else ()
    slo, cores = slo_of(spec.get("slo")), spec.get("cores", 0)
    return Happening(spec["at_s"], spec["action"], slo, compositions, spec.get("name"), cores=cores)


# --- what is expected ------------------------------------------------------------------------------------------------


def span_problems(document: dict[str, Any], trace: Trace) -> list[str]:
    return [problem for span in document.get("spans", []) for problem in one_span(span, trace)]


def one_span(span: dict[str, Any], trace: Trace) -> list[str]:
    """``from_s``, ``to_s`` and any of: compositions, workers, mean_workers, switches, met_share, statuses, latency_ms,
    within_share, held_share."""
    start_s, end_s = span["from_s"], span["to_s"]
    moments = trace.between(start_s, end_s)
    assert moments, f"nothing was recorded between {start_s} and {end_s} s"
    latencies = [m.latency_s * 1e3 for m in moments if m.latency_s is not None]
    seen = {"compositions": {m.composition for m in moments}, "statuses": {str(m.slo_status) for m in moments}}
    figures = {
        "switches": trace.switches_between(start_s, end_s),
        "met_share": trace.met_share(start_s, end_s),
        "workers": max(m.workers for m in moments),
        "mean_workers": fmean(m.workers for m in moments),
        "within_share": within_share(span, trace),
        "held_share": held_share(span, trace),
        "latency_ms": max(latencies, default=0.0),
    }
    wrong = [*strangers(span, seen), *out_of_range(span, figures)]
    return [f"{start_s}–{end_s} s: {each}" for each in wrong]


def strangers(expected: dict[str, Any], seen: dict[str, set[str]]) -> Iterator[str]:
    for key, found in seen.items():
        if key in expected and not found <= set(expected[key]):
            yield f"{key} {sorted(found)}, expected {expected[key]}"


def out_of_range(expected: dict[str, Any], figures: dict[str, float]) -> Iterator[str]:
    for key, value in figures.items():
        if key in expected and not expected[key][0] <= value <= expected[key][1]:
            yield f"{key} {value:.4g}, expected {expected[key]}"


def within_share(span: dict[str, Any], trace: Trace) -> float:
    """Of the items that came in the span, those that were out ``within_ms``; what never came out was not."""
    limit_s = span.get("within_ms", 0.0) / 1e3
    waited_s = [each.latency_s for each in trace.delivered if span["from_s"] <= each.since_s < span["to_s"]]
    return sum(each <= limit_s for each in waited_s) / max(len(waited_s), 1)


def held_share(span: dict[str, Any], trace: Trace) -> float:
    """Of the control steps of a second, those whose items were inside, from a worker's hand to their delivery, for at
    most ``held_ms`` on average."""
    seconds: dict[int, list[float]] = {}
    for each in trace.delivered:
        if span["from_s"] <= each.at_s < span["to_s"]:
            seconds.setdefault(int(each.at_s), []).append(each.at_s - each.started_s)
    held = [sum(inside) / len(inside) <= span.get("held_ms", 0.0) / 1e3 for inside in seconds.values()]
    return sum(held) / max(len(held), 1)


def decision_problems(document: dict[str, Any], trace: Trace) -> list[str]:
    expected = document.get("decisions", {})
    count = expected.get("count")
    problems = []
    if count and not count[0] <= len(trace.decisions) <= count[1]:
        problems.append(f"{len(trace.decisions)} decisions, expected {count}")
    for number, wanted in expected.items():
        if number == "count":
            continue
        if len(trace.decisions) < number:
            problems.append(f"there is no decision {number}")
        else:
            problems += one_decision(number, wanted, trace.decisions[number - 1])
    return problems


def one_decision(number: int, wanted: dict[str, Any], decision: Decision) -> list[str]:
    """Any of: trigger, to, shortlist, trials, at_s, duration_s, infeasible, acted, transition, reason (a part)."""
    shortlist = sorted(c.name for c in decision.candidates if c.status is not CandidateStatus.REJECTED)
    said = {"infeasible": decision.infeasible, "acted": decision.acted, "transition": decision.transition}
    said |= {"trigger": str(decision.trigger), "shortlist": shortlist}
    told = wanted | {"shortlist": sorted(wanted["shortlist"])} if "shortlist" in wanted else wanted
    wrong = [f"{key} {found}, expected {told[key]}" for key, found in said.items() if told.get(key, found) != found]
    figures = {name: getattr(decision, name) for name in ("trials", "at_s", "duration_s")}
    wrong += [*out_of_range(wanted, figures), *strangers(wanted, {"to": {decision.to_name}})]
    if wanted.get("reason", "") not in decision.reason:
        wrong.append(f"reason {decision.reason!r} without {wanted['reason']!r}")
    return [f"decision {number}: {each}" for each in wrong]
