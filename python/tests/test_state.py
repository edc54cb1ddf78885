"""What is remembered: committed or rolled back with the optimizer, saved, resumed, shared out anew."""

from __future__ import annotations

import warnings

import pytest
import torch
from ranks import TRANSPORT, batch, flat, train, wrapped

import laconic_comm as lc

TOPK = {"op": "topk:0.05+natural", "memory": "feedback", "transport": TRANSPORT, "guard": "off"}


class Scaler:
    """What torch's GradScaler does, which 1.13 cannot do on a CPU."""

    def __init__(self):
        self.scale = 1024.0

    def get_scale(self):
        return self.scale

    def step(self, optimizer, model):
        if all(p.grad.isfinite().all() for p in model.parameters()):
            for p in model.parameters():
                p.grad /= self.scale
            optimizer.step()
        else:
            self.scale /= 2


def scaled(rank, size, skipped):
    """Steps of a scaler; some of the losses are so large that the step is skipped."""
    model = wrapped()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = Scaler()
    state = lc.attach(model, optimizer=optimizer, scaler=scaler, **TOPK)
    norms = []
    for step in range(3):
        if step in skipped:
            optimizer.zero_grad()
            (model(batch(rank, 99)).sum() * float("inf")).backward()
            scaler.step(optimizer, model)
            scaler.scale = 1024.0
            state._step -= 1  # so that both runs draw the same
        optimizer.zero_grad()
        ((model(batch(rank, step)) ** 2).mean() * scaler.scale).backward()
        scaler.step(optimizer, model)
        norms.append(state.residual_norm())
    return flat(model), norms


def test_skipped_steps_leave_no_trace(run):
    assert run(scaled, 2, (1, 2)) == run(scaled, 2, ())


def units(rank, size):
    """Powers of two as scales: the same model bit for bit, and residuals without the scale."""
    results = []
    for factor in (1.0, 4096.0):
        model = wrapped()
        scaler = Scaler()
        scaler.scale = factor
        state = lc.attach(model, "topk:0.05", memory="feedback", scaler=scaler, transport=TRANSPORT, guard="off")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(4):
            if step == 2:
                scaler.scale *= 2
            optimizer.zero_grad()
            ((model(batch(rank, step)) ** 2).mean() * scaler.scale).backward()
            scaler.step(optimizer, model)
        results.append((flat(model), state.residual_norm()))
    return results


def test_residuals_know_no_loss_scale(run):
    for plain, scaled_up in run(units, 2):
        assert plain == scaled_up


def flushed(rank, size):
    """What was sent and what is flushed is all there was: the sum of all gradients, with SGD of rate 1/4."""
    model, plain = wrapped(), wrapped()
    state = lc.attach(model, "topk:0.05", memory="feedback", transport=TRANSPORT)
    grads = []
    for step in range(5):  # the same gradients for both: models stay where they are
        for one in (model, plain):
            one.zero_grad()
            (one(batch(rank, step)) ** 2).mean().backward()
        grads.append([[p.grad.clone() for p in one.parameters()] for one in (model, plain)])
    assert state.residual_norm() > 0
    state.flush()
    assert state.residual_norm() == 0
    for i, p in enumerate(model.parameters()):
        sent = sum(one[0][i] for one in grads) + p.grad
        assert torch.allclose(sent, sum(one[1][i] for one in grads), rtol=1e-5, atol=1e-6)
    last = [p.grad.clone() for p in model.parameters()]
    state.flush()
    assert not any(p.grad.any() for p in model.parameters())
    return [values.numpy().tobytes() for values in last]


def test_flush_delivers_all_that_is_owed(run):
    first, other = run(flushed, 2)
    assert first == other


def undecided(rank, size):
    """The optimizer makes no step: as if the backward had not been."""
    model = wrapped()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = lc.attach(model, optimizer=optimizer, **TOPK)
    norms = []
    for step, makes in enumerate([True, False, True]):
        optimizer.zero_grad()
        (model(batch(rank, step)) ** 2).mean().backward()
        if makes:
            optimizer.step()
        norms.append(state.residual_norm())
    return norms


def test_a_step_that_was_not_made_is_rolled_back(run):
    for first, second, third in run(undecided, 2):
        assert first == second and third != second


