"""What DDP does besides plain steps: each of these has broken other hooks."""

from __future__ import annotations

import contextlib
import copy
import gc
import threading

import pytest
import torch
import torch.distributed as dist
from ranks import TRANSPORT, batch, flat, net, train, wrapped
from torch.nn.parallel import DistributedDataParallel as DDP

import laconic_comm as lc
from laconic_comm import hook

TOPK = {"op": "topk:0.05+natural", "memory": "feedback", "transport": TRANSPORT, "guard": "off"}


def grads(model):
    return b"".join(p.grad.contiguous().numpy().tobytes() for p in model.parameters() if p.grad is not None)


def dense_is_stock(rank, size):
    # Where gradients are views of buckets torch divides by n instead, which for powers of two is the same.
    views = [{"gradient_as_bucket_view": True}] if size != 3 else []
    for options in [{}, {"static_graph": True}, *views]:
        models = [wrapped(**options) for _ in range(3)]
        lc.attach(models[1], recipe="dense", transport=TRANSPORT, guard="off")
        lc.attach(models[2], "identity", exchange="dense", transport=TRANSPORT, guard="off")
        for model in models:
            train(model, rank, 5)
        if len({flat(model) for model in models}) > 1:
            return f"not with {options}"
    return "equal"


@pytest.mark.parametrize("size", [2, 3, 4])
def test_dense_equals_stock_bit_for_bit(run, size):
    assert run(dense_is_stock, size) == ["equal"] * size


def bucketing(rank, size):
    """One bucket, or many: the same model, with random draws and residuals."""
    models = []
    for megabytes in (25, 0.001):
        model = DDP(net(), bucket_cap_mb=megabytes)
        lc.attach(model, "topk:0.1+natural", memory="feedback", seed=7, transport=TRANSPORT, guard="off")
        train(model, rank, 4)
        models.append(flat(model))
    return models


def test_buckets_change_nothing(run):
    for models in run(bucketing, 2):
        assert models[0] == models[1]


def guarded(rank, size, transport):
    model = wrapped()
    state = lc.attach(model, **{**TOPK, "transport": transport, "guard": "on"})
    train(model, rank, 40)
    with pytest.raises(lc.UsageError, match="no guard 'perhaps'"):
        lc.attach(wrapped(), **{**TOPK, "guard": "perhaps"})
    return flat(model), state.stats()["total"]["lanes"]


def unlike(rank, size):
    """Rank 0 says nothing, so it has a guard; the others say that they have none."""
    unsaid = {key: value for key, value in TOPK.items() if key != "guard"}
    with pytest.raises(lc.UsageError, match="ranks disagree on the guard: rank 0 has 1, rank 1 has 0"):
        lc.attach(wrapped(), **(unsaid if rank == 0 else TOPK))


def test_the_guard_is_on_unless_told_otherwise(run):
    run(unlike, 2)


@pytest.mark.parametrize("transport", ["sockets", "group"])
def test_the_guard_decides_alike_on_all_ranks(run, transport):
    results = run(guarded, 3, transport)
    assert all(result == results[0] for result in results)
    assert sum(results[0][1].values()) == 40


VARIANTS = {
    "plain": {},
    "view": {"gradient_as_bucket_view": True},
    "static": {"static_graph": True},
    "unused": {"find_unused_parameters": True},
}


def variants(rank, size):
    models = {}
    for name, options in VARIANTS.items():
        model = wrapped(**options)
        lc.attach(model, **TOPK)
        train(model, rank, 4)
        models[name] = flat(model)
    return models


def test_modes_of_ddp_give_the_same_model(run):
    results = run(variants, 2)
    assert results[0] == results[1]
    assert len(set(results[0].values())) == 1, {name: hash(m) for name, m in results[0].items()}


def no_sync(rank, size):
    model = wrapped()
    state = lc.attach(model, **TOPK)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        with model.no_sync() if step % 2 == 0 else contextlib.nullcontext():
            (model(batch(rank, step)) ** 2).mean().backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()
    return flat(model), state.stats()["steps"]


def test_no_sync_accumulates(run):
    results = run(no_sync, 2)
    assert results[0] == results[1] and results[0][1] == 2


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = torch.nn.Linear(20, 20), torch.nn.Linear(20, 20)

    def forward(self, x, which):
        return sum(getattr(self, name)(x) for name in which)


def unused(rank, size):
    model = DDP(Branches(), find_unused_parameters=True)
    state = lc.attach(model, "topk:0.05", memory="feedback", transport=TRANSPORT, guard="off")
    norms, seen, rests = [], [], []
    for step, which in enumerate(["ab", "a", "a", "b" if rank else "a"]):
        model.zero_grad(set_to_none=True)
        (model(batch(rank, step), which) ** 2).mean().backward()
        norms.append(float(state.residual("feedback/b.weight", 400).norm()))
        seen.append(grads(model))
        rests.append(state.tensor_stats()["b.weight"]["rests"])
    return norms, seen, rests


def test_unused_parameters(run):
    (norms, seen, rests), (_, seen_too, rests_too) = run(unused, 2)
    assert seen == seen_too  # also in the last step, where ranks use different ones
    assert rests == [False, True, True, True] and rests_too == [False, True, True, False]
    assert norms[0] > 0 and norms == [norms[0]] * 4  # what is owed of a tensor that nobody used stays


