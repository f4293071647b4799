"""Every way a run can end has its exit code and a sentence."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from profiler.slo import SloStatus
from service.cli import main, run
from service.cli.follow import ending
from service.schemas.results import CheckedItems, Summary


def items(**counts: int) -> CheckedItems:
    return CheckedItems(**{"accepted": 4, "delivered": 4, "failed": 0, "shed": 0, "lost": 0, "misordered": 0} | counts)


@pytest.mark.parametrize(
    ("known", "code", "sentence"),
    [
        ({"failure": "Traceback\n  in it\nOSError: full"}, 1, "OSError: full"),
        ({"items": items(lost=2)}, 1, "2 items lost, 0 out of order"),
        (
            {"items": items(delivered=0, failed=4), "first_error": "item 0: Traceback\nKeyError: 'a'"},
            3,
            "all 4 items failed; the first: KeyError: 'a'",
        ),
        (
            {"items": items(delivered=3, failed=1), "unwritten": 1, "first_error": "item 2: no JSON"},
            4,
            "1 results could not be written; the first: item 2: no JSON",
        ),
        ({"items": items(), "slo_status": SloStatus.VIOLATED}, 5, "the objective is violated at the end of the run"),
        (
            {"items": items(), "slo_status": SloStatus.INFEASIBLE},
            5,
            "the objective is infeasible at the end of the run",
        ),
    ],
)
def test_what_went_wrong_has_a_code_and_a_sentence(known: dict[str, Any], code: int, sentence: str) -> None:
    told = ending(Summary(**known), interrupted=False, fail_on_slo=True)
    assert told is not None
    assert (told.exit_code, told.message) == (code, sentence)


def test_an_interruption_is_told_but_not_before_a_failure() -> None:
    told = ending(Summary(items=items()), interrupted=True, fail_on_slo=False)
    assert told is not None
    assert (told.exit_code, told.message) == (130, "interrupted; 4 items delivered")
    twice = ending(Summary(items=items(accepted=9, delivered=4, failed=2)), interrupted=True, fail_on_slo=False)
    assert twice is not None
    assert twice.message == "interrupted; 4 items delivered, 3 that were accepted given up"
    failed = ending(Summary(items=items(), failure="broken"), interrupted=True, fail_on_slo=False)
    assert failed is not None
    assert failed.exit_code == 1


def test_all_is_well_also_where_the_objective_was_missed_and_nobody_asked() -> None:
    missed = Summary(items=items(), slo_status=SloStatus.VIOLATED)
    assert ending(missed, interrupted=False, fail_on_slo=False) is None
    assert ending(Summary(items=items(failed=1, delivered=3)), interrupted=False, fail_on_slo=True) is None


FAILING = """
from apps.contract import App
from compositions.model import Stage

class Failing(App):
    name = "failing"
    stages = (Stage("fail"),)

    def items(self, path):
        return iter(range(3))

    def fail(self, value):
        raise LookupError(f"no place for {value}")
"""


def test_a_run_whose_items_all_fail_says_so_and_shows_the_first_traceback(tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    done = CliRunner().invoke(main, ["run", "failing", "--apps", str(tmp_path), "--pool", "local"])
    assert done.exit_code == 3
    assert "Error: all 3 items failed; the first: LookupError: no place for 0" in done.output
    assert 'raise LookupError(f"no place for {value}")' in done.output


def test_an_interruption_that_nothing_waits_for_has_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "Runner", interrupt)
    done = CliRunner().invoke(main, ["run", "synthetic", "--pool", "local"])
    assert (done.exit_code, "Error: interrupted" in done.stderr) == (130, True)
