"""Sample photos for a machine without the user's own, and the cache folder of the apps.

The photos that ship inside the scikit-image wheel (extra ``samples``) are cut into overlapping windows, turned and
scaled by a seeded recipe: some hundreds of different pictures, many of which show the same thing.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from compositions.errors import RecomposeError

SOURCES = ("astronaut.png", "chelsea.png", "coffee.png", "hubble_deep_field.jpg", "ihc.png", "motorcycle_left.png",
           "retina.jpg", "rocket.jpg")  # fmt: skip
PER_SOURCE = 30
RECIPE = "v2"
"""Part of the folder's name; raise it with any change of the recipe, so that old pictures are not reused."""

LONG_SIDE, SHORT_SIDE = 240, 160  # pixels: what Ferret scales to 128 still has detail to lose
LARGEST_TURN_DEG = 20.0
WINDOW = (0.45, 0.95)  # a window's sides over the photo's


def cache_dir() -> Path:
    """Return the cache folder: ``$XDG_CACHE_HOME/recompose``, else in the home or temporary folder."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "recompose"
    try:
        home.mkdir(parents=True, exist_ok=True)
        usable = os.access(home, os.W_OK)
    except OSError:
        usable = False
    return home if usable else _private_temporary()


def _private_temporary() -> Path:
    """Return a private temporary folder. Raises: RecomposeError if another user made it, or a file of its name."""
    folder = Path(tempfile.gettempdir()) / f"recompose-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
        what = "belongs to another user" if stat.S_ISDIR(found.st_mode) else "is no folder"
        raise RecomposeError(f"cache folder {folder} {what}; set XDG_CACHE_HOME to a folder of your own")
    return folder


def sample_photos(per_source: int = PER_SOURCE) -> Path:
    """Return the folder of sample photos (JPEG), made on the first call, which takes a second or two. Raises:
    RecomposeError if scikit-image, the source of the photos, is not installed."""
    sources = _found(SOURCES)
    folder = cache_dir() / f"samples-{RECIPE}-{len(sources)}x{per_source}"
    if not folder.is_dir():
        _make_whole(folder, sources, per_source)
    return folder


def wheel_photo(name: str) -> Path:
    """Return the path of a photo in the scikit-image wheel. Raises: RecomposeError if it is not installed."""
    return _found([name])[0]


def _found(names: Sequence[str]) -> list[Path]:
    spec = find_spec("skimage")  # importing it would take a second, and only its files are needed
    places = spec.submodule_search_locations if spec else None
    found = [Path(place) / "data" / name for place in places or () for name in names]
    found = [path for path in found if path.is_file()]
    if not found:
        raise RecomposeError(
            "there are no sample photos because scikit-image is not installed; "
            "give photos or videos of your own, or install the extra: recompose[samples]"
        )
    return found


def _make_whole(folder: Path, sources: list[Path], per_source: int) -> None:
    """Make the folder atomically, even if two processes make it at the same time."""
    draft = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    try:
        _write(draft, sources, per_source)
        draft.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _write(folder: Path, sources: list[Path], per_source: int) -> None:
    import cv2  # OpenCV takes a quarter of a second; workers that need no pictures import this module too

    for seed, source in enumerate(sources):
        photo = cv2.imread(str(source), cv2.IMREAD_COLOR)
        if photo is None:
            raise RecomposeError(f"sample photo {source} cannot be decoded; reinstall scikit-image")
        for number, view in enumerate(_views(photo, per_source, np.random.default_rng(seed))):
            # ordered by name, the sources take turns, so that items cost about the same at any time
            cv2.imwrite(str(folder / f"{number:02d}-{source.stem}.jpg"), view, [cv2.IMWRITE_JPEG_QUALITY, 90])


def _views(photo: NDArray[np.uint8], count: int, random: np.random.Generator) -> Iterator[NDArray[np.uint8]]:
    """Yield windows of varied place, size and shape, rotated by up to 20 degrees, scaled to 240×160 or 160×240."""
    import cv2

    height, width = photo.shape[:2]
    for number in range(count):
        shape = (LONG_SIDE, SHORT_SIDE) if number % 3 else (SHORT_SIDE, LONG_SIDE)
        part = random.uniform(*WINDOW)
        centre = [side * random.uniform(part / 2, 1 - part / 2) for side in (width, height)]
        scale = max(shape[0] / (part * width), shape[1] / (part * height))
        move = cv2.getRotationMatrix2D(centre, random.uniform(-LARGEST_TURN_DEG, LARGEST_TURN_DEG), scale)
        move[:, 2] += np.array(shape) / 2 - centre
        yield cv2.warpAffine(photo, move, shape, flags=cv2.INTER_AREA, borderMode=cv2.BORDER_REFLECT_101)
