"""Bzip2 and its inverse, against Python's own module and the system's bunzip2."""

import bz2
import shutil
import subprocess
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.bzip2 import BlockOptions, Bunzip2, Bzip2
from apps.bzip2.app import equal_blocks, streams
from compositions.errors import RecomposeError

TEXT = bytes(range(256)) * 300


def compressed(path: Path, block_bytes: int) -> bytes:
    app = Bzip2(BlockOptions(block_bytes=block_bytes))
    return b"".join(app.compress(block).data for block in app.items(path))


def decompressed(path: Path) -> bytes:
    app = Bunzip2()
    return b"".join(app.decompress(block).data for block in app.items(path))


@given(st.binary(min_size=1, max_size=5000), st.integers(1, 2000), st.integers(1, 700))
def test_blocks_are_of_equal_size_and_lose_nothing(data: bytes, size: int, read: int) -> None:
    parts = [data[at : at + read] for at in range(0, len(data), read)]
    blocks = list(equal_blocks(parts, size))
    assert b"".join(blocks) == data
    assert all(len(block) == size for block in blocks[:-1])


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=8), st.integers(1, 64))
def test_streams_are_cut_where_they_begin_however_they_are_read(texts: list[bytes], read: int) -> None:
    each = [bz2.compress(text, 1 + number % 9) for number, text in enumerate(texts)]
    data = b"".join(each)
    assert list(streams(data[at : at + read] for at in range(0, len(data), read))) == each


def test_what_is_compressed_is_what_the_standard_library_makes_and_bunzip2_reads(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain", tmp_path / "packed.bz2"
    plain.write_bytes(TEXT)
    packed.write_bytes(compressed(plain, 10_000))
    blocks = [TEXT[at : at + 10_000] for at in range(0, len(TEXT), 10_000)]
    assert packed.read_bytes() == b"".join(bz2.compress(block, 9) for block in blocks)
    assert decompressed(packed) == TEXT
    if shutil.which("bunzip2") is None:
        pytest.skip("bunzip2 is not installed: its answer is not compared")
    assert subprocess.run(["bunzip2", "-c", packed], stdout=subprocess.PIPE, check=True).stdout == TEXT


def test_a_folder_is_its_files_in_order(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"second")
    (tmp_path / "a").write_bytes(b"first ")
    (tmp_path / "empty").write_bytes(b"")
    assert bz2.decompress(compressed(tmp_path, 4)) == b"first second"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (bz2.compress(TEXT)[:-20], "is cut off"),
        (b"BZh9" + b"1AY&SY" + b"nonsense" * 20, "is not valid bzip2 data"),
        (b"plain text", "is not valid bzip2 data"),
        (bz2.compress(TEXT) + b"trailing", "is followed by 8 bytes that are not bzip2 data"),
    ],
)
def test_a_damaged_file_says_what_is_wrong_of_which_stream(tmp_path: Path, data: bytes, sentence: str) -> None:
    path = tmp_path / "x.bz2"
    path.write_bytes(bz2.compress(b"good") + data if data.startswith(b"BZh") else data)
    app = Bunzip2()
    *good, bad = app.items(path)
    assert all(app.decompress(block).data == b"good" for block in good)
    with pytest.raises(RecomposeError, match=f"stream {len(good)} {sentence}"):
        app.decompress(bad)


def test_the_interpreters_own_sources_are_the_default() -> None:
    block = next(islice(Bzip2().items(None), 1))
    assert len(block.data) == 900_000
    assert b"import" in block.data


def test_places_that_give_nothing(tmp_path: Path) -> None:
    with pytest.raises(RecomposeError, match="does not exist; give a file, or a folder of files"):
        Bzip2().items(tmp_path / "none")
    with pytest.raises(RecomposeError, match="has no files"):
        Bzip2().items(tmp_path)
    with pytest.raises(RecomposeError, match="app 'bunzip2' has no data set of its own"):
        Bunzip2().items(None)


def test_an_empty_file_is_a_stream_of_14_bytes(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain", tmp_path / "packed.bz2"
    plain.touch()
    packed.write_bytes(compressed(plain, 900_000))
    assert packed.read_bytes() == bz2.compress(b"")
    assert (packed.stat().st_size, decompressed(packed)) == (14, b"")
