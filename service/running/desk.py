"""Everything that can be asked of a run, and who answers it."""

from __future__ import annotations

from service.running.changes import Changes
from service.running.mailbox import Answers
from service.running.reads import Reads
from service.running.record import Record
from service.running.run import Run
from service.running.standing import Standing


def answers_of(run: Run, record: Record, standing: Standing) -> Answers:
    """To be used by the thread that the run belongs to."""
    return Answers(*Changes(run).handlers(), *Reads(run, record, standing).handlers())
