"""Check that groups form a composition of an app: every stage once, in the app's order, and no Par group with a stage
that workers cannot share."""

from collections.abc import Iterator, Mapping, Sequence

from compositions.errors import Fault, shown
from compositions.model import Group, Pattern, Stage, StageKind
from compositions.wording import did_you_mean

MAX_REPLICAS = 1_000
"""Maximum replicas of a group: more workers than one dispatcher can feed, with tens of megabytes each."""
MAX_COMPOSITIONS = 10_000
"""Maximum compositions of an app or a document: a manager compares that many in a few hundredths of a second."""


def resolve(word: str, stages: Sequence[Stage]) -> str:
    """Return the name of the stage for ``word``, a name or ``fN`` for the N-th stage; unknown words are unchanged."""
    names = [stage.name for stage in stages]
    number = word[1:]
    if word in names or not word.startswith("f") or not (number.isascii() and number.isdigit()) or len(number) > 6:
        return word
    return names[int(number) - 1] if 1 <= int(number) <= len(names) else word


def what_app_has(app: str, stages: Sequence[Stage]) -> str:
    """Return the end of a sentence with the accepted stage names."""
    return f"{app} has {', '.join(stage.name for stage in stages) or 'no stages'}"


def group_faults(groups: Sequence[Group], stages: Sequence[Stage], app: str) -> Iterator[Fault]:
    """Yield the faults of ``groups`` as a composition of ``stages``; paths start at ``groups[i]``."""
    yield from _order_faults(groups, stages, app)
    by_name = {stage.name: stage for stage in stages}
    for index, group in enumerate(groups):
        yield from _worker_faults(f"groups[{index}]", group, by_name)


def count_fault(name: str, count: int) -> str | None:
    """Return the fault of a number of workers, or None; ``name`` is the field in the document."""
    if 1 <= count <= MAX_REPLICAS:
        return None
    return f"{name} is {shown(count)}; it must be at least 1 and at most {MAX_REPLICAS:,}"


def most_replicas(stages: Sequence[Stage]) -> int:
    """Return the maximum workers of a group of these stages. If only its first stage keeps a state, and that one is
    partitioned, it is the number of partitions. With any other stateful stage it is 1, to keep items in order."""
    kept = [at for at, stage in enumerate(stages) if stage.keeps_state]
    if not kept:
        return MAX_REPLICAS
    return stages[0].partitions if kept == [0] and stages[0].kind is StageKind.PARTITIONED else 1


def groups_of_dyn(stages: Sequence[Stage], workers: int) -> tuple[Group, ...]:
    """Return one group per stage, with the most of the ``workers`` that may run it (Prasaad et al., section 6)."""
    most = ((stage.name, min(workers, most_replicas([stage]))) for stage in stages)
    return tuple(Group((name,), Pattern.SEQ if count == 1 else Pattern.PAR, count) for name, count in most)


def _order_faults(groups: Sequence[Group], stages: Sequence[Stage], app: str) -> Iterator[Fault]:
    place = {stage.name: number for number, stage in enumerate(stages)}
    accepted = what_app_has(app, stages)
    seen: list[str] = []
    unknown = 0
    for path, name in _named_stages(groups):
        if name not in place:
            unknown += 1
            yield Fault(path, f"unknown stage {shown(name)}{did_you_mean(name, place)}; {accepted}")
        elif name in seen:
            yield Fault(path, f"stage {shown(name)} is repeated; every stage appears exactly once")
        elif seen and place[name] < max(place[other] for other in seen):
            wrong = f"stage {shown(name)} is in the wrong order after {shown(seen[-1])}"
            yield Fault(path, f"{wrong}; {accepted}, in this order")
        if name in place:
            seen.append(name)
    for index, group in enumerate(groups):
        if not group.stages:
            yield Fault(f"groups[{index}].stages", f"the group has no stage; {accepted}")
    missing = [name for name in place if name not in seen]
    # A misspelt stage is reported once, not as an unknown stage and as a missing one.
    if len(missing) > unknown:
        yield Fault("groups", f"stage {', '.join(map(repr, missing))} is missing; every stage appears exactly once")


def _named_stages(groups: Sequence[Group]) -> Iterator[tuple[str, str]]:
    for index, group in enumerate(groups):
        for number, name in enumerate(group.stages):
            yield f"groups[{index}].stages[{number}]", name


def _worker_faults(path: str, group: Group, by_name: Mapping[str, Stage]) -> Iterator[Fault]:
    if (problem := count_fault("replicas", group.replicas)) is not None:
        yield Fault(f"{path}.replicas", problem)
    elif group.pattern is Pattern.SEQ and group.replicas > 1:
        yield Fault(f"{path}.replicas", f"a Seq group has 1 worker, not {group.replicas}; Par has several")
    stages = [by_name[name] for name in group.stages if name in by_name]
    if group.pattern is Pattern.PAR and (problem := _sharing_fault(stages, group.replicas)) is not None:
        yield Fault(path, problem)


def _sharing_fault(stages: Sequence[Stage], replicas: int) -> str | None:
    """Return the reason if workers cannot share these stages, else None."""
    for at, stage in enumerate(stages):
        if stage.kind is StageKind.STATEFUL:
            return f"stage {stage.name!r} is stateful and may not be in a Par group; put it in a Seq group"
        if at and stage.kind is StageKind.PARTITIONED:
            rest = "begin the Par group with it, or put it in a Seq group"
            return f"stage {stage.name!r} is partitioned and not the first of its Par group; {rest}"
    if stages and stages[0].kind is StageKind.PARTITIONED and replicas > stages[0].partitions:
        first = stages[0]
        there = "1 partition" if first.partitions == 1 else f"{first.partitions} partitions"
        return f"replicas is {replicas}; must be at most {first.partitions}, as stage {first.name!r} has {there}"
    return None
