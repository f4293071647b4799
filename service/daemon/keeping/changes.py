"""What a runner must be told so that it runs what is wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from compositions.model import Composition
from control.decisions import Mode
from service.bodies.spec import RunSpec
from service.running.asking.requests import Change, SetBatching, SetComing, SetCompositions, SetInput, SetMode, SetSlo


def differences(has: RunSpec, wanted: RunSpec) -> Iterator[Change]:
    """What a run of ``has`` has to be told, in this order, to become one of ``wanted``."""
    if wanted.slo != has.slo:
        yield SetSlo(wanted.slo)
    if wanted.input != has.input:
        yield SetInput(wanted.input)
    if wanted.batching != has.batching:
        yield SetBatching(wanted.batching)
    if wanted.announced != has.announced:
        yield SetComing(wanted.announced)
    if wanted.compositions != has.compositions:
        yield SetCompositions(wanted.compositions)
    if (wanted.mode, _pinned(wanted)) != (has.mode, _pinned(has)):
        yield SetMode(wanted.mode, _pinned(wanted))


def _pinned(spec: RunSpec) -> str | None:
    """Otherwise the composition is no more than where to begin."""
    return spec.composition if spec.mode is Mode.PINNED else None


def holding(new: Sequence[Composition], in_use: Mapping[str, Composition]) -> tuple[Composition, ...]:
    """``new``, but what is in use stays as it runs: nothing else may be called by its name while it does."""
    return tuple(({each.name: each for each in new} | dict(in_use)).values())
