"""A bit that flips anywhere in a journal changes nothing that is read of it, or is told before anything is written."""

from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from compositions.errors import NotNow, RecomposeError
from runtime.dispatch.checkpoint import Checkpoint
from service.runner.durable.journal import Journal
from service.runner.durable.values import Commit, Left, Pushed, Resumption
from tests.support.examples import examples


class Copies:
    """Of one journal, each in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._number = folder, count()
        path = self._another()
        _write(path)
        self.content = path.read_bytes()
        self.found = _read(path)

    def _another(self) -> Path:
        path = self._folder / str(next(self._number)) / "run.journal"
        path.parent.mkdir()
        return path

    def with_content(self, content: bytes) -> Path:
        path = self._another()
        path.write_bytes(content)
        return path


def _write(path: Path) -> None:
    """Something in every table."""
    journal = Journal(path, "r", 1)
    for serial in range(12):
        keyed = {"total": {serial % 4: {f"k{serial % 5}": b"%d" % serial}}, "other": {0: {serial % 3: b"x"}}}
        point = Checkpoint(serial, 1, 0, {"sum": serial, "mean": (serial, 1.5)}, keyed)
        journal.store(None, [Pushed(2 * serial, (f"item {serial}", None))])
        journal.store(Commit(point, {"p0": serial}, (Left(serial, [serial], None, 10),)))
    journal.close()


def _read(path: Path) -> Resumption:
    journal = Journal(path, "r", 2)
    journal.close()
    return journal.found


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Copies:
    return Copies(tmp_path_factory.mktemp("flipped"))


@examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.integers(0, 2**40))
def test_a_flipped_bit_changes_nothing_or_is_told(copies: Copies, where: int) -> None:
    content = bytearray(copies.content)
    byte, bit = divmod(where % (8 * len(content)), 8)
    content[byte] ^= 1 << bit
    path = copies.with_content(content)
    try:
        found = _read(path)
    except NotNow as error:
        raise AssertionError(f"the run would be held back for ever: {error}") from error
    except RecomposeError:
        assert path.read_bytes() == content, "nothing is overwritten"
    else:
        assert found == copies.found
