"""The resources that a stage requests, and those that a worker with several stages reserves.

A number in ``custom`` is an amount of a Ray resource; a text is a label that the worker's node must have.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from compositions.errors import RecomposeError, shown
from compositions.wording import figure

Amount = float | str

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?i?)B?\s*")
_POWERS = {"": 0, "k": 1, "M": 2, "G": 3, "T": 4}
_SHARE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
MOST_BYTES = 2**60
RESOURCES = ("cpus", "gpus", "gpu_memory", "memory", "custom")
Resources = Mapping[str, Mapping[str, Any]]
"""Resources that replace a stage's own, by stage and name of the resource."""


class Asking(Protocol):
    """The attributes of a stage that define its resources."""

    @property
    def name(self) -> str: ...
    @property
    def cpus(self) -> float | None: ...
    @property
    def gpus(self) -> float: ...
    @property
    def gpu_memory(self) -> int | str: ...
    @property
    def memory(self) -> int | str: ...
    @property
    def custom(self) -> Mapping[str, Amount]: ...


@dataclass(frozen=True, slots=True)
class Need:
    """The resources that one worker reserves for its lifetime."""

    cpus: float | None = None
    """CPUs; None: none is reserved, and placement counts one CPU."""
    gpus: float = 0.0
    """Share of one GPU, up to 1, or a whole number of GPUs."""
    memory_bytes: int = 0
    custom: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Amounts of custom Ray resources."""
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Labels that the node must have."""

    @property
    def is_declared(self) -> bool:
        """True if any resource is requested."""
        return self != Need()

    def __str__(self) -> str:
        """Return the need as text: ``1 CPU, 0.25 GPU and 2 GB of memory on a node with zone=a``."""
        taken = amounts(self.cpus or 0.0, self.gpus, self.memory_bytes, self.custom)
        return f"{taken} on a node with {labels_told(self.labels)}" if self.labels else taken


def need_of(stages: Sequence[Asking]) -> Need:
    """Return the need of a worker that loads these stages and runs them in turn: the sum of their memory, and the
    maximum of each other resource over the stages. The GPU share is the larger of the maximum and of the sum of the
    shares for GPU memory.

    Raises: RecomposeError for a memory that cannot be read, or for stages with different labels of nodes.
    """
    cpus = [stage.cpus for stage in stages if stage.cpus is not None]
    custom: dict[str, float] = {}
    labels: dict[str, str] = {}
    for stage in stages:
        for name, value in stage.custom.items():
            if not isinstance(value, str):
                custom[name] = max(custom.get(name, 0.0), value)
            elif labels.setdefault(name, value) != value:
                asked = f"stages ask for nodes with {name}={labels[name]} and {name}={value}"
                raise RecomposeError(f"{asked}; one worker runs these stages, so give them one label")
    loaded = round(sum(_gpu_share(stage.gpu_memory) for stage in stages), 4)
    gpus = max(loaded if loaded <= 1 else math.ceil(loaded), *(stage.gpus for stage in stages), 0.0)
    return Need(max(cpus, default=None), gpus, sum(size_bytes(stage.memory) for stage in stages), custom, labels)


def _gpu_share(memory: int | str) -> float:
    """Return the share of a GPU with this memory; for a size in bytes, a whole GPU, as the GPU's memory is unknown."""
    share = _SHARE.fullmatch(memory) if isinstance(memory, str) else None
    return float(share[1]) / 100 if share else float(size_bytes(memory) > 0)


S = TypeVar("S", bound=Asking)


def sized(stages: Sequence[S], gpu_bytes: int | None) -> tuple[S, ...]:
    """Return the stages with GPU memory as a percentage of ``gpu_bytes``, the memory of one GPU, rounded up to a
    hundredth of a percent; unchanged if ``gpu_bytes`` is None."""
    if gpu_bytes is None:
        return tuple(stages)

    def share(stage: S) -> S:
        parts = math.ceil(10_000 * size_bytes(stage.gpu_memory) / gpu_bytes)
        return replace(stage, gpu_memory=f"{parts / 100}%")  # type: ignore[type-var]

    return tuple(share(stage) if in_bytes(stage.gpu_memory) else stage for stage in stages)


def in_bytes(memory: int | str) -> bool:
    """Return True if the memory is a size, not a share."""
    return memory != 0 and not (isinstance(memory, str) and _SHARE.fullmatch(memory))


def with_resources(stages: Sequence[S], asked: Resources) -> tuple[S, ...]:
    """Return the stages with their resources replaced by ``asked``. Raises: RecomposeError if these are faulty."""
    for path, fault in faults_of(stages, asked):
        raise RecomposeError(f"resources.{path} {fault}")
    return tuple(replace(stage, **asked.get(stage.name, {})) for stage in stages)  # type: ignore[type-var]


