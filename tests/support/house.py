"""Measures of the product's code that no linter takes: large classes, folders and files, scraps, names in strings.

``tests/unit/test_house.py`` holds the limits. Tests and the laboratory may be long.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import grimp

ROOT = Path(__file__).parents[2]
PACKAGES = ("recompose", "service", "control", "runtime", "datapipe", "apps", "profiler", "compositions")
SUB_ROOMS = ("service", "runtime")
"""Packages whose sub-packages are rooms of their own."""

FILE_LINES, FUNCTION_LINES = 400, 40
SCRAP_LINES = 40
ROOM_FILES, ROOM_ARROWS = 15, 30
FRAGMENTS = {"What", "Who", "Whose", "Of", "How", "Whether"}
METHODS, ATTRIBUTES, FIELDS = 20, 14, 20

CALLS_BY_NAME = {"ask", "call", "change", "methodcaller"}
LOOKS_BY_NAME = {"getattr", "hasattr", "setattr", "attrgetter"}
NAMED_BY_DATA = {"runtime.pools.execute"}
"""Modules in which a name is data: an app names its own stages."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Offence(NamedTuple):
    where: str
    what: str


@dataclass(frozen=True)
class Module:
    name: str
    file: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def room(self) -> str:
        first, *rest = self.name.split(".")
        return ".".join([first, *rest[:1]]) if first in SUB_ROOMS else first

    @property
    def is_door(self) -> bool:
        return self.file.endswith(("__init__.py", "__main__.py"))

    def at(self, node: ast.stmt | ast.expr) -> str:
        return f"{self.file}:{node.lineno}"

    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))

    def functions(self) -> Iterator[Function]:
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))

    def calls(self) -> Iterator[ast.Call]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))


@dataclass(frozen=True)
class House:
    """All modules of the product and their imports."""

    modules: tuple[Module, ...]
    imports: grimp.ImportGraph

    @cached_property
    def rooms(self) -> dict[str, set[str]]:
        """Modules by the folder in which they lie."""
        found: dict[str, set[str]] = {}
        for module in self.modules:
            if not module.is_door:
                found.setdefault(module.name.rpartition(".")[0], set()).add(module.name)
        return found

    @cached_property
    def rooms_of_names(self) -> dict[str, set[str]]:
        """Return the rooms that define a function, method or attribute of each name."""
        found: dict[str, set[str]] = {}
        for module in self.modules:
            names = {function.name for function in module.functions()}
            for name in names.union(*(_attributes(each) for each in module.classes())):
                found.setdefault(name, set()).add(module.room)
        return found


def ours() -> House:
    return House(tuple(_modules()), grimp.build_graph(*PACKAGES, cache_dir=None))


def _modules() -> Iterator[Module]:
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            path = file.relative_to(ROOT)
            name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
            yield Module(name, str(path), file.read_text(encoding="utf-8"))


def packages_in_circles(house: House) -> Iterator[Offence]:
    """Packages that import a module inside them which imports the package; import-linter looks at siblings."""
    graph = house.imports
    for package in sorted(graph.modules):
        for inside in sorted(graph.find_descendants(package) & graph.find_modules_that_directly_import(package)):
            if graph.chain_exists(importer=package, imported=inside):
                yield Offence(inside, f"imports {package}, which imports it")


def classes(size: Callable[[ast.ClassDef], int], most: int, house: House) -> Iterator[Offence]:
    for module in house.modules:
        for each in module.classes():
            if (count := size(each)) > most:
                yield Offence(f"{module.at(each)} {each.name}", f"{count} {size.__name__}")


def methods(of: ast.ClassDef) -> int:
    return sum(isinstance(node, Function) for node in of.body)


def attributes(of: ast.ClassDef) -> int:
    """What an object stores and changes: fields, and what methods put on ``self``."""
    return len(_attributes(of)) if _stored(of) else 0


def fields(of: ast.ClassDef) -> int:
    """Of values and documents, which keep no state: what they say is their interface, and still one thing."""
    return 0 if _stored(of) else len(_attributes(of))


def _attributes(of: ast.ClassDef) -> set[str]:
    fields = (node.target for node in of.body if isinstance(node, ast.AnnAssign))
    return {_name(each) for each in fields} | _stored(of)


