"""Builds what decides in a run."""

from __future__ import annotations

from control.choices import Choices
from control.decisions import Mode
from control.manager import Manager
from service.running.building.past_load import past_load
from service.running.checking.checked import CheckedSpec


def manager_of(checked: CheckedSpec) -> Manager:
    """In the mode and with the objective that were asked for, and what is known of the load before."""
    spec, choices = checked.spec, Choices(checked.stages, checked.compositions, checked.first)
    manager = Manager(checked.manager_settings, checked.strategy, choices, spec.mode, spec.slo)
    if spec.mode is Mode.PINNED:
        manager.set_mode(spec.mode, spec.composition)
    manager.warm(past_load(spec))
    return manager