def faults_of(stages: Sequence[Asking], asked: Resources) -> Iterator[tuple[str, str]]:
    """Yield the faults in ``asked``: each a path, and a text that continues the path."""
    own = {stage.name: stage for stage in stages}
    for name, resources in asked.items():
        if name not in own:
            yield name, f"is not a stage of this app; the stages are {', '.join(own)}"
        elif not isinstance(resources, Mapping) or not resources.keys() <= set(RESOURCES):
            yield name, f"is {shown(resources)}; must be a mapping with some of {', '.join(RESOURCES)}"
        else:
            changed: Any = replace(own[name], **resources)  # type: ignore[type-var]
            yield from ((name, fault) for fault in resource_faults(changed))


_MARGIN = 1.05


def proposed(
    cores: Mapping[str, float], peak_bytes: Mapping[tuple[str, ...], int], light: Sequence[Asking]
) -> Resources:
    """Return a proposal of resources by stage, from measurements: the busy ``cores`` of a call, and memory with a
    margin. ``peak_bytes``: memory of a worker, by class. ``light``: stages that all workers load. Memory that several
    stages load together counts for one of them, so that sums are right."""
    asked: dict[str, dict[str, Any]] = {
        name: {"cpus": max(1, math.ceil(10 * each)) / 10} for name, each in cores.items()
    }
    used: dict[str, int] = {}
    for loads in sorted(peak_bytes, key=len):
        held = [*loads, *(stage.name for stage in light)]
        rest = peak_bytes[loads] - sum(used.get(name, 0) for name in held)
        if unknown := next((name for name in held if name not in used), None):
            used[unknown] = max(0, rest)
            asked.setdefault(unknown, {})["memory"] = f"{math.ceil(_MARGIN * used[unknown] / 1e7) * 10}MB"
    return asked


def size_bytes(memory: int | str) -> int:
    """Return a size in bytes: ``2GB`` is 2·10⁹, ``2GiB`` is 2·2³⁰. Raises: RecomposeError for anything else."""
    if isinstance(memory, int) and not isinstance(memory, bool) and 0 <= memory <= MOST_BYTES:
        return memory
    found = _SIZE.fullmatch(memory) if isinstance(memory, str) else None
    if found is not None:
        base = 1024.0 if found[2].endswith("i") else 1000.0
        size: float = float(found[1]) * base ** _POWERS[found[2].rstrip("i").replace("K", "k")]
        if size <= MOST_BYTES:
            return round(size)
    raise RecomposeError(f"{shown(memory)}; must be a number of bytes, or a text such as '2GB' or '512MiB'")


def resource_faults(stage: Asking) -> Iterator[str]:
    """Yield the faults in the resources of a stage; each text continues ``stage 'detect' …``."""
    cpus, gpus = stage.cpus, stage.gpus
    if cpus is not None and not (_is_amount(cpus) and cpus > 0):
        yield f"has cpus = {shown(cpus)}; must be a number above 0, or None to reserve none"
    if not _is_amount(gpus) or (gpus > 1 and gpus != int(gpus)):
        yield f"has gpus = {shown(gpus)}; must be a share of one GPU from 0 to 1, or a whole number of GPUs"
    for name, memory, read in (("memory", stage.memory, size_bytes), ("gpu_memory", stage.gpu_memory, _gpu_share)):
        try:
            read(memory)
        except RecomposeError as error:
            yield f"has {name} = {error}" + (", or '25%' of a GPU" if name == "gpu_memory" else "")
    if not isinstance(stage.custom, Mapping):
        yield f"has custom = {shown(stage.custom)}; must be a dict, as in {{'decoder': 1, 'zone': 'a'}}"
        return
    for name, value in stage.custom.items():
        if not isinstance(name, str) or not name or not (isinstance(value, str) or (_is_amount(value) and value > 0)):
            what = f"custom[{shown(name)}] = {shown(value)}"
            yield f"has {what}; must be an amount above 0 of a Ray resource, or a text that a label of the node equals"


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def amounts(cpus: float, gpus: float, memory_bytes: int, custom: Mapping[str, float]) -> str:
    """Return amounts of resources as text; amounts of 0 are left out."""
    parts = [f"{figure(cpus, 6)} {'CPU' if cpus <= 1 else 'CPUs'}"] if cpus else []
    parts += [f"{figure(gpus, 6)} {'GPU' if gpus <= 1 else 'GPUs'}"] if gpus else []
    parts += [f"{figure(memory_bytes / 1e9, 4)} GB of memory"] if memory_bytes else []
    parts += [f"{figure(value, 6)} {name}" for name, value in custom.items() if value]
    if len(parts) < 2:
        return "".join(parts) or "nothing"
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def labels_told(labels: Mapping[str, str]) -> str:
    """Return labels as text: ``zone=a``."""
    return ", ".join(f"{name}={value}" for name, value in labels.items())
