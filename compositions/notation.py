"""The one-line notation of compositions: ``Seq(segment,extract)-Par(vectorize)-Par*3(rank)``.

``Par × 3``, the form in displays, is read as well.
"""

import re
from collections.abc import Iterator, Sequence

from compositions.dynamic import DEFAULT_SCHEDULER, SCHEDULER_NAMES, Dyn, SchedulerName, Value
from compositions.errors import CompositionError, Fault, shown
from compositions.model import Composition, Group, Pattern, Stage
from compositions.rules import count_fault, group_faults, groups_of_dyn, resolve, what_app_has
from compositions.settings import SettingsError

# The notation of workers that choose their stage: ``Dyn*4(ct)``, ``Dyn*4(ct, slice_s=0.002, window_s=0.5)``.

_DYN = re.compile(r"\s*Dyn(?:\s*[*×]\s*(?P<workers>-?[0-9]+))?(?:\s*\(\s*(?P<said>[^()]*?)\s*\))?\s*")
_MOST_DIGITS = 9
_LONGEST = 40
"""Most characters of a number; longer values stay text, which is refused."""


def parse_dyn(text: str, default_workers: int) -> Dyn | None:
    """Parse a ``Dyn`` notation; return None for any other. Raises: CompositionError with a sentence on the fault."""
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
        raise refusal(f"Dyn: {twice} is given {names.count(twice)} times; give it once")
    try:
        return Dyn.asked(workers, scheduler, dict(said))
    except SettingsError as error:
        raise refusal(f"Dyn: {error}") from error


def format_dyn(dyn: Dyn) -> str:
    """Return the notation that ``parse_dyn`` reads back; settings with their default value are left out."""
    said = "".join(f", {name}={value}" for name, value in dyn.said.items())
    return f"Dyn*{dyn.workers}({dyn.scheduler}{said})"


def scheduler_called(name: str) -> SchedulerName:
    """Return ``name`` as a scheduler's name. Raises: CompositionError if there is no such scheduler."""
    found = next((each for each in SCHEDULER_NAMES if each == name), None)
    if found is None:
        raise refusal(f"unknown scheduler {shown(name)} of Dyn; there are {', '.join(SCHEDULER_NAMES)}")
    return found


def number(written: str, at: int) -> int:
    """Return the number of replicas ``written`` in a notation. Raises: CompositionError if it is too long."""
    if len(written) > _MOST_DIGITS:
        raise refusal(f"the number of replicas at position {at} has {len(written)} digits; give at most {_MOST_DIGITS}")
    return int(written)


def refusal(message: str) -> CompositionError:
    """Return the error that refuses a notation as a whole."""
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


DEFAULT_REPLICAS = 2
"""Replicas of a Par group without a number (Vogel et al., section 4: two replicas per parallel stage)."""

_GROUP = re.compile(r"\s*(?P<pattern>Seq|Par)(?:\s*[*×]\s*(?P<replicas>-?[0-9]+))?(?:\s*\((?P<stages>[^()]*)\))?\s*")


def parse(
    text: str,
    stages: Sequence[Stage],
    *,
    name: str = "",
    default_replicas: int = DEFAULT_REPLICAS,
    app: str = "the app",
) -> Composition:
    """Parse a notation: groups joined by ``-``, each ``Seq``, ``Par`` or ``Par*N`` and a list of its stages.

    A list names stages, or ``fN`` for the N-th stage of the app; a group without a list takes the next single stage.
    ``Dyn*4(ct)`` alone is four workers whose stages scheduler ``ct`` chooses; ``Dyn*4(ct, slice_s=0.002)`` also has
    settings of the scheduler.

    Raises: CompositionError with one sentence if the text is no notation, or no composition of ``stages``.
    """
    if (dyn := parse_dyn(text, default_replicas)) is not None:
        return Composition(name, groups_of_dyn(stages, dyn.workers), dyn=dyn)
    groups: list[Group] = []
    for match in _pieces(text):
        names = _stages_of(match, groups, stages, app)
        groups.append(Group(names, *_pattern_of(match, default_replicas)))
    for fault in group_faults(groups, stages, app):
        raise refusal(fault.message)
    return Composition(name, tuple(groups))


def format_notation(composition: Composition) -> str:
    """Return the notation with every stage named; ``parse``, with its default of 2 replicas, reads it back."""
    if composition.dyn is not None:
        return format_dyn(composition.dyn)
    return "-".join(f"{_head(group)}({','.join(group.stages)})" for group in composition.groups)


def short_notation(composition: Composition) -> str:
    """Return the shortest notation, such as ``Seq(f1,f2)-Par-Par*3``.

    It does not use stage names, so ``parse`` misreads it in an app in which another stage than the N-th is called
    ``fN``.
    """
    if composition.dyn is not None:
        return format_dyn(composition.dyn)
    parts = []
    first = 1
    for group in composition.groups:
        numbers = range(first, first + len(group.stages))
        merged = f"({','.join(f'f{number}' for number in numbers)})" if len(numbers) > 1 else ""
        parts.append(_head(group) + merged)
        first = numbers.stop
    return "-".join(parts)


def _head(group: Group) -> str:
    if group.pattern is Pattern.SEQ:
        return "Seq"
    return "Par" if group.replicas == DEFAULT_REPLICAS else f"Par*{group.replicas}"


def _pieces(text: str) -> Iterator[re.Match[str]]:
    at = 0
    while True:
        match = _GROUP.match(text, at)
        if match is None:
            raise _syntax(text, at, "Seq or Par")
        yield match
        at = match.end()
        if at == len(text):
            return
        if text[at] != "-":
            raise _syntax(text, at, "'-' and the next group, or the end")
        at += 1


def _pattern_of(match: re.Match[str], default_replicas: int) -> tuple[Pattern, int]:
    written = match["replicas"]
    if match["pattern"] == "Seq":
        if written is not None:
            raise refusal(f"Seq has 1 worker and accepts no number at position {match.start('replicas')}; write Par*N")
        return Pattern.SEQ, 1
    if written is None:
        return Pattern.PAR, default_replicas
    return Pattern.PAR, number(written, match.start("replicas"))


def _stages_of(match: re.Match[str], before: list[Group], stages: Sequence[Stage], app: str) -> tuple[str, ...]:
    listed = match["stages"]
    if listed is not None:
        return tuple(resolve(word.strip(), stages) for word in listed.split(",")) if listed.strip() else ()
    order = [stage.name for stage in stages]
    taken = [name for group in before for name in group.stages]
    following = order.index(taken[-1]) + 1 if taken and taken[-1] in order else len(taken)
    if following >= len(order):
        place = f"{match['pattern']} at position {match.start('pattern')}"
        raise refusal(f"no stage is left for {place}; {what_app_has(app, stages)}")
    return (order[following],)


def _syntax(text: str, at: int, expected: str) -> CompositionError:
    found = repr(text[at : at + 20]) if at < len(text) else "the end"
    alone = "; Dyn must be the only group" if text.startswith("Dyn", at) else ""
    return refusal(f"expected {expected} at position {at} of the notation, found {found}{alone}")
