"""The budget of a pre-training: an amount in one of four units, or several amounts (the rungs of a ladder).

The unit matters: equal tokens, equal FLOPs and equal minutes may rank models differently.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

from ptmbench.bench.errors import UsageError

MOST = {"steps": 10**12, "tokens": 10**18, "flops": 1e30, "minutes": 1e7}
"""The largest budget in each unit, far above any real training. Larger numbers are typing errors."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A pre-training budget. At most one of the four fields is set. If none is set, the suite's own budget is used.

    - ``steps``: optimizer steps
    - ``tokens``: input tokens read
    - ``flops``: training FLOPs by the model's formula
    - ``minutes``: wall time; the only unit that does not repeat exactly
    """

    steps: int | None = None
    tokens: int | None = None
    flops: float | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        given = [field.name for field in fields(self) if getattr(self, field.name) is not None]
        if len(given) > 1:
            flags = " and ".join(f"--{name}" for name in given)
            raise UsageError(f"{flags} exclude each other: a budget has one unit. Give one of {_FLAGS}.")
        for name in given:
            if not 0 < self.amount <= MOST[name]:
                raise UsageError(f"--{name} must be a positive number of at most {MOST[name]:.0e}, not {self.amount}.")

    @classmethod
    def parse(
        cls,
        *,
        steps: str | None = None,
        tokens: str | None = None,
        flops: str | None = None,
        minutes: str | None = None,
    ) -> "Budget":
        """Returns the budget for option texts such as "2000", "20e6" or "1.5e15". Raises `UsageError` for others."""
        return cls(
            steps=_whole("steps", steps),
            tokens=_whole("tokens", tokens),
            flops=_number("flops", flops),
            minutes=_number("minutes", minutes),
        )

    @property
    def unit(self) -> str | None:
        """The unit that is set, or None."""
        return next((field.name for field in fields(self) if getattr(self, field.name) is not None), None)

    @property
    def amount(self) -> int | float | None:
        """The number, in ``unit``."""
        return getattr(self, self.unit) if self.unit else None

    def flag(self) -> str:
        """The command-line option for this budget, such as "--tokens 20000000"; "" if no unit is set."""
        return f"--{self.unit} {self.amount!r}" if self.unit else ""

    def short(self) -> str:
        """As `flag`, with a short form of the number (`written`): "--flops 1e+12"."""
        return f"--{self.unit} {written(self.amount)}" if self.unit else ""


def written(amount: float) -> str:
    """Returns ``amount`` as text: with up to six digits if they give the same number, else with all digits."""
    short = f"{amount:g}"
    return short if float(short) == amount else repr(amount)


def rungs(budget: Budget | Sequence[Budget]) -> tuple[Budget, ...]:
    """Returns the budgets in ``budget`` (one or several) that have a unit, without duplicates, in the given order."""
    several = (budget,) if isinstance(budget, Budget) else budget
    return tuple(dict.fromkeys(one for one in several if one.unit))


def parse_rungs(**texts: str | None) -> tuple[Budget, ...]:
    """Returns budgets from option texts by unit, with one number or several separated by commas: ``flops="1e12,1e13"``.
    Takes the same names as `Budget.parse`, and raises `UsageError` for the same reasons."""
    Budget.parse(**{name: "1" for name, text in texts.items() if text is not None})  # raises an error for two units
    return rungs(
        [Budget.parse(**{name: part}) for name, text in texts.items() if text is not None for part in text.split(",")]
    )


def steps_of(budget: Budget, tokens_per_step: int, flops_per_step: float) -> int | None:
    """The number of whole optimizer steps in ``budget``, at least 1. None for minutes: the speed is not known yet."""
    if budget.unit == "minutes":
        return None
    per_step = {"steps": 1, "tokens": tokens_per_step, "flops": flops_per_step}[budget.unit]
    return max(1, math.floor(budget.amount / per_step))


_FLAGS = ", ".join(f"--{field.name}" for field in fields(Budget))


def _number(name: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--{name} takes a number such as 2000, 20e6 or 1.5e9, not '{text}'.") from None


def _whole(name: str, text: str | None) -> int | None:
    value = _number(name, text)
    if value is None or not math.isfinite(value):
        return value  # type: ignore[return-value]  # Budget raises the error for nan and inf
    if value != int(value):
        raise UsageError(f"--{name} counts whole {name}, so it cannot be {text}.")
    return int(value)
