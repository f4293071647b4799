"""Run an experiment from its file to its report."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from math import inf, isinf
from pathlib import Path
from typing import Any, Protocol

from apps.rates import Rate
from compositions.errors import RecomposeError
from compositions.model import Composition
from lab.experiments.contender import Contender, Measurement, compositions_of, contenders
from lab.experiments.figures import results
from lab.experiments.live import LiveDriver
from lab.experiments.plots import plots
from lab.experiments.report import Finding
from lab.experiments.spec import Experiment
from lab.experiments.virtual import VirtualDriver


def metadata(experiment: Experiment) -> dict[str, str]:
    """Return the facts in which two comparable runs agree. A simulated run does not depend on the machine."""
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
    """Return the revision of the sources; empty without a git checkout."""
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


class Store:
    """A folder: ``metadata.json``, and a file per run under ``raw``.

    Raises: RecomposeError if it contains runs that cannot be compared with new ones.
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
    """Write a file so that it appears completely or not at all."""
    draft = place.with_suffix(".part")
    draft.write_text(json.dumps(content, indent=1, allow_nan=False))
    draft.replace(place)


class Driver(Protocol):
    def sustainable_per_s(self, composition: Composition) -> float: ...

    def run(self, contender: Contender, repetition: int, rate: Rate | None) -> Measurement: ...


def conduct(experiment: Experiment, folder: Path, tell: Callable[[str], None]) -> Finding:
    """Make the missing runs, and write ``results.json`` and the plots. ``tell`` gets a line before every run.

    Raises: RecomposeError if a part of it cannot run, or if existing runs cannot be compared.
    """
    store = Store(folder, experiment)
    choices = compositions_of(experiment)
    driver = _driver(experiment, choices)
    turns = _turns(experiment, contenders(experiment, choices))
    runs = list(_runs(experiment, store, driver, turns, choices, tell))
    found = results(experiment, runs, store.metadata, _known_sustainable(store))
    (folder / "results.json").write_text(json.dumps(found.as_json(), indent=1, allow_nan=False))
    images = plots(experiment, runs)
    for name, png in images.items():
        (folder / f"{name}.png").write_bytes(png)
    return Finding(experiment, found, images)


def seconds_of(experiment: Experiment) -> float:
    """Estimate the duration of an experiment on real workers; virtual time takes only a moment."""
    if experiment.driver == "simulated":
        return 2.0
    count = len(contenders(experiment, compositions_of(experiment))) * experiment.repetitions
    return count * (experiment.duration_s + 5.0)


def _driver(experiment: Experiment, choices: Sequence[Composition]) -> Driver:
    return (VirtualDriver if experiment.driver == "simulated" else LiveDriver)(experiment, choices)


def _turns(experiment: Experiment, who: Sequence[Contender]) -> list[tuple[Contender, int]]:
    """Return all contenders once, then all again, so that a slow hour of the machine affects them equally."""
    return [(contender, repetition) for repetition in range(experiment.repetitions) for contender in who]


def _runs(
    experiment: Experiment, store: Store, driver: Driver, turns: Sequence[tuple[Contender, int]],
    choices: Sequence[Composition], tell: Callable[[str], None],
) -> Iterator[Measurement]:  # fmt: skip
    rate: Rate | None = None
    for number, (contender, repetition) in enumerate(turns, 1):
        run = store.get(contender.name, repetition)
        if run is None:
            left_s = (len(turns) - number + 1) * seconds_of(experiment) / len(turns)
            tell(f"{experiment.title}: {contender.name}, {number} of {len(turns)}, about {left_s:.0f} s left")
            rate = rate or experiment.input.rate(_sustainable(experiment, store, driver, choices))
            run = driver.run(contender, repetition, rate)
            store.put(run)
        yield run


def _sustainable(experiment: Experiment, store: Store, driver: Driver, choices: Sequence[Composition]) -> float:
    """Measure the sustainable rate once per experiment, even if it is interrupted: all runs must see the same input."""
    if not experiment.input.share:
        return 0.0
    if not isinf(known := _known_sustainable(store)):
        return known
    name = experiment.input.composition
    composition = next((each for each in choices if each.name == name), None)
    if composition is None:
        raise RecomposeError(f"{experiment.app} has no composition {name!r} to measure what it sustains")
    found = driver.sustainable_per_s(composition)
    _sustainable_file(store).write_text(json.dumps({"composition": name, "items_per_s": found}))
    return found


def _sustainable_file(store: Store) -> Path:
    return store.folder / "sustainable.json"


def _known_sustainable(store: Store) -> float:
    """Return the sustainable rate, infinite if it was not measured."""
    place = _sustainable_file(store)
    return float(json.loads(place.read_text())["items_per_s"]) if place.exists() else inf
