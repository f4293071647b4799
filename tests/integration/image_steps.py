"""The image without a container engine: the build steps of the Dockerfile are run with a folder in place of ``/``."""

import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

ROOT = Path(__file__).parents[2]
READY_S = 90.0


@dataclass
class Stage:
    """What one FROM begins: its steps in order, as (instruction, arguments)."""

    base: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction: str) -> list[str]:
        return [arguments for name, arguments in self.steps if name == instruction]

    def exec_form(self, instruction: str) -> list[str]:
        """The JSON list at the end of the last such instruction."""
        last = self.all(instruction)[-1]
        command: list[str] = json.loads(last[last.index("[") :])
        return command


def parse_dockerfile(text: str) -> list[Stage]:
    stages: list[Stage] = []
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        instruction, _, arguments = line.strip().partition(" ")
        if instruction == "FROM":
            stages.append(Stage(arguments))
        elif instruction and not instruction.startswith("#"):
            stages[-1].steps.append((instruction, arguments))
    return stages


def build_context(target: Path) -> None:
    """Copies what ``.dockerignore`` lets through: nothing but the names with an exclamation mark."""
    patterns = (ROOT / ".dockerignore").read_text().split("\n")
    for name in (line[1:].rstrip("/") for line in patterns if line.startswith("!")):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, target / name)


def build_wheel(source: Path, folder: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)


@dataclass(frozen=True)
class Image:
    """The built environment, and how its commands are run as somebody who is not root."""

    venv: Path
    home: Path
    """Short, as sockets lie in it, and writable for that user."""

    def run(self, command: Sequence[str], timeout_s: float = READY_S, **env: str) -> subprocess.CompletedProcess[str]:
        call = self._call(command, env)
        return subprocess.run(**call, check=False, capture_output=True, text=True, timeout=timeout_s)

    @contextmanager
    def running(self, command: Sequence[str], **env: str) -> Iterator[subprocess.Popen[bytes]]:
        """Afterwards nothing of it is left, whatever the test did."""
        with (
            (self.home / "log").open("ab") as log,
            subprocess.Popen(**self._call(command, env), stdout=log, stderr=log) as process,
        ):
            try:
                yield process
            finally:
                _end(process)

    def _call(self, command: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
        path = {
            "PATH": f"{self.venv / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "PYTHONPYCACHEPREFIX": str(self.home / "bytecode"),
            "RAY_TMPDIR": str(self.home),
        }
        return {"args": [*unprivileged(), *command], "env": path | env, "cwd": "/", "stdin": subprocess.DEVNULL}


def unprivileged() -> list[str]:
    """Root becomes nobody, who may read everything (the interpreter may lie in root's home) and write nothing."""
    if os.geteuid() != 0:
        return []
    kept = [f"--{kind}=-all,+dac_read_search" for kind in ("inh-caps", "ambient-caps", "bounding-set")]
    nobody = pwd.getpwnam("nobody")
    user = [f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
    return ["setpriv", *user, "--no-new-privs", *kept]


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
        process.send_signal(signal.SIGTERM)
        _, alive = psutil.wait_procs(family, timeout=20)
        for each in alive:
            each.kill()


def build(stage: Stage, root: Path) -> None:
    context, workdir = root / "context", root
    context.mkdir()
    build_context(context)
    for instruction, arguments in stage.steps:
        if instruction == "WORKDIR":
            workdir = root / arguments.lstrip("/")
            workdir.mkdir(parents=True)
        elif instruction == "COPY":
            *sources, _ = arguments.split()
            for source in sources:
                _copy(context / source, workdir)
        elif instruction == "RUN":
            command = re.sub(r"(?<!\S)/(?=\w)", f"{root}/", arguments)
            how: dict[str, Any] = {"shell": True, "cwd": workdir, "env": _build_env(), "text": True}
            ran = subprocess.run(command, check=False, capture_output=True, **how)
            assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy(source, target)


def _build_env() -> dict[str, str]:
    """``python`` of the base image is the interpreter of the tests; the tests' own environment is not seen.

    Nothing is compiled ahead: that would take longer than all else, for ten times the modules that are then imported.
    """
    pip = {"PIP_RETRIES": "10", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_COMPILE": "0"}
    return {**os.environ, **pip, "PATH": f"{sys.base_prefix}/bin:{os.environ['PATH']}"}


def call(url: str, token: str | None = None, body: Any = None) -> Any:
    """The JSON answer of a GET, or of a POST where there is a body; None while nobody answers."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with suppress(httpx.TransportError):
        answer = httpx.request("GET" if body is None else "POST", url, json=body, headers=headers, trust_env=False)
        assert answer.is_success, f"{url}: {answer.status_code} {answer.text}"
        return answer.json()
    return None
