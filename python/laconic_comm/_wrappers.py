"""Models as frameworks hand them out: what is inside."""

from __future__ import annotations

import logging
from typing import Any

from .errors import UsageError

log = logging.getLogger("laconic")

_INSIDE = {  # attribute: whose
    "_orig_mod": "torch.compile",
    "_forward_module": "Lightning Fabric",
}


def unwrapped(model: Any) -> Any:
    """The DistributedDataParallel or sharded model in what torch.compile, Accelerate or Lightning made of it."""
    if not hasattr(model, "__dict__"):  # nothing can be in it
        return model
    found = _of_lightning(model)
    while True:
        for name, whose in _INSIDE.items():
            inner = getattr(found, "__dict__", {}).get("_modules", {}).get(name) or vars(found).get(name)
            if inner is not None:
                log.info("the model inside that of %s: a %s", whose, type(inner).__name__)
                found = inner
                break
        else:
            return found


# A Trainer, or a LightningModule that has one: the wrapped model is the strategy's.
def _of_lightning(model: Any) -> Any:
    modules = {kind.__module__.split(".")[0] for kind in type(model).__mro__}
    if not modules & {"lightning", "pytorch_lightning", "lightning_fabric"}:
        return model
    trainer = model if hasattr(model, "strategy") else vars(model).get("_trainer")
    if trainer is None:
        if "_forward_module" in vars(model).get("_modules", {}) or "_forward_module" in vars(model):
            return model
        raise UsageError(
            f"a {type(model).__name__} that no Trainer has wrapped yet; allowed: from a callback's on_train_start on"
        )
    inner = trainer.strategy.model
    if inner is None:
        raise UsageError("a Trainer without a wrapped model yet; allowed: from a callback's on_train_start on")
    log.info("the model of Lightning's %s: a %s", type(trainer.strategy).__name__, type(inner).__name__)
    return inner


def unwrapped_optimizer(optimizer: Any) -> Any:
    """torch's own optimizer in what Accelerate (``optimizer``) or Lightning (``_optimizer``) made of it: the one that steps."""
    for name in ("optimizer", "_optimizer"):
        inner = getattr(optimizer, "__dict__", {}).get(name)
        if hasattr(inner, "param_groups"):
            return unwrapped_optimizer(inner)
    return optimizer
