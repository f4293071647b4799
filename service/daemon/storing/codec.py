"""Frozen values to JSON text and back, for the state file."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from compositions.model import Composition
from profiler.slo import Slo

_SLO = TypeAdapter(Slo)
_COMPOSITION = TypeAdapter(Composition)


def slo_to_json(slo: Slo) -> str:
    return _SLO.dump_json(slo, exclude_none=True, exclude=None if slo.also else {"also"}).decode()


def slo_from_json(text: str) -> Slo:
    return _SLO.validate_json(text)


def composition_to_json(composition: Composition) -> Any:
    """Plain JSON data, not text."""
    return _COMPOSITION.dump_python(composition, mode="json")


def composition_from_json(data: Any) -> Composition:
    return _COMPOSITION.validate_python(data)
