"""A policy of a user's own: ``path.py:ClassName``."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import cast

from compositions.errors import RecomposeError
from service.gym.policies import MakePolicy

_METHODS = ("observe", "decide")


def read_policy(place: str) -> MakePolicy:
    """The class that is named. Raises: RecomposeError when there is no such file or class, or it is no policy."""
    path, _, name = place.rpartition(":")
    if not path or not name.isidentifier():
        raise RecomposeError(f"policy {place!r}: must be a file and a class in it, as in policy.py:MyPolicy")
    found = getattr(_module(Path(path)), name, None)
    if not isinstance(found, type):
        raise RecomposeError(f"policy {place!r}: {path} has no class {name}")
    missing = [each for each in _METHODS if not callable(getattr(found, each, None))]
    if missing:
        raise RecomposeError(f"policy {place!r}: {name} has no method {' and no '.join(missing)}")
    return cast(MakePolicy, found)


def _module(path: Path) -> object:
    spec = importlib.util.spec_from_file_location(path.stem, path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise RecomposeError(f"policy file {str(path)!r} is not there, or no Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the user's own code, whatever it raises
        raise RecomposeError(f"policy file {str(path)!r} fails: {type(error).__name__}: {error}") from error
    return module
