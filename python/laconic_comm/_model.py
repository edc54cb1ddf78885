"""A model as the library sees it: names, shapes as they lie in memory, addresses."""

from __future__ import annotations

import types
from typing import Any, Callable, Iterable

import torch

from . import _library as l
from ._arguments import a_whole
from .errors import UsageError

DTYPES = {torch.float32: l.FLOAT32, torch.float16: l.FLOAT16, torch.bfloat16: l.BFLOAT16}


def a_module(value: Any) -> Any:
    if not isinstance(value, torch.nn.Module):
        raise UsageError(f"a model of type {type(value).__name__}; allowed: a torch.nn.Module")
    return value


def memory_shape(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """The extents from the one with the largest stride on; None for entries that overlap or lie apart.

    A transposed weight and a channels_last convolution lie in another order than their shapes say,
    and low-rank exchanges look at matrices.
    """
    order = sorted(range(tensor.dim()), key=lambda d: -tensor.stride(d))
    shape = tuple(tensor.size(d) for d in order)
    expected = 1
    for d in reversed(order):
        if tensor.size(d) != 1 and tensor.stride(d) != expected:
            return None
        expected *= tensor.size(d)
    return shape or (1,)


def trained(module: torch.nn.Module, ignored: Iterable[str] = ()) -> dict[str, torch.nn.Parameter]:
    """The parameters with gradients, by name. Raises UsageError for types the library does not have."""
    left_out = set(ignored)
    found = {n: p for n, p in module.named_parameters() if p.requires_grad and n not in left_out}
    if not found:
        raise UsageError("the model has no parameter with a gradient")
    for name, parameter in found.items():
        if parameter.dtype not in DTYPES:
            raise UsageError(f"parameter '{name}' is {parameter.dtype}; allowed: float32 float16 bfloat16")
    return found


def described(parameters: dict[str, torch.nn.Parameter]) -> list[tuple[str, tuple[int, ...]]]:
    """Name and shape of each; where entries lie apart, DDP's buckets have them in the shape's own order."""
    return [(n, memory_shape(p) or tuple(p.shape) or (1,)) for n, p in parameters.items()]


def require_own(optimizer: torch.optim.Optimizer, parameters: Iterable[torch.nn.Parameter]) -> None:
    stepped = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not any(id(p) in stepped for p in parameters):
        raise UsageError("an optimizer of other parameters; allowed: one of the model's")


# torch 1.13 has no hooks of optimizers. Schedulers want a bound method, and leave their own mark on it.
def after_steps(optimizer: torch.optim.Optimizer, note: Callable[[], None]) -> None:
    """Calls note after every step that the optimizer makes."""
    if hasattr(optimizer, "register_step_post_hook"):
        optimizer.register_step_post_hook(lambda *_: note())
        return
    original = optimizer.step

    def step(_: Any, *arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        note()
        return result

    step.__dict__.update(getattr(original, "__dict__", {}))
    optimizer.step = types.MethodType(step, optimizer)  # type: ignore[method-assign]


def at_end_of_backward(callback: Callable[[], Any]) -> bool:
    """Calls it when the backward pass under way has been through its graph. False: there is none."""
    try:
        torch.autograd.Variable._execution_engine.queue_callback(callback)
        return True
    except RuntimeError:
        return False


def blob_key(rank: int, shard: str = "") -> str:
    return f"{shard}rank{rank}.blob"


def state_of(blob: bytearray, rank: int, size: int, step: int, shard: str = "") -> dict[str, Any]:
    """What checkpoints hold: plain values, this rank's under its own key, which begins with the shard's name if any."""
    return {
        "version": 1,
        "world_size": size,
        "step": step,
        blob_key(rank, shard): torch.frombuffer(blob, dtype=torch.uint8).clone() if blob else torch.empty(0, dtype=torch.uint8),
    }


def blob_of(states: Any, rank: int, size: int, shard: str = "") -> tuple[bytes, int]:
    """This rank's bytes and the step, of one state, or of the states of all ranks."""
    from ._method import redistributed

    merged: dict[str, Any] = {}
    for state in _listed(states):
        for key in ("version", "world_size", "step"):
            if key not in state:
                raise UsageError(f"the state has no '{key}': it is not one of this package")
            if merged.setdefault(key, state[key]) != state[key]:
                raise UsageError(f"the ranks' states differ in '{key}': {merged[key]} and {state[key]}")
        merged.update(state)
    if merged["version"] != 1:
        raise UsageError(f"a state of version {merged['version']}; allowed: 1")
    saved, step = a_whole(merged["world_size"], "the state's world_size", least=1), a_whole(merged["step"], "the state's step")
    if saved == size and blob_key(rank, shard) in merged:
        return _bytes_of(merged, rank, shard), step
    missing = next((r for r in range(saved) if blob_key(r, shard) not in merged), None)
    if missing is not None:
        raise UsageError(
            f"the state of {saved} ranks lacks '{blob_key(missing, shard)}'; for {size} ranks give all of them, "
            "as one dict or as a list of dicts"
        )
    return redistributed([_bytes_of(merged, r, shard) for r in range(saved)], size, rank), step


def _listed(states: Any) -> list[dict[str, Any]]:
    try:
        listed = [states] if isinstance(states, dict) else list(states)
    except TypeError:
        listed = [states]
    for state in listed:
        if not isinstance(state, dict):
            raise UsageError(f"a state of type {type(state).__name__}; allowed: what state_dict() gave, or a list of all ranks'")
    if not listed:
        raise UsageError("an empty list of states; allowed: what state_dict() gave on all ranks")
    return listed


def _bytes_of(merged: dict[str, Any], rank: int, shard: str) -> bytes:
    blob = merged[blob_key(rank, shard)]
    if not isinstance(blob, torch.Tensor) or blob.dtype != torch.uint8:
        kind = blob.dtype if isinstance(blob, torch.Tensor) else type(blob).__name__
        raise UsageError(f"the state's '{blob_key(rank, shard)}' is of type {kind}; allowed: a tensor of uint8")
    return bytes(blob.cpu().numpy())
