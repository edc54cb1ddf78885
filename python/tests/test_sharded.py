"""Models of fully_shard(): 2 nodes of 2 ranks; shards inside the node, compressed means between nodes."""

from __future__ import annotations

import copy
import json

import pytest
import torch
import torch.distributed as dist
from ranks import batch, net, wrapped

import laconic_comm as lc
from laconic_comm._method import require_parts_alone

try:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    HERE = hasattr(FSDPModule, "set_all_reduce_hook")
except (ImportError, ValueError):
    HERE = False

needs_hook = pytest.mark.skipif(not HERE, reason="this torch's fully_shard() has no all-reduce hook")
TOPK = {"op": "topk:0.1+natural", "memory": "feedback", "guard": "off"}


def mesh_of_nodes():
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "shard"))


def sharded(mesh, seed=0):
    model = net(seed)
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def steps(model, rank, count, first=0, optimizer=None):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(first, first + count):
        optimizer.zero_grad()
        (model(batch(rank, step)) ** 2).mean().backward()
        optimizer.step()
    return optimizer


def whole(model):
    return b"".join(p.full_tensor().detach().numpy().tobytes() for p in model.parameters())


def equals_stock(rank, size):
    """dense and identity between nodes against torch's own HSDP, over the same mesh."""
    mesh = mesh_of_nodes()
    models = []
    for options in (None, {"recipe": "dense"}, {"op": "identity"}):
        model = sharded(mesh if options is None else mesh["shard"])
        if options is not None:
            lc.attach(model, mesh=mesh["dp"], guard="off", **options)
        steps(model, rank, 4)
        models.append(whole(model))
    return models


@needs_hook
def test_identity_and_dense_equal_torchs_own_hsdp(run):
    results = run(equals_stock, 4)
    for stock, dense, identity in results:
        assert stock == results[0][0] and dense == stock and identity == stock


def compressed(rank, size, method, staging):
    mesh = mesh_of_nodes()
    model = sharded(mesh["shard"])
    state = lc.attach(model, mesh=mesh["dp"], _staging=staging, **{"guard": "off", **method})
    steps(model, rank, 4)
    stats = state.stats()
    return whole(model), stats["steps"], stats["total"]["ratio"], state.residual_norm()


@needs_hook
@pytest.mark.parametrize(
    "method", [TOPK, {"op": "natural", "exchange": "sharded"}, {"exchange": "powersgd:2"}], ids=str
)
def test_all_ranks_have_the_same_model(run, method):
    results = run(compressed, 4, method, False)
    assert len({model for model, *_ in results}) == 1
    for _, count, ratio, owed in results:
        assert count == 4 and ratio > 1.5 and (owed > 0) == ("natural" != method.get("op"))


@needs_hook
def test_staged_shards_are_the_same(run):
    assert run(compressed, 4, TOPK, False) == run(compressed, 4, TOPK, True)


def accumulates(rank, size):
    """Without synchronisation nothing is sent."""
    mesh = mesh_of_nodes()
    model = sharded(mesh["shard"])
    state = lc.attach(model, mesh=mesh["dp"], **TOPK)
    for step in range(4):
        model.set_requires_gradient_sync(step % 2 == 1)
        (model(batch(rank, step)) ** 2).mean().backward()
    return state.stats()["steps"]


@needs_hook
def test_no_step_without_synchronisation(run):
    assert run(accumulates, 4) == [2] * 4


