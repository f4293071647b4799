"""Requests on their way to the loop's thread: served in order, refused where they were asked, taken back when late."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from service.runner.rpc.port import Answers, Mailbox
from service.runner.rpc.requests import PushMany

PATIENCE_S = 30.0


class Loop:
    """Serves when it is woken, in a thread of its own, until it is closed."""

    def __init__(self, push: Callable[[PushMany], int]) -> None:
        self.mailbox, self._woken, self._over = Mailbox(), threading.Semaphore(0), False
        self.mailbox.open(Answers(PushMany.by(push)), self._woken.release)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over:
            self.mailbox.serve()
            self._woken.acquire()
        self.mailbox.close()

    def close(self) -> None:
        self._over = True
        self._woken.release()
        self._thread.join()


def test_a_request_that_is_not_served_in_time_says_so_and_is_never_carried_out() -> None:
    mailbox, seen = Mailbox(), []
    mailbox.open(Answers(PushMany.by(lambda request: seen.append(request.values[0]) or 0)), lambda: None)
    with pytest.raises(TimeoutError, match=r"the loop did not answer PushMany within 0\.01 s"):
        mailbox.ask(PushMany(("late",)), 0.01)
    mailbox.serve()
    assert seen == []


def test_a_request_that_comes_while_the_loop_ends_is_not_lost() -> None:
    entered, go_on = threading.Event(), threading.Event()

    def push(request: PushMany) -> int:
        entered.set()
        assert go_on.wait(PATIENCE_S)
        return int(request.values[0])

    loop = Loop(push)
    with ThreadPoolExecutor(4) as askers:
        answers = [askers.submit(loop.mailbox.ask, PushMany((number,)), PATIENCE_S) for number in range(4)]
        assert entered.wait(PATIENCE_S)
        threading.Timer(0.0, go_on.set).start()
        loop.close()
        assert [each.result(PATIENCE_S) for each in answers] == [0, 1, 2, 3]
