"""The input rate of a run; a custom pattern is a function in the folders of its apps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from apps import registry
from apps.input.rate_spec import from_spec
from apps.input.rates import Rate
from service.bodies.spec import InputSpec


def rate_of(input: InputSpec, apps_dirs: Sequence[str]) -> Rate | None:
    """None: unpaced. Raises: RecomposeError when it is no rate.

    Only modules in ``apps_dirs`` can be named: who may set a rate must not be able to call whatever is installed.
    """
    return from_spec(input.rate, partial(registry.module_named, apps_dirs=[Path(each) for each in apps_dirs]))
