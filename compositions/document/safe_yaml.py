"""Convert YAML text to plain data, with a safe loader and with limits that are checked before any value is built;
and find the lines of faults."""

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import yaml

from compositions.errors import CompositionError, Fault, shown, sub_path

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 20
MAX_VALUES = 100_000
"""Maximum number of keys and values: twice as many as an app may need. More would take seconds to read."""

# libyaml's loader builds the same values as the Python one about ten times as fast; some builds of PyYAML lack it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(text: str | bytes) -> object:
    """Return the only document in ``text`` as dicts, lists and scalars.

    Raises: CompositionError if it is larger than 1 MiB, has more than 100,000 keys and values, is nested deeper than
    20, uses aliases or tags, gives a key twice, or is not YAML (with line and column).
    """
    size = len(text if isinstance(text, bytes) else text.encode(errors="surrogatepass"))
    if size > MAX_BYTES:
        raise _refusal(f"the document has {size:,} bytes; at most {MAX_BYTES:,} are accepted")
    try:
        _check_events(text)
        return _construct(text)
    except yaml.YAMLError as error:
        raise _refusal(_sentence(error)) from error
    except (ValueError, OverflowError) as error:
        # The safe loader passes on Python's errors for impossible dates, endless numbers and surrogates.
        raise _refusal(f"the document has a value that cannot be read: {str(error)[:200]}") from error


def _check_events(text: str | bytes) -> None:
    """Check the limits on the flat sequence of events, so that nothing deep is ever built or recursed into."""
    depth = values = 0
    for event in yaml.parse(text, Loader=_LOADER):
        values += isinstance(event, yaml.NodeEvent)
        if values > MAX_VALUES:
            many = f"more than {MAX_VALUES:,} keys and values"
            raise _refusal(f"{_place(event.start_mark)}: {many}; send several documents")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise _refusal(f"{_place(event.start_mark)}: nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            alias = f"alias {shown(event.anchor)} is not accepted"
            raise _refusal(f"{_place(event.start_mark)}: {alias}; write the value out")
        if (tag := getattr(event, "tag", None)) is not None:
            raise _refusal(f"{_place(event.start_mark)}: tag {shown(tag)} is not accepted; put text in quotes instead")


def _construct(text: str | bytes) -> object:
    loader = _LOADER(text)
    try:
        node = loader.get_single_node()
        if node is None:
            raise _refusal("the document is empty; it needs at least app and compositions")
        if faults := list(_repeated_keys(node)):
            raise CompositionError(faults)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _repeated_keys(node: yaml.Node, path: str = "") -> Iterator[Fault]:
    """Yield a fault for each repeated key: the safe loader would silently keep the last one."""
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _repeated_keys(item, f"{path}[{index}]")
    elif isinstance(node, yaml.MappingNode):
        seen: set[tuple[str, str]] = set()
        for key, value in node.value:
            where = sub_path(path, key.value if isinstance(key, yaml.ScalarNode) else "?")
            if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                yield Fault(where, f"the key is given twice, again at {_place(key.start_mark)}")
            seen.add((key.tag, str(key.value)))
            yield from _repeated_keys(value, where)


def _sentence(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{_place(error.problem_mark)}: not YAML: {error.problem}"
    return f"not YAML: {' '.join(str(error).split())[:200]}"


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


def _refusal(message: str) -> CompositionError:
    return CompositionError([Fault("", message)])


_STEP = re.compile(r"\[(\d+)\]|'((?:[^'\\]|\\.)*)'|([^.\[\]']+)")
_SAID = re.compile(r"^line (\d+), column")


class Positions:
    """Finds the lines of a document's faults. The text is parsed once, for any number of faults.

    For faults with a path, ``text`` must have passed ``read_yaml``, so that its limits hold here too.
    """

    def __init__(self, text: str | bytes) -> None:
        self._text = text
        self._entries: dict[int, dict[str, tuple[yaml.Node, yaml.Node]]] = {}

    def line_of(self, fault: Fault) -> int | None:
        """Return the line, from 1, of the deepest part of the fault's path that exists; None if it is unknown."""
        if said := _SAID.match(fault.message):
            return int(said[1])
        if not fault.path or self._root is None:
            return None
        return self._walk(self._root, fault.path)

    @cached_property
    def _root(self) -> yaml.Node | None:
        try:
            root: yaml.Node | None = yaml.compose(self._text, Loader=_LOADER)
        except (yaml.YAMLError, ValueError):
            return None
        return root

    def _walk(self, node: yaml.Node, path: str) -> int:
        line: int = node.start_mark.line
        for index, quoted, word in _STEP.findall(path):
            if isinstance(node, yaml.SequenceNode) and index and int(index) < len(node.value):
                node = node.value[int(index)]
                line = node.start_mark.line
            elif isinstance(node, yaml.MappingNode) and (found := self._entry(node, quoted or word)):
                key, node = found
                line = key.start_mark.line
            else:
                break
        return line + 1

    def _entry(self, node: yaml.MappingNode, name: str) -> tuple[yaml.Node, yaml.Node] | None:
        """Return the last entry with that name: for a repeated key, the repetition."""
        if id(node) not in self._entries:
            self._entries[id(node)] = {str(key.value): (key, value) for key, value in node.value}
        return self._entries[id(node)].get(name)
