"""Which phase follows which, and which compositions can be had."""

import pytest

from compositions.model import Stage, all_sequential
from compositions.notation import parse
from control.choices import Choices
from control.decision_log import Episode
from control.decisions import Trigger
from control.phases.phase import Drop, Fail, Move, Phase
from control.phases.resting import HandsOff, Profiling, Resting
from control.phases.switching import Switching, Trying
from control.phases.transitions import after
from control.strategies.base import Settle, Try

STAGES = (Stage("a"), Stage("b"))
ONE = all_sequential(STAGES, "one")
EPISODE = Episode(Trigger.SLO, "the SLO was set", 10.0, ONE)
SETTLE, TRY = Settle(ONE, (), "it will do"), Try(ONE, 3.0, (), "it may do")
SWITCHING, TRYING = Switching(SETTLE, 10.0, EPISODE), Trying(TRY, EPISODE)


@pytest.mark.parametrize(
    ("phase", "move", "hands_off", "expected"),
    [
        (SWITCHING, Drop(), False, Switching(SETTLE, 10.0, None)),
        (SWITCHING, Drop(), True, Switching(SETTLE, 10.0, None)),
        (SWITCHING, Fail("no memory"), False, Switching(SETTLE, 10.0, EPISODE, "no memory")),
        (TRYING, Drop(), False, Resting()),
        (TRYING, Drop(), True, HandsOff()),
        (TRYING, Fail("late"), False, TRYING),
        (Resting(), Fail("late"), False, Resting()),
        (Profiling(), Drop(), False, Profiling()),
        (Profiling(), Drop(), True, HandsOff()),
        (HandsOff(), Drop(), False, Resting()),
    ],
)
def test_requests_and_failures_from_outside(phase: Phase, move: Move, hands_off: bool, expected: Phase) -> None:
    assert after(phase, move, hands_off=hands_off) == expected


def test_what_the_nodes_have_no_room_for_is_not_available() -> None:
    stages = (Stage("read"), Stage("infer", gpus=0.5, setup="per-group"), Stage("write", setup="per-group"))
    texts = ("Seq-Seq-Seq", "Seq-Par*2-Seq", "Seq-Par*3-Seq", "Par*3(f1,f2)-Seq")
    forms = [parse(text, stages, name=text) for text in texts]
    choices = Choices(stages, forms)
    assert choices.unavailable(0.0) == {}
    choices.room = {("infer",): 2}
    why = "needs 3 workers with infer, and the nodes have room for 2"
    assert choices.unavailable(0.0) == {"Seq-Par*3-Seq": why, "Par*3(f1,f2)-Seq": why}
    choices.bar(forms[0], 5.0, "no memory")
    assert choices.unavailable(1.0)["Seq-Seq-Seq"] == "no memory"
    choices.room = {("infer",): 3}
    assert choices.unavailable(4.9) == {"Seq-Seq-Seq": "no memory"}
    assert choices.unavailable(5.0) == {}, "left alone for a while"


def test_a_worker_that_holds_two_reserving_stages_counts_for_both() -> None:
    stages = (Stage("a", gpus=0.5, setup="per-group"), Stage("b", custom={"decoder": 1}, setup="per-group"))
    both = parse("Par*3(f1,f2)", stages, name="both")
    choices = Choices(stages, [both])
    choices.room = {("a",): 4, ("b",): 2}
    assert choices.unavailable(0.0) == {"both": "needs 3 workers with a, b, and the nodes have room for 2"}
