"""Check items and results of an app against the types that it expects: a value that does not fit is refused."""

from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from apps.contract import App

MOST_FAULTS = 3
"""Maximum number of invalid fields that an error message names."""


def read_item(app: App, value: Any) -> Any:
    """Return the item that the app makes of a JSON value. Raises: ValueError with the fields that do not fit
    ``item_type``; the errors of ``from_json``."""
    return app.from_json(value if app.item_type is None else fitted(app.item_type, value))


def fitted(expected: Any, value: Any) -> Any:
    """Return ``value`` as pydantic converts it to ``expected``. Raises: ValueError with the fields at fault."""
    try:
        return adapter(expected).validate_python(value)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, each['loc'])) or 'value'}: {each['msg']}" for each in error.errors()]
        more = f"; and {len(faults) - MOST_FAULTS} more" if len(faults) > MOST_FAULTS else ""
        raise ValueError("; ".join(faults[:MOST_FAULTS]) + more) from None


@cache
def adapter(expected: Any) -> TypeAdapter[Any]:
    """Return pydantic's adapter of a type. Raises: pydantic's error for an invalid type."""
    return TypeAdapter(expected)
