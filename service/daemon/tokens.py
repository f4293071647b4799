"""Named tokens with roles, and the audit log of changes: ``tokens.json`` and ``audit.jsonl`` in the state directory."""

import hashlib
import json
import os
import secrets
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import structlog

from compositions.errors import RecomposeError
from service.schemas.base import utc_now

TOKENS, AUDIT = "tokens.json", "audit.jsonl"
PRIVATE = 0o600
MOST_AUDIT_BYTES = 16 * 1024 * 1024
"""Size in bytes at which the audit log is restarted; the previous one stays as ``audit.jsonl.1``."""
SHOWN_BYTES = 2000
HIDDEN = {"source", "sink", "options", "webhook"}
"""Fields of a body that may contain the password of another service; their values are neither logged nor shown."""
log = structlog.get_logger()


class Role(StrEnum):
    """Rights of a token. Each role includes the rights of the previous one."""

    VIEWER = "viewer"
    """Read everything: states, results, decisions, logs, metrics."""
    OPERATOR = "operator"
    """Change one app: start, stop, push, objective, input, mode, bundles."""
    ADMIN = "admin"
    """Change all apps together: compositions, budget, alerts, nodes."""

    def may(self, method: str, path: str) -> bool:
        own = self is Role.OPERATOR and path.startswith(("/apps/", "/slo"))
        return own or self is Role.ADMIN or method in ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret: ``digest`` is the secret's SHA-256 in hexadecimal; empty for other senders."""

    name: str
    role: Role
    digest: str = ""
    made_at: str = ""


class Tokens:
    """The tokens in a file. It is read at each request, so that a revoked token is refused at once."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def all(self) -> list[Token]:
        """Return the tokens, oldest first. Raises: RecomposeError if the file does not contain tokens."""
        try:
            return [Token(**{**each, "role": Role(each["role"])}) for each in json.loads(self._file.read_text())]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise RecomposeError(f"{self._file} is not a list of tokens: {error}") from error

    def holder(self, secret: str) -> Token | None:
        """Return the token of a secret; None if there is none, or if the file cannot be read."""
        digest = _digest(secret)
        try:
            return next((each for each in self.all() if each.digest == digest), None)
        except RecomposeError as error:
            log.error("named tokens are not accepted: their file cannot be read", error=str(error))
            return None

    def add(self, name: str, role: Role) -> str:
        """Return the secret of a new token. Raises: RecomposeError if the name is taken."""
        if any(each.name == name for each in self.all()):
            raise RecomposeError(f"token {name!r} exists already; revoke it first, or choose another name")
        secret = secrets.token_urlsafe(32)
        self._write([*self.all(), Token(name, role, _digest(secret), utc_now())])
        return secret

    def revoke(self, name: str) -> None:
        """Remove a token. Raises: RecomposeError if there is no token of this name."""
        tokens = self.all()
        left = [each for each in tokens if each.name != name]
        if left == tokens:
            raise RecomposeError(f"there is no token {name!r}; there are {', '.join(t.name for t in tokens) or 'none'}")
        self._write(left)

    def _write(self, tokens: list[Token]) -> None:
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._file.with_suffix(".new")
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE), "w") as file:
            json.dump([asdict(each) for each in tokens], file, indent=1)
        draft.replace(self._file)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class Audit:
    """A file with one line for each request for a change, whether it was accepted or not."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def record(self, sender: Token, method: str, path: str, status: int, body: bytes) -> None:
        """Append a line. If the disk refuses it, the log reports that, as the change has been made already."""
        change = {"method": method, "path": path, "status": status, "body": _shown(body)}
        line = json.dumps({"at": utc_now(), "who": sender.name, "role": sender.role, **change}) + "\n"
        try:
            if self._file.exists() and self._file.stat().st_size > MOST_AUDIT_BYTES:
                self._file.replace(self._file.with_suffix(".jsonl.1"))
            with open(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE), "w") as file:
                file.write(line)
        except OSError as error:
            log.error("change is missing in the audit log", who=sender.name, method=method, path=path, error=str(error))


def _shown(body: bytes) -> dict[str, Any] | None:
    """Return a body without secrets; None if it is large, or not a JSON object."""
    try:
        fields = json.loads(body) if len(body) <= SHOWN_BYTES else None
    except (ValueError, RecursionError):
        return None
    return {n: "…" if n in HIDDEN else value for n, value in fields.items()} if isinstance(fields, dict) else None
