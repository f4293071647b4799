"""A table of a database, over SQLAlchemy: one row per result, under run, serial number and part.

A second table has, for each run, its writing epoch and its progress; both tables change in one transaction.
"""

from collections.abc import Sequence
from typing import Any

from compositions.errors import RecomposeError
from datapipe.sinks.port import AT_ONCE, Row, followed

TABLE = "recompose_results"


class SqlSink:
    """A database as a sink. ``url``: as for SQLAlchemy. Raises: RecomposeError for a bad URL or a missing library."""

    def __init__(self, url: str, run: str, epoch: int, table: str = TABLE) -> None:
        try:
            import sqlalchemy
        except ModuleNotFoundError as error:
            raise RecomposeError("sink sql needs SQLAlchemy: pip install 'recompose[sql]'") from error
        self._sql: Any = sqlalchemy
        try:
            self._engine: Any = sqlalchemy.create_engine(url)
        except (sqlalchemy.exc.ArgumentError, ValueError):
            raise RecomposeError("the path of sink sql is no URL of a database; give sqlite:///FILE") from None
        except ModuleNotFoundError as error:
            raise RecomposeError(f"sink sql needs the package {error.name} for this database; install it") from error
        self._run, self._epoch = run, epoch
        self._results, self._runs = self._tables(table)

    gather = AT_ONCE

    def begin(self, next_serial: int, known: int) -> int:
        try:
            self._create()
            with self._engine.begin() as db:
                return self._take_over(db, next_serial)
        except self._sql.exc.SQLAlchemyError as error:
            raise self._trouble(error) from error

    def _create(self) -> None:
        """Create the tables. If another process creates them at the same time, one gets an error and tries again."""
        try:
            self._runs.metadata.create_all(self._engine)
        except self._sql.exc.DatabaseError:
            self._runs.metadata.create_all(self._engine)

    def _take_over(self, db: Any, next_serial: int) -> int:
        """Take over the run. The update of its row comes first and locks it against other epochs."""
        runs, results, run, epoch = self._runs, self._results, self._run, self._epoch
        mine = (runs.c.run == run) & (runs.c.epoch <= epoch)
        taken = db.execute(runs.update().where(mine).values(epoch=epoch)).rowcount
        found = db.execute(self._sql.select(runs.c.until).where(runs.c.run == run)).first()
        if found is None:
            db.execute(runs.insert().values(run=run, epoch=epoch, until=0))
            return 0
        if not taken:
            raise followed(run)
        until = min(int(found.until), next_serial)
        db.execute(runs.update().where(mine).values(until=until))
        db.execute(results.delete().where((results.c.run == run) & (results.c.serial >= until)))
        return until

    def write(self, until: int, rows: Sequence[Row]) -> None:
        """Write rows. The update of the run's row comes first: an epoch that has lost the run writes nothing."""
        runs, run = self._runs, self._run
        mine = (runs.c.run == run) & (runs.c.epoch == self._epoch)
        try:
            with self._engine.begin() as db:
                taken = db.execute(runs.update().where(mine & (runs.c.until < until)).values(until=until)).rowcount
                if not taken and db.execute(self._sql.select(runs.c.run).where(mine)).first() is None:
                    raise followed(run)
                if taken and rows:
                    db.execute(self._results.insert(), [_fields(run, row) for row in rows])
        except self._sql.exc.SQLAlchemyError as error:
            raise self._trouble(error) from error

    def close(self) -> None:
        self._engine.dispose()

    def _tables(self, name: str) -> tuple[Any, Any]:
        sql, known = self._sql, self._sql.MetaData()
        column, integer, key = sql.Column, sql.BigInteger, {"primary_key": True}
        run, part = sql.String(64), integer()
        results = sql.Table(
            *(name, known, column("run", run, **key), column("serial", integer, **key, autoincrement=False)),
            *(column("part", part, **key, autoincrement=False), column("value", sql.Text), column("error", sql.Text)),
        )
        runs = sql.Table(
            *(f"{name}_runs", known, column("run", run, **key)),
            *(column("epoch", integer, nullable=False), column("until", integer, nullable=False)),
        )
        return results, runs

    def _trouble(self, error: Exception) -> Exception:
        """Return the error with the database's own words only, because a statement contains values."""
        why = str(getattr(error, "orig", None) or error).splitlines()[0]
        where = self._engine.url.set(query={}).render_as_string(hide_password=True)
        lasting = isinstance(error, self._sql.exc.IntegrityError | self._sql.exc.ProgrammingError)
        kind = RecomposeError if lasting else OSError
        return kind(f"sink {where} cannot be written: {why}")


def _fields(run: str, row: Row) -> dict[str, object]:
    """Return the columns of a row; a single value has part 0, as a key must not be null."""
    return {**row._asdict(), "run": run, "part": row.part or 0}
