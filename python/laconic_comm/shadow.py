"""``report``: what recipes would send, lose and save in a training that goes on as it is.

Every step is the user's own. The gradients of this rank are noted on their way, by hooks of the parameters that run
before DDP averages anything, and then go through every recipe between the real ranks, each with its own memory.
"""

from __future__ import annotations

import contextlib
import logging
import math
import statistics
import time
from dataclasses import asdict
from typing import Any, Callable, Iterable, Iterator

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ._library import FLOAT32
from ._arguments import a_function, a_scaler, a_whole, a_writer, an_optimizer, texts
from ._link import Link, measure_link, parse_link
from ._method import Method, Transport, check_running, recipe_of, recipe_text
from ._model import a_module, described, memory_shape, trained
from ._transports import make_transport
from .errors import UsageError

log = logging.getLogger("laconic")

RECIPES = (
    "half", "natural-sharded", "natural-entropy", "grid", "qsgd", "terngrad", "signsgd-ef", "topk-natural", "spardl",
    "adaptive", "sbc1", "powersgd",
)  # fmt: skip

_COSTS = ("traffic_bytes", "rounds", "compress_seconds", "decompress_seconds")
_CARRY_MOMENTUM = ("dgc", "gmc")  # their means are no gradients, so there is nothing to compare
_LEVEL = 1.02  # steps whose seconds differ by less are as fast as each other


def report(
    model: torch.nn.Module,
    loader: Iterable[Any],
    steps: int = 20,
    *,
    loss: Callable[[Any, Any], torch.Tensor] = torch.nn.functional.cross_entropy,
    optimizer: torch.optim.Optimizer | None = None,
    step: Callable[[Any], Any] | None = None,
    recipes: Iterable[str | dict[str, Any]] = RECIPES,
    link: str | None = None,
    out: Callable[[str], Any] | None = print,
    writer: Any = None,
    scaler: Any = None,
    seed: int = 0,
    timeout: float = 60,
    threads: int = 1,
    transport: str = "sockets",
    group: Any = None,
) -> dict[str, Any]:
    """Trains as it is for some steps, and tells what each recipe would send, lose and save. All ranks call it.

        lc.report(ddp, loader, steps=20, optimizer=optimizer, link="100mbit,1ms")
        lc.report(ddp, loader, step=lambda batch: ...)     # forward, backward and update of one's own

    Without ``step`` a batch is a pair of inputs and targets for ``loss``; without an ``optimizer`` nothing is
    updated either. No recipe touches the training: the model after it is the one without it, bit for bit, and the
    model can be given to ``attach`` afterwards. ``link``: of every rank, else it is measured. The answer, of which rank 0
    prints a table by ``out``, has a row per recipe, fastest first, and of those that are as fast, the one that loses less first:

    ``bytes``: sent by the busiest rank in a step, heads and votes included. ``seconds``: of a step on this link, with no overlap of
    computation and communication. ``speedup``: against dense. ``step_error``: |mean of the recipe - mean| /
    |mean| in the middle step. ``error``: the same of the sums over all steps, which is what feedback keeps small; both
    are None for memories that carry momentum. ``tensors``: that error of each. ``writer``: of TensorBoard, gets them too.
    """
    steps = a_whole(steps, "steps")
    if steps < 1:
        raise UsageError(f"{steps} steps; allowed: at least 1")
    check_running(seed, timeout, threads)
    a_module(model)
    for value, what in ((loss, "loss"), (step, "step"), (out, "out")):
        if value is not None:
            a_function(value, what)
    a_writer(writer)
    given = [recipe_text("", one, {}, {}) for one in ([recipes] if isinstance(recipes, dict) else texts(recipes, "recipes"))]
    for recipe in map(recipe_of, given):
        if recipe["mixer"] or recipe["delay"] > 1 or recipe["outer"] != "none":
            raise UsageError(f"recipe '{recipe['name']}' averages no gradients; allowed: those of lc.attach")
    if isinstance(model, DistributedDataParallel) and group is None:
        group = model.process_group
    if optimizer is not None:
        an_optimizer(optimizer)
    a_scaler(scaler)
    on_link = parse_link(link) if link else None
    end = make_transport(transport, group, timeout)

    def most(value: float) -> float:
        values: list[Any] = [None] * end.size
        dist.all_gather_object(values, value, group=group)
        return max(values)

    try:
        on_link = on_link or measure_link(_Lent(end), most, timeout)
        options = {"seed": seed, "timeout": timeout, "threads": threads}
        train = step or _plain_step(model, loss, optimizer)
        told = (lambda: _rate(optimizer), lambda: float(scaler.get_scale()) if scaler is not None else 1.0)
        with _Gradients(model) as gradients, contextlib.ExitStack() as stack:
            shadows: list[_Shadow] = []
            for text in ["dense", *given]:
                shadows.append(_Shadow(end, text, gradients, options))
                stack.callback(shadows[-1].method.close)
            whole, computing = _follow(_repeated(loader, steps), train, gradients, shadows, told)
            rows = [shadow.row(whole, most) for shadow in shadows]
        computing = most(computing / steps)
    finally:
        end.close()
    answer = _told(rows, on_link, computing, steps, end.size, gradients.count)
    if writer is not None:
        for row in answer["rows"]:
            for name in ("bytes", "seconds", "speedup", "step_error", "error"):
                if row[name] is not None:
                    writer.add_scalar(f"laconic/report/{row['recipe']}/{name}", row[name], steps)
    if end.rank == 0:
        log.info("report: %s is fastest on %s", answer["rows"][0]["recipe"], on_link)
        if out is not None:
            out(table(answer))
    return answer


