"""Build the wheel: our packages lie inside the package ``recompose``, and import each other by their names there.

In the source tree each of them (a ``room``) is a top-level package (``apps.contract``), which reads well and hides
nothing. Installed beside a user's own packages ``apps`` and ``service`` it must not be one. So the build copies each to
``recompose/`` and renames its imports. Anything that is not an import stays: a module that is passed on by its name is
named relative to ``__package__``. ``recompose/names.py`` resolves the names of the tree if no other package has them.
"""

from __future__ import annotations

import ast
import shutil
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HOME = "recompose"


class RoomsInOnePackage(BuildHookInterface):
    """Put the packages ``packs`` of the hook's settings into a wheel, with their imports of ``rooms`` renamed.

    ``tree`` is the project's folder, from the one that is built. An editable install uses the tree as it is.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._made = Path(tempfile.mkdtemp(prefix="recompose-wheel-"))
        tree, rooms = Path(self.root, self.config.get("tree", ".")).resolve(), self.config["rooms"]
        for part in self.config["packs"]:
            for file in _files(tree / part):
                inside = file.relative_to(tree) if part == HOME else HOME / file.relative_to(tree)
                build_data["force_include"][str(_put(file, self._made / inside, rooms))] = str(inside)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            shutil.rmtree(self._made)


def _files(room: Path) -> Iterator[Path]:
    return (file for file in sorted(room.rglob("*")) if file.is_file() and "__pycache__" not in file.parts)


def _put(file: Path, place: Path, rooms: Collection[str]) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".py":
        place.write_text(renamed(file.read_text(encoding="utf-8"), rooms), encoding="utf-8")
    else:
        shutil.copyfile(file, place)
    return place


def renamed(source: str, rooms: Collection[str]) -> str:
    """``source`` with every import of a room by its name inside ``recompose``.

    Raises: ValueError for an import that binds a room's name and something below it, which has no counterpart there.
    """
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and not node.level and _room(node.module or "") in rooms:
            _replace(lines, node, f"from {node.module}", f"from {HOME}.{node.module}")
        elif isinstance(node, ast.Import) and any(_room(each.name) in rooms for each in node.names):
            _replace(lines, node, *_import(node))
    return "".join(lines)


def _room(module: str) -> str:
    return module.partition(".")[0]


def _import(node: ast.Import) -> tuple[str, str]:
    """What the statement says, and what it shall say."""
    said, only = ast.unparse(node), node.names[0]
    if len(node.names) == 1 and only.asname:
        return said, f"import {HOME}.{only.name} as {only.asname}"
    if len(node.names) == 1 and "." not in only.name:
        return said, f"from {HOME} import {only.name}"
    raise ValueError(f"line {node.lineno}: {said!r} cannot be rewritten; write one from PACKAGE import MODULE per line")


def _replace(lines: list[str], node: ast.stmt, said: str, says: str) -> None:
    begin, line = node.col_offset, lines[node.lineno - 1]
    if not line.startswith(said, begin):
        raise ValueError(f"line {node.lineno}: {line.strip()!r} must be written as {said!r}")
    lines[node.lineno - 1] = line[:begin] + says + line[begin + len(said) :]
