"""Compressed gradients for torch's DistributedDataParallel, by its own communication hook.

A step of the library is one backward pass: it begins with the first bucket, every bucket is a part,
and all futures are resolved when the ranks have voted. So no mean is seen that others do not have,
and how DDP cuts its buckets changes nothing: draws and residuals belong to the model's tensors.
"""

from __future__ import annotations

import atexit
import inspect
import logging
import queue
import sys
import threading
import weakref
from typing import Any, Callable, Iterable, Tuple

import torch
from torch.nn.parallel import DistributedDataParallel

from . import _library as l
from ._arguments import a_scaler, a_text, a_whole, an_optimizer
from ._dense import DenseParts
from ._method import Method, check_running, recipe_of, recipe_text
from ._model import DTYPES, after_steps, at_end_of_backward, blob_of, described, require_own, state_of, trained
from ._staging import staging_for
from ._stats import Costs, tensor_report
from ._transports import make_transport
from ._wrappers import unwrapped, unwrapped_optimizer
from .errors import NOT_PICKLED, Error, UsageError, told

log = logging.getLogger("laconic")

_Part = Tuple["torch.futures.Future[torch.Tensor]", torch.Tensor, torch.Tensor]  # in the last the library writes
_UNDEFINED = float("nan")  # gradients of a step that failed: nobody shall train with them by mistake


def attach(model: Any, op: str | None = None, **options: Any) -> State:
    """Lets a DistributedDataParallel model send compressed gradients. All ranks call it, before the first backward.

    Models of fully_shard() take ``mesh``, too: that of the replicas, between which gradients are then compressed.
    Takes what State takes. Either ``op`` (such as ``"topk:0.01+natural"``) with ``memory``, ``exchange``,
    ``layout`` and ``rules``, or a whole ``recipe``: a name, a .json file, JSON text or a dict.
    ``optimizer``: steps it does not make (a GradScaler's skipped ones) are rolled back, and its learning
    rate is told to memories that ask; without it every finite step is committed. ``scaler``: its loss
    scale, so that what is remembered is unscaled. Different settings on two ranks raise UsageError on all.
    """
    model = unwrapped(model)
    if "mesh" in options or not isinstance(model, DistributedDataParallel):
        from .sharded import ShardedState, is_sharded

        if "mesh" in options or is_sharded(model):
            return ShardedState(model, op, **options)
    state = State(model, op, **options)
    try:
        model.register_comm_hook(state, state.hook)
    except RuntimeError as error:
        state.close()
        if "register_comm_hook" in str(error):
            raise UsageError("the model has a communication hook already; allowed: one") from error
        raise
    return state


