"""Everything that can be asked of a run, and who answers it."""

from __future__ import annotations

from service.running.answering.at_rest import AtRest
from service.running.answering.changes import Changes
from service.running.answering.machine_share import MachineShare
from service.running.answering.reads import Reads
from service.running.answering.standing import Standing
from service.running.answering.what_ifs import WhatIfs
from service.running.asking.mailbox import Answers, Mailbox
from service.running.asking.requests import Handler
from service.running.building.run import Run
from service.running.checking.checked import CheckedSpec
from service.running.recording.record import Record


def answers_of(run: Run, record: Record, standing: Standing) -> Answers:
    """To be used by the thread that the run belongs to."""
    share = MachineShare(run, record)
    reads = (*Reads(run, record, standing, share).handlers(), *WhatIfs(run).handlers())
    return Answers(*Changes(run).handlers(), *share.handlers(), *reads)


def handlers_at_rest(checked: CheckedSpec, standing: Standing, mailbox: Mailbox) -> tuple[Handler, ...]:
    """Of what can be answered while there is no run; to be used by any thread."""
    return AtRest(checked, standing, mailbox).handlers()
