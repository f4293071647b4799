"""The hub's end of an authenticated worker's connection. There are two kinds: plain on this host, encrypted to
another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from runtime.dispatch.events import WorkerId
from runtime.transport.account import Account
from runtime.transport.connection import Connection
from runtime.transport.wire import Kind, Message

_ANSWERS = (Kind.DONE, Kind.PARTLY, Kind.FAILED)


Deliver = Callable[[tuple[WorkerId, Message]], None]
"""Gets each message with the worker that it is from."""


class Link(Protocol):
    def send(self, messages: Sequence[Message]) -> None:
        """Raises: OSError when one of them cannot arrive any more, and nothing else will tell."""

    def came(self, message: Message) -> None:
        """A message came on the link's own way for items. Raises: OSError when it proves that another was lost."""

    def close(self) -> None: ...


class PlainLink:
    """Items travel on the stream connection itself, large frames by reference if the worker has an account."""

    def __init__(self, connection: Connection, worker: WorkerId, deliver: Deliver, account: Account | None) -> None:
        self._connection, self._worker, self._deliver, self._account = connection, worker, deliver, account
        connection.heard = self.came

    def send(self, messages: Sequence[Message]) -> None:
        if self._account is not None:
            messages = self._account.going(messages)
        try:
            if len(messages) == 1:
                self._connection.send(messages[0])
            else:
                self._connection.send_all(messages)
        except OSError:
            pass  # what the worker said before it died is read first, and then its end

    def came(self, message: Message) -> None:
        self._deliver((self._worker, message if self._account is None else self._account.came(message)))

    def close(self) -> None:
        if self._account is None:
            self._connection.close()
        else:
            self._account.close(self._connection.leave())


class EncryptedLink:
    """Items travel on ZeroMQ; the stream connection tells of the worker's end, and nothing else may come on it.

    A ZeroMQ connection that breaks forgets what it had taken, and makes itself anew without a word. A worker ends when
    that happens (``EncryptedChannel``). What is on the way to one that has not noticed yet cannot be routed, or is
    missed when the answer to a later task comes: workers answer in the order asked. Those that have several tasks at
    once do not; a task that is lost on its way to them is missed at its time limit.
    """

    def __init__(
        self,
        connection: Connection,
        worker: WorkerId,
        route: Callable[[Message], None],
        deliver: Deliver,
        in_full: Callable[[Message], Message],
    ) -> None:
        """``in_full``: a message as it is where there is no shared memory."""
        self._connection = connection
        connection.heard = self._refuse
        self._worker, self._route, self._deliver, self._in_full = worker, route, deliver, in_full
        self._asked: deque[int] = deque()
        """Tasks without an answer, in the order sent."""
        self._in_order = True

    def send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.kind == Kind.TASK:
                self._asked.append(message.task_id)
            self._route(self._in_full(message))

    def came(self, message: Message) -> None:
        if message.kind == Kind.READY:
            self._in_order = message.items > 0
        elif message.kind in _ANSWERS and message.task_id in self._asked:
            head = self._asked[0]
            self._asked.remove(message.task_id)
            if self._in_order and head != message.task_id:
                raise OSError(f"task {head} was lost on its way: the answer to {message.task_id} came first")
        self._deliver((self._worker, message))

    def close(self) -> None:
        self._connection.close()

    @staticmethod
    def _refuse(message: Message) -> None:
        raise OSError(f"a message of kind {message.kind} came unencrypted from a worker that encrypts")