def decided(rank, size):
    """Inf in one shard: nobody remembers the step. A step that the optimizer did not make: neither."""
    mesh = mesh_of_nodes()
    model = sharded(mesh["shard"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = lc.attach(model, mesh=mesh["dp"], optimizer=optimizer, **TOPK)
    steps(model, rank, 2, optimizer=optimizer)
    norms = [state.residual_norm()]
    optimizer.zero_grad()
    (model(batch(rank, 7)) * (float("inf") if rank == 1 else 1.0)).sum().backward()
    norms.append(state.residual_norm())
    optimizer.zero_grad()
    (model(batch(rank, 8)) ** 2).mean().backward()
    norms.append(state.residual_norm())
    steps(model, rank, 1, optimizer=optimizer)
    return norms, state.residual_norm(), whole(model)


@needs_hook
def test_steps_are_transactions(run):
    results = run(decided, 4)
    for norms, after, model in results:
        assert norms == [norms[0]] * 3 and after != norms[0] and model == results[0][2]


def resumed(rank, size):
    """Five steps; three, saved, and two more from what was saved."""
    mesh = mesh_of_nodes()
    models, saved = [], None
    for counts in ((5,), (3, 2)):
        model = sharded(mesh["shard"])
        state = lc.attach(model, mesh=mesh["dp"], **TOPK)
        optimizer = steps(model, rank, counts[0])
        if counts[1:]:
            saved = state.state_dict()
            parameters = copy.deepcopy(model.state_dict())
            momentum = copy.deepcopy(optimizer.state_dict())
            model = sharded(mesh["shard"], seed=3)
            model.load_state_dict(parameters)
            state = lc.attach(model, mesh=mesh["dp"], **TOPK)
            state.load_state_dict(saved)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            optimizer.load_state_dict(momentum)
            steps(model, rank, counts[1], first=3, optimizer=optimizer)
        models.append(whole(model))
    return models, sorted(key for key in saved if "blob" in key)


@needs_hook
def test_resumed_is_uninterrupted(run):
    results = run(resumed, 4)
    for models, _ in results:
        assert models[0] == models[1]
    assert [keys for _, keys in results] == [
        [f"shard{rank % 2}of2.rank{rank // 2}.blob"] for rank in range(4)
    ]  # no two ranks have the same key


def refused(rank, size):
    mesh = mesh_of_nodes()
    told = []
    for model, options in (
        (sharded(mesh["shard"]), {"op": "natural", "layout": "whole", "mesh": mesh["dp"]}),
        (sharded(mesh["shard"]), {"op": "natural"}),
        (sharded(mesh), {"op": "natural", "mesh": mesh["dp"]}),
        (sharded(mesh["shard"]), {"op": "natural", "mesh": mesh}),
        (wrapped(), {"op": "natural", "mesh": mesh["dp"]}),
        (sharded(mesh["shard"]), {"op": "topk:0.01", "memory": "dgc:clip=2", "mesh": mesh["dp"]}),
        (sharded(mesh["shard"], seed=rank // 2), {"op": "natural", "mesh": mesh["dp"]}),
    ):
        with pytest.raises(lc.UsageError) as caught:
            lc.attach(model, **options)
        told.append(str(caught.value))
    return told


@needs_hook
def test_what_cannot_be_is_refused_in_words(run):
    words = ["crosses the units", "no mesh", "averages by itself", "of 2 dimensions", "DistributedDataParallel", "norm of the whole", "replica 1"]
    for told in run(refused, 4):
        for word, sentence in zip(words, told):
            assert word in sentence, sentence


def one_gives_up(rank, size):
    """The library's step ends on rank 3: its replica has its sentence, the other shards know that it ended."""
    mesh = mesh_of_nodes()
    model = sharded(mesh["shard"])
    state = lc.attach(model, mesh=mesh["dp"], timeout=20, **TOPK)
    steps(model, rank, 1)
    if rank == 3:
        state._units[0].starts.append(0)  # more arrays than tensors
        state._units[0].places.append(99)
    with pytest.raises(lc.Error) as caught:
        steps(model, rank, 1)
    if rank == 3:
        state._units[0].starts.pop()
        state._units[0].places.pop()
    dist.barrier()
    return str(caught.value)


@needs_hook
def test_an_error_in_one_shard_ends_all(run):
    told = run(one_gives_up, 4)
    assert "rank 1" in told[1] and "99" in told[1]  # of the two that share a shard, rank 3 is the second
    assert "99" in told[3]
    assert all("rank of this node" in told[rank] for rank in (0, 2))


def too_old(rank, size):
    with pytest.raises(lc.UsageError, match="has no all-reduce hook of fully_shard"):
        lc.attach(net(), "natural", mesh=object())
    return True


@pytest.mark.skipif(HERE, reason="this torch has the hook")
def test_refused_in_words_by_an_older_torch(run):
    assert run(too_old, 1) == [True]


@pytest.mark.parametrize("memory", ["none", "feedback", "dgc", "ef21"])
def test_units_that_end_alone_go_with_most_memories(memory):
    require_parts_alone(json.dumps({"name": "x", "op": "topk:0.01", "memory": memory, "rules": ["name=w,op=half"]}))


@pytest.mark.parametrize(
    "memory, why", [("dgc:clip=2", "asks for the norm of the whole gradient"), ("dgc:0.9,2", "the norm"), ("gmc", "needs the model's")]
)
def test_memories_that_need_the_whole_step_are_refused_before_it(memory, why):
    with pytest.raises(lc.UsageError, match=f"must end before the next: .*memory '{memory}' .*{why}"):
        require_parts_alone(json.dumps({"name": "x", "op": "topk:0.01", "memory": memory}))
