"""Check that what apps print reaches the user by whole lines, with who printed it, and no faster than one can read."""

import threading
from contextlib import redirect_stdout

from service.logs import LINES_PER_S, Printed, PrintedHere


class Told:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.now_s = 0.0
        self.printed = Printed(lambda who, line: self.lines.append((who, line)), lambda: self.now_s)


def test_what_is_too_much_for_a_second_is_counted_and_told() -> None:
    told = Told()
    for number in range(LINES_PER_S + 1234):
        told.printed.line("w1", str(number))
    assert told.lines == [("w1", str(number)) for number in range(LINES_PER_S)]
    told.now_s = 1.0
    told.printed.line("w1", "the next second")
    left_out = ("recompose", "1,234 lines left out; at most 200 a second are shown")
    assert told.lines[LINES_PER_S:] == [left_out, ("w1", "the next second")]
    told.printed.close()
    assert told.lines[-1] == ("w1", "the next second")


def test_lines_of_threads_do_not_mix_and_a_begun_one_waits_for_its_end() -> None:
    told, begun, go = Told(), threading.Event(), threading.Event()

    def other() -> None:
        print("from ", end="")
        begun.set()
        assert go.wait(10)
        print("another")

    with redirect_stdout(PrintedHere(told.printed)):
        worker = threading.Thread(target=other, name="recompose-w7")
        worker.start()
        assert begun.wait(10)
        print("two\nlines")
        go.set()
        worker.join()
    main_thread = threading.current_thread().name
    assert told.lines == [(main_thread, "two"), (main_thread, "lines"), ("w7", "from another")]
