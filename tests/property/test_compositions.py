"""Laws of the vocabulary: what is written can be read, what is read is sound, and more help never hurts."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import sqrt
from typing import Any, TypeVar, get_args

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from compositions.batch_settings import BatchSettings, Gains, LatencyAim, Sizes, Steps
from compositions.batching import MOST_BYTES, MOST_ITEMS, MOST_LINGER_MS, Batching, ControllerName, SizeControl
from compositions.capacity.costs import Conditions, StageCost
from compositions.capacity.predict import predict, predict_all
from compositions.capacity.prediction import Prediction
from compositions.capacity.table import CompositionTable
from compositions.document.loader import dump, load
from compositions.enumeration import generate
from compositions.errors import CompositionError, Fault
from compositions.model import Composition, Group, Pattern, Stage, StageKind
from compositions.notation import format_notation, parse, short_notation
from compositions.rules import most_replicas
from tests.support.examples import examples

T = TypeVar("T")
Listed = tuple[list[Stage], list[Composition]]

STAGE_NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,7}", fullmatch=True)
COMPOSITION_NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(
    lambda name: name.isprintable() and "/" not in name and name == name.strip()
)
COSTS = st.builds(StageCost, st.floats(1e-6, 10), st.floats(0, 10), st.floats(0, 3))


@st.composite
def stage_lists(draw: st.DrawFn, most: int = 6, stateful: bool = True) -> list[Stage]:
    names = draw(st.lists(STAGE_NAMES, min_size=1, max_size=most, unique=True))
    kinds = st.sampled_from(StageKind) if stateful else st.just(StageKind.STATELESS)
    return [Stage(name, draw(kinds)) for name in names]


@st.composite
def arranged(draw: st.DrawFn, stages: list[Stage], name: str = "") -> Composition:
    """Any composition of ``stages``: cuts between some of them, then a pattern for every group."""
    cuts = [0, *(place for place in range(1, len(stages)) if draw(st.booleans())), len(stages)]
    return Composition(name, tuple(draw(groups_of(stages[a:b])) for a, b in pairwise(cuts)))


@st.composite
def groups_of(draw: st.DrawFn, stages: list[Stage]) -> Group:
    names = tuple(stage.name for stage in stages)
    most = most_replicas(stages)
    if most == 1 or draw(st.booleans()):
        return Group(names)
    return Group(names, Pattern.PAR, draw(st.integers(1, min(most, 12))))


@st.composite
def apps_and_compositions(draw: st.DrawFn) -> Listed:
    stages = draw(stage_lists())
    names = draw(st.lists(COMPOSITION_NAMES, min_size=1, max_size=4, unique=True))
    return stages, [draw(arranged(stages, name)) for name in names]


# --- notation and YAML ----------------------------------------------------------------------------------------------


@given(apps_and_compositions())
def test_what_is_formatted_parses_to_the_same(case: Listed) -> None:
    stages, compositions = case
    for composition in compositions:
        assert parse(format_notation(composition), stages, name=composition.name) == composition
        if not any(stage.name[0] == "f" for stage in stages):
            assert parse(short_notation(composition), stages, name=composition.name).shape == composition.shape


CONTROLS = st.builds(
    SizeControl,
    st.sampled_from(get_args(ControllerName)),
    st.builds(
        BatchSettings,
        aim=st.builds(LatencyAim, threshold=st.floats(0, 0.99)),
        sizes=st.builds(Sizes, st.just(1), st.integers(500, 1_000_000), st.integers(1, 500)),
        steps=st.builds(Steps, st.floats(0.01, 100_000), st.integers(1, 10_000)),
        gains=st.builds(Gains, *[st.floats(0, 100_000)] * 3),
    ),
)
LIMITS = st.integers(1, MOST_BYTES), st.floats(0, MOST_LINGER_MS)
BATCHES = (
    st.none()
    | st.builds(Batching, st.none() | st.integers(1, MOST_ITEMS), *LIMITS)
    | st.builds(Batching, st.none(), *LIMITS, CONTROLS)
)


@given(apps_and_compositions(), st.lists(BATCHES, min_size=4, max_size=4))
def test_what_is_dumped_loads_to_the_same(case: Listed, batches: list[Batching | None]) -> None:
    stages, compositions = case
    told = tuple(replace(each, batch=batch) for each, batch in zip(compositions, batches, strict=False))
    assert load(dump("app", told), {"app": stages}).compositions == told
    assert [each.shape for each in told] == [each.shape for each in compositions]


@given(apps_and_compositions())
def test_the_long_form_says_all_that_the_notation_says(case: Listed) -> None:
    stages, compositions = case
    groups = {
        each.name: [{"stages": list(g.stages), "pattern": g.pattern.value, "replicas": g.replicas} for g in each.groups]
        for each in compositions
    }
    entries = [{"name": name, "groups": each} for name, each in groups.items()]
    text = yaml.safe_dump({"app": "app", "compositions": entries}, allow_unicode=True)
    assert load(text, {"app": stages}).compositions == tuple(compositions)


def outcome(attempt: Callable[[], T]) -> tuple[T | None, tuple[Fault, ...]]:
    """What an attempt gives, or the faults it was refused with; any other exception is a failure of the test."""
    try:
        return attempt(), ()
    except CompositionError as refusal:
        return None, refusal.faults


WORDS = st.sampled_from(["Seq", "Par", "*", "-", "(", ")", ",", "f1", "f2", "a", "b", "7", " ", "Par*0", "é"])


@given(st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=12).map("".join)))
def test_any_notation_is_a_composition_or_one_sentence(text: str) -> None:
    stages = [Stage("a"), Stage("b", StageKind.STATEFUL)]
    composition, faults = outcome(lambda: parse(text, stages))
    assert len(faults) == 1 if composition is None else composition.stages == ("a", "b")


WORTH_A_TRY = st.sampled_from(["app", "a", "b", "f1", "f9", "Seq-Seq", "Par-Seq", "par"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.dates(), st.text(max_size=10), WORTH_A_TRY)
TOP_KEYS = ["app", "defaults", "compositions", "generate", "replicas", "max_workers"]
KEYS = st.sampled_from([*TOP_KEYS, "name", "notation", "groups", "stages", "pattern", "other"])
DATA = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | SCALARS, inner, max_size=4),
    max_leaves=25,
)
ENTRIES = st.fixed_dictionaries(
    {}, optional={"name": DATA, "notation": DATA, "groups": DATA | st.lists(st.dictionaries(KEYS, DATA, max_size=3))}
)
DOCUMENTS = DATA | st.fixed_dictionaries(
    {"app": st.just("app") | DATA},
    optional={
        "defaults": st.fixed_dictionaries({}, optional={"replicas": DATA}),
        "compositions": st.lists(ENTRIES, max_size=4),
        "generate": st.fixed_dictionaries({}, optional={"max_workers": DATA, "replicas": st.lists(SCALARS)}),
    },
)


def load_or_refuse(text: str | bytes) -> None:
    """Whatever comes in: a sound document or a refusal, no other end."""
    stages = [Stage("a"), Stage("b", StageKind.STATEFUL)]
    document, faults = outcome(lambda: load(text, {"app": stages}))
    if document is None:
        assert all(str(fault) for fault in faults)
        assert faults
        return
    assert document.app == "app"
    assert all(each.stages == ("a", "b") and each.groups[-1].replicas == 1 for each in document.compositions)


@given(st.one_of(st.text(), st.binary(), st.text(alphabet="[]{}-:,?!&*<>=|'\"# \n\ta0.1_~@%`\\")))
def test_the_loader_only_ever_refuses_text(text: str | bytes) -> None:
    load_or_refuse(text)


@examples(300)
@given(DOCUMENTS)
def test_the_loader_only_ever_refuses_structures(data: Any) -> None:
    load_or_refuse(yaml.dump(data, Dumper=yaml.SafeDumper, allow_unicode=True))


@given(stage_lists(most=5), st.integers(1, 12), st.lists(st.integers(1, 5), min_size=1, max_size=3), st.data())
def test_enumeration_is_sound_ordered_and_complete(
    stages: list[Stage], max_workers: int, replicas: list[int], data: st.DataObject
) -> None:
    replicas = [1, *replicas]
    found = list(generate(stages, max_workers=max_workers, replicas=replicas))
    shapes = [each.shape for each in found]
    assert len(set(shapes)) == len(shapes)
    costs = [(each.workers, len(each.groups)) for each in found]
    assert costs == sorted(costs)
    assert costs[-1][0] <= max_workers
    for each in found:
        assert parse(format_notation(each), stages, name=each.name) == each
    assert found == list(generate(stages, max_workers=max_workers, replicas=replicas))
    other = data.draw(arranged(stages))
    if other.workers <= max_workers and all(group.replicas in replicas for group in other.groups):
        assert other.shape in shapes


# --- capacity -------------------------------------------------------------------------------------------------------


Priced = tuple[list[Composition], dict[str, StageCost], Conditions]


@st.composite
def priced(draw: st.DrawFn) -> Priced:
    stages = draw(stage_lists(most=5, stateful=False))
    compositions = draw(st.lists(arranged(stages), min_size=1, max_size=5))
    costs = {stage.name: draw(COSTS) for stage in stages}
    rates = st.none() | st.just(0.0) | st.floats(1e-6, 1000)  # slower, and a bundle fills longer than floats can say
    return compositions, costs, Conditions(draw(st.integers(1, 32)), draw(st.floats(0, 0.1)), draw(rates))


@given(priced(), st.booleans())
def test_all_at_once_equals_one_by_one(case: Priced, compiled: bool) -> None:
    compositions, costs, conditions = case
    together = predict_all(CompositionTable(compositions) if compiled else compositions, costs, conditions)
    for row, composition in zip(together, compositions, strict=True):
        assert_close(row, predict(composition, costs, conditions))


def assert_close(left: Prediction, right: Prediction) -> None:
    for name in Prediction.__slots__:
        a, b = getattr(left, name), getattr(right, name)
        assert a == b or abs(a - b) <= 1e-9 * max(abs(a), abs(b)), name


@given(priced(), st.integers(1, 1000))
def test_a_bundle_is_an_item_that_costs_as_much_and_fills(case: Priced, items: int) -> None:
    compositions, costs, conditions = case
    rate = conditions.input_rate_per_s
    sums = {name: cost.of_bundle(items) for name, cost in costs.items()}
    seldom = None if rate is None else rate / items
    alike = replace(conditions, input_rate_per_s=seldom, arrival_cv=conditions.arrival_cv / sqrt(items))
    told = predict_all(compositions, costs, replace(conditions, bundle_items=items))
    for bundle, item in zip(told, predict_all(compositions, sums, alike), strict=True):
        assert bundle.throughput_per_s == pytest.approx(items * item.throughput_per_s)
        assert bundle.base_latency_s == pytest.approx(item.base_latency_s)
        if bundle.latency_s is not None and item.latency_s is not None and rate and bundle.utilization != 1.0:
            assert bundle.latency_s == pytest.approx(item.latency_s + (items - 1) / (2 * rate), rel=1e-5)


@given(priced(), st.floats(1, 1000), st.floats(1, 1000))
def test_bundles_that_may_grow_lose_nothing_up_to_the_largest(case: Priced, items: float, limit: float) -> None:
    compositions, costs, conditions = case
    as_it_is = replace(conditions, bundle_items=items)
    both = (predict_all(compositions, costs, each) for each in (as_it_is, replace(as_it_is, bundle_limit=limit)))
    for fixed, grown in zip(*both, strict=True):
        assert grown.throughput_per_s >= fixed.throughput_per_s * (1 - 1e-9)
        assert grown.overloaded == (grown.latency_s == float("inf"))
        if grown.latency_s is not None and fixed.latency_s is not None and not fixed.overloaded:
            assert grown.latency_s == fixed.latency_s


@given(priced(), st.floats(1, 1000), st.floats(1, 1000))
def test_larger_bundles_never_lower_the_capacity(case: Priced, one: float, other: float) -> None:
    compositions, costs, conditions = case
    small, large = (
        predict_all(compositions, costs, replace(conditions, bundle_items=items)).throughput_per_s
        for items in sorted((one, other))
    )
    assert (large >= small * (1 - 1e-9)).all()


@given(priced())
def test_predictions_hang_together(case: Priced) -> None:
    compositions, costs, conditions = case
    rate = conditions.input_rate_per_s
    for each in predict_all(compositions, costs, conditions):
        assert each.throughput_per_s > 0
        assert each.base_latency_s > 0
        if rate is None:
            assert each.latency_s is None
            continue
        assert each.overloaded == (rate >= each.throughput_per_s)
        assert each.latency_s >= each.base_latency_s * (1 - 1e-9)
        assert each.p50_s <= each.p95_s <= each.p99_s
        assert (each.latency_s == float("inf")) == each.overloaded


@given(priced(), st.data())
def test_replicas_and_cores_never_lower_the_capacity_nor_work_raises_it(case: Priced, data: st.DataObject) -> None:
    (composition, *_), costs, conditions = case
    capacity = predict(composition, costs, conditions).throughput_per_s
    place = data.draw(st.integers(0, len(composition.groups) - 1))
    groups = list(composition.groups)
    groups[place] = Group(groups[place].stages, Pattern.PAR, groups[place].replicas + 1)
    assert predict(Composition("", tuple(groups)), costs, conditions).throughput_per_s >= capacity
    more = replace(conditions, cores=conditions.cores + 1)
    assert predict(composition, costs, more).throughput_per_s >= capacity
    name = data.draw(st.sampled_from(sorted(costs)))
    heavier = costs | {name: StageCost(costs[name].service_s * 1.5, costs[name].cpu_s * 1.5, costs[name].cv)}
    assert predict(composition, heavier, conditions).throughput_per_s <= capacity


@given(priced(), st.floats(0.01, 0.95), st.floats(0.01, 0.95))
def test_a_higher_input_rate_never_lowers_utilization_or_cpu(case: Priced, one: float, other: float) -> None:
    (composition, *_), costs, conditions = case
    assume(one != other)
    capacity = predict(composition, costs, conditions).throughput_per_s
    rates_per_s = (share * capacity for share in sorted((one, other)))
    low, high = (predict(composition, costs, replace(conditions, input_rate_per_s=rate)) for rate in rates_per_s)
    assert low.utilization <= high.utilization
    assert low.cpu_cores <= high.cpu_cores
