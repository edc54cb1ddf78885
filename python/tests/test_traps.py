"""What has broken other systems, or a prototype of this one, and is not said by another test's name."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from ranks import TRANSPORT, batch, flat, net, train, wrapped
from test_state import _plain, _torch
from torch.nn.parallel import DistributedDataParallel as DDP

import laconic_comm as lc

TWO = int(torch.__version__.split(".")[0]) >= 2
needs_two = pytest.mark.skipif(not TWO, reason="torch 1.13 cannot do this on a CPU")
TOPK = {"op": "topk:0.05+natural", "memory": "feedback", "transport": TRANSPORT, "guard": "off"}


# State.


def saves_by_dcp(rank, size, folder):
    """A residual under one name for all ranks, as others keep it, and ours."""
    import torch.distributed.checkpoint as dcp

    model = wrapped()
    state = lc.attach(model, **TOPK)
    train(model, rank, 3)
    mine = state.residual("feedback/0.weight", 20 * 64)
    dcp.save({"naive": {"residual": mine.clone()}, "ours": state.state_dict()}, checkpoint_id=folder)
    wanted = state.state_dict()
    read = {"naive": {"residual": torch.zeros_like(mine)}, "ours": {k: v * 0 for k, v in wanted.items()}}
    dcp.load(read, checkpoint_id=folder)
    again = lc.attach(wrapped(), **TOPK)
    again.load_state_dict(read["ours"])
    return mine.numpy(), read["naive"]["residual"].numpy(), again.residual("feedback/0.weight", 20 * 64).numpy()


@needs_two
def test_dcp_gives_rank_0s_residual_to_all_unless_keys_have_the_rank(run, tmp_path):
    if not hasattr(__import__("torch.distributed.checkpoint").distributed.checkpoint, "save"):
        pytest.skip("this torch has no dcp.save")
    results = run(saves_by_dcp, 2, str(tmp_path))
    for mine, naive, ours in results:
        assert (ours == mine).all()
        assert (naive == results[0][0]).all()
    assert (results[1][0] != results[0][0]).any()  # so rank 1 would have lost what it owes


def saved_bytes(rank, size):
    model = wrapped()
    state = lc.attach(model, **TOPK)
    train(model, rank, 2)
    first = state.state_dict()
    kept = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in first.items()}
    train(model, rank, 2)  # what was handed out are copies, not views
    same = all(torch.equal(v, first[k]) if isinstance(v, torch.Tensor) else v == first[k] for k, v in kept.items())
    file = io.BytesIO()
    torch.save(first, file)
    file.seek(0)
    read = torch.load(file, weights_only=True)
    state.load_state_dict(read)
    return same, sorted(read) == sorted(first)


def test_states_are_copies_and_load_under_weights_only(run):
    assert run(saved_bytes, 2) == [(True, True)] * 2


class Integers(torch.nn.Module):
    """Gradients are whole numbers, so that sums of them are exact."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(300))

    def forward(self, x):
        return (self.w * x).sum()


def owes_integers(rank, size):
    model = DDP(Integers())
    state = lc.attach(model, "topk:0.02", memory="feedback", transport=TRANSPORT, guard="off")
    sent = np.zeros(300)
    given = np.zeros(300)
    for step in range(4):
        model.zero_grad()
        gradient = torch.from_numpy(np.random.default_rng(100 * rank + step).integers(-1000, 1000, 300)).float()
        given += gradient.numpy()
        model(gradient).backward()
        sent += model.module.w.grad.double().numpy() * size
    return given, sent, state.residual("feedback/w", 300).double().numpy(), _plain(state.state_dict())


def takes_integers(rank, size, states):
    state = lc.attach(DDP(Integers()), "topk:0.02", memory="feedback", transport=TRANSPORT, guard="off")
    state.load_state_dict([_torch(one) for one in states])
    return state.residual("feedback/w", 300).double().numpy()


@pytest.mark.parametrize("to", [3, 8])
def test_from_4_ranks_to_others_the_owed_mass_is_exact(run, to):
    saved = run(owes_integers, 4)
    owed = sum(one[2] for one in saved)
    assert (sum(one[0] for one in saved) == saved[0][1] + owed).all()  # given = delivered + owed, exactly
    loaded = run(takes_integers, to, [one[3] for one in saved])
    assert (sum(loaded) == owed).all() and abs(owed).sum() > 0


# Values.


def zeros(rank, size):
    """Quantisers that divide by a norm of 0 give NaN elsewhere."""
    worst = 0.0
    for method in ({"op": "qsgd:4"}, {"op": "natural"}, {"op": "topk:0.1"}, {"exchange": "powersgd:1"}):
        model = wrapped()
        lc.attach(model, transport=TRANSPORT, guard="off", **method)
        (model(batch(rank, 0)) * 0).sum().backward()
        worst = max([worst] + [float(p.grad.abs().max()) for p in model.parameters()])
    return worst


