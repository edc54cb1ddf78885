"""What people give, before it reaches C, which would take a part of it: one sentence for what cannot be."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any

from .errors import UsageError

MOST = 2**64 - 1  # of what the library has as uint64_t
LONGEST = 1e8  # seconds, the library's
MOST_THREADS = 1024


def a_text(value: Any, what: str) -> bytes:
    """As C wants it. A zero byte would end it unseen."""
    if not isinstance(value, str):
        raise UsageError(f"{what} is {value!r}; allowed: text")
    if "\0" in value:
        raise UsageError(f"{what} is {value!r}; allowed: text without a zero byte")
    return value.encode(errors="surrogateescape")


def a_whole(value: Any, what: str, least: int = 0, most: int = MOST) -> int:
    allowed = f"allowed: whole numbers from {least} " + ("to 2^64 - 1" if most == MOST else f"to {most}")
    try:
        number = operator.index(value)
    except TypeError:
        raise UsageError(f"{what} is {value!r}; {allowed}") from None
    if not least <= number <= most:
        raise UsageError(f"{what} is {number}; {allowed}")
    return number


def seconds(value: Any, what: str = "timeout") -> float:
    if isinstance(value, numbers.Real) and not math.isnan(value) and 0 < value <= LONGEST:
        return float(value)
    raise UsageError(f"{what} is {value!r}; allowed: seconds above 0, up to {LONGEST:.0f}")


def texts(value: Any, what: str) -> list[Any]:
    """One text or several. What they hold is the library's to judge."""
    if isinstance(value, str):
        return [value]
    try:
        return list(value)
    except TypeError:
        raise UsageError(f"{what} is {value!r}; allowed: a text, or a list of them") from None


def a_function(value: Any, what: str) -> Any:
    if not callable(value):
        raise UsageError(f"{what} is {value!r}; allowed: a function")
    return value


def a_writer(value: Any) -> Any:
    if value is not None and not callable(getattr(value, "add_scalar", None)):
        raise UsageError(f"a writer of type {type(value).__name__}; allowed: one with add_scalar")
    return value


def an_optimizer(value: Any) -> Any:
    if isinstance(value, type) or not hasattr(value, "param_groups") or not callable(getattr(value, "step", None)):
        raise UsageError(f"an optimizer {value!r}; allowed: a torch.optim.Optimizer of the model's parameters")
    return value


def a_scaler(value: Any) -> Any:
    if value is not None and (isinstance(value, type) or not callable(getattr(value, "get_scale", None))):
        raise UsageError(f"a scaler {value!r}; allowed: a GradScaler, or what else has its get_scale()")
    return value
