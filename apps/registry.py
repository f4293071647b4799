"""Find apps, the user's and the bundled ones: by the entry-point group ``recompose.apps`` and in ``--apps`` folders.

Every ``*.py`` file and every package of such a folder is one module. It is loaded under a name made from its path, so
that two folders may hold files of the same name, and so that classes are pickled by reference between processes which
were given the same folders. A package reaches its own modules by relative imports; the folder is not on ``sys.path``.
"""

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ValidationError

import compositions
from apps.app_check import faults_of, takes_options
from apps.contract import App, Options
from compositions.errors import Fault, RecomposeError
from compositions.extras import MissingExtra, advice
from compositions.wording import did_you_mean

ENTRY_POINT_GROUP = "recompose.apps"
AppClass = type[App]


class UnknownApp(RecomposeError):  # noqa: N818 - says what happened, as KeyError's kin LookupError cannot
    """No app of that name was found."""


class AppRefused(RecomposeError):  # noqa: N818 - the same
    """An app or its options are not acceptable; carries every fault found, options under ``options.NAME``."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


@dataclass(frozen=True)
class Discovery:
    """All apps by name, and the errors of those that could not be loaded, by place."""

    apps: dict[str, AppClass]
    faults: tuple[Fault, ...]


def discover(apps_dirs: Sequence[Path] = ()) -> dict[str, AppClass]:
    """Return all apps by name, without those that cannot be loaded, which ``scan`` reports."""
    return scan(apps_dirs).apps


def scan(apps_dirs: Sequence[Path] = ()) -> Discovery:
    """Return all apps by name, and the errors, of folders first. Installed apps without their extra are left out. Of
    two apps with one name, the installed one is used, else that of the first folder."""
    found = _by_name(_found(apps_dirs))
    installed = {entry.name for entry in entry_points(group=ENTRY_POINT_GROUP)}
    return Discovery(dict(sorted(found.apps.items(), key=lambda app: app[0] in installed)), found.faults)


def scan_own(places: Sequence[Path]) -> Discovery:
    """Return the apps that these folders and files define, without installed apps."""
    return _by_name(each for place in places for each in (_from_file if place.is_file() else _from_folder)(place))


def _by_name(everything: "Iterable[_Found]") -> Discovery:
    apps: dict[str, AppClass] = {}
    faults: list[Fault] = []
    for place, found in everything:
        if isinstance(found, Fault):
            faults.append(found)
        elif found.name in apps:
            faults.append(Fault(place, f"app {found.name!r} is already defined by {inspect.getfile(apps[found.name])}"))
        else:
            apps[found.name] = found
    return Discovery(apps, tuple(faults))


def find(name: str, apps_dirs: Sequence[Path] = ()) -> AppClass:
    """Return the class of one app. Places whose names do not match are loaded last, installed apps after folders:
    each process of a run does this, and the bundled apps cost half a second.

    Raises: UnknownApp with the names there are, and what could not be loaded; MissingExtra for an installed app that
    needs one.
    """
    for _, found in _found_as(name, apps_dirs):
        if not isinstance(found, Fault) and found.name == name:
            return found
    everything = scan(apps_dirs)
    if name in everything.apps:
        return everything.apps[name]
    _check_extra(name)
    known = f"; known apps are {names_of(everything.apps)}"
    failed = "".join(f"; {fault}" for fault in everything.faults)
    raise UnknownApp(f"unknown app {name!r}{did_you_mean(name, everything.apps) or known}{failed}")


def is_bundled(app_class: AppClass) -> bool:
    """Return whether an app is a bundled one."""
    return app_class.__module__.startswith(f"{__package__}.")


def names_of(apps: Mapping[str, AppClass]) -> str:
    """Return names for a sentence: those of a user's own apps, or of the bundled ones if there are no others."""
    own = [name for name, app in apps.items() if not is_bundled(app)]
    others = len(apps) - len(own) if own else 0
    counted = f" and {others} bundled {'app' if others == 1 else 'apps'}" if others else ""
    return ", ".join(own or apps) + counted or "none"


def _check_extra(name: str) -> None:
    """Check the extra. Raises: MissingExtra if an app of this name is installed but its extra is not."""
    for entry in entry_points(group=ENTRY_POINT_GROUP, name=name):
        try:
            entry.load()
        except Exception as error:
            if sentence := advice(error):
                raise MissingExtra(f"app {name!r}: {sentence}") from None


def create(name: str, options: Mapping[str, Any] | None = None, apps_dirs: Sequence[Path] = ()) -> App:
    """Return an instance of an app with validated options; the caller calls ``setup`` and ``prepare``. Raises:
    UnknownApp; AppRefused with one fault for every invalid option."""
    return build(find(name, apps_dirs), options or {})


def build(app_class: AppClass, options: Mapping[str, Any]) -> App:
    """Return an instance of this class. Raises: AppRefused, as ``create`` does."""
    app = _made(app_class, _options(app_class, options))
    faults = faults_of(app)
    if faults:
        raise AppRefused([Fault(f"app {app_class.name!r}", fault) for fault in faults])
    return app


def _made(app_class: AppClass, options: Options) -> App:
    if takes_options(app_class):
        return app_class(options)
    app = app_class.__new__(app_class)
    app.options = options
    app_class.__init__(app)
    return app


