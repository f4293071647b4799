"""Bzip2 and its inverse (SPBench after pbzip2): every block is compressed to a complete stream, in order.

Source and sink read and write; the one stage between them does the work, and has no state.
"""

import bz2
import re
import sysconfig
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pydantic import Field

from apps.contract import App, Options, Output
from apps.output_file import OutputFile
from compositions.errors import RecomposeError
from compositions.model import Stage

READ_BYTES = 1 << 20
STREAM_BEGINS = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")
"""The header of a stream with that of its first block or, if the stream is empty, of its end: ten bytes, which occur by
chance in compressed data once in 2⁷⁷ bytes."""
HEAD_BYTES = 10


def files_of(place: Path) -> list[Path]:
    """Return a file, or all files of a folder in the order of their paths. Raises: RecomposeError if there are none."""
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
    """Return the source files of this interpreter's standard library: text that every machine has. Listing takes a
    second, in which a replay that begins again would give nothing."""
    root = Path(sysconfig.get_path("stdlib"))
    return tuple(sorted(path for path in root.rglob("*.py") if "site-packages" not in path.parts))


def pieces(paths: Iterable[Path]) -> Iterator[bytes]:
    """Yield the content of the files, one after the other, as it is read."""
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
    """Split before every header of a stream, as pbzip2 does, so that each stream is a block, however long. Bytes before
    the first header also become a block, which then cannot be decompressed."""
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


LEVEL = 9
INPUT_CLASSES = {"test": 10, "small": 50, "medium": 400, "large": 2_333, "huge": 4_667}
"""Numbers of blocks of 900,000 bytes. SPBench's huge is a file of 4.2 GB, its large half of it; the others are ours."""


class Block(NamedTuple):
    number: int
    data: bytes


class Done(NamedTuple):
    """A processed block: ``data``: the output for ``taken`` input bytes; ``plain_crc``: CRC-32 of the plain side."""

    number: int
    taken: int
    data: bytes
    plain_crc: int


class BlockOptions(Options):
    block_bytes: int = Field(
        default=900_000, ge=1, le=1 << 30, description="Bytes of plain text per block; 900,000 as in bzip2 -9"
    )


class _Blocks(App):
    def encode_result(self, value: Done) -> dict[str, Any]:
        return {
            "block": value.number,
            "bytes_in": value.taken,
            "bytes_out": len(value.data),
            "crc32": f"{value.plain_crc:08x}",
        }

    def open_output(self, path: Path) -> Output | None:
        return None if path.suffix == ".jsonl" else BytesOutput(path)


class Bzip2(_Blocks):
    name = "bzip2"
    description = "Compresses files block by block; what comes out is read by bunzip2."
    stages: tuple[Stage, ...] = (Stage("compress"),)
    options_model: ClassVar[type[Options]] = BlockOptions
    input_classes = INPUT_CLASSES
    options: BlockOptions

    def items(self, path: Path | None) -> Iterator[Block]:
        files = files_of(path.expanduser()) if path else library_sources()
        return map(Block._make, enumerate(equal_blocks(pieces(files), self.options.block_bytes)))

    def compress(self, block: Block) -> Done:
        return Done(block.number, len(block.data), bz2.compress(block.data, LEVEL), zlib.crc32(block.data))


class Bunzip2(_Blocks):
    name = "bunzip2"
    description = "Decompresses bzip2 files stream by stream."
    stages: tuple[Stage, ...] = (Stage("decompress"),)

    def items(self, path: Path | None) -> Iterator[Block]:
        if path is None:
            raise RecomposeError("app 'bunzip2' has no data set of its own; start it with source replay:FILE.bz2")
        return map(Block._make, enumerate(streams(pieces(files_of(path.expanduser())))))

    def decompress(self, block: Block) -> Done:
        """Decompress a block. Raises: RecomposeError if the stream is damaged or truncated."""
        reader = bz2.BZ2Decompressor()
        try:
            plain = reader.decompress(block.data)
        except OSError as error:
            raise RecomposeError(f"stream {block.number} is not valid bzip2 data: {error}") from error
        if not reader.eof:
            raise RecomposeError(f"stream {block.number} is cut off; {len(plain)} bytes of it could be read")
        if reader.unused_data:
            more = len(reader.unused_data)
            raise RecomposeError(f"stream {block.number} is followed by {more} bytes that are not bzip2 data")
        return Done(block.number, len(block.data), plain, zlib.crc32(plain))


class BytesOutput(OutputFile):
    """Writes the blocks, one after the other. Raises: RecomposeError if the file cannot be written; OutputFailed if no
    further block fits, with whole blocks in the file."""

    def write(self, serial: int, value: Done) -> None:
        self.add(value.data)
