"""Where in the text of a document the paths of its faults lie, for editors."""

from __future__ import annotations

import re
from typing import Any

import yaml

from compositions.errors import Fault

_STEP = re.compile(r"\[(\d+)\]|'((?:[^'\\]|\\.)*)'|([^.\[\]']+)")
_SAID = re.compile(r"^line (\d+), column")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def line_of(text: str | bytes, fault: Fault) -> int | None:
    """The line, from 1, of what ``fault`` is about: the deepest part of its path that is there. ``None`` when nothing
    tells. ``text`` must have been read by ``safe_yaml`` (its limits hold here too) as far as ``fault`` has a path."""
    if said := _SAID.match(fault.message):
        return int(said[1])
    if not fault.path:
        return None
    try:
        node = yaml.compose(text, Loader=_LOADER)
    except (yaml.YAMLError, ValueError):
        return None
    return None if node is None else _walk(node, fault.path)


def _walk(node: yaml.Node, path: str) -> int:
    line: int = node.start_mark.line
    for index, quoted, word in _STEP.findall(path):
        if isinstance(node, yaml.SequenceNode) and index and int(index) < len(node.value):
            node = node.value[int(index)]
            line = node.start_mark.line
        elif isinstance(node, yaml.MappingNode) and (found := _entry(node, quoted or word)):
            key, node = found
            line = key.start_mark.line
        else:
            break
    return line + 1


def _entry(node: yaml.MappingNode, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    """The last one of that name: of a key given twice, the one that is too much."""
    return next(((key, value) for key, value in reversed(node.value) if key.value == name), None)
