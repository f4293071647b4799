"""Carry an app's class to its workers if it was made in a script or a notebook, and so cannot be found by its name.

Ray carries the class itself. Values of other classes of that script travel as any value does, by the name of their
class, ``__main__.Point``; a worker has another ``__main__``, so the classes go along and are put into it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from apps.contract import App
from apps.registry import build

MAIN = "__main__"


def classes_of_main(app_class: type[App]) -> dict[str, type]:
    """Those that the program defines beside an app which it defines itself."""
    if app_class.__module__ != MAIN:
        return {}
    defined = vars(sys.modules[MAIN]).items()
    return {name: each for name, each in defined if isinstance(each, type) and each.__module__ == MAIN}


def built_with(classes: Mapping[str, type], app_class: type[App], options: Mapping[str, Any]) -> App:
    """The app, where its values find their classes. Raises: AppRefused."""
    main = sys.modules[MAIN]
    for name, each in classes.items():
        vars(main).setdefault(name, each)
    return build(app_class, options)
