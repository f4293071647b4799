"""Ferret's options: the database, the queries, and the parameters of the search."""

from pathlib import Path

from pydantic import Field, model_validator

from apps.contract import Options
from apps.ferret.loops.kernels import KernelName
from apps.samples import PER_SOURCE


class FerretOptions(Options):
    """Options of Ferret: the database, the queries and the search."""

    images: Path | None = Field(default=None, description="Folder and subfolders of database photos; none: samples")
    samples: int = Field(
        default=PER_SOURCE, ge=1, le=100_000, description="Sample photos per source (of eight), if images is not set"
    )
    database: Path | None = Field(
        default=None, description="Data set of recompose ingest, followed while running; replaces images"
    )
    queries: Path | None = Field(default=None, description="Folder of query photos; none: the database's photos")
    top_k: int = Field(default=10, ge=1, le=1000, description="Maximum number of images in an answer")
    kernel: KernelName = Field(default="exact", description="exact: plain Python; fast: compiled, same answers")
    projections: Path | None = Field(default=None, description="npz of alpha, beta, rnd, W, H; none: from a fixed seed")

    @model_validator(mode="after")
    def _one_database(self) -> "FerretOptions":
        if self.database and (self.images or self.projections):
            raise ValueError(f"database {str(self.database)!r} has its own images and projections; leave these out")
        return self
