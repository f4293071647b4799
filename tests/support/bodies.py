"""Statuses and specs with other fields, for tests."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel

from service.schemas.base import FlatOnTheWire

B = TypeVar("B", bound=FlatOnTheWire)


def having(body: B, fields: Mapping[str, Any]) -> B:
    """Return a copy of ``body`` with these fields, which are named as in JSON."""
    new = dict(fields)
    for name, names in body._topics().items():
        if inside := {field: new.pop(field) for field in names & new.keys()}:
            topic = getattr(body, name)
            new[name] = topic.model_copy(update=inside) if isinstance(topic, BaseModel) else replace(topic, **inside)
    return body.model_copy(update=new)