def with_scheduler(rank, size, before):
    model = wrapped()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made = torch.optim.lr_scheduler.StepLR(optimizer, 1) if before else None
    state = lc.attach(model, optimizer=optimizer, **TOPK)
    scheduler = made or torch.optim.lr_scheduler.StepLR(optimizer, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a scheduler that sees no step of its optimizer warns
        for step in range(2):
            optimizer.zero_grad()
            (model(batch(rank, step)) ** 2).mean().backward()
            optimizer.step()
            scheduler.step()
    return state.residual_norm() > 0, scheduler.last_epoch


@pytest.mark.parametrize("before", [True, False])
def test_schedulers_find_their_optimizer(run, before):
    assert run(with_scheduler, 1, before) == [(True, 2)]


def saves(rank, size, method):
    """Six steps; three, and what is saved after them."""
    results = []
    for steps in (6, 3):
        model = wrapped()
        state = lc.attach(model, transport=TRANSPORT, guard="off", **method)
        optimizer = train(model, rank, steps)
        ours = state.state_dict()
        results.append([_plain(model.module.state_dict()), _plain(optimizer.state_dict()), ours])
        train(model, rank, 1)  # what was saved is a copy
    return [_plain(value) for value in results]


def _plain(value):  # tensors would travel as shared memory
    if isinstance(value, torch.Tensor):
        return ("tensor", value.numpy().copy())
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value


def _torch(value):
    if isinstance(value, tuple):
        return torch.from_numpy(value[1])
    if isinstance(value, dict):
        return {key: _torch(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_torch(inner) for inner in value]
    return value


def resumes(rank, size, method, saved):
    model = wrapped(seed=5)
    model.module.load_state_dict(_torch(saved[rank][0]))
    state = lc.attach(model, transport=TRANSPORT, guard="off", **method)
    state.load_state_dict(_torch(saved[rank][2]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer.load_state_dict(_torch(saved[rank][1]))
    for step in range(3, 6):
        optimizer.zero_grad()
        (model(batch(rank, step)) ** 2).mean().backward()
        optimizer.step()
    return flat(model)


@pytest.mark.parametrize(
    "method",
    [
        {"op": "topk:0.05+natural", "memory": "feedback"},
        {"op": "natural", "exchange": "sharded"},
        {"exchange": "powersgd:2"},
        {"exchange": "powersgd:2", "rules": "name=2.weight,rank=4"},
        {"recipe": "dense"},
    ],
    ids=str,
)
def test_resumed_is_uninterrupted(run, method):
    saved = run(saves, 2, method)
    whole = b"".join(array.tobytes() for _, array in saved[0][0][0].values())
    resumed = run(resumes, 2, method, [rank[1] for rank in saved])
    assert resumed == [whole, whole]
    assert set(saved[1][1][2]) == {"version", "world_size", "step", "rank1.blob"}


def owed(rank, size):
    model = wrapped()
    state = lc.attach(model, "topk:0.05", memory="feedback", transport=TRANSPORT, guard="off")
    train(model, rank, 3)
    return _plain(state.state_dict()), state.residual("feedback/0.weight", 20 * 64).numpy()


def takes_over(rank, size, states):
    model = wrapped()
    state = lc.attach(model, "topk:0.05", memory="feedback", transport=TRANSPORT, guard="off")
    merged = {key: value for one in states for key, value in _torch(one).items()}
    given = merged if rank == 0 else [_torch(one) for one in states]  # either way
    with pytest.raises(lc.UsageError, match="lacks 'rank1.blob'"):
        state.load_state_dict(_torch(states[0]))
    state.load_state_dict(given)
    mine = state.residual("feedback/0.weight", 20 * 64).numpy()
    train(model, rank, 1)
    return mine, flat(model)


def test_another_number_of_ranks(run):
    saved = run(owed, 4)
    loaded = run(takes_over, 3, [state for state, _ in saved])
    before = sum(residual.astype("float64") for _, residual in saved)
    after = sum(residual.astype("float64") for residual, _ in loaded)
    assert abs(before - after).max() < 1e-6 * abs(before).max()
    assert len({model for _, model in loaded}) == 1


def test_states_of_others_are_refused():
    from laconic_comm._model import blob_of

    with pytest.raises(lc.UsageError, match="no 'world_size'"):
        blob_of({"version": 1}, 0, 1)
    with pytest.raises(lc.UsageError, match="version 9"):
        blob_of({"version": 9, "world_size": 1, "step": 0}, 0, 1)
    good = {"version": 1, "world_size": 1, "step": 3, "rank0.blob": torch.tensor([7], dtype=torch.uint8)}
    assert blob_of(good, 0, 1) == (b"\7", 3)
    for wrong, words in (
        (None, "of type NoneType"),
        ([5], "of type int"),
        ([], "an empty list"),
        ({**good, "step": -1}, "step is -1"),
        ({**good, "step": "x"}, "step is 'x'"),
        ({**good, "world_size": 0}, "world_size is 0"),
        ({**good, "world_size": 10**15}, "lacks 'rank1.blob'"),  # and no list of so many is made
        ({**good, "rank0.blob": None}, "of type NoneType; allowed: a tensor of uint8"),
        ({**good, "rank0.blob": torch.ones(3)}, "of type torch.float32"),
    ):
        with pytest.raises(lc.UsageError, match=words):
            blob_of(wrong, 0, 1)
