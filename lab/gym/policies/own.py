"""Read a policy from a user's file: ``path.py:ClassName``."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import cast

from compositions.errors import RecomposeError
from lab.gym.policies.forms import MakePolicy, apart
from lab.gym.policies.port import Given, Policy

_METHODS = ("observe", "decide")


def read_policy(place: str) -> MakePolicy:
    """Return the named class. Raises: RecomposeError if the file or the class is missing, or it is no policy."""
    path, _, name = place.rpartition(":")
    if not path or not name.isidentifier():
        raise RecomposeError(f"policy {place!r}: must be a file and a class in it, as in policy.py:MyPolicy")
    found = getattr(_module(Path(path)), name, None)
    if not isinstance(found, type):
        raise RecomposeError(f"policy {place!r}: {path} has no class {name}")
    missing = [each for each in _METHODS if not callable(getattr(found, each, None))]
    if missing:
        raise RecomposeError(f"policy {place!r}: {name} has no method {' and no '.join(missing)}")
    return apart(_checked(place, cast(MakePolicy, found)))


def _checked(place: str, make: MakePolicy) -> MakePolicy:
    def made(given: Given) -> Policy:
        try:
            return make(given)
        except Exception as error:  # the user's own code may raise anything
            said = f"{type(error).__name__}: {error}"
            raise RecomposeError(f"policy {place!r} cannot be made with what is given: {said}") from error

    return made


def _module(path: Path) -> object:
    spec = importlib.util.spec_from_file_location(path.stem, path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise RecomposeError(f"policy file {str(path)!r} is not there, or no Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the user's own code may raise anything
        raise RecomposeError(f"policy file {str(path)!r} fails: {type(error).__name__}: {error}") from error
    return module
