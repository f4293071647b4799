"""Everything that can be asked of a run, and who answers it."""

from __future__ import annotations

from service.running.changes import Changes
from service.running.checked import CheckedSpec
from service.running.mailbox import Answers, Mailbox
from service.running.reads import Reads
from service.running.record import Record
from service.running.requests import Handler
from service.running.resting import Resting
from service.running.run import Run
from service.running.standing import Standing


def answers_of(run: Run, record: Record, standing: Standing) -> Answers:
    """To be used by the thread that the run belongs to."""
    return Answers(*Changes(run).handlers(), *Reads(run, record, standing).handlers())


def handlers_at_rest(checked: CheckedSpec, standing: Standing, mailbox: Mailbox) -> tuple[Handler, ...]:
    """Of what can be answered while there is no run; to be used by any thread."""
    return Resting(checked, standing, mailbox).handlers()