def _rate(optimizer: torch.optim.Optimizer | None) -> float:
    return float(optimizer.param_groups[0]["lr"]) if optimizer is not None else 1.0


def _follow(
    batches: Iterable[Any], train: Callable[[Any], Any], gradients: _Gradients, shadows: list[_Shadow], told: Any
) -> tuple[torch.Tensor, float]:
    """Trains, and lets all recipes see each step. The sum of all means, and the seconds of forward and backward."""
    dense, others = shadows[0], shadows[1:]
    mean, work, whole = (torch.zeros(gradients.count) for _ in range(3))
    computing = 0.0
    for number, batch in enumerate(batches):
        lr, scale = (ask() for ask in told)
        began = time.perf_counter()
        train(batch)
        computing += max(gradients.last - began, 0.0)
        finite = dense.average(mean.copy_(gradients.local), number, lr, scale)
        if finite:
            whole.add_(mean, alpha=1 / scale)
            dense.compare(work.copy_(mean), mean, scale)
        for shadow in others:
            shadow.average(work.copy_(gradients.local), number, lr, scale)
            if finite:
                shadow.compare(work, mean, scale)
        gradients.local.zero_()
    return whole, computing


def table(told: dict[str, Any]) -> str:
    """A report for people."""
    link = Link(**told["link"])
    lines = [
        f"{told['ranks']} ranks, {told['entries']:,} entries, {told['steps']} steps; link: {link}; "
        f"computing {told['compute_seconds'] * 1e3:.1f} ms per step",
        f"{'recipe':22} {'bytes/step':>12} {'ratio':>8} {'error':>8} {'of a step':>9} {'ms/step':>9} {'faster':>7}",
    ]
    for row in told["rows"]:
        errors = ["-" if row[name] is None else f"{row[name]:.3f}" for name in ("error", "step_error")]
        lines.append(
            f"{row['recipe']:22} {row['bytes']:12,.0f} {row['ratio']:7.1f}x {errors[0]:>8} {errors[1]:>9} "
            f"{row['seconds'] * 1e3:9.1f} {row['speedup']:6.2f}x"
        )
    return "\n".join(lines)


def _told(
    rows: list[dict[str, Any]], link: Link, computing: float, steps: int, ranks: int, entries: int
) -> dict[str, Any]:
    for row in rows:
        row["wire_seconds"] = link.seconds(row["bytes"], row["rounds"])
        row["seconds"] = computing + row["wire_seconds"] + row["compress_seconds"] + row["decompress_seconds"]
    dense = rows[0]
    for row in rows:
        row["ratio"] = dense["bytes"] / row["bytes"] if row["bytes"] else math.inf
        row["speedup"] = dense["seconds"] / row["seconds"]
    rows.sort(key=lambda row: (round(math.log(row["seconds"], _LEVEL)), row["error"] or 0.0))
    return {"ranks": ranks, "entries": entries, "steps": steps, "compute_seconds": computing, "link": asdict(link),
            "rows": rows}  # fmt: skip


def _repeated(loader: Iterable[Any], steps: int) -> Iterator[Any]:
    """As many batches, from the beginning again where there are fewer."""
    left = steps
    while left:
        before = left
        for batch in loader:
            yield batch
            left -= 1
            if not left:
                return
        if left == before:
            raise UsageError("the loader has no batch, or can be gone through only once and has too few")


