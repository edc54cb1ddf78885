"""Laconic: compressed communication for distributed training.

    model = torch.nn.parallel.DistributedDataParallel(model)
    lc.attach(model, "topk:0.01+natural", memory="feedback")

torch is imported only by what needs it: compress, decompress, inspect, operators, plan and recipes
work on NumPy arrays alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import _library
from .arrays import compress, decompress, inspect, operators, recipes
from .errors import DataError, Error, TransportError, UsageError
from .planning import plan

if TYPE_CHECKING:
    from .hook import State, attach
    from .local import Gossip, LocalSteps
    from .shadow import report

__all__ = [
    "DataError", "Error", "Gossip", "LocalSteps", "State", "TransportError", "UsageError", "attach",
    "compress", "decompress", "inspect", "library_version", "operators", "plan", "recipes", "report",
]  # fmt: skip

__version__ = "0.1.0"

_OF_TORCH = {"attach": ".hook", "State": ".hook", "LocalSteps": ".local", "Gossip": ".local", "report": ".shadow"}


def __getattr__(name: str) -> Any:
    if name in _OF_TORCH:
        return getattr(importlib.import_module(_OF_TORCH[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def library_version() -> str:
    """The version of the library that was loaded."""
    return str(_library.library().version().decode())
