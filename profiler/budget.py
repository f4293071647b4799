"""The budget of an app: limits on what it may spend, whatever its objective."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from compositions.errors import Fault, RecomposeError
from compositions.wording import figure

MOST = 100_000
"""Workers or cores: more is a slip of the hand."""
_ACCEPTED = "accepted are workers=8 and cores=3"


class BudgetError(RecomposeError):
    """A budget was refused; the text says what would be accepted."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits, each ``None`` where there is none. Another thing that is paid for is another field."""

    workers: int | None = None
    """Of all groups together."""
    cores: float | None = None
    """Kept busy at the expected input rate, hops included."""

    @property
    def free(self) -> bool:
        """It limits nothing."""
        return self.workers is None and self.cores is None

    def within(self, other: "Budget") -> "Budget":
        """Return what is left by both."""
        workers = [each.workers for each in (self, other) if each.workers is not None]
        cores = [each.cores for each in (self, other) if each.cores is not None]
        return Budget(min(workers, default=None), min(cores, default=None))

    def told(self) -> str:
        """``8 workers and 3 cores``."""
        given = [(each.name, getattr(self, each.name)) for each in fields(self)]
        known = ((name[:-1] if most == 1 else name, most) for name, most in given if most is not None)
        return " and ".join(f"{figure(most, 6)} {name}" for name, most in known)


FREE = Budget()
"""No limit."""


def faults(budget: Budget) -> Iterator[Fault]:
    """Every limit that is out of range."""
    if budget.workers is not None and not 1 <= budget.workers <= MOST:
        yield Fault("budget.workers", f"budget workers {budget.workers} must be a whole number from 1 to {MOST:,}")
    if budget.cores is not None and not 0 < budget.cores <= MOST:
        yield Fault("budget.cores", f"budget cores {budget.cores} must be above 0 and at most {MOST:,}")


def parse_budget(text: str) -> Budget:
    """A budget in the form of the command line: ``workers=8``, ``cores=3`` or ``workers=8,cores=3``.

    Raises: BudgetError with a sentence on what is wrong with ``text`` and what would be accepted.
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
