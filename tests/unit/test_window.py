"""What can still be read of a run: a reader that goes on from its last serial number misses nothing, or is told."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.runner.rpc.requests import ReadResults
from service.runner.rpc.window import Window
from service.schemas.refusals import ResultsGoneError
from service.schemas.results import Result


def window(first: int = 5, last: int = 9, *, run: str | None = "b", given: int | None = 12) -> Window:
    return Window(run, [Result(serial=number) for number in range(first, last + 1)], last + 1, given)


def serials(found: Window, after: int | None, run: str | None = None, limit: int = 100) -> list[int]:
    return [each.serial for each in found.read(ReadResults(after, limit, run))]


@pytest.mark.parametrize("run", [None, "b"])
def test_a_cursor_into_what_is_kept_goes_on(run: str | None) -> None:
    assert serials(window(), None, run) == [5, 6, 7, 8, 9]
    assert serials(window(), 4, run) == [5, 6, 7, 8, 9]
    assert serials(window(), 7, run) == [8, 9]
    assert serials(window(), 9, run) == []
    assert serials(window(), 4, run, limit=2) == [5, 6]


def test_a_number_that_this_run_never_gave_is_another_run_s() -> None:
    with pytest.raises(ResultsGoneError) as gone:
        serials(window(), 12)
    told = pickle.loads(pickle.dumps(gone.value))
    assert (told.run, told.first, told.last) == ("b", 5, 9), "it comes from another process"
    assert serials(window(), 11) == [], "given, not delivered yet"
    assert serials(window(given=None), 500) == []
    assert serials(window(), 500, "b") == [], "whoever names the run knows what it waits for"


def test_a_run_that_has_delivered_nothing_yet() -> None:
    young = Window("b", given=0)
    assert serials(young, None) == serials(young, -1) == serials(young, -1, "b") == []
    with pytest.raises(ResultsGoneError, match="kept of run b is nothing yet") as gone:
        serials(young, 3, "a")
    assert (gone.value.run, gone.value.first, gone.value.last) == ("b", None, None)


def test_results_that_died_with_their_runner_are_gone_also_where_nothing_is_kept() -> None:
    lost = Window("b", (), out=20)
    with pytest.raises(ResultsGoneError, match="run b"):
        serials(lost, 7, "b")
    assert serials(lost, 19, "b") == []


@given(st.data())
def test_a_reader_gets_every_result_in_order_or_is_told(data: st.DataObject) -> None:
    """Items leave, old results fall out of the window, now and then the runner is another one; the reader asks."""
    run, out, size = 0, 0, data.draw(st.integers(1, 6))
    cursor, read = ReadResults(None, data.draw(st.integers(1, 4))), []
    for step in data.draw(st.lists(st.sampled_from(["deliver", "read", "restart"]), max_size=60)):
        if step == "deliver":
            out += 1
        elif step == "restart":
            run, out = run + 1, 0
        else:
            kept = [Result(serial=number) for number in range(max(0, out - size), out)]
            try:
                rows = Window(str(run), kept, out, out).read(cursor)
            except ResultsGoneError:
                cursor, read = ReadResults(None, cursor.limit), []
                continue
            read += [(each.run, each.serial) for each in rows]
            if rows:
                cursor = ReadResults(rows[-1].serial, cursor.limit, rows[-1].run)
        if read:
            first = read[0][1]
            assert read == [(read[0][0], number) for number in range(first, first + len(read))]