class State:
    """What ``attach`` returns. ``ddp.register_comm_hook(state, state.hook)`` is the other way to use it."""

    _closed = True  # nothing to close yet

    def __init__(
        self,
        model: Any,
        op: str | None = None,
        *,
        recipe: str | dict[str, Any] | None = None,
        memory: str | None = None,
        exchange: str | None = None,
        layout: str | None = None,
        rules: Iterable[str] | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        scaler: Any = None,
        seed: int = 0,
        timeout: float = 60,
        threads: int = 1,
        guard: str = "on",
        transport: str = "sockets",
        group: Any = None,
        writer: Any = None,
        _staging: Any = False,
    ) -> None:
        model = unwrapped(model)
        self._require(model)
        self._closed = False
        self._model = weakref.ref(model)
        check_running(seed, timeout, threads, guard)
        if op is None and exchange is None and recipe is None:
            raise UsageError("nothing to do; allowed: an operator, an exchange or a recipe")
        options = {"op": op, "memory": memory, "exchange": exchange, "layout": layout, "rules": rules}
        text = recipe_text("attached", recipe, options, {})
        self.recipe = recipe_of(text)
        if self.recipe["mixer"] or self.recipe["delay"] > 1 or self.recipe["outer"] != "none":
            other = "Gossip" if self.recipe["mixer"] else "LocalSteps"
            raise UsageError(f"recipe '{self.recipe['name']}' averages no gradients; use lc.{other}")
        parameters, tensors, own_group = self._look_at(model)
        self._parameters, self._names = list(parameters.values()), list(parameters)
        self._places = {id(p): i for i, p in enumerate(self._parameters)}
        device = self._parameters[0].device
        self._staging = staging_for(device, _staging)
        self._group = own_group if group is None else group
        self._timeout, self._transport = timeout, transport
        self._scaler, self._optimizer, self._stepped = a_scaler(scaler), None, True
        self._costs = Costs(writer)
        if optimizer is not None:
            self._follow(an_optimizer(unwrapped_optimizer(optimizer)), model)
        self.error: Error | None = None
        self._untold: BaseException | None = None  # what could not be raised by the pass that met it
        self._step = 0
        self._open = self._pending = self._refused = False
        self._parts: list[_Part] = []
        self._idle = threading.Event()
        self._idle.set()
        self._method = Method(
            make_transport(transport, self._group, timeout), text, tensors,
            seed=seed, timeout=timeout, threads=threads, unit_bytes=self._UNIT_BYTES, guard=guard,
        )  # fmt: skip
        dense = self.recipe["exchange"] == "dense"
        self._dense = DenseParts(self._group, self._method, timeout) if dense else None
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._worker = threading.Thread(target=_work, args=(self._jobs,), name="laconic", daemon=True)
        self._worker.start()
        _states.add(self)
        count = sum(p.numel() for p in self._parameters)
        log.info("%s: %d tensors, %d entries, %d ranks, transport %s", self.recipe["name"],
                 len(self._parameters), count, self.world_size, transport)  # fmt: skip

    _UNIT_BYTES = 0  # the library's own
    _SHARD = ""  # what keys of checkpoints begin with

    def _require(self, model: Any) -> None:
        if not isinstance(model, DistributedDataParallel):
            raise UsageError(
                f"a {type(model).__name__}; allowed: DistributedDataParallel (with Accelerate what prepare() "
                "returns, with Lightning trainer.strategy.model), or a model of fully_shard() with mesh="
            )
        if getattr(model, "skip_all_reduce_unused_params", False):
            raise UsageError("skip_all_reduce_unused_params=True leaves parts of a step out; allowed: False")

    # Parameters by name, what the library is told of them, and the group.
    def _look_at(self, model: Any) -> tuple[dict[str, torch.nn.Parameter], list[tuple[str, tuple[int, ...]]], Any]:
        parameters = trained(model.module, getattr(model, "parameters_to_ignore", ()))
        return parameters, described(parameters), model.process_group

    # For memories that look at the parameters: where the library can.
    def _parameter_addresses(self) -> list[int] | None:
        if any(p.dtype != torch.float32 or p.device.type != "cpu" for p in self._parameters):
            return None
        return [p.data_ptr() for p in self._parameters]

    @property
    def rank(self) -> int:
        return self._method.transport.rank

    @property
    def world_size(self) -> int:
        return self._method.transport.size

    # DDP reads this signature: the last parameter must have this name, and annotations would have to be
    # the very objects, not texts.
    def hook(self, _, bucket):  # type: ignore[no-untyped-def]
        """The communication hook itself: returns a future of the bucket's mean."""
        if isinstance(bucket, tuple):
            raise UsageError('optimize_ddp="python_reducer" has no buckets; allowed: "ddp_optimizer"')
        if self._refused and bucket.index() > 0:
            return self._without_value(bucket.buffer())
        try:
            self._raise_untold()
            return self._take(bucket) if self._dense is None else self._reduce_dense(bucket, self._dense)
        except Error as error:
            return self._refuse(bucket, error)
        except Exception as error:
            why = Error(f"rank {self.rank}: {told(error)}", self.rank)
            why.__cause__ = error
            return self._refuse(bucket, why)

    def _reduce_dense(self, bucket: Any, dense: DenseParts) -> torch.futures.Future[torch.Tensor]:
        first, buffer = bucket.index() == 0, bucket.buffer()
        if first:
            self._idle.wait()
            self._refused, self._parts = False, []
        work = dense.start(buffer, first)
        if buffer.device.type != "cpu":  # a device's own streams wait for it
            if bucket.is_last():
                self._count(dense.stats)
            return work.get_future().then(lambda done: done.value()[0])
        future = self._future(buffer)
        self._parts.append((future, buffer, buffer))
        return self._end_pass(future) if bucket.is_last() else future

    def _take(self, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        if bucket.index() == 0:
            self._refused = False
            self._begin()
        buffer = bucket.buffer()
        try:
            places = [self._places[id(p)] for p in bucket.parameters()]
        except KeyError:
            raise UsageError("a parameter that was not trained at attach; attach again to a new DDP") from None
        addresses = [g.data_ptr() for g in bucket.gradients()]
        future = self._future(buffer)
        if self._staging is None:
            self._method.submit(places, addresses, DTYPES[buffer.dtype])
            self._parts.append((future, buffer, buffer))
        else:
            host, copied = self._staging.down(bucket.index(), buffer)
            addresses = [host.data_ptr() + address - buffer.data_ptr() for address in addresses]
            self._parts.append((future, buffer, host))
            self._jobs.put(lambda: self._submit_after(copied, places, addresses, DTYPES[buffer.dtype]))
        return self._end_pass(future) if bucket.is_last() else future

    # DDP waits for the futures in a callback of the backward pass, which it queues after its last hook. One queued by
    # that hook comes before it: the thread that needs the means waits for them itself, which spares two changes of
    # threads. Where that cannot be, another thread does.
    def _end_pass(self, future: torch.futures.Future[torch.Tensor]) -> torch.futures.Future[torch.Tensor]:
        if self._staging is None and not self._waits_in_hooks() and at_end_of_backward(self._finish_here):
            return future
        told_by_backward = self._tell_after_backward()
        self._idle.clear()
        self._jobs.put(self._finish)
        return future if told_by_backward else future.then(self._value_or_error)

    # With a static graph the first pass has no callback of DDP's: it waits right after its hooks.
    def _waits_in_hooks(self) -> bool:
        return bool(getattr(self._model(), "static_graph", True))

    def _finish_here(self) -> None:
        self._finish()
        if self._untold is not None:
            at_end_of_backward(self._raise_untold)

    # In the thread of _work, in the order of the buckets.
    def _submit_after(self, copied: Any, places: list[int], addresses: list[int], dtype: int) -> None:
        try:
            copied.synchronize()
            self._method.submit(places, addresses, dtype)
        except BaseException as error:  # what ended the step is told by finish
            self._method.abort(f"rank {self.rank}: {error}")

    # Until what was staged has been submitted.
    def _drain(self) -> None:
        if self._staging is not None and threading.current_thread() is not self._worker:
            done = threading.Event()
            self._jobs.put(done.set)
            done.wait()

    def _future(self, buffer: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
        return torch.futures.Future() if self._staging is None else self._staging.streams(buffer.device).future()

    # Hands the parts' means to DDP, or what nobody shall train with.
    def _resolve(self, parts: list[_Part], good: bool) -> None:
        for future, buffer, host in parts:
            if self._staging is None:
                future.set_result(buffer if good else buffer.fill_(_UNDEFINED))
                continue
            streams = self._staging.streams(buffer.device)
            if good:
                streams.up(buffer, host)
            else:
                streams.fill(buffer, _UNDEFINED)
            with streams.current():
                future.set_result(buffer)

    def _begin(self, plain: bool = False) -> None:
        self._idle.wait()
        if self._open:  # of a backward that was left by an exception
            self._end_quietly("its backward did not reach the end")
        self._decide()
        scale = float(self._scaler.get_scale()) if self._scaler is not None and not plain else 1.0
        groups = self._optimizer.param_groups if self._optimizer is not None else [{"lr": 1.0}]
        self._method.begin(self._step, float(groups[0]["lr"]), scale, self._parameter_addresses(), plain)
        self._open = True

    # DDP's own finalisation waits for the futures.
    def _finish(self) -> None:
        parts, self._parts = self._parts, []
        good = self._count(self._dense.finish if self._dense is not None else self._method.finish)
        self._open = False
        self._idle.set()
        self._resolve(parts, good)

    # Whether the step has ended well.
    def _count(self, finish: Callable[[], l.Stats]) -> bool:
        try:
            stats = finish()
            self._costs.add(stats)
            self.error, self._stepped = None, self._optimizer is None
            self._pending = bool(stats.finite) and self._dense is None
            self._step += 1
            log.debug("step %d: %d bytes for %d", self._step, stats.wire_bytes, stats.dense_bytes)
            return True
        except BaseException as error:
            self._untold = self.error = error if isinstance(error, Error) else Error(f"rank {self.rank}: {told(error)}", self.rank)
            if not isinstance(error, Exception):  # a Ctrl-C: this rank goes, and the others need not wait for it
                self._untold = error
                self._end_quietly(told(error))
            log.error("step %d: %s", self._step, self.error)
            return False

    # Exceptions of futures reach the user as RuntimeErrors of torch. A callback of the backward pass
    # raises what it wants; a second one, queued by the first, comes after DDP's own, so DDP is done with the step.
    def _tell_after_backward(self) -> bool:
        return at_end_of_backward(lambda: at_end_of_backward(self._raise_untold))

    def _raise_untold(self) -> None:
        error, self._untold = self._untold, None
        if error is not None:
            raise error

    def _value_or_error(self, done: Any) -> torch.Tensor:
        self._raise_untold()
        return done.value()

    # The step ends on all ranks. This pass goes on to its end without values, and then raises the error.
    def _refuse(self, bucket: Any, error: Error) -> torch.futures.Future[torch.Tensor]:
        self.error, self._refused = error, True
        if self._open:
            self._end_quietly(str(error))
        self._give_up()
        if not self._tell_after_backward():
            raise error
        self._untold = error
        return self._without_value(bucket.buffer())

    def _without_value(self, buffer: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
        future = self._future(buffer)
        future.set_result(buffer.fill_(_UNDEFINED))
        return future

    def abort(self, why: str) -> None:
        """Ends the step under way on all ranks, which are told why: for one's own exceptions in forward or backward.

        Where this rank has not begun the step that others are in, or will be, it is that one. A step that has failed on all
        ranks has ended already. ``dense`` has no steps of the library.
        """
        a_text(why, "why")
        self._idle.wait()
        if self._dense is not None or self._closed or (self.error is not None and not self._open):
            return
        if not self._open:
            self._begin()
        self.error = Error(f"rank {self.rank}: {why}", self.rank)
        self._end_quietly(why)

    def _end_quietly(self, why: str) -> None:
        self._open = False
        self._drain()
        try:
            self._method.abort(f"rank {self.rank}: {why}")
            self._method.finish()
        except Error:
            pass
        self._give_up()

    # What was handed to DDP and will have no value.
    def _give_up(self) -> None:
        parts, self._parts = self._parts, []
        self._resolve(parts, good=False)

    # What became of the last step is known when the next one begins, or somebody asks for the state.
    def _decide(self) -> None:
        if self._pending:
            self._pending = False
            self._method.commit() if self._stepped else self._method.rollback()

    def _follow(self, optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> None:
        require_own(optimizer, model.parameters())
        self._optimizer = optimizer
        itself = weakref.ref(self)

        def note() -> None:
            state = itself()
            if state is not None:
                state._stepped = True

        after_steps(optimizer, note)

    def stats(self) -> dict[str, Any]:
        """``{"steps", "last", "total", "tensors"}``: bytes, ratio and seconds of the last step and of all, and ``tensor_stats``."""
        costs = self._costs.report()
        known = costs["steps"] and self.error is None and self._dense is None and not self._closed
        return {**costs, "tensors": self.tensor_stats() if known else {}}

    def tensor_stats(self) -> dict[str, dict[str, Any]]:
        """What each tensor cost this rank in the last step: ``{"payload_bytes", "dense_bytes", "ratio", "rests"}``."""
        if self._dense is not None:
            raise UsageError("dense gradients are the group's own; there are no bytes by tensor")
        self._idle.wait()
        return {name: tensor_report(self._method.tensor_cost(i)) for i, name in enumerate(self._names)}

    def residual_norm(self) -> float:
        """Length of what this rank still owes to the model."""
        self._idle.wait()
        self._decide()
        return self._method.residual_norm

    def flush(self) -> None:
        """After the last step: what all ranks still owe to the model, uncompressed and without a loss scale, becomes the
        ``grad`` of its parameters, for one more ``optimizer.step()``; nothing is owed after it. All ranks call it.
        Gradients are zeros where nothing is remembered.
        """
        owed = [torch.zeros_like(p, dtype=torch.float32, device="cpu") for p in self._parameters]
        if self._dense is None:
            self._begin(plain=True)
            self._method.submit(range(len(owed)), [values.data_ptr() for values in owed], l.FLOAT32)
            good = self._count(self._method.finish)
            self._open = False
            if not good:
                self._raise_untold()
            self._stepped = True
            self._decide()
        for p, values in zip(self._parameters, owed):
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            p.grad.copy_(values)

    def residual(self, name: str, count: int) -> torch.Tensor:
        """One array of what is remembered, such as ``"feedback/fc.weight"``, as it lies in memory."""
        self._idle.wait()
        self._decide()
        values = torch.empty(a_whole(count, "count", most=sys.maxsize // 4))
        self._method.get(name, values.data_ptr(), count)
        return values

    def state_dict(self) -> dict[str, Any]:
        """All that this rank remembers, under a key with its rank. A copy."""
        self._idle.wait()
        self._decide()
        return state_of(self._method.save(), self.rank, self.world_size, self._step, self._SHARD)

    def load_state_dict(self, state: dict[str, Any] | Iterable[dict[str, Any]]) -> None:
        """Goes on from what ``state_dict`` gave on this rank; with another number of ranks, from a list of all ranks'."""
        self._idle.wait()
        self._decide()
        blob, step = blob_of(state, self.rank, self.world_size, self._SHARD)
        self._method.load(blob)
        self._step = step

    def set_process_group(self, group: Any) -> None:
        """Goes on over another group of as many ranks, of which this is the same. All ranks call it."""
        self._idle.wait()
        self._decide()
        self._method.set_transport(make_transport(self._transport, group, self._timeout))
        self._group = group
        if self._dense is not None:
            self._dense = DenseParts(group, self._method, self._timeout)

    def close(self) -> None:
        """Leaves. A step under way ends on all ranks. Done at exit, too."""
        if self._closed:
            return
        self._closed = True
        if hasattr(self, "_jobs"):  # else it was never made
            self._drain()
            self._jobs.put(None)
            if not self._idle.is_set():
                self._method.abort(f"rank {self.rank} leaves")
                self._idle.wait(self._timeout)
            self._method.close()

    def __del__(self) -> None:
        self.close()

    def __getstate__(self) -> Any:
        raise UsageError(NOT_PICKLED)


attach.__signature__ = inspect.signature(State)  # type: ignore[attr-defined]


# Knows the queue alone, so that a state nobody holds can go.
def _work(jobs: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        job()
        del job


_states: weakref.WeakSet[State] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for state in list(_states):
        state.close()
