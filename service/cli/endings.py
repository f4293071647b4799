"""How a run ended, as its exit code and a sentence."""

from __future__ import annotations

import click

from service.bodies.results import CheckedItems, Summary

FAILED, ALL_ITEMS_FAILED, UNWRITTEN, SLO_MISSED, INTERRUPTED = 1, 3, 4, 5, 130
CODES = """Exit codes: 0 done; 1 the run failed; 2 usage; 3 every item failed; 4 results that are no JSON data could not
be written; 5 the objective was not met at the end (with --fail-on-slo); 130 interrupted: what was accepted is out,
unless it was interrupted twice."""


class Ending(click.ClickException):
    """What the user is told, and the exit code."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.exit_code = code  # type: ignore[misc]  # main reads it from the error


def ending(summary: Summary, *, interrupted: bool, fail_on_slo: bool) -> Ending | None:
    """The gravest thing to tell; None when all is well."""
    items = summary.items
    if summary.failure:
        return Ending(FAILED, summary.failure.strip().splitlines()[-1])
    if items and (items.lost or items.misordered):
        return Ending(FAILED, f"{items.lost} items lost, {items.misordered} out of order")
    if items and items.failed and not items.delivered:
        return Ending(ALL_ITEMS_FAILED, f"all {items.failed} items failed; the first: {_last_line(summary)}")
    if summary.unwritten:
        return Ending(UNWRITTEN, f"{summary.unwritten} results could not be written; the first: {_last_line(summary)}")
    if interrupted:
        return Ending(INTERRUPTED, f"interrupted; {_left(items) if items else '0 items delivered'}")
    if fail_on_slo and summary.slo_status in ("violated", "infeasible"):
        return Ending(SLO_MISSED, f"the objective is {summary.slo_status} at the end of the run")
    return None


def _left(items: CheckedItems) -> str:
    """What was delivered; what a second interruption left behind."""
    given_up = items.accepted - items.delivered - items.failed - items.shed
    more = f", {given_up} that were accepted given up" if given_up else ""
    return f"{items.delivered} items delivered{more}"


def _last_line(summary: Summary) -> str:
    return (summary.first_error or "not known").strip().splitlines()[-1]
