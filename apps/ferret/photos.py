"""Folders of photos: which files count, and what each photo is called."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from compositions.errors import RecomposeError

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})


def list_photos(place: Path) -> list[tuple[str, Path]]:
    """(name, path) of a photo, or of all photos in a folder and its subfolders, in the order of their paths.

    A photo is called by its file name, or by its path within the folder where several have the same file name.
    Raises: RecomposeError when there is no photo.
    """
    if place.is_file():
        return [(place.name, place)]
    if not place.is_dir():
        raise RecomposeError(f"{str(place)!r} does not exist; give a folder of photos, or one photo")
    paths = sorted(path for path in place.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if not paths:
        raise RecomposeError(f"folder {str(place)!r} has no photos; {', '.join(sorted(SUFFIXES))} count as photos")
    times = Counter(path.name for path in paths)
    return [(path.name if times[path.name] == 1 else path.relative_to(place).as_posix(), path) for path in paths]
