"""The extras of the package: say which extra installs a missing module."""

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
"""Modules by extra; the modules for brokers and databases are named in the code that opens these."""
_EXTRA_OF = {module: extra for extra, modules in EXTRAS.items() for module in modules}


class MissingExtra(RecomposeError):  # noqa: N818 - says what happened
    """A library is missing that an extra of the package would install."""


def advice(error: BaseException) -> str | None:
    """Return a sentence with the command that installs the missing module; None if no extra installs it."""
    module = error.name if isinstance(error, ModuleNotFoundError) else None
    library = (module or "").partition(".")[0]
    extra = _EXTRA_OF.get(library)
    return f"{library} is not installed: pip install 'recompose[{extra}]'" if extra else None


@contextmanager
def extras_named() -> Iterator[None]:
    """Convert errors within the context. Raises: MissingExtra for a missing module that an extra would install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if sentence := advice(error):
            raise MissingExtra(sentence) from None
        raise
