"""Store raw results of an experiment as they come: an interrupted experiment continues."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from compositions.errors import RecomposeError
from lab.experiments.contender import Measurement
from lab.experiments.spec import Experiment


def metadata(experiment: Experiment) -> dict[str, str]:
    """Return what must be equal for two runs to be compared. A simulated run does not depend on the machine."""
    written = json.dumps(experiment.model_dump(mode="json"), sort_keys=True)
    found = {
        "experiment": hashlib.sha256(written.encode()).hexdigest()[:16],
        "recompose": version("recompose"),
        "revision": _revision(),
    }
    if experiment.driver == "simulated":
        return found
    cores = len(os.sched_getaffinity(0))
    machine = f"{platform.node()}, {platform.machine()}, {cores} cores"
    return {**found, "machine": machine, "python": platform.python_version(), "ray": version("ray")}


def _revision() -> str:
    """Return the revision of the sources; empty if they are no git checkout."""
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


class Store:
    """A folder: ``metadata.json``, and a file a run under ``raw``.

    Raises: RecomposeError when it holds runs that are not comparable with what would run now.
    """

    def __init__(self, folder: Path, experiment: Experiment) -> None:
        self.folder, self.metadata = folder, metadata(experiment)
        self._raw = folder / "raw"
        self._raw.mkdir(parents=True, exist_ok=True)
        known = folder / "metadata.json"
        if known.exists():
            self._compare(json.loads(known.read_text()))
        _write(known, self.metadata)

    def _compare(self, stored: Mapping[str, str]) -> None:
        for name in {*stored, *self.metadata}:
            old, new = stored.get(name), self.metadata.get(name)
            if old != new:
                raise RecomposeError(
                    f"{self.folder} holds runs with {name} {old!r}, now it is {new!r}: they cannot be compared; "
                    f"give another --out folder, or --fresh to begin anew"
                )

    def get(self, contender: str, repetition: int) -> Measurement | None:
        place = self._place(contender, repetition)
        return Measurement.from_json(json.loads(place.read_text())) if place.exists() else None

    def put(self, run: Measurement) -> None:
        _write(self._place(run.contender, run.repetition), run.as_json())

    def _place(self, contender: str, repetition: int) -> Path:
        return self._raw / f"{contender}-{repetition}.json"


def _write(place: Path, content: Any) -> None:
    """Write a file that appears whole or not at all."""
    draft = place.with_suffix(".part")
    draft.write_text(json.dumps(content, indent=1, allow_nan=False))
    draft.replace(place)
