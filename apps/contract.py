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

    The next stages get each value separately. All values keep the serial number of the item, and their order. If a
    stage raises on one of them, the whole item fails.
    """

    __slots__ = ()
    made: ClassVar[bool] = False
    """True once this process has created one; before that, values need not be searched for ``Outputs``."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        """Record the first instance; from then on, instances are created as fast as any list."""
        super().__init__(values)
        Outputs.made = True
        with suppress(AttributeError):  # another thread was faster
            del Outputs.__init__

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a call of the class, so that the reading process records it too."""
        return Outputs, (list(self),)


class Output(Protocol):
    """A file of results in order, in a format of the app's, such as a video or an archive."""

    def write(self, serial: int, value: Any) -> None:
        """Write a value of the last stage; several of one item have the same serial number.

        Raises: RecomposeError if this value cannot be written, but the next may be; ``apps.output_file.OutputFailed``
        or OSError if no value can be written any more, which ends the run.
        """

    def close(self) -> None:
        """Finish and close the file. Raises: as ``write``."""


class App:
    """Base class of all apps. One instance lives in each worker, one in the runner (source and sink side).

    A class with its own ``__init__(self)`` finds ``self.options`` set, even if it does not call this one.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    stages: tuple[Stage, ...]
    """The stages. If they depend on options, ``__init__`` sets them again on the instance. So code that has an instance
    must read the instance's ``stages``, not the class's."""
    options_model: ClassVar[type[Options]] = Options
    item_type: ClassVar[Any] = None
    """Type of items from JSON, such as a pydantic model or a ``TypedDict``. ``from_json`` gets values of this type;
    other values are refused, with the invalid fields. None: any value."""
    result_type: ClassVar[Any] = None
    """Type of results as ``encode_result`` returns them; the item of any other result fails. None: any JSON data."""
    input_classes: ClassVar[Mapping[str, int]] = {}
    """Sizes of input by name, in items; a shorter data set is repeated."""
    compositions_file: ClassVar[Path | None] = None
    """YAML file beside the app; ``None`` means ``compositions/<name>.yaml`` of the service, else all-sequential."""

    def __init__(self, options: Options | None = None) -> None:
        if options is not None or not hasattr(self, "options"):
            self.options = options if options is not None else self.options_model()

    def setup(self, *args: Any, **kwargs: Any) -> None:
        """Prepare a worker, once before its first item: load models, open databases. Define ``setup(self)``, or
        ``setup(self, stages)`` to get the names of the stages that this worker runs."""

    def teardown(self, *args: Any, **kwargs: Any) -> None:
        """Clean up a worker after its last item, in the same two forms; not called if the worker is killed or lost."""

    def prepare(self) -> None:
        """Prepare the run, once in the runner before any worker starts: build files that all workers read."""

    def items(self, path: Path | None) -> Iterator[Any]:
        """Yield the items of the data set once, for source ``replay``: of the user's ``path``, or of the app itself.

        Raises: RecomposeError if there are none, with a sentence that says what would be accepted.
        """
        raise RecomposeError(f"app {self.name!r} has no data set of its own; start it with source push")

    def from_json(self, value: Any) -> Any:
        """Convert a pushed JSON value to an item. Raises: ValueError with a message if it is not acceptable."""
        return value

    def from_binary(self, value: bytes | NDArray[Any]) -> Any:
        """Convert pushed bytes or a pushed array to an item. Raises: ValueError if it is not acceptable."""
        return value

    def from_frame(self, frame: NDArray[np.uint8], number: int) -> Any:
        """Convert a video frame (height × width × 3, BGR, as OpenCV reads it) to an item, for source ``video``."""
        raise RecomposeError(f"app {self.name!r} does not accept video; start it with source replay or push")

    def data_set(self) -> Recipe | None:
        """Return the recipe by which ``recompose ingest`` makes the app's data set; None: the app has none."""
        return None

    def open_output(self, path: Path) -> Output | None:
        """Open the file of ``--out`` in the app's own format; None: results are written as JSON lines.

        Raises: RecomposeError if it cannot be written.
        """
        return None

    def encode_result(self, value: Any) -> Any:
        """Convert the last stage's value to plain JSON data, without timings, for ``/results`` and ``--out``."""
        return value