def several(rank, size):
    """Two models in one backward, in another order on each rank, and a collective of somebody else."""
    models = [wrapped(seed) for seed in (0, 1)]
    for model in models:
        lc.attach(model, **TOPK)
    foreign = torch.ones(3)
    for step in range(3):
        losses = [(model(batch(rank, step)) ** 2).mean() for model in models]
        work = dist.all_reduce(foreign, async_op=True)
        sum(reversed(losses) if rank else losses).backward()
        work.wait()
        for model in models:
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad
                    p.grad = None
    return [flat(model) for model in models], foreign.tolist()


def test_several_models_and_foreign_collectives(run):
    results = run(several, 2)
    assert results[0] == results[1] and results[0][1] == [8.0] * 3
    assert len(set(results[0][0])) == 2


class Shapes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.scale = torch.nn.Parameter(torch.tensor(1.5))
        self.conv = torch.nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
        self.weight = torch.nn.Parameter(torch.randn(30, 8).t() * 0.1)
        self.frozen = torch.nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x):
        return self.scale * (self.conv(x).mean((2, 3)) @ self.weight)


def shapes(rank, size):
    models = []
    for options in ({"op": "natural"}, {"exchange": "powersgd:1"}, {"recipe": "dense"}):
        model = DDP(Shapes())
        lc.attach(model, transport=TRANSPORT, guard="off", **options)
        for step in range(3):
            generator = torch.Generator().manual_seed(10 * rank + step)
            (model(torch.randn(4, 3, 8, 8, generator=generator)) ** 2).sum().backward()
            with torch.no_grad():
                for p in filter(lambda p: p.requires_grad, model.parameters()):
                    p -= 0.01 * p.grad
                    p.grad = None
        models.append(b"".join(p.detach().contiguous().numpy().tobytes() for p in model.parameters()))
    return models


def test_odd_shapes_and_strides(run):
    results = run(shapes, 2)
    assert results[0] == results[1] and len(set(results[0])) == 3


def test_shapes_are_those_of_memory():
    from laconic_comm._model import memory_shape

    assert memory_shape(torch.randn(8, 3, 5, 6).to(memory_format=torch.channels_last)) == (8, 5, 6, 3)
    assert memory_shape(torch.randn(30, 8).t()) == (30, 8)
    assert memory_shape(torch.tensor(1.0)) == (1,)
    assert memory_shape(torch.randn(4, 6)[:, ::2]) is None
    assert memory_shape(torch.randn(1, 4).expand(3, 4)) is None


class Elementwise(torch.nn.Module):  # all that torch 1.13 can do in half precision on a CPU
    def __init__(self, dtype):
        super().__init__()
        self.w = torch.nn.Parameter(torch.full((300,), 2.0, dtype=dtype))

    def forward(self, x):
        return self.w * x


def halves(rank, size, dtype):
    model = DDP(Elementwise(dtype))
    lc.attach(model, "identity", transport=TRANSPORT, guard="off")
    model(torch.full((300,), 1.0 + 2 * rank, dtype=dtype)).backward(torch.ones(300, dtype=dtype))
    return str(model.module.w.grad.dtype), model.module.w.grad.float().unique().tolist()


def test_half_precision(run):
    assert run(halves, 2, torch.float16) == [("torch.float16", [2.0])] * 2


def uneven(rank, size, method):
    model = wrapped()
    state = lc.attach(model, transport=TRANSPORT, guard="off", **method)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with model.join():
        for step in range(2 + 2 * rank):
            optimizer.zero_grad()
            (model(batch(rank, step)) ** 2).mean().backward()
            optimizer.step()
    return flat(model), state.stats()["steps"]


@pytest.mark.parametrize("method", [{"op": "topk:0.05+natural", "memory": "feedback"}, {"recipe": "dense"}], ids=str)
def test_join_with_uneven_inputs(run, method):
    results = run(uneven, 2, method)
    assert results[0][0] == results[1][0]
    assert [steps for _, steps in results] == [4, 4]


def forgotten(rank, size):
    """Dropped models leave; new ones go on."""
    for seed in range(3):
        model = wrapped(seed)
        lc.attach(model, **TOPK)
        train(model, rank, 1)
        del model
    gc.collect()
    for thread in threading.enumerate():  # one of them may be the last that holds its state
        if thread.name == "laconic":
            thread.join(20)
    return len(hook._states)


def test_states_end_with_their_models(run):
    assert run(forgotten, 2) == [0, 0]


def two_hooks(rank, size):
    model = wrapped()
    with pytest.raises(lc.UsageError, match="communication hook already"):
        for _ in range(2):
            lc.attach(model, **TOPK)
    other = wrapped()
    state = lc.State(other, **TOPK)
    other.register_comm_hook(state, state.hook)
    train(other, rank, 2)
    return flat(other)


def test_one_hook_per_model(run):
    results = run(two_hooks, 2)
    assert results[0] == results[1]


def pickled(rank, size):
    state = lc.attach(wrapped(), **TOPK)
    with pytest.raises(lc.UsageError, match="state_dict"):
        copy.deepcopy(state)
    return True


def test_states_are_not_pickled(run):
    assert all(run(pickled, 1))


def of_a_part(rank, size):
    """A group of some ranks of the job."""
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    mine = groups[rank // 2]
    model = DDP(net(), process_group=mine)
    lc.attach(model, **TOPK)
    train(model, rank, 2)
    return flat(model)


def test_groups_of_some_ranks(run):
    results = run(of_a_part, 4)
    assert results[0] == results[1] and results[2] == results[3] and results[0] != results[2]
