"""Open a broker: parse the URL that a user gives, and import the library."""

from importlib import import_module
from typing import Any
from urllib.parse import SplitResult, urlsplit

from compositions.errors import RecomposeError


def parts_of(url: str, who: str, form: str, *, scheme: str = "", one_port: bool = True) -> SplitResult:
    """Parse ``url``, the path of source or sink ``who``, of form ``form``. Raises: RecomposeError for a bad URL."""
    try:
        parts = urlsplit(url, scheme=scheme)
        _ = one_port and parts.port  # checked here, as the library's error message would be worse
    except ValueError:
        raise RecomposeError(f"the path of {who} is no URL; give {form}") from None
    return parts


def library(module: str, who: str, package: str, extra: str) -> Any:
    """Import the library of a broker. Raises: RecomposeError if it is missing."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise RecomposeError(f"{who} needs {package}: pip install 'recompose[{extra}]'") from error
