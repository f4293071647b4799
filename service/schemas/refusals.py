"""Refusals of the control plane, a class for each kind of answer, and sentences about bodies that pydantic refuses."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import ValidationError

from apps.contract import App
from apps.registry import names_of
from compositions.errors import Fault, RecomposeError
from compositions.wording import did_you_mean


class NotFoundError(RecomposeError):
    """A named thing does not exist."""


class ConflictError(RecomposeError):
    """The request is sound, but not in the present state of the app."""


class BadValueError(RecomposeError):
    """A value that only the running service can judge is wrong. ``faults`` contain paths into the request."""

    def __init__(self, message: str, faults: Sequence[Fault] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class UnavailableError(RecomposeError):
    """The runner cannot answer now; the same request may succeed later."""


class NotStoredError(UnavailableError):
    """The state file cannot be written now, so nothing was changed."""


class DiskFullError(NotStoredError):
    """The disk has no room for the state file."""


class ResultsGoneError(RecomposeError):
    """The next results are of another run, or too old. ``first``, ``last``: serial numbers that ``run`` retains."""

    def __init__(self, message: str, run: str | None = None, first: int | None = None, last: int | None = None) -> None:
        super().__init__(message)
        self.run, self.first, self.last = run, first, last


AppTypes = Mapping[str, type[App]]
"""Registered apps by name."""


def no_app(name: str, known: AppTypes) -> str:
    """Return the message about an app that is not registered, with the closest name, or else the registered names."""
    return f"there is no app {name!r}{did_you_mean(name, known) or '; registered are ' + names_of(known)}"


def in_two_ways(verb: Literal["start", "stop"], app: str) -> str:
    """Return the advice to start or stop an app, for users of the command line and of REST."""
    return f"{verb} it with recompose {verb} {app}, or POST /apps/{app}/{verb}"


def listed(names: Iterable[str]) -> str:
    """Return names for a sentence: ``ferret, synthetic``, or ``none``; long lists are cut."""
    known = sorted(names)
    shown = ", ".join(known[:20])
    return (shown + f" and {len(known) - 20} more" if len(known) > 20 else shown) or "none"


SHOWN = 80
"""Maximum number of characters of an offending value in a message."""
UNION_MEMBERS = ("latency", "throughput", "one", "together")
"""Names that the validator gives to the members of a union; they are not part of the user's input."""
KINDS = {"metric": "'latency' or 'throughput'", "about": "'objective', 'backlog' or 'restarts'"}
"""Fields that select the kind of an object, and their accepted values."""
Detail = Mapping[str, Any]
"""One error of a ``ValidationError``."""


def place(detail: Detail) -> list[str | int]:
    """Return the place of the fault: the path of field names and list positions."""
    path = [part for part in detail["loc"] if part not in UNION_MEMBERS]
    return [*path, _kind_field(detail)] if detail["type"].startswith("union_tag") else path


def message(detail: Detail) -> str:
    """Return what would be accepted, such as ``must be 'mean', 'p50' or 'p95' (did you mean 'p95'?)``."""
    kind, given = detail["type"], detail.get("ctx") or {}
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return "unknown field; /docs lists those that are accepted"
    if kind == "union_tag_not_found":
        return f"is missing; give {KINDS.get(_kind_field(detail), 'one of those that /docs lists')}"
    if kind == "union_tag_invalid":
        return _one_of(given["tag"], given["expected_tags"].replace("', '", "' or '"))
    if kind in ("literal_error", "enum"):
        return _one_of(detail["input"], given["expected"])
    if kind in ("model_attributes_type", "model_type"):
        return "must be an object"
    said = str(detail["msg"]).removeprefix("Value error, ")
    return said.replace("Input should be a valid ", "must be a ").replace("Input should be ", "must be ")


def sentence(detail: Detail) -> str:
    """Return the fault as a sentence, with its place and the offending value."""
    where, said = ".".join(map(str, place(detail))), message(detail)
    if said.startswith("is missing"):
        return f"{where} {said}"
    if detail["type"] == "value_error" and isinstance(detail["input"], Mapping):  # several fields, maybe secrets
        return said if where in ("", "body") else f"{where}: {said}"
    return f"{where} = {_shown(detail)}: {said}" if where else said


def fault(detail: Detail) -> Fault:
    """Return a fault of a document, without the offending value."""
    return Fault(".".join(map(str, place(detail))), message(detail))


def refusal(error: ValidationError) -> str:
    """Return the first faults as sentences."""
    return "; ".join(sentence(each) for each in error.errors(include_url=False)[:5])


def _kind_field(detail: Detail) -> str:
    return str(detail["ctx"]["discriminator"]).strip("'")


def _one_of(given: Any, expected: str) -> str:
    names = re.findall("'([^']+)'", expected)
    return f"must be {expected}{did_you_mean(given, names)}"


def _shown(detail: Detail) -> str:
    value = detail["ctx"]["tag"] if detail["type"] == "union_tag_invalid" else detail["input"]
    if isinstance(value, list):
        value = value[: SHOWN // 3 + 1]  # the value is longer than the shown part
    text = value if isinstance(value, bytes) else repr(value)
    return (repr(text) if isinstance(text, bytes) else text)[:SHOWN]
