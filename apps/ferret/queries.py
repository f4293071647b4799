"""Sources of Ferret's photos: folders, the folder that a database was made from, or photos pushed one by one."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from apps.data_sets.versions import read_manifest
from apps.ferret.database import KIND
from apps.ferret.load import decode_photo, read_photo
from apps.ferret.options import FerretOptions
from apps.ferret.values import Photo, Unreadable, list_photos
from apps.samples import sample_photos
from compositions.errors import RecomposeError


def images_of(options: FerretOptions) -> Path:
    """The folder of the photos to search in."""
    return options.images.expanduser() if options.images else sample_photos()


def queries_of(options: FerretOptions) -> Path:
    """Raises: RecomposeError when only a database is given and the photos it was made of are gone."""
    if options.queries:
        return options.queries.expanduser()
    if not options.database:
        return images_of(options)
    place = options.database.expanduser()
    if place.is_file():
        raise RecomposeError(f"{str(place)!r} does not tell its photos; give queries, a folder")
    folder = Path(read_manifest(place, KIND)["folder"])
    if not folder.is_dir():
        raise RecomposeError(f"the database's photos are no longer in {str(folder)!r}; give queries, a folder")
    return folder


def read_queries(place: Path) -> Iterator[Photo | Unreadable]:
    """The photos of a folder, or the one. Raises: RecomposeError when there is none."""
    for name, photo in list_photos(place):
        try:
            yield read_photo(photo, name)
        except RecomposeError as error:
            yield Unreadable(name, str(error))


def pushed_query(value: Any) -> Photo:
    """A pushed query: ``{"query": NAME, "image": BASE64}``, the bytes of a JPEG, PNG … file."""
    if not isinstance(value, dict) or not all(isinstance(value.get(key), str) for key in ("query", "image")):
        raise ValueError('a Ferret item is {"query": NAME, "image": BASE64 of a JPEG, PNG or other picture file}')
    try:
        data = base64.b64decode(value["image"], validate=True)
    except ValueError as error:
        raise ValueError(f"image of query {value['query']!r} is not base64: {error}") from error
    try:
        return decode_photo(data, value["query"])
    except RecomposeError as error:
        raise ValueError(str(error)) from error
