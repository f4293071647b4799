"""What a running app can be told, what its spec is afterwards, and what it must be told to become another spec."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from control.decisions import Mode
from service.bodies.spec import RunSpec
from service.running.requests import SetCompositions, SetInput, SetMode, SetSlo

Change = SetSlo | SetInput | SetMode | SetCompositions


def changed(spec: RunSpec, change: Change) -> RunSpec:
    """``spec`` of a run that has been told ``change``."""
    match change:
        case SetSlo(slo):
            return spec.model_copy(update={"slo": slo})
        case SetInput(input):
            return spec.model_copy(update={"input": input})
        case SetCompositions(compositions):
            return spec.model_copy(update={"compositions": compositions})
        case SetMode(mode, composition):
            return spec.model_copy(update={"mode": mode, "composition": composition or spec.composition})
    assert_never(change)


def differences(has: RunSpec, wanted: RunSpec) -> Iterator[Change]:
    """What a run of ``has`` has to be told, in this order, so that it becomes one of ``wanted``."""
    if wanted.slo != has.slo:
        yield SetSlo(wanted.slo)
    if wanted.input != has.input:
        yield SetInput(wanted.input)
    if wanted.compositions != has.compositions:
        yield SetCompositions(wanted.compositions)
    if wanted.mode != has.mode:
        yield SetMode(wanted.mode, wanted.composition if wanted.mode is Mode.PINNED else None)
