"""Calls that sources and sink of RabbitMQ share, over ``pika``: parse its address, and translate its errors."""

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlunsplit

from compositions.errors import RecomposeError
from datapipe.brokers import opening

ANSWER_S = 5.0
SCHEMES = ("amqp", "amqps")
REFUSED = (403, 530)
"""Reply codes (AMQP 0-9-1): access refused, no such virtual host."""
NOT_FOUND, OTHERWISE, TOO_LARGE = 404, 406, 311


class Address(NamedTuple):
    host: str
    parameters: Any
    """Connection parameters, as the library takes them."""
    named: Mapping[str, str]
    """The values of the URL's query, by name."""


def library(who: str) -> Any:
    """Import the library. Raises: RecomposeError if it is missing."""
    logging.getLogger("pika").setLevel(logging.CRITICAL)  # the caller gets every error anyway
    return opening.library("pika", who, "pika", "rabbitmq")


def address_of(url: str, who: str, ways: tuple[tuple[str, ...], ...], form: str) -> Address:
    """Parse ``amqp://[USER:PASSWORD@]HOST[:PORT]/VHOST?NAME=VALUE`` (``amqps``: over TLS). ``ways``: the allowed sets
    of names. Raises: RecomposeError."""
    pika = library(who)
    parts = opening.parts_of(url, who, form)
    try:
        found = parse_qs(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        raise RecomposeError(f"the path of {who} is no URL; give {form}") from None
    named = {name: values[0] for name, values in found.items() if len(values) == 1}
    if strange := sorted(name for name in found if not any(name in way for way in ways)):
        takes = ", ".join(dict.fromkeys(name for way in ways for name in way))
        raise RecomposeError(f"the path of {who} has a parameter {strange[0]!r}; accepted are {takes}")
    if parts.scheme not in SCHEMES or not parts.hostname or set(named) not in [set(way) for way in ways]:
        raise RecomposeError(f"the path of {who} must name one broker and one queue or exchange; give {form}")
    parameters = pika.URLParameters(urlunsplit(parts._replace(query="")))
    parameters.connection_attempts, parameters.socket_timeout, parameters.stack_timeout = 1, ANSWER_S, ANSWER_S
    return Address(parts.hostname, parameters, named)


def fault(who: str, error: BaseException) -> OSError | RecomposeError:
    """Translate an error of the library: RecomposeError if a retry cannot help, else OSError."""
    pika = library(who).exceptions
    never = isinstance(error, pika.ProbableAuthenticationError | pika.ProbableAccessDeniedError)
    code = getattr(error, "reply_code", None)
    said = getattr(error, "reply_text", None) or str(error) or repr(error)
    kind = RecomposeError if never or code in REFUSED else OSError
    return kind(f"{who}: rabbitmq does not answer: {said}")
