"""Compressed gradients between the replicas of a model that fully_shard() (FSDP2) has spread inside each node.

The mesh has two dimensions. torch shards over one of them, inside the node, and reduces there as it always does; its
all-reduce hook then averages each rank's shard with those of the other nodes. A unit of FSDP is a part of the step,
which torch waits for; the step ends with the backward pass, on all ranks of the node alike.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from . import _library as l
from ._method import require_parts_alone
from ._model import DTYPES, at_end_of_backward
from .errors import Error, TransportError, UsageError
from .hook import _UNDEFINED, State


class Unit(NamedTuple):
    name: str
    places: list[int]  # of its tensors
    starts: list[int]  # of each in the flat gradient
    count: int


def is_sharded(model: Any) -> bool:
    return bool(_kinds()) and isinstance(model, torch.nn.Module) and any(isinstance(m, _kinds()) for m in model.modules())


# None before torch 2.6. That of Debian's 1.13 fails to import under Python 3.11 by a ValueError of its own.
def _kinds() -> tuple[type, ...]:
    try:
        from torch.distributed.fsdp import FSDPModule

        return (FSDPModule,)
    except (ImportError, ValueError):
        return ()


class ShardedState(State):
    """As State, for models of fully_shard() over ``mesh``'s other dimension; ``mesh`` is that of the replicas."""

    def flush(self) -> None:
        raise UsageError("flush of a sharded model, whose gradients are shards; allowed: attach to a replicated one")

    _UNIT_BYTES = 1  # torch waits for each unit, so none may wait for the next

    def __init__(self, model: Any, op: str | None = None, *, mesh: Any = None, **options: Any) -> None:
        kinds = _kinds()
        if not kinds or not hasattr(kinds[0], "set_all_reduce_hook"):
            raise UsageError(f"torch {torch.__version__} has no all-reduce hook of fully_shard(); allowed: 2.6 and later")
        if mesh is None or getattr(mesh, "ndim", 0) != 1:
            given = "no mesh" if mesh is None else f"a mesh of {getattr(mesh, 'ndim', 0)} dimensions"
            raise UsageError(f'{given}; allowed: the dimension of the replicas, such as mesh["dp"]')
        super().__init__(model, op, group=options.pop("group", None) or mesh.get_group(), **options)
        self._flagged = torch.zeros(1, device=self._parameters[0].device)
        self._require_equal_start()
        for unit, module in zip(self._units, self._modules):
            module.set_all_reduce_hook(lambda output, unit=unit: self._reduce(unit, output))

    def _require(self, model: Any) -> None:
        if not is_sharded(model):
            raise UsageError(f"mesh= with a {type(model).__name__}; allowed: a model of fully_shard()")

    def _look_at(self, model: Any) -> tuple[dict[str, torch.nn.Parameter], list[tuple[str, tuple[int, ...]]], Any]:
        if self.recipe["layout"] != "tensor":
            raise UsageError(f"layout '{self.recipe['layout']}' crosses the units of fully_shard(); allowed: tensor")
        require_parts_alone(json.dumps(self.recipe))  # torch waits for each unit
        names = {id(p): name for name, p in model.named_parameters()}
        parameters: dict[str, torch.nn.Parameter] = {}
        tensors: list[tuple[str, tuple[int, ...]]] = []
        self._units: list[Unit] = []
        self._modules: list[Any] = []
        seen: set[int] = set()
        for unit_name, module in model.named_modules():
            groups = _groups_of(module) if isinstance(module, _kinds()) else []
            if len(groups) > 1:
                raise UsageError(f"unit '{unit_name}' has parameters on several meshes; allowed: one mesh")
            if not groups or id(groups[0]) in seen:
                continue
            seen.add(id(groups[0]))
            unit = Unit(unit_name, [], [], 0)
            for one in groups[0].fsdp_params:
                parameter = one.sharded_param
                if not parameter.requires_grad:
                    continue
                _require_supported(names[id(parameter)], parameter)
                shape = tuple(one.padded_sharded_param_size) or (1,)
                unit.places.append(len(tensors))
                unit.starts.append(unit.count)
                unit = unit._replace(count=unit.count + torch.Size(shape).numel())
                parameters[names[id(parameter)]] = parameter
                tensors.append((names[id(parameter)], shape))
            if len({parameters[tensors[i][0]].dtype for i in unit.places}) > 1:
                raise UsageError(f"unit '{unit_name}' has parameters of several types; allowed: one in a unit")
            self._units.append(unit)
            self._modules.append(module)
        if not parameters:
            raise UsageError("the model has no sharded parameter with a gradient")
        inside = next(iter(parameters.values())).device_mesh
        self._node, self._shards = inside.get_group(), inside.size()
        self._SHARD = f"shard{inside.get_local_rank()}of{self._shards}."
        return parameters, tensors, None

    def _parameter_addresses(self) -> None:
        return None  # shards may be shorter than their gradients, which are padded

    # torch broadcasts nothing between replicas.
    def _require_equal_start(self) -> None:
        total = 0
        for parameter in self._parameters:
            local = parameter.to_local().detach()
            if local.device.type == "meta":
                return
            total = zlib.crc32(local.cpu().contiguous().view(torch.uint8).numpy().tobytes(), total)
        everybody: list[Any] = [None] * self.world_size
        dist.all_gather_object(everybody, total, group=self._group)
        for rank, other in enumerate(everybody):
            if other != everybody[0]:
                self.close()
                raise UsageError(f"replica {rank} has other parameters than replica 0; load or seed them alike", rank)

    # In the backward pass: the unit's gradient, reduced inside the node, becomes the mean over nodes.
    def _reduce(self, unit: Unit, output: torch.Tensor) -> None:
        if self._dense:
            self._reduce_dense_unit(output)
            return
        try:
            if not self._open and not self._refused:
                self._begin()
                self._end_after_backward()
            if self._refused:
                output.fill_(_UNDEFINED)
                return
            self._average(unit, output)
        except Error as error:
            if not self._open:  # the step could not begin
                self._end_after_backward()
            self._refused, self._why = True, error
            output.fill_(_UNDEFINED)

    def _average(self, unit: Unit, output: torch.Tensor) -> None:
        if output.numel() != unit.count:
            raise UsageError(
                f"unit '{unit.name}' has {output.numel()} entries of gradient instead of {unit.count}: some parameters were "
                "not used; allowed: all used, or set_reduce_scatter_unused_params(True)"
            )
        host = output
        if self._staging is not None:
            host, copied = self._staging.down(self._units.index(unit), output)
            copied.synchronize()
        size = host.element_size()
        addresses = [host.data_ptr() + start * size for start in unit.starts]
        self._method.wait(self._method.submit(unit.places, addresses, DTYPES[host.dtype]))
        if self._staging is not None:
            streams = self._staging.streams(output.device)
            streams.up(output, host)
            streams.join()

    def _reduce_dense_unit(self, output: torch.Tensor) -> None:
        size = output.numel() * output.element_size()
        stats = l.Stats(payload_bytes=size, wire_bytes=size, dense_bytes=size, rounds=1, finite=1)
        if self._open:
            self._dense_parts = _sum(self._dense_parts, stats)
        else:
            self._open, self._dense_parts = True, stats
            self._end_after_backward()
        output.mul_(1.0 / self.world_size)
        dist.all_reduce(output, group=self._group)

    # A callback queued by a callback comes after torch's own, which reduces the last units.
    def _end_after_backward(self) -> None:
        at_end_of_backward(lambda: at_end_of_backward(self._end))

    def _end(self) -> None:
        if self._dense:
            self._open = False
            self._costs.add(self._dense_parts)
            self._step += 1
            return
        refused, self._refused = self._refused, False
        opened, self._open = self._open, False
        if refused:
            self.error = self._untold = self._why
            if opened:
                self._open = True
                self._end_quietly(str(self._why))
        else:
            self._count(self._method.finish)
        self._agree_inside()
        self._raise_untold()

    # Shards of one node go on together: one whose replicas failed, or whose gradient was not finite, is everybody's.
    def _agree_inside(self) -> None:
        bad = 2.0 if self._untold is not None else 0.0 if self._pending else 1.0
        try:
            dist.all_reduce(self._flagged.fill_(bad), op=dist.ReduceOp.MAX, group=self._node)
        except RuntimeError as error:
            if self._untold is None:
                first_line = str(error).strip().split("\n", 1)[0]
                self._untold = self.error = TransportError(f"a rank of this node has left: {first_line}")
        worst = float(self._flagged)
        if worst and self._pending:
            self._pending = False
            self._method.rollback()
        if worst == 2.0 and self._untold is None:
            self._untold = self.error = TransportError("another rank of this node has ended the step; its sentence says why")


def _sum(one: l.Stats, other: l.Stats) -> l.Stats:
    for name in ("payload_bytes", "wire_bytes", "dense_bytes"):
        setattr(one, name, getattr(one, name) + getattr(other, name))
    return one


def _groups_of(module: Any) -> list[Any]:
    state = module._get_fsdp_state()
    if hasattr(state, "_fsdp_param_groups"):
        return list(state._fsdp_param_groups)
    group = getattr(state, "_fsdp_param_group", None)
    return [] if group is None else [group]


def _require_supported(name: str, parameter: Any) -> None:
    if parameter.device_mesh.ndim != 1:
        raise UsageError(
            f"parameter '{name}' is on a mesh of {parameter.device_mesh.ndim} dimensions, over which torch averages by "
            'itself; allowed: fully_shard(..., mesh=mesh["shard"])'
        )
    if parameter.dtype not in DTYPES:
        raise UsageError(f"parameter '{name}' is {parameter.dtype}; allowed: float32 float16 bfloat16")
