"""The database that Ferret searches in: the one that a user names, or its own, made from the folder in its options."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from apps.data_sets.reader import Reader, Searched, Unversioned
from apps.ferret.database import KIND, Database, load_database
from apps.ferret.lsh import Projections, draw_projections, load_projections
from apps.ferret.options import FerretOptions
from apps.ferret.queries import images_of

if TYPE_CHECKING:
    from apps.ferret.data_set import RegionRecipe

Databases = Reader[Database] | Unversioned[Database]


def searched(options: FerretOptions) -> Searched[Database]:
    projections = cache(partial(projections_of, options))
    recipe, folder = partial(recipe_of, options), partial(images_of, options)
    return Searched(KIND, options.database, folder, recipe, load_database, lambda: projections().fingerprint)


def recipe_of(options: FerretOptions) -> RegionRecipe:
    """Return how a database is made. By the compiled kernel unless the options name one: both find the same."""
    from apps.ferret.data_set import RegionRecipe  # Arrow: workers do not need it

    kernel = options.kernel if "kernel" in options.model_fields_set else "fast"
    return RegionRecipe(partial(images_of, options), cache(partial(projections_of, options)), kernel)


def projections_of(options: FerretOptions) -> Projections:
    path = options.projections
    return load_projections(path.expanduser()) if path else draw_projections()
