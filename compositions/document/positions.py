"""Lines of the faults of a document, for editors."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

import yaml

from compositions.errors import Fault

_STEP = re.compile(r"\[(\d+)\]|'((?:[^'\\]|\\.)*)'|([^.\[\]']+)")
_SAID = re.compile(r"^line (\d+), column")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Positions:
    """Find the lines of a document's faults. The text is read once, however many faults are asked about.

    ``text`` must have been read by ``safe_yaml`` (its limits hold here too) as far as faults have a path.
    """

    def __init__(self, text: str | bytes) -> None:
        self._text = text
        self._entries: dict[int, dict[str, tuple[yaml.Node, yaml.Node]]] = {}

    def line_of(self, fault: Fault) -> int | None:
        """Return the line, from 1, of the deepest part of the fault's path that exists; None if it is unknown."""
        if said := _SAID.match(fault.message):
            return int(said[1])
        if not fault.path or self._root is None:
            return None
        return self._walk(self._root, fault.path)

    @cached_property
    def _root(self) -> yaml.Node | None:
        try:
            root: yaml.Node | None = yaml.compose(self._text, Loader=_LOADER)
        except (yaml.YAMLError, ValueError):
            return None
        return root

    def _walk(self, node: yaml.Node, path: str) -> int:
        line: int = node.start_mark.line
        for index, quoted, word in _STEP.findall(path):
            if isinstance(node, yaml.SequenceNode) and index and int(index) < len(node.value):
                node = node.value[int(index)]
                line = node.start_mark.line
            elif isinstance(node, yaml.MappingNode) and (found := self._entry(node, quoted or word)):
                key, node = found
                line = key.start_mark.line
            else:
                break
        return line + 1

    def _entry(self, node: yaml.MappingNode, name: str) -> tuple[yaml.Node, yaml.Node] | None:
        """Return the last entry with that name; of a duplicate key it is the surplus one."""
        if id(node) not in self._entries:
            self._entries[id(node)] = {str(key.value): (key, value) for key, value in node.value}
        return self._entries[id(node)].get(name)