def _stored(of: ast.ClassDef) -> set[str]:
    stored = (node for node in ast.walk(of) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return {each.attr for each in stored if _name(each.value) == "self"}


def rooms_with_many_files(house: House) -> Iterator[Offence]:
    """A reader holds about so many files of one folder in the head."""
    for room, files in house.rooms.items():
        if len(files) > ROOM_FILES:
            yield Offence(room, f"{len(files)} files")


def rooms_with_many_arrows(house: House) -> Iterator[Offence]:
    """Count the imports between the files of one folder."""
    for room, files in house.rooms.items():
        arrows = sum(len(house.imports.find_modules_directly_imported_by(each) & files) for each in files)
        if arrows > ROOM_ARROWS:
            yield Offence(room, f"{arrows} arrows")


def scraps(house: House) -> Iterator[Offence]:
    """Short files with a single reader live with that reader; a package's own file is its door."""
    for module in house.modules:
        if len(module.lines) < SCRAP_LINES and not module.is_door:
            readers = house.imports.find_modules_that_directly_import(module.name)
            if len(readers) == 1:
                yield Offence(module.file, f"{len(module.lines)} lines, only for {next(iter(readers))}")


def long_files(house: House) -> Iterator[Offence]:
    for module in house.modules:
        if (count := len(module.lines)) > FILE_LINES:
            yield Offence(module.file, f"{count} lines")


def long_functions(house: House) -> Iterator[Offence]:
    for module in house.modules:
        for each in module.functions():
            if (count := (each.end_lineno or each.lineno) - each.lineno + 1) > FUNCTION_LINES:
                yield Offence(f"{module.at(each)} {each.name}", f"{count} lines")


def names_in_strings(house: House) -> Iterator[Offence]:
    """Methods called by their name in a string, and attributes of other rooms looked up by one."""
    for module in house.modules:
        for call in module.calls():
            if module.name not in NAMED_BY_DATA and (what := _by_name(house, module, call)):
                yield Offence(module.at(call), what)


def _by_name(house: House, module: Module, call: ast.Call) -> str:
    callee = call.func
    if isinstance(callee, ast.Call) and _name(callee.func) == "getattr":
        return "calls what getattr found"
    name, texts = _name(callee), [str(each.value) for each in call.args[:2] if isinstance(each, ast.Constant)]
    rooms = house.rooms_of_names.get(texts[0], set()) if texts else set()
    by_name = name.lstrip("_") in CALLS_BY_NAME or (name in LOOKS_BY_NAME and module.room not in rooms)
    return f'{name}(… "{texts[0]}" …)' if rooms and by_name else ""


def _name(of: ast.expr) -> str:
    return of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else ""


def untyped_bodies(house: House) -> Iterator[Offence]:
    """Lines with ``dict[str, Any]``: there only where JSON enters or leaves."""
    for module in house.modules:
        if module.name.startswith("service."):
            for number, line in enumerate(module.lines, 1):
                if "dict[str, Any]" in line:
                    yield Offence(f"{module.file}:{number}", line.strip())


def fragments(house: House) -> Iterator[Offence]:
    """A module's docstring says what the module does; one that begins so has no verb."""
    for module in house.modules:
        first = (ast.get_docstring(module.tree) or "").partition(" ")[0]
        if first in FRAGMENTS:
            yield Offence(module.file, f"begins with {first!r}")


@dataclass(frozen=True)
class Rule:
    """At most ``limit`` offences."""

    text: str
    limit: int
    find: Callable[[House], Iterable[Offence]]


RULES = (
    Rule("packages that import who imports them", 0, packages_in_circles),
    Rule(f"classes above {METHODS} methods", 0, partial(classes, methods, METHODS)),
    Rule(f"classes above {ATTRIBUTES} attributes", 0, partial(classes, attributes, ATTRIBUTES)),
    Rule(f"values above {FIELDS} fields", 0, partial(classes, fields, FIELDS)),
    Rule(f"rooms above {ROOM_FILES} files", 3, rooms_with_many_files),
    Rule(f"rooms above {ROOM_ARROWS} arrows between their files", 6, rooms_with_many_arrows),
    Rule(f"files below {SCRAP_LINES} lines with one reader", 2, scraps),
    Rule(f"files above {FILE_LINES} lines", 0, long_files),
    Rule(f"functions above {FUNCTION_LINES} lines", 0, long_functions),
    Rule("method names in strings between rooms", 0, names_in_strings),
    Rule("module docstrings that are no sentence", 0, fragments),
    Rule("lines with dict[str, Any] in service/", 30, untyped_bodies),
)
