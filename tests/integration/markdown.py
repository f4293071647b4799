"""Reads what the tests of the documentation need out of Markdown files."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_IN_FOLDERS = (file for name in ("docs", "deploy", "lab") for file in (ROOT / name).rglob("*.md"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *_IN_FOLDERS])
_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block. ``place`` is FILE:LINE of its first line."""

    place: str
    language: str
    text: str


def blocks(document: Path, language: str) -> list[Block]:
    text = document.read_text()
    found = []
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        kind = match["info"].partition(" ")[0]
        found.append(Block(f"{document.relative_to(ROOT)}:{line}", kind, match["text"]))
    return [block for block in found if block.language == language]


def commands(document: Path) -> list[tuple[str, str]]:
    """The shell commands of a document in order, each with its place; lines that end in a backslash are joined."""
    found = []
    for block in blocks(document, "bash"):
        joined = re.sub(r"\\\n\s*", "", block.text)
        lines = (line.strip() for line in joined.splitlines())
        found += [(block.place, line) for line in lines if line and not line.startswith("#")]
    return found


def links(document: Path) -> Iterator[tuple[str, str]]:
    """Path and anchor of every link to a file of the project; either may be empty."""
    prose = _FENCE.sub("", document.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield path, anchor


def anchors(document: Path) -> set[str]:
    """What the headings can be linked by."""
    titles = re.findall(r"^#+ +(.+?)\s*$", _FENCE.sub("", document.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
