"""Forks daemons that play scenes off a process that has all their modules: a start is mostly imports.

Reads a line of JSON for each on stdin (``arguments``, ``environment``, ``log``) and answers with a process id.
"""

import json
import os
import signal
import sys
from typing import Any

import dashboard_daemon


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody here waits for them: the kernel takes them away
    for line in sys.stdin:
        asked = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _play(asked)
        print(pid, flush=True)


def _play(asked: dict[str, Any]) -> None:
    """In a session of its own, as a daemon that is started by itself; never returns."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing, log = os.open(os.devnull, os.O_RDONLY), os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for here, there in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(here, there)
    os.environ.update(asked["environment"])
    sys.argv[1:] = asked["arguments"]
    status = 1
    try:
        dashboard_daemon.main()
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
