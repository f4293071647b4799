"""Find players by name: strategies of the product, policies of other systems, and a user's own."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import cast

from compositions.errors import RecomposeError
from lab.gym.hindsight import fixed_for
from lab.gym.player import Knowing, Player, Strategy
from lab.gym.policies import PORTS, TUNED
from lab.gym.policies.forms import MakePolicy, apart
from lab.gym.policies.port import Given, Policy

STRATEGIES: Mapping[str, Strategy] = {
    "expected-cost": Strategy("expected-cost"),
    "vogel": Strategy("vogel"),
    "pdp21": Strategy("pdp21"),
    "spar": Strategy("spar", first="merged"),
}
FIXED: Mapping[str, Knowing] = {
    "peak": Knowing(partial(fixed_for, steps_s=60.0)),
    "mean": Knowing(partial(fixed_for, steps_s=math.inf)),
}
"""Fixed compositions that know the load: for its busiest minute, and for its mean."""
PLAYERS: Mapping[str, Player] = {**STRATEGIES, **PORTS, **TUNED, **FIXED}


def player(name: str) -> Player:
    """Return one of them, or a user's own, ``path.py:ClassName``. Raises: RecomposeError if it is neither."""
    if name in PLAYERS:
        return PLAYERS[name]
    if ".py:" in name:
        return read_policy(name)
    raise RecomposeError(f"unknown policy {name!r}; there are {', '.join(PLAYERS)}, or a file's: policy.py:MyPolicy")


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
        except Exception as error:  # code of the user, which may raise anything
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
    except Exception as error:  # code of the user, which may raise anything
        raise RecomposeError(f"policy file {str(path)!r} fails: {type(error).__name__}: {error}") from error
    return module
