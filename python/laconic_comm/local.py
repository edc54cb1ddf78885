"""Training in which gradients stay with their rank: local steps with a common model now and then, and gossip.

Both stand around an optimizer of one's own: ``step()`` takes the place of ``optimizer.step()``; that of local steps may
also follow it.
"""

from __future__ import annotations

import atexit
import logging
import weakref
from typing import Any, Iterable

import torch
import torch.distributed as dist

from ._arguments import an_optimizer
from ._method import Method, check_running, pointers, recipe_of, recipe_text
from ._model import a_module, after_steps, blob_of, described, memory_shape, require_own, state_of, trained
from ._stats import Costs
from ._transports import make_transport
from .errors import NOT_PICKLED, UsageError

log = logging.getLogger("laconic")

_MOMENTA = ("momentum_buffer", "exp_avg")  # of SGD, of Adam and its kin


# gloo wants arrays without gaps and knows no bool.
def _broadcast(tensor: torch.Tensor, source: int, group: Any) -> None:
    whole = tensor.to(torch.uint8) if tensor.dtype == torch.bool else tensor.contiguous()
    dist.broadcast(whole, source, group=group)
    tensor.copy_(whole)


class _Around:
    _may_follow = True  # step() may come after a step that the optimizer has made
    _mixes = False  # models meet those of neighbours

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, text: str, *,
        seed: int = 0, timeout: float = 60, threads: int = 1, transport: str = "sockets", group: Any = None,
        writer: Any = None,
    ) -> None:  # fmt: skip
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):
            raise UsageError("a DistributedDataParallel, which averages gradients; allowed: the module in it")
        a_module(model)
        check_running(seed, timeout, threads)
        self.recipe = recipe_of(text)
        if bool(self.recipe["mixer"]) != self._mixes and (self._mixes or self.recipe["mixer"]):
            self._refuse_the_other_kind()
        self.model, self.optimizer = model, optimizer
        named = trained(model)
        for name, parameter in named.items():
            if parameter.dtype != torch.float32 or memory_shape(parameter) is None:
                raise UsageError(f"parameter '{name}' is no float32 array without gaps")
        self._parameters = list(named.values())
        require_own(an_optimizer(optimizer), self._parameters)
        self._masks = "masking" in self.recipe["memory"]
        self._costs = Costs(writer)
        self._step, self._group = 0, group
        self._stepped = False  # the optimizer has, by itself
        itself = weakref.ref(self)
        after_steps(optimizer, lambda: _note_step(itself()))
        end = make_transport(transport, group, timeout)
        source = 0 if group is None else dist.get_global_rank(group, 0)
        for tensor in (*model.parameters(), *model.buffers()):
            _broadcast(tensor.detach(), source, group)
        self._method = Method(
            end, text, described(named), start=self._addresses(), seed=seed, timeout=timeout, threads=threads
        )
        if self._method.averages_gradients:
            self.close()
            raise UsageError(f"recipe '{self.recipe['name']}' averages gradients; use lc.attach")
        _all.add(self)
        log.info("%s: %d tensors, %d ranks", self.recipe["name"], len(self._parameters), self.world_size)

    def _refuse_the_other_kind(self) -> None:
        name, local = self.recipe["name"], self.recipe["delay"] > 1 or self.recipe["outer"] != "none"
        if self.recipe["mixer"]:
            raise UsageError(f"recipe '{name}' mixes models with neighbours; use lc.Gossip")
        raise UsageError(f"recipe '{name}' " + ("averages models now and then; use lc.LocalSteps" if local else "averages gradients; use lc.attach"))

    @property
    def rank(self) -> int:
        return self._method.transport.rank

    @property
    def world_size(self) -> int:
        return self._method.transport.size

    @property
    def param_groups(self) -> Any:
        """The optimizer's, for those who look through."""
        return self.optimizer.param_groups

    def zero_grad(self, *arguments: Any, **named: Any) -> None:
        self.optimizer.zero_grad(*arguments, **named)

    def step(self) -> None:
        """One step: the optimizer's, and the exchange of models where one is due. All ranks make as many.

        The optimizer makes none where this rank's gradient holds NaN or Inf, nor where it has made one by itself since
        the last call, as in ``optimizer.step(); local.step()``.
        """
        already = self._stepped
        if already and not self._may_follow:
            raise UsageError("the optimizer has made its step already, which comes after mixing; call step() of gossip alone")
        lr = float(self.optimizer.param_groups[0]["lr"])
        before = self._method.before_update(pointers(self._addresses()), self._gradients(), self._step, lr)
        if before.finite and not already:
            self.optimizer.step()
        self._stepped = False
        after = self._method.after_update(pointers(self._addresses()), self._step, lr, self._momenta())
        self._costs.add(before, after)
        self._step += 1
        self._begin_anew_if_set_back()

    def _begin_anew_if_set_back(self) -> None:
        if self._method.set_back:
            log.warning("step %d: some rank's model was not finite; the round was undone", self._step)
            self.optimizer.state.clear()

    def _addresses(self) -> list[int]:
        return [p.data_ptr() for p in self._parameters]

    # In the order of the parameters' memory; zeros where there is none.
    def _gradients(self) -> Any:
        self._held = []  # until the next step
        for p in self._parameters:
            if p.grad is None:
                self._held.append(torch.zeros_like(p))
                continue
            if p.grad.stride() != p.stride():
                p.grad = torch.empty_like(p).copy_(p.grad)
            self._held.append(p.grad)
        return pointers([tensor.data_ptr() for tensor in self._held])

    def _momenta(self) -> list[int] | None:
        if not self._masks:
            return None
        self._kept = []
        for p in self._parameters:
            state = self.optimizer.state.get(p, {})
            known = [state[key] for key in _MOMENTA if state.get(key) is not None]
            fits = bool(known) and known[0].stride() == p.stride() and known[0].dtype == torch.float32
            self._kept.append(known[0] if fits else torch.zeros_like(p))
        return [tensor.data_ptr() for tensor in self._kept]

    def stats(self) -> dict[str, Any]:
        """``{"steps", "last", "total"}``: bytes, ratio and seconds of the last step and of all."""
        return self._costs.report()

    def residual_norm(self) -> float:
        """Length of what this rank still owes."""
        return self._method.residual_norm

    def state_dict(self) -> dict[str, Any]:
        """All of this rank, its parameters included, under a key with its rank. A copy. The optimizer has its own."""
        blob = self._method.save(pointers(self._addresses()))
        return state_of(blob, self.rank, self.world_size, self._step)

    def load_state_dict(self, state: dict[str, Any] | Iterable[dict[str, Any]]) -> None:
        """Goes on from what ``state_dict`` gave on this rank, or from a list of all ranks'; writes the parameters."""
        blob, step = blob_of(state, self.rank, self.world_size)
        self._method.load(blob, pointers(self._addresses()))
        self._step = step

    def close(self) -> None:
        """Leaves. Done at exit, too."""
        if hasattr(self, "_method"):
            self._method.close()

    def __del__(self) -> None:
        self.close()

    def __getstate__(self) -> Any:
        raise UsageError(NOT_PICKLED)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self.close()


