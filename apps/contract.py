"""The contract of an app: stages written once as methods, and the hooks around them.

A complete app::

    class Words(App):
        name = "words"
        stages = (Stage("split"), Stage("count", StageKind.STATEFUL))

        def split(self, line):
            return line.split()

        def count(self, words, state):
            state = (state or 0) + len(words)
            return state, state

A stateless stage is a method ``(value) -> value``; a stateful one ``(value, state) -> (value, state)``. Its state is
``None`` before the first item; the service keeps it, and passes it on item by item in order, wherever the stage runs. A
partitioned stage, ``Stage("total", StageKind.PARTITIONED, partitions=64)``, has a state for each key. Beside
``total(value, state)`` the app has ``total_key(value)``, which uses the value and constants and nothing that ``setup``
makes. ``state`` is then that of the value's key, ``None`` before its first value; to return ``None`` as the state
removes it. A stage gives any number of values for one when it yields them, or returns ``Outputs``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from compositions.errors import RecomposeError
from compositions.model import Stage

if TYPE_CHECKING:
    from apps.data_sets.recipe import Recipe


class Options(BaseModel):
    """Typed options of an app, validated from the start body or ``-o KEY=VALUE``; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@final
class Outputs(list[Any]):
    """A stage's result with 0 … n values for one: ``Outputs([a, b])``; ``Outputs()`` drops the item.

    The next stages get each value by itself. All of them keep the serial number of the item, and their order. One on
    which a stage raises is a fault of the whole item.
    """

    __slots__ = ()
    made: ClassVar[bool] = False
    """Whether this process has ever had any: until then nobody needs to look for them among its values."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        """The first one is noticed; from then on they are made as quickly as any list."""
        super().__init__(values)
        Outputs.made = True
        with suppress(AttributeError):  # another thread was as quick
            del Outputs.__init__

    def __reduce__(self) -> tuple[Any, ...]:
        """Made by a call where it is read."""
        return Outputs, (list(self),)


class Output(Protocol):
    """A file that an app writes its results to, in order, in a form that others read: a video, an archive."""

    def write(self, serial: int, value: Any) -> None:
        """Takes a value of the last stage; several of one item have the same serial number.

        Raises: RecomposeError when this one cannot be written, and the next one may; ``apps.output_file.OutputFailed``
        or OSError when nothing can any more, which ends the run.
        """

    def close(self) -> None:
        """Raises: as ``write``."""


class App:
    """Base class of all apps. One instance lives in each worker, one in the runner (source and sink side).

    A class of its own ``__init__(self)`` finds ``self.options`` set, whether it calls this one or not.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    stages: tuple[Stage, ...]
    """Set on the class. An app whose options decide its stages sets it again on the instance in ``__init__``, so code
    that has an instance reads ``app.stages`` of that, never of its class."""
    options_model: ClassVar[type[Options]] = Options
    item_type: ClassVar[Any] = None
    """Type of items that come as JSON, such as a pydantic model or a ``TypedDict``: ``from_json`` gets values of it,
    and others are refused with the fields at fault. None: any value."""
    result_type: ClassVar[Any] = None
    """Type of results as ``encode_result`` returns them; the item of any other result fails. None: any JSON data."""
    input_classes: ClassVar[Mapping[str, int]] = {}
    """Amounts of input by name, in items: of what is read, from its beginning again where it is shorter."""
    compositions_file: ClassVar[Path | None] = None
    """YAML beside the app; ``None`` means ``compositions/<name>.yaml`` of the service, then all-sequential alone."""

    def __init__(self, options: Options | None = None) -> None:
        if options is not None or not hasattr(self, "options"):
            self.options = options if options is not None else self.options_model()

    def setup(self, *args: Any, **kwargs: Any) -> None:
        """Called once in each worker before its first item: load models, open databases. Write ``setup(self)``, or
        ``setup(self, stages)`` to get the names of the stages that this worker runs."""

    def teardown(self, *args: Any, **kwargs: Any) -> None:
        """Called in a worker after its last item, in the same two forms; a worker that is killed or lost has none."""

    def prepare(self) -> None:
        """Called once in the runner before any worker starts: build what all workers will read (a database file)."""

    def items(self, path: Path | None) -> Iterator[Any]:
        """The app's data set, once through, for source ``replay``: of the user's ``path``, or its own.

        Raises: RecomposeError when there is none, with a sentence that says what would be accepted.
        """
        raise RecomposeError(f"app {self.name!r} has no data set of its own; start it with source push")

    def from_json(self, value: Any) -> Any:
        """Turns a pushed JSON value into an item. Raises: ValueError with a sentence when it is not acceptable."""
        return value

    def from_binary(self, value: bytes | NDArray[Any]) -> Any:
        """Turns pushed bytes or a pushed array into an item. Raises: ValueError when it is not acceptable."""
        return value

    def from_frame(self, frame: NDArray[np.uint8], number: int) -> Any:
        """Turns a video frame (height × width × 3, BGR, as OpenCV reads it) into an item, for source ``video``."""
        raise RecomposeError(f"app {self.name!r} takes no video; start it with source replay or push")

    def data_set(self) -> Recipe | None:
        """Return how ``recompose ingest`` makes the data set that the app searches in; None: it has none."""
        return None

    def open_output(self, path: Path) -> Output | None:
        """The file that ``--out`` names, where the app writes one of its own; None: results as JSON lines.

        Raises: RecomposeError when it cannot be written.
        """
        return None

    def encode_result(self, value: Any) -> Any:
        """Turns the last stage's value into plain JSON data for ``/results`` and ``--out``; no timings in it."""
        return value
