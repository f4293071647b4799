"""Convert compositions documents from YAML to frozen values, and report every fault with its path."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import yaml

from compositions.batching import CONTROLLERS, MOST_BYTES, MOST_ITEMS, MOST_LINGER_MS, SETTINGS, Batching
from compositions.document.safe_yaml import read_yaml
from compositions.dynamic import SCHEDULER_NAMES, Dyn
from compositions.enumeration import MAX_GENERATED, generate, refuse_too_many
from compositions.errors import CompositionError, Fault, shown, sub_path
from compositions.model import Composition, Document, Group, Pattern, Stage
from compositions.notation import DEFAULT_REPLICAS, format_notation, parse
from compositions.resources import Resources, faults_of
from compositions.rules import MAX_COMPOSITIONS, count_fault, group_faults, resolve
from compositions.settings import SettingsError

MAX_FAULTS = 1_000
"""Maximum number of reported faults; more are only counted, so that a faulty megabyte does not return a hundred."""


class Fields:
    """Typed access to parsed YAML; ``faults`` collects all faults, in reading order."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._more = 0

    def mapping(self, value: object, path: str, keys: Sequence[str], needed: Sequence[str] = ()) -> dict[str, object]:
        """Return the known ``keys`` of a mapping; unknown keys and missing ``needed`` keys are faults."""
        if not isinstance(value, dict):
            self.fault(path, f"must be a mapping with {', '.join(keys)}, not {kind(value)}")
            return {}
        for key in value:
            if key not in keys:
                self.fault(sub_path(path, key), f"unknown key; accepted are {', '.join(keys)}")
        for key in needed:
            if key not in value:
                self.fault(sub_path(path, key), "is missing")
        return {key: value[key] for key in keys if key in value}

    def list(self, value: object, path: str) -> list[object]:
        if isinstance(value, list):
            return value
        self.fault(path, f"must be a list, not {kind(value)}")
        return []

    def count(self, value: object, path: str) -> int:
        """Return a number of workers; for an invalid one, note a fault and return 1."""
        if isinstance(value, bool) or not isinstance(value, int):
            self.fault(path, f"must be a whole number of at least 1, not {kind(value)}")
        elif (problem := count_fault(path.rsplit(".")[-1], value)) is not None:
            self.fault(path, problem)
        else:
            return value
        return 1

    def fault(self, path: str, message: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(Fault(path, message))
        else:
            self._more += 1

    def raise_faults(self) -> None:
        """Check for faults. Raises: CompositionError with all faults, if there are any."""
        more = [Fault("", f"and {self._more:,} more faults")] if self._more else []
        if self.faults:
            raise CompositionError(self.faults + more)


def kind(value: object) -> str:
    """Return a text that says what kind of value this is, with the value itself if it is short."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return f"the text {shown(value)}" if isinstance(value, str) else shown(value)


_ACCEPTED = {
    "items": f"auto, or a whole number from 1 to {MOST_ITEMS:,}",
    "bytes": f"a whole number from 1 to {MOST_BYTES:,}",
    "linger_ms": f"a number from 0 to {MOST_LINGER_MS:,}",
}
_CONTROL = ("controller", "settings")
_ONE_OF = f"{', '.join(CONTROLLERS[:-1])} or {CONTROLLERS[-1]}"


def read_batch(fields: Fields, value: object, path: str, usual: Batching) -> Batching:
    """Read bundle settings; missing ones are as in ``usual``. Faulty ones are, too, and are noted as faults."""
    said = fields.mapping(value, path, (*_ACCEPTED, *_CONTROL))
    batch = _who_chooses(said, usual)
    for key in [each for each in _ACCEPTED if each in said]:
        try:
            batch = _with(batch, key, said[key])
        except SettingsError:
            fields.fault(f"{path}.{key}", f"must be {_ACCEPTED[key]}, not {kind(said[key])}")
    return _controlled(fields, said, path, batch) if said.keys() & set(_CONTROL) else batch


def _who_chooses(said: Mapping[str, object], usual: Batching) -> Batching:
    """Return ``usual`` without its size if an entry names a controller, or without its controller if it has a size."""
    if "controller" in said:
        return replace(usual, items=None, control=None)
    return replace(usual, control=None) if "items" in said else usual


def _with(batch: Batching, key: str, said: object) -> Batching:
    """Return ``batch`` with one setting changed. Raises: SettingsError if the value is invalid."""
    if said is None:
        raise SettingsError(f"{key} has no value; give one, or leave {key} out")
    changed: dict[str, object] = {"max_bytes" if key == "bytes" else key: None if said == "auto" else said}
    return replace(batch, **changed)  # type: ignore[arg-type]  # it checks itself


def _controlled(fields: Fields, said: Mapping[str, object], path: str, batch: Batching) -> Batching:
    controller = said.get("controller", batch.control and batch.control.name)
    settings = fields.mapping(said.get("settings", {}), f"{path}.settings", SETTINGS)
    if "controller" in said and controller not in CONTROLLERS:
        fields.fault(f"{path}.controller", f"must be {_ONE_OF}, not {kind(controller)}")
        return batch
    try:
        return batch.controlled(None if controller is None else str(controller), settings)
    except SettingsError as error:
        fields.fault(f"{path}.settings" if settings else path, str(error))
        return batch


def batch_plain(batch: Batching) -> dict[str, object]:
    """Return all bundle settings in the form that ``read_batch`` reads back."""
    items = "auto" if batch.items is None else batch.items
    own: dict[str, object] = {"items": items, "bytes": batch.max_bytes, "linger_ms": batch.linger_ms}
    if batch.control is None:
        return own
    return {**own, "controller": batch.control.name, "settings": batch.control.said}


MAX_NAME = 100


def load(text: str | bytes, apps: Mapping[str, Sequence[Stage]]) -> Document:
    """Load a compositions document for one of ``apps`` (name to stages).

    Raises: CompositionError with every fault and its path; COMPOSITIONS.md describes the accepted form.
    """
    reader = _Reader(apps)
    document = reader.document(read_yaml(text))
    reader.raise_faults()
    return document


def dump(app: str, compositions: Iterable[Composition]) -> str:
    """Return a document that ``load`` reads back to the same compositions."""
    listed = [_plain(each) for each in compositions]
    return str(yaml.safe_dump({"app": app, "compositions": listed}, sort_keys=False, allow_unicode=True, width=1000))


def _plain(composition: Composition) -> dict[str, object]:
    batch = {} if composition.batch is None else {"batch": batch_plain(composition.batch)}
    return {"name": composition.name, "notation": format_notation(composition), **batch}


def merge(documents: Iterable[Document]) -> dict[str, dict[str, Composition]]:
    """Return the compositions of each app by name; a later definition of a name replaces an earlier one in place."""
    merged: dict[str, dict[str, Composition]] = {}
    for document in documents:
        merged.setdefault(document.app, {}).update({each.name: each for each in document.compositions})
    return merged


class _Reader(Fields):
    """Reads the plain data of a document in one pass; faults are noted, and reading goes on."""

    def __init__(self, apps: Mapping[str, Sequence[Stage]]) -> None:
        super().__init__()
        self._apps = apps
        self._app = ""
        self._stages: Sequence[Stage] | None = None
        self._replicas = DEFAULT_REPLICAS
        self._batch: Batching | None = None

    def document(self, data: object) -> Document:
        top = self.mapping(data, "", ("app", "defaults", "resources", "compositions", "generate"))
        if not isinstance(data, dict):
            return Document("", ())
        self._read_app(top.get("app"))
        defaults = self.mapping(top.get("defaults", {}), "defaults", ("replicas", "batch"))
        self._replicas = self.count(defaults.get("replicas", DEFAULT_REPLICAS), "defaults.replicas")
        self._batch = self._read_batch(defaults, "defaults")
        listed = self.list(top.get("compositions", []), "compositions")
        if len(listed) > MAX_COMPOSITIONS:
            self.fault("compositions", f"{len(listed):,} are listed; an app may have {MAX_COMPOSITIONS:,}")
        readable = listed[:MAX_COMPOSITIONS]
        compositions = [self._composition(each, f"compositions[{i}]") for i, each in enumerate(readable)]
        self._refuse_repeated_names(compositions)
        if "generate" in top:
            compositions += self._generated(top["generate"], compositions)
        elif top.get("compositions", []) == [] and "resources" not in top:
            self.fault("compositions", "there is none; list at least one composition or ask to generate them")
        return Document(self._app, tuple(compositions), self._resources(top.get("resources", {})))

    def _resources(self, value: object) -> Resources:
        if not isinstance(value, dict):
            self.fault("resources", f"must be a mapping from stages to what their workers need, not {kind(value)}")
            return {}
        stages = self._stages or ()
        asked = {resolve(str(name), stages): each for name, each in value.items()}
        for path, fault in faults_of(stages, asked) if stages else ():
            self.fault(sub_path("resources", path), fault)
        return asked

    def _read_app(self, name: object) -> None:
        known = ", ".join(sorted(self._apps)) or "none"
        if name is None:
            self.fault("app", f"is missing; known apps are {known}")
        elif not isinstance(name, str):
            self.fault("app", f"must be the name of an app, not {kind(name)}; known apps are {known}")
        elif name not in self._apps:
            self.fault("app", f"unknown app {shown(name)}; known apps are {known}")
        else:
            self._app, self._stages = name, self._apps[name]

    def _composition(self, data: object, path: str) -> Composition:
        entry = self.mapping(data, path, ("name", "notation", "groups", "batch", "settings"))
        if not isinstance(data, dict):
            return Composition("", ())
        composition = replace(self._arrangement(entry, path), batch=self._read_batch(entry, path))
        if "settings" in entry and composition.groups:
            return replace(composition, dyn=self._with_settings(composition.dyn, entry["settings"], f"{path}.settings"))
        return composition

    def _with_settings(self, dyn: Dyn | None, value: object, path: str) -> Dyn | None:
        """Return ``dyn`` with the entry's settings, added to those in its notation."""
        if dyn is None:
            self.fault(path, "are accepted with a notation such as Dyn*4(ct) only, which has a scheduler")
        elif not isinstance(value, dict):
            self.fault(path, f"must be a mapping with {', '.join(dyn.in_force)}, not {kind(value)}")
        else:
            try:
                return Dyn.asked(dyn.workers, dyn.scheduler, {**dyn.said, **value})
            except SettingsError as error:
                self.fault(path, str(error))
        return dyn

    def _read_batch(self, entry: Mapping[str, object], path: str) -> Batching | None:
        """Return the entry's bundle settings; the document's defaults if it has none of its own."""
        if "batch" not in entry:
            return self._batch
        return read_batch(self, entry["batch"], f"{path}.batch", self._batch or Batching())

    def _arrangement(self, entry: Mapping[str, object], path: str) -> Composition:
        name = self._name(entry.get("name"), f"{path}.name")
        if ("notation" in entry) == ("groups" in entry):
            told = "has both notation and groups" if "notation" in entry else "has neither notation nor groups"
            self.fault(path, f"{told}; it needs exactly one of the two")
            return Composition(name, ())
        if "notation" in entry:
            return self._from_notation(name, entry["notation"], f"{path}.notation")
        return self._from_groups(name, entry["groups"], path)

    def _name(self, value: object, path: str) -> str:
        if value is None:
            self.fault(path, "is missing; every composition has a name")
        elif not isinstance(value, str):
            self.fault(path, f"must be text, not {kind(value)}; put it in quotes")
        elif not 1 <= len(value) <= MAX_NAME or not value.isprintable() or "/" in value or value != value.strip():
            # Names are path segments of the REST API.
            self.fault(path, f"{shown(value)} is not 1 to {MAX_NAME} printable characters without '/' and outer blanks")
        else:
            return value
        return ""

    def _from_notation(self, name: str, value: object, path: str) -> Composition:
        if not isinstance(value, str):
            self.fault(path, f"must be text such as Seq-Par*3, not {kind(value)}")
        elif self._stages is not None:
            try:
                return parse(value, self._stages, name=name, default_replicas=self._replicas, app=self._app)
            except CompositionError as error:
                self.fault(path, error.faults[0].message)
        return Composition(name, ())

    def _from_groups(self, name: str, value: object, path: str) -> Composition:
        before = len(self.faults)
        listed = self.list(value, f"{path}.groups")
        groups = tuple(self._group(each, f"{path}.groups[{i}]") for i, each in enumerate(listed))
        unread = [fault.path for fault in self.faults[before:]]
        for fault in group_faults(groups, self._stages, self._app) if self._stages is not None else ():
            where = f"{path}.{fault.path}"
            # A part that could not be read is one fault; it is not reported again as an unknown or missing stage.
            if not any(where.startswith(other) or other.startswith(where) for other in unread):
                self.fault(where, fault.message)
        return Composition(name, groups)

    def _group(self, data: object, path: str) -> Group:
        entry = self.mapping(data, path, ("stages", "pattern", "replicas"), needed=("stages",))
        names = self.list(entry.get("stages", []), f"{path}.stages")
        stages = tuple(self._stage(each, f"{path}.stages[{i}]") for i, each in enumerate(names))
        pattern = entry.get("pattern")
        if pattern not in (None, "seq", "par"):
            self.fault(f"{path}.pattern", f"{shown(pattern)} is no pattern; seq and par are")
        default = self._replicas if pattern == "par" else 1
        replicas = self.count(entry.get("replicas", default), f"{path}.replicas")
        parallel = pattern == "par" or (pattern != "seq" and replicas > 1)
        return Group(stages, Pattern.PAR if parallel else Pattern.SEQ, replicas)

    def _stage(self, value: object, path: str) -> str:
        if not isinstance(value, str):
            self.fault(path, f"must be the name of a stage, not {kind(value)}")
            return ""
        return value if self._stages is None else resolve(value, self._stages)

    def _generated(self, data: object, listed: Sequence[Composition]) -> Sequence[Composition]:
        before = len(self.faults)
        entry = self.mapping(data, "generate", ("max_workers", "replicas", "dyn"), needed=("max_workers",))
        max_workers = self.count(entry.get("max_workers", 1), "generate.max_workers")
        offered = self.list(entry.get("replicas", []), "generate.replicas")
        replicas: Sequence[int] = [self.count(each, f"generate.replicas[{i}]") for i, each in enumerate(offered)]
        if entry.get("replicas") == []:
            self.fault("generate.replicas", "is empty; list numbers, or leave it out to allow all up to max_workers")
        schedulers = [
            self._scheduler(each, f"generate.dyn[{i}]")
            for i, each in enumerate(self.list(entry.get("dyn", []), "generate.dyn"))
        ]
        if self._stages is None or len(self.faults) > before:
            return ()
        replicas = replicas if "replicas" in entry else range(1, min(max_workers, MAX_GENERATED) + 1)
        try:
            every = self._every(self._stages, max_workers, replicas, schedulers)
        except CompositionError as error:
            self.fault("generate", error.faults[0].message)
            return ()
        known = {each.shape for each in listed}
        added = [replace(each, batch=self._batch) for each in every if each.shape not in known]
        for name in {each.name for each in listed} & {each.name for each in added}:
            self.fault("generate", f"the name {name!r} of a generated composition is taken by one of another shape")
        return added

    def _every(
        self, stages: Sequence[Stage], max_workers: int, replicas: Sequence[int], schedulers: Iterable[str]
    ) -> list[Composition]:
        """Return all generated compositions, ``Dyn`` ones last. Raises: CompositionError for too many."""
        every = [*generate(stages, max_workers=max_workers, replicas=replicas)]
        counts = [count for count in sorted(set(replicas)) if 1 < count <= max_workers]
        roaming = [f"Dyn*{count}({scheduler})" for count in counts for scheduler in dict.fromkeys(schedulers)]
        every += [parse(each, stages, name=each, app=self._app) for each in roaming]
        refuse_too_many(len(every))
        return every

    def _scheduler(self, value: object, path: str) -> str:
        if value not in SCHEDULER_NAMES:
            self.fault(path, f"{shown(value)} is no scheduler; {', '.join(SCHEDULER_NAMES)} are")
        return str(value)

    def _refuse_repeated_names(self, compositions: Sequence[Composition]) -> None:
        first: dict[str, int] = {}
        for index, each in enumerate(compositions):
            earlier = first.setdefault(each.name, index)
            if each.name and earlier != index:
                path = f"compositions[{index}].name"
                self.fault(path, f"{shown(each.name)} is already the name of compositions[{earlier}]")