def _plain_step(model: torch.nn.Module, loss: Any, optimizer: torch.optim.Optimizer | None) -> Callable[[Any], None]:
    def step(batch: Any) -> None:
        inputs, targets = batch
        if optimizer is not None:
            optimizer.zero_grad()
            loss(model(inputs), targets).backward()
            optimizer.step()
            return
        kept = [(p, p.grad) for p in model.parameters()]
        for p, _ in kept:
            p.grad = None
        loss(model(inputs), targets).backward()
        for p, gradient in kept:
            p.grad = gradient

    return step


class _Gradients:
    """This rank's gradients since they were last set to zero, in float32, one array for all."""

    def __init__(self, model: torch.nn.Module) -> None:
        inner = model.module if isinstance(model, DistributedDataParallel) else model
        parameters = trained(inner, getattr(model, "parameters_to_ignore", ()))
        self.tensors = described(parameters)
        self._parameters = list(parameters.values())
        self.count = sum(p.numel() for p in self._parameters)
        self.local = torch.zeros(self.count)
        self.last = 0.0  # when the last one came

    def __enter__(self) -> _Gradients:
        self._hooks = [p.register_hook(self._noting(t)) for p, t in zip(self._parameters, self._places())]
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _noting(self, place: torch.Tensor) -> Callable[[torch.Tensor], None]:
        def note(gradient: torch.Tensor) -> None:
            place.add_(gradient.detach())
            self.last = time.perf_counter()

        return note

    def parts(self) -> Iterator[tuple[str, slice]]:
        """Where the entries of each tensor are."""
        first = 0
        for (name, _), p in zip(self.tensors, self._parameters):
            yield name, slice(first, first + p.numel())
            first += p.numel()

    # With the entries in the order in which the parameters have them.
    def _places(self) -> Iterator[torch.Tensor]:
        for (_, part), p in zip(self.parts(), self._parameters):
            if memory_shape(p) is None:
                yield self.local[part].view(p.shape)
            else:
                yield self.local.as_strided(p.shape, p.stride(), part.start)

    def addresses(self, whole: torch.Tensor) -> list[int]:
        return [whole[part].data_ptr() for _, part in self.parts()]

    def parameters(self) -> list[int] | None:
        if any(p.dtype != torch.float32 for p in self._parameters):
            return None
        return [p.data_ptr() for p in self._parameters]


class _Lent(Transport):
    """A transport that several methods use, one after the other."""

    def __init__(self, whole: Transport) -> None:
        super().__init__(whole.rank, whole.size)
        self.handle = whole.handle

    def close(self) -> None:
        pass


class _Shadow:
    """One recipe with its memory."""

    def __init__(self, end: Transport, text: str, gradients: _Gradients, options: dict[str, Any]) -> None:
        recipe = recipe_of(text)
        self.name, self._gradients = recipe["name"], gradients
        self.method = Method(_Lent(end), text, gradients.tensors, guard="off", **options)
        self._costs = {name: 0.0 for name in _COSTS}
        self._steps = 0
        self._errors: list[float] = []
        compared = recipe["memory"].partition(":")[0] not in _CARRY_MOMENTUM
        self._off = torch.zeros(gradients.count) if compared else None  # by how much the sum of all means is off

    def average(self, values: torch.Tensor, step: int, lr: float, scale: float) -> bool:
        """Replaces this rank's gradient by what the recipe makes of all ranks'; False: some was not finite."""
        g = self._gradients
        self.method.begin(step, lr, scale, g.parameters())
        self.method.submit(list(range(len(g.tensors))), g.addresses(values), FLOAT32)
        stats = self.method.finish()
        for name in _COSTS:
            self._costs[name] += getattr(stats, name)
        self._steps += 1
        return bool(stats.finite)

    def compare(self, values: torch.Tensor, mean: torch.Tensor, scale: float) -> None:
        if self._off is None:
            return
        values -= mean
        self._errors.append(_share(values, mean))
        self._off.add_(values, alpha=1 / scale)

    def row(self, whole: torch.Tensor, most: Callable[[float], float]) -> dict[str, Any]:
        costs = {name: most(value / self._steps) for name, value in self._costs.items()}
        row = {"recipe": self.name, "bytes": costs.pop("traffic_bytes"), **costs, "error": None, "step_error": None, "tensors": {}}
        if self._off is not None:
            row["error"] = _share(self._off, whole)
            row["step_error"] = statistics.median(self._errors) if self._errors else 0.0
            row["tensors"] = {name: _share(self._off[part], whole[part]) for name, part in self._gradients.parts()}
        return row


def _share(off: torch.Tensor, whole: torch.Tensor) -> float:
    above, below = (float(torch.linalg.vector_norm(one, dtype=torch.float64)) for one in (off, whole))
    return above / below if below else 0.0