def module_named(name: str, apps_dirs: Sequence[Path]) -> ModuleType:
    """Return a user's module beside the apps, loaded as they are. Raises: RecomposeError if no folder has it, or
    it cannot be loaded."""
    for folder in apps_dirs:
        for file in _module_files(folder):
            if _stem(file) == name:
                try:
                    return _load(file.resolve())
                except (Exception, SystemExit) as error:
                    raise RecomposeError(f"{file} {_why(error)}") from error
    places = ", ".join(map(str, apps_dirs)) or "none was given (--apps FOLDER)"
    raise RecomposeError(f"there is no module {name!r} in the folders of apps: {places}")


def compositions_file(app_class: AppClass) -> Path | None:
    """Return the app's compositions file: the one it names, else ``<name>.yaml`` beside it, else the service's own."""
    if app_class.compositions_file is not None:
        return app_class.compositions_file
    folders = [*_folder_of(app_class), *map(Path, compositions.__path__)]
    files = (folder / f"{app_class.name}.yaml" for folder in folders)
    return next((file for file in files if file.is_file()), None)


def _folder_of(app_class: AppClass) -> list[Path]:
    """Return the file of a class; None if it was defined in a notebook."""
    with suppress(TypeError, OSError):
        return [Path(inspect.getfile(app_class)).parent]
    return []


def _options(app_class: AppClass, options: Mapping[str, Any]) -> Options:
    try:
        return app_class.options_model.model_validate(dict(options))
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False)
        raise AppRefused([_option_fault(app_class, detail) for detail in details]) from error


def _option_fault(app_class: AppClass, detail: Any) -> Fault:
    path = ".".join(["options", *map(str, detail["loc"])])
    if detail["type"] == "extra_forbidden":
        known = ", ".join(app_class.options_model.model_fields) or "none"
        return Fault(path, f"unknown option; options of app {app_class.name!r} are {known}")
    message = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "value_error":
        return Fault(path, message)
    return Fault(path, f"{detail['input']!r} is not accepted: {message[:1].lower()}{message[1:]}")


# --- where apps are ---------------------------------------------------------------------------------------------------

_Found = tuple[str, AppClass | Fault]


def _found(apps_dirs: Iterable[Path]) -> Iterator[_Found]:
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP)):
        yield from _from_entry_point(entry)
    for folder in apps_dirs:
        yield from _from_folder(folder)


def _found_as(name: str, apps_dirs: Iterable[Path]) -> Iterator[_Found]:
    for entry in entry_points(group=ENTRY_POINT_GROUP, name=name):
        yield from _from_entry_point(entry)
    for folder in apps_dirs:
        for file in _module_files(folder):
            if _stem(file) == name:
                yield from _from_file(file)
    for folder in apps_dirs:
        yield from _from_folder(folder)


def _from_entry_point(entry: Any) -> Iterator[_Found]:
    place = f"entry point {entry.name} = {entry.value}"
    try:
        found = entry.load()
    except Exception as error:  # its imports may raise any error; other apps are loaded nevertheless
        if advice(error) is None:
            yield place, Fault(place, _why(error))
        return
    if isinstance(found, type) and issubclass(found, App):
        yield place, _checked(place, found)
    else:
        yield place, Fault(place, f"{found!r} is not a subclass of apps.contract.App")


def _from_folder(folder: Path) -> Iterator[_Found]:
    if not folder.is_dir():
        yield str(folder), Fault(str(folder), "no such folder; --apps accepts folders with *.py files or packages")
        return
    for file in _module_files(folder):
        yield from _from_file(file)


def _module_files(folder: Path) -> list[Path]:
    files = [*folder.glob("*.py"), *folder.glob("*/__init__.py")]
    return sorted(file for file in files if not _stem(file).startswith(("_", ".")))


def _stem(file: Path) -> str:
    return file.parent.name if file.name == "__init__.py" else file.stem


def _from_file(file: Path) -> Iterator[_Found]:
    try:
        module = _load(file.resolve())
    except (Exception, SystemExit) as error:  # a script that calls exit() must not end the service
        yield str(file), Fault(str(file), _why(error))
        return
    for value in list(vars(module).values()):
        if isinstance(value, type) and issubclass(value, App) and _is_defined_in(value, module):
            yield str(file), _checked(str(file), value)


def _load(file: Path) -> ModuleType:
    digest = hashlib.sha256(str(file).encode()).hexdigest()[:8]
    name = f"recompose_app_{digest}_{_stem(file)}"
    if name in sys.modules:
        return sys.modules[name]
    folders = [str(file.parent)] if file.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=folders)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python module")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _is_defined_in(app_class: AppClass, module: ModuleType) -> bool:
    """Return the complete app classes of a module or package; a class without ``name`` is a base of others."""
    inside = f"{app_class.__module__}.".startswith(f"{module.__name__}.")
    return inside and hasattr(app_class, "name")


def _checked(place: str, app_class: AppClass) -> AppClass | Fault:
    faults = faults_of(app_class)
    return Fault(place, f"app class {app_class.__name__}: {'; '.join(faults)}") if faults else app_class


def _why(error: BaseException) -> str:
    return f"cannot be loaded: {advice(error) or f'{type(error).__name__}: {error}'}"
