"""Load compositions documents. Large ones are loaded in a separate process: libyaml holds the interpreter lock while it
reads, which would block all other requests."""

import pickle
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

from compositions.document import loader
from compositions.errors import CompositionError, Fault, RecomposeError
from compositions.model import Document, Stage

LARGE_BYTES = 64 * 1024
_one_at_a_time = threading.Lock()
"""Only one large document is loaded at a time, so that many of them do not use up all cores and memory."""


def load(text: str | bytes, apps: Mapping[str, Sequence[Stage]]) -> Document:
    """Load a document as by ``loader.load``. Raises: also RecomposeError if the process ends without an answer."""
    if len(text) <= LARGE_BYTES:
        return loader.load(text, apps)
    command = [sys.executable, "-P", "-m", __name__]
    with _one_at_a_time:
        done = subprocess.run(command, input=pickle.dumps((text, dict(apps))), stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise RecomposeError(f"reading the document failed (exit code {done.returncode}); send it again")
    found: Document | tuple[Fault, ...] = pickle.loads(done.stdout)
    if isinstance(found, Document):
        return found
    raise CompositionError(found)


def _answer() -> None:
    text, apps = pickle.load(sys.stdin.buffer)
    try:
        found: object = loader.load(text, apps)
    except CompositionError as error:
        found = error.faults
    pickle.dump(found, sys.stdout.buffer)


if __name__ == "__main__":
    _answer()
