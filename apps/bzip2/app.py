"""Bzip2 and its inverse (SPBench after pbzip2): every block is compressed to a complete stream, in order.

Source and sink read and write; the one stage between them does the work, and has no state.
"""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pydantic import Field

from apps.bzip2.blocks import equal_blocks, files_of, library_sources, pieces, streams
from apps.contract import App, Options, Output
from apps.output_file import OutputFile
from compositions.errors import RecomposeError
from compositions.model import Stage

LEVEL = 9
INPUT_CLASSES = {"test": 10, "small": 50, "medium": 400, "large": 2_333, "huge": 4_667}
"""Blocks of 900,000 bytes. SPBench's huge is a file of 4.2 GB, and its large a half of that; the others are ours."""


class Block(NamedTuple):
    number: int
    data: bytes


class Done(NamedTuple):
    """``data`` is what came out of ``taken`` bytes; ``plain_crc`` the CRC-32 of the uncompressed side."""

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
            raise RecomposeError("app 'bunzip2' has no data set of its own; give a .bz2 file, as replay:FILE")
        return map(Block._make, enumerate(streams(pieces(files_of(path.expanduser())))))

    def decompress(self, block: Block) -> Done:
        """Raises: RecomposeError when the stream is damaged or cut off: what it would give is not complete."""
        reader = bz2.BZ2Decompressor()
        try:
            plain = reader.decompress(block.data)
        except OSError as error:
            raise RecomposeError(f"stream {block.number} is no bzip2 data or is damaged: {error}") from error
        if not reader.eof:
            raise RecomposeError(f"stream {block.number} is cut off; {len(plain)} bytes of it could be read")
        if reader.unused_data:
            raise RecomposeError(
                f"stream {block.number} is followed by {len(reader.unused_data)} bytes of something else"
            )
        return Done(block.number, len(block.data), plain, zlib.crc32(plain))


class BytesOutput:
    """The blocks, one after the other. Raises: RecomposeError when the file cannot be written; OutputFailed when no
    further block fits, with whole blocks in the file."""

    def __init__(self, path: Path) -> None:
        self._file = OutputFile(path)

    def write(self, serial: int, value: Done) -> None:
        self._file.add(value.data)

    def close(self) -> None:
        self._file.close()