def test_all_zero_gradients_stay_zero(run):
    assert run(zeros, 2) == [0.0, 0.0]


def test_negative_blocks_odd_counts_and_indices_survive_every_operator():
    for count in (1, 2, 31, 32, 33, 4095, 4097):
        x = -np.abs(np.random.default_rng(count).standard_normal(count).astype(np.float32)) - 1
        for op in ("identity", "natural", "sign", "topk:0.5", "qsgd:4", "sbc:0.5"):
            y = lc.decompress(lc.compress(x, op, seed=3))
            assert y.shape == x.shape and np.isfinite(y).all() and (y <= 0).all(), (op, count)


def test_damaged_frames_are_refused():
    data = bytearray(lc.compress(np.arange(1, 200, dtype=np.float32), "topk:0.1"))
    for place in range(len(data)):
        bad = bytearray(data)
        bad[place] ^= 0xFF
        with pytest.raises(lc.DataError):
            lc.decompress(bytes(bad))


def drawn_apart(rank, size):
    """Two tensors with the same gradient in buckets of their own must not draw the same."""
    model = DDP(torch.nn.ModuleDict({"a": torch.nn.Linear(64, 64), "b": torch.nn.Linear(64, 64)}), bucket_cap_mb=0.001)
    model.module.forward = lambda x: x * (model.module["a"].weight + model.module["b"].weight).sum() + sum(
        model.module[n].bias.sum() for n in "ab"
    )
    lc.attach(model, "natural", seed=3, transport=TRANSPORT, guard="off")
    model(torch.tensor(0.7)).backward()
    return bool((model.module["a"].weight.grad == model.module["b"].weight.grad).all())


def test_buckets_do_not_share_their_draws(run):
    assert run(drawn_apart, 2) == [False, False]


# torch 2.x.


def halves(rank, size):
    model = DDP(torch.nn.Linear(30, 30).to(torch.bfloat16))
    lc.attach(model, "identity", transport=TRANSPORT, guard="off")
    model(torch.full((1, 30), 1.0 + 2 * rank, dtype=torch.bfloat16)).sum().backward()
    return str(model.module.weight.grad.dtype), model.module.weight.grad.float().unique().tolist()


@needs_two
def test_bfloat16(run):
    assert run(halves, 2) == [("torch.bfloat16", [2.0])] * 2


def with_scaler(rank, size, broken):
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    model = wrapped()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = lc.attach(model, optimizer=optimizer, scaler=scaler, **TOPK)
    norms = []
    for step in range(3):
        optimizer.zero_grad()
        loss = (model(batch(rank, step)) ** 2).mean() * (float("inf") if step == broken and rank == 1 else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        norms.append(state.residual_norm())
    return norms, scaler.get_scale(), flat(model)


@pytest.mark.skipif(not hasattr(getattr(torch, "amp", None), "GradScaler"), reason="no GradScaler on a CPU in this torch")
def test_gradscaler_skips_on_all_ranks(run):
    (norms, scale, model), (own, own_scale, other) = run(with_scaler, 2, 1)
    assert scale == own_scale == 512.0 and model == other
    assert norms[1] == norms[0] and norms[2] != norms[1] and own[1] == own[0]


def compiled(rank, size):
    models = []
    for compiles in (False, True):
        model = DDP(net())  # torch.compile wants buckets that are not smaller than the first
        state = lc.attach(model, **TOPK)
        used = torch.compile(model, backend="eager") if compiles else model
        train(used, rank, 3)
        assert state.stats()["steps"] == 3
        models.append(flat(model))
    return models


@needs_two
def test_compiled_models_send_the_same(run):
    results = run(compiled, 2)
    assert results[0] == results[1] and results[0][0] == results[0][1]


def skips(rank, size):
    try:
        model = wrapped(find_unused_parameters=True, skip_all_reduce_unused_params=True)
    except TypeError:
        return "no such argument"
    with pytest.raises(lc.UsageError) as caught:
        lc.attach(model, **TOPK)
    return str(caught.value)


def test_buckets_that_would_be_skipped_are_refused(run):
    assert run(skips, 1)[0] in ("no such argument", "skip_all_reduce_unused_params=True leaves parts of a step out; allowed: False")


def wrapped_in_compile(rank, size):
    model = torch.compile(DDP(net()), backend="eager")
    lc.attach(model, **TOPK)
    train(model, rank, 2)
    return flat(model)


@needs_two
def test_attach_finds_ddp_inside_a_compiled_model(run):
    results = run(wrapped_in_compile, 2)
    assert results[0] == results[1]
