"""The notation of workers that choose: ``Dyn*4(ct)``, ``Dyn*4(ct, slice_s=0.002, window_s=0.5)``."""

from __future__ import annotations

import re

from compositions.dynamic import DEFAULT_SCHEDULER, SCHEDULER_NAMES, Dyn, SchedulerName, Value
from compositions.errors import CompositionError, Fault, shown
from compositions.rules import count_fault
from compositions.settings import SettingsError

_DYN = re.compile(r"\s*Dyn(?:\s*[*×]\s*(?P<workers>-?[0-9]+))?(?:\s*\(\s*(?P<said>[^()]*?)\s*\))?\s*")
_MOST_DIGITS = 9
_LONGEST = 40
"""Of a number that is written out: longer ones are text, which is refused."""


def parse_dyn(text: str, default_workers: int) -> Dyn | None:
    """None: it is another notation. Raises: CompositionError with one sentence when it is a faulty one of these."""
    if (match := _DYN.fullmatch(text)) is None:
        return None
    first, *rest = [each.strip() for each in (match["said"] or DEFAULT_SCHEDULER).split(",")]
    named, settings = (DEFAULT_SCHEDULER, [first, *rest]) if "=" in first else (first, rest)
    scheduler = scheduler_called(named)
    workers = default_workers if match["workers"] is None else number(match["workers"], match.start("workers"))
    if (problem := count_fault("workers", workers)) is not None:
        raise refusal(problem)
    said = list(map(_setting, settings))
    names = [name for name, _ in said]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise refusal(f"Dyn: {twice} is said {names.count(twice)} times; once is enough")
    try:
        return Dyn.asked(workers, scheduler, dict(said))
    except SettingsError as error:
        raise refusal(f"Dyn: {error}") from error


def format_dyn(dyn: Dyn) -> str:
    """As ``parse_dyn`` reads it back: what is not said is as it is."""
    said = "".join(f", {name}={value}" for name, value in dyn.said.items())
    return f"Dyn*{dyn.workers}({dyn.scheduler}{said})"


def scheduler_called(name: str) -> SchedulerName:
    """Raises: CompositionError when there is none."""
    found = next((each for each in SCHEDULER_NAMES if each == name), None)
    if found is None:
        raise refusal(f"unknown scheduler {shown(name)} of Dyn; there are {', '.join(SCHEDULER_NAMES)}")
    return found


def number(written: str, at: int) -> int:
    """Of workers, written ``at`` a position of a notation. Raises: CompositionError when it is too long."""
    if len(written) > _MOST_DIGITS:
        raise refusal(f"replicas has {len(written)} digits at position {at}; that is too many")
    return int(written)


def refusal(message: str) -> CompositionError:
    """Of a notation as a whole."""
    return CompositionError([Fault("", message)])


def _setting(text: str) -> tuple[str, Value]:
    name, given, value = (each.strip() for each in text.partition("="))
    if not (name and given and value):
        raise refusal(f"{shown(text)} is no setting of Dyn; write name=value, as in Dyn*4(ct, slice_s=0.002)")
    return name, _value(value)


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text) if len(text) <= _LONGEST else text
        except ValueError:
            continue
    return text
