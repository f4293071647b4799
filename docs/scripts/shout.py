"""Words of a text, counted: plain functions as an app, run by a script."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from recompose import Stage, StageKind, pipeline, run


@dataclass(frozen=True)
class Word:
    text: str


def words(line: str) -> Iterator[Word]:
    yield from (Word(each) for each in line.split())


def loud(word: Word) -> Word:
    return Word(word.text.upper())


def count(word: Word, seen: dict[str, int] | None) -> tuple[dict[str, object], dict[str, int]]:
    seen = {**(seen or {}), word.text: (seen or {}).get(word.text, 0) + 1}
    return {"word": word.text, "count": seen[word.text]}, seen


app = pipeline(words, loud, (Stage("count", StageKind.STATEFUL), count), name="shout")

for result in run(app, source=["to be", "or not", "to be"], slo="p95=400ms"):
    print(result.serial, result.value)
