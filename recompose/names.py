"""Import our packages under either of their two names, as the same modules.

Installed, they are inside this package (``recompose.apps``), so that a user's own package ``apps`` is nobody else's; in
the tree of the project they are beside it (``apps``). What was written for one is understood by the other: entry points
and pickles say ``recompose.apps.synthetic`` in both, and apps that say ``from apps.contract import App`` load in both.
Where the one who runs them has a package ``apps``, all that it has is theirs; ``apps.contract`` is ours if it has none.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

HOME = "recompose"
ROOMS = frozenset({"service", "control", "compositions", "apps", "profiler", "runtime", "datapipe", "lab"})
INSTALLED = (Path(__file__).parent / "apps").is_dir()
"""Whether the rooms are inside this package."""


class OtherNames(MetaPathFinder):
    """Answers to a room's other name with the room."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        known_as = self._by_short_name(fullname, path) if INSTALLED else _by_long_name(fullname)
        return None if known_as is None else ModuleSpec(fullname, _Same(known_as))

    def _by_short_name(self, name: str, path: Sequence[str] | None) -> str | None:
        parent, _, _ = name.rpartition(".")
        ours = f"{HOME}.{name}"
        if name.partition(".")[0] not in ROOMS:
            return None
        if parent and sys.modules.get(parent) is sys.modules.get(f"{HOME}.{parent}"):
            return ours  # of a package that was found here: the path of that leads to another module of the same file
        return None if self._is_anothers(name, path) or find_spec(ours) is None else ours

    def _is_anothers(self, name: str, path: Sequence[str] | None) -> bool:
        others = (each for each in sys.meta_path if each is not self)
        return any(each.find_spec(name, path) is not None for each in others)


class _Same(Loader):
    """Gives the module that is ``known_as`` something else."""

    def __init__(self, known_as: str) -> None:
        self._known_as = known_as

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._known_as)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It has run. Whoever called has put another spec on it; pickle and ``python -m`` want its own."""
        module.__spec__ = self._spec


def _by_long_name(name: str) -> str | None:
    home, _, short = name.partition(".")
    return short if home == HOME and short.partition(".")[0] in ROOMS else None


def answer() -> None:
    """Install the finder of both names. A second call does nothing."""
    if not any(isinstance(each, OtherNames) for each in sys.meta_path):
        sys.meta_path.insert(0, OtherNames())
