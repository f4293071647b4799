"""The budget of an app: limits on its workers and cores, independent of its objective."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from compositions.errors import Fault, RecomposeError
from compositions.wording import figure

MOST = 100_000
"""Largest accepted number of workers or cores; a larger one must be a typing error."""
_ACCEPTED = "accepted are workers=8 and cores=3"


class BudgetError(RecomposeError):
    """A budget was refused; the text names the accepted forms."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of an app's resources; ``None``: unlimited."""

    workers: int | None = None
    """Maximum number of workers of all groups together."""
    cores: float | None = None
    """Maximum number of busy cores at the expected input rate, hops included."""

    @property
    def free(self) -> bool:
        """True if there is no limit."""
        return self.workers is None and self.cores is None

    def within(self, other: "Budget") -> "Budget":
        """Return the smaller limits of both budgets."""
        workers = [each.workers for each in (self, other) if each.workers is not None]
        cores = [each.cores for each in (self, other) if each.cores is not None]
        return Budget(min(workers, default=None), min(cores, default=None))

    def told(self) -> str:
        """Return the limits as text, such as ``8 workers and 3 cores``."""
        given = [(each.name, getattr(self, each.name)) for each in fields(self)]
        known = ((name[:-1] if most == 1 else name, most) for name, most in given if most is not None)
        return " and ".join(f"{figure(most, 6)} {name}" for name, most in known)


FREE = Budget()
"""The budget without limits."""


def faults(budget: Budget) -> Iterator[Fault]:
    """Yield a fault for each limit that is out of range."""
    if budget.workers is not None and not 1 <= budget.workers <= MOST:
        yield Fault("budget.workers", f"budget workers {budget.workers} must be a whole number from 1 to {MOST:,}")
    if budget.cores is not None and not 0 < budget.cores <= MOST:
        yield Fault("budget.cores", f"budget cores {budget.cores} must be above 0 and at most {MOST:,}")


def parse_budget(text: str) -> Budget:
    """Parse a budget from the command line: ``workers=8``, ``cores=3`` or ``workers=8,cores=3``.

    Raises: BudgetError with a sentence on the fault in ``text`` and the accepted forms.
    """
    given: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = (each.strip() for each in part.partition("="))
        if name not in _KINDS or name in given:
            raise BudgetError(f"budget {text!r} is not understood at {part!r}; {_ACCEPTED}")
        try:
            given[name] = _KINDS[name](value)
        except ValueError:
            raise BudgetError(f"budget {text!r} is not understood: {value!r} is not a number; {_ACCEPTED}") from None
    budget = Budget(**given)  # type: ignore[arg-type]  # each as its kind makes it
    for fault in faults(budget):
        raise BudgetError(fault.message)
    return budget


_KINDS = {"workers": int, "cores": float}
