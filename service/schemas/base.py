"""Common parts of all bodies: conversion to JSON, units, and the one text form of a time."""

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from time import time
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from compositions.wording import without_users

Clock = Callable[[float], str]
"""Convert seconds of a loop's clock to the text of a time."""
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""A time in RFC 3339: UTC, with milliseconds and ``Z``."""
Told = Annotated[str, AfterValidator(without_users), PlainSerializer(without_users)]
"""The reason of a failure, in an app's or a library's words; users and passwords are removed from its addresses."""
_ANY = TypeAdapter(Any)
Data = dict[str, Any]
"""JSON data, or fields by name."""


class Answer(BaseModel):
    """A frozen body. Later versions may add fields; readers keep fields that they do not know. Fields without a
    measured value are null; fields that were not given are left out. Its validator is built at first use."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True, defer_build=True, from_attributes=True)

    @classmethod
    def taken_from(cls, *sources: object, **given: Any) -> Self:
        """Return a body of the ``given`` fields; every other field comes from the first source that has it. Seconds
        become milliseconds, numbers get four decimals. Raises: ValueError for a missing field without a default."""
        for name in cls.model_fields.keys() - given.keys():
            in_s = name.removesuffix("_ms") + "_s"
            attribute, shown = (in_s, ms) if name.endswith("_ms") else (name, _shown)
            source = next((each for each in sources if hasattr(each, attribute)), None)
            if source is not None:
                given[name] = shown(getattr(source, attribute))
        return cls(**given)


T = TypeVar("T")
F = TypeVar("F", float, float | None)
_TOPIC = object()
Topic = Annotated[T, _TOPIC]
"""Marks a field of ``FlatOnTheWire`` whose own fields stand at the top level of the JSON."""


class FlatOnTheWire(BaseModel):
    """A model with fields nested by topic in Python, and flat in JSON, in JSON schemas and in keyword arguments."""

    def but(self, **changes: Any) -> Self:
        """Return a copy with these fields, or topics, replaced. Raises: TypeError for an unknown name."""
        if strange := changes.keys() - type(self).model_fields.keys():
            raise TypeError(f"{type(self).__name__} has no field {min(strange)!r}")
        return self.model_copy(update=changes)

    @classmethod
    def _topics(cls) -> dict[str, set[str]]:
        """Return the names of the fields of each topic."""
        topics = {name: field.annotation for name, field in cls.model_fields.items() if _TOPIC in field.metadata}
        return {name: set(topic.__annotations__) for name, topic in topics.items() if topic is not None}

    @model_validator(mode="before")
    @classmethod
    def _nest(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        nested = dict(data)
        for name, fields in cls._topics().items():
            if inside := {field: nested.pop(field) for field in fields & nested.keys()}:
                nested[name] = inside
        return nested

    @model_serializer(mode="wrap")
    def _flatten(self, serialize: SerializerFunctionWrapHandler) -> Data:
        flat: Data = serialize(self)
        for name in self._topics():
            flat |= flat.pop(name, {})
        return flat

    if not TYPE_CHECKING:  # users' scripts read the flat names; our own code, which is type-checked, names the topic

        def __getattr__(self, name: str) -> Any:
            for topic, fields in self._topics().items():
                if name in fields:
                    return getattr(getattr(self, topic), name)
            return super().__getattr__(name)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(_flattened(schema, cls._topics()))


def _flattened(schema: Any, topics: Collection[str]) -> Any:
    """Return the core schema of a model in which the fields of its topics replace the topics."""
    if schema["type"] != "model-fields":
        inner = {key: value for key, value in schema.items() if key != "serialization"}
        return {**inner, "schema": _flattened(schema["schema"], topics)}
    flat: Data = {}
    for name, field in schema["fields"].items():
        flat |= _fields(field) if name in topics else {name: field}
    return {**schema, "fields": flat}


def _fields(schema: Any) -> Data:
    while schema["type"] != "model-fields":
        schema = schema["schema"]
    fields: Data = schema["fields"]
    return fields


def plain(body: object) -> Any:
    """Return the JSON data of a body, or of a list of bodies: the fields that are set, by their names in the API."""
    return _ANY.dump_python(body, mode="json", by_alias=True, exclude_unset=True)


def json_of(body: object) -> str:
    """Return the JSON text of ``plain(…)``, in a third of its time. Raises: ValueError for a lone surrogate."""
    return _ANY.dump_json(body, by_alias=True, exclude_unset=True, ensure_ascii=True).decode("ascii")


def ms(seconds: F) -> F:
    """Return seconds as milliseconds with three decimals; None stays None."""
    return None if seconds is None else round(seconds * 1e3, 3)


def rounded(value: float | None) -> float | None:
    """Return the number with four decimals; None stays None."""
    return None if value is None else round(value, 4)


def _shown(value: Any) -> Any:
    return rounded(value) if isinstance(value, float) else value


def time_text(epoch_s: float) -> str:
    """Return the text of an instant that is given in seconds since 1970."""
    return datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_now() -> str:
    """Return the text of the present instant."""
    return time_text(time())


def read_time(text: str) -> datetime:
    """Parse any RFC 3339 text, also in the form of earlier versions (``+00:00``). Raises: ValueError."""
    return datetime.fromisoformat(text)