class LocalSteps(_Around):
    """Every rank trains on its own for ``every`` steps; then what has changed is averaged, compressed.

        with lc.LocalSteps(model, optimizer, every=30, op="sbc:0.01", outer="nesterov:0.9,0.7") as local:
            for x, y in batches:
                optimizer.zero_grad()
                loss(model(x), y).backward()
                local.step()                        # or after optimizer.step()

    The mean of the changes is the gradient of the ``outer`` optimizer on the common model (``"none"``:
    it is applied as it is); with an ``op`` the ``memory`` is "feedback" unless told. ``recipe`` names a whole method instead, such as "diloco" or "sbc2". The
    model is a plain module, rank 0's at the start. At the end of the with a round under way is ended.

    With ``fragments`` the model is exchanged in so many parts of about the same size, which take turns within
    ``every`` steps; a round may be under way for ``overlap`` steps, fewer than ``every // fragments``, in which ranks train
    on, and when it has arrived a rank keeps ``merge`` of its own model beside the common one.
    ``seed``, ``timeout``, ``threads``, ``transport`` and ``group`` are those of ``attach``.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        every: int | None = None,
        op: str | None = None,
        outer: str | None = None,
        *,
        recipe: str | dict[str, Any] | None = None,
        memory: str | None = None,
        exchange: str | None = None,
        layout: str | None = None,
        rules: Iterable[str] | None = None,
        fragments: int | None = None,
        overlap: int | None = None,
        merge: float | None = None,
        **running: Any,
    ) -> None:
        options = {"delay": every, "op": op, "outer": outer, "memory": memory, "exchange": exchange,
                   "layout": layout, "rules": rules, "fragments": fragments, "overlap": overlap,
                   "merge": merge}  # fmt: skip
        # What an operator leaves out of a round is owed to the next one.
        usual = {"delay": 30, "memory": "feedback"} if op is not None else {"delay": 30}
        text = recipe_text("local", recipe, options, usual)
        super().__init__(model, optimizer, text, **running)

    def finish(self) -> None:
        """Ends a round that is under way: all ranks then have the same model."""
        self._finish()

    def flush(self) -> None:
        """Ends it uncompressed, together with all that is still owed to the model."""
        self._finish(plain=True)

    def _finish(self, plain: bool = False) -> None:
        if self._step == 0:
            return
        lr = float(self.optimizer.param_groups[0]["lr"])
        stats = self._method.finish_round(pointers(self._addresses()), self._step - 1, lr, self._momenta(), plain)
        self._costs.add(stats)
        self._begin_anew_if_set_back()

    def __exit__(self, kind: Any, *rest: object) -> None:
        if kind is None:
            self.finish()
        super().__exit__(kind, *rest)


class Gossip(_Around):
    """Every rank has a model of its own, and mixes it with its neighbours' in every step.

        gossip = lc.Gossip(model, optimizer, topology="ring", mixer="powergossip")
        ... gossip.step() instead of optimizer.step()

    ``op`` is for mixers that compress by an operator (choco, deepsqueeze; unbiased ones for dcd and ecd). The model
    is a plain module, rank 0's at the start. ``seed``, ``timeout``, ``threads``, ``transport`` and ``group`` are those of
    ``attach``.
    """

    _may_follow = False
    _mixes = True

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        topology: str | None = None,
        mixer: str | None = None,
        op: str | None = None,
        *,
        recipe: str | dict[str, Any] | None = None,
        **running: Any,
    ) -> None:
        options = {"topology": topology, "mixer": mixer, "op": op}
        text = recipe_text("gossip", recipe, options, {"mixer": "powergossip"})
        super().__init__(model, optimizer, text, **running)

    def mean(self) -> list[torch.Tensor]:
        """The mean of all ranks' models, parameter by parameter; this rank's stays. All ranks call it."""
        return [self._mean(p) for p in self._parameters]

    def _mean(self, parameter: torch.Tensor) -> torch.Tensor:
        total = parameter.detach().clone()
        dist.all_reduce(total, group=self._group)
        return total / self.world_size


def _note_step(around: _Around | None) -> None:
    if around is not None:
        around._stepped = True


_all: weakref.WeakSet[_Around] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for one in list(_all):
        one.close()
