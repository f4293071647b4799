"""The extras of the package: which one brings a module that is missing, in one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager

from compositions.errors import RecomposeError

EXTRAS = {
    "ray": ("ray", "zmq"),
    "service": (
        "fastapi", "fastapi_swagger", "httptools", "httpx", "prometheus_client", "sse_starlette", "starlette",
        "uvicorn", "uvloop", "watchfiles",
    ),
    "arrow": ("pyarrow",),
    "report": ("matplotlib",),
    "video": ("cv2",),
    "apps": ("numba",),
    "samples": ("skimage",),
    "spark": ("deltalake", "pandas", "pyspark"),
}  # fmt: skip
"""The modules of each; those of brokers and databases are named where they are opened."""
_EXTRA_OF = {module: extra for extra, modules in EXTRAS.items() for module in modules}


class MissingExtra(RecomposeError):  # noqa: N818 - says what happened
    """A library is missing that an extra of the package brings."""


def advice(error: BaseException) -> str | None:
    """Return the sentence with the command to install what ``error`` misses; None if no extra brings it."""
    module = error.name if isinstance(error, ModuleNotFoundError) else None
    library = (module or "").partition(".")[0]
    extra = _EXTRA_OF.get(library)
    return f"{library} is not installed: pip install 'recompose[{extra}]'" if extra else None


@contextmanager
def extras_named() -> Iterator[None]:
    """Raises: MissingExtra instead of a ModuleNotFoundError that an extra would prevent."""
    try:
        yield
    except ModuleNotFoundError as error:
        if sentence := advice(error):
            raise MissingExtra(sentence) from None
        raise
