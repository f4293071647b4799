"""Files as blocks: of equal size to compress, and of one bzip2 stream each to decompress."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from compositions.errors import RecomposeError

READ_BYTES = 1 << 20
STREAM_BEGINS = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")
"""The head of a stream and that of its first block, or of its end when it is empty: ten bytes, whose chance to occur
inside compressed data is one in 2⁷⁷ a byte."""
HEAD_BYTES = 10


def files_of(place: Path) -> list[Path]:
    """A file, or all files of a folder in the order of their paths. Raises: RecomposeError when there are none."""
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise RecomposeError(f"{str(place)!r} does not exist; give a file, or a folder of files")
    found = sorted(path for path in place.rglob("*") if path.is_file())
    if not found:
        raise RecomposeError(f"folder {str(place)!r} has no files")
    return found


@cache
def library_sources() -> tuple[Path, ...]:
    """The source files of this interpreter's standard library: text that every machine has. To list them takes a
    second, in which a replay that begins again would give nothing."""
    root = Path(sysconfig.get_path("stdlib"))
    return tuple(sorted(path for path in root.rglob("*.py") if "site-packages" not in path.parts))


def pieces(paths: Iterable[Path]) -> Iterator[bytes]:
    """The files, one after the other, as they are read."""
    for path in paths:
        with path.open("rb") as file:
            while piece := file.read(READ_BYTES):
                yield piece


def equal_blocks(parts: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Return blocks of ``size`` bytes that together hold the same bytes as the parts; the last block may be shorter.
    Empty input gives one empty block, because bzip2 writes a stream for an empty file too."""
    held, none = bytearray(), True
    for part in parts:
        held += part
        while len(held) >= size:
            yield bytes(held[:size])
            del held[:size]
            none = False
    if held or none:
        yield bytes(held)


def streams(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Cuts before every head of a stream, as pbzip2 does; what is one stream is one block, however long it is. Nothing
    is left out: what precedes the first head is a block as well, that will not decompress."""
    held = bytearray()
    for part in parts:
        searched = max(0, len(held) - HEAD_BYTES + 1)
        held += part
        begins = [found.start() for found in STREAM_BEGINS.finditer(held, searched) if found.start()]
        begin = 0
        for end in begins:
            yield bytes(held[begin:end])
            begin = end
        del held[:begin]
    if held:
        yield bytes(held)
