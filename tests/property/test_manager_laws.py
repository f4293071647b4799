"""Whatever the monitor says, the manager keeps its laws."""

from hypothesis import given
from hypothesis import strategies as st

from compositions.model import Composition, Group, Pattern, Stage, all_sequential
from control.choices import Choices
from control.decisions import Decision, NoChange, State, SwitchTo
from control.manager import Manager
from control.settings import Settings
from control.strategies import STRATEGIES, make_strategy
from profiler.slo import Slo
from profiler.snapshot import LatencyStats, Snapshot, StageProfile
from tests.support.examples import examples

STAGES = (Stage("a"), Stage("b"))
CHOICES = (
    all_sequential(STAGES, "one"),
    Composition("merged", (Group(("a", "b")),)),
    Composition("wide", (Group(("a",)), Group(("b",), Pattern.PAR, 2))),
    Composition("farm", (Group(("a", "b"), Pattern.PAR, 3),)),
)
SLOS = (Slo("throughput", "input_rate"), Slo("latency", 200.0, 0.2, "p95"), Slo("throughput", 20.0))

amounts = st.one_of(st.none(), st.floats(0, 1000))
seconds = st.floats(1e-6, 10)


@st.composite
def readings(draw: st.DrawFn) -> dict[str, object]:
    """Anything a monitor may report, sense or not."""
    stats = st.one_of(st.none(), st.builds(LatencyStats, seconds, seconds, seconds, seconds, st.integers(1, 100)))
    profiles = [
        StageProfile(name, draw(seconds), draw(seconds), draw(st.floats(0, 3)), 0.1, 0.2, draw(st.integers(1, 500)))
        for name in draw(st.sampled_from([("a", "b"), ("a",), ()]))
    ]
    return {
        "input_rate_per_s": draw(amounts),
        "throughput_per_s": draw(amounts),
        "delivered": draw(st.integers(0, 500)),
        "latency": draw(stats),
        "inside": draw(stats),
        "queued": draw(st.integers(0, 64)),
        "queued_change_per_s": draw(st.one_of(st.none(), st.floats(-100, 100))),
        "in_flight": draw(st.integers(0, 20)),
        "stages": tuple(profiles),
        "cores": draw(st.integers(1, 24)),
    }


@examples(60)
@given(
    name=st.sampled_from(sorted(STRATEGIES)),
    slo=st.sampled_from(SLOS),
    told=st.lists(st.tuples(readings(), st.sampled_from(["", "", "", "fail", "lost", "slo"])), min_size=5, max_size=60),
)
def test_laws(name: str, slo: Slo, told: list[tuple[dict[str, object], str]]) -> None:
    manager = Manager(Settings(), make_strategy(name), Choices(STAGES, CHOICES, CHOICES[0]), slo=slo)
    active, since_s, ids = "one", 0.0, []
    pending: str | None = None
    for step, (reading, event) in enumerate(told):
        now_s = 20.0 + step
        if event == "fail" and pending is not None:
            manager.switch_failed("made up")
            pending = None
        elif pending is not None:
            active, since_s, pending = pending, now_s - 0.5, None
        if event == "lost":
            manager.workers_lost(now_s, "made up")
        elif event == "slo":
            manager.set_slo(SLOS[step % len(SLOS)])
        shot = Snapshot(
            now_s=now_s,
            composition=active,
            switching=False,
            stable_since_s=since_s,
            window_start_s=max(since_s, now_s - 10),
            workers_alive=3,
            hop_s=3e-4,
            **reading,  # type: ignore[arg-type]
        )
        result = manager.tick(now_s, shot)
        asked = [command.composition for command in result.commands if isinstance(command, SwitchTo)]
        assert len(asked) <= 1, "one switch at a time"
        assert all(composition in CHOICES for composition in asked), "only what was given can be chosen"
        assert bool(asked) <= (result.state is State.SWITCHING), "who asks for a switch waits for it"
        assert result.decision.reason, "every answer has a reason"
        if isinstance(result.decision, Decision):
            ids.append(result.decision.id)
            assert result.decision.to_name == active, "a decision is told when it is carried out"
        else:
            assert isinstance(result.decision, NoChange)
        if asked:
            pending = asked[0].name
    assert ids == list(range(1, len(ids) + 1)), "decisions are numbered without gaps"
