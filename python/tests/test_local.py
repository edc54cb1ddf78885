"""Local steps and gossip."""

from __future__ import annotations

import pytest
import torch
from ranks import TRANSPORT, batch, flat, net, wrapped
from test_state import _plain, _torch

import laconic_comm as lc

SBC = {"every": 3, "op": "sbc:0.05", "outer": "nesterov:0.9,lr=0.7", "transport": TRANSPORT}


def learn(model, around, rank, steps, first=0):
    for step in range(first, first + steps):
        around.zero_grad()
        (model(batch(rank, step)) ** 2).mean().backward()
        around.step()


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def local(rank, size, options):
    model = net(seed=rank)  # rank 0's is the one
    model[0].weight = torch.nn.Parameter(model[0].weight.t().contiguous().t())
    model.register_buffer("mask", torch.full((3,), rank == 0))
    optimizer = sgd(model)
    seen = []
    with lc.LocalSteps(model, optimizer, transport=TRANSPORT, **options) as steps:
        for step in range(7):
            learn(model, steps, rank, 1, step)
            seen.append(flat(model))
        stats = steps.stats()
    assert model.mask.all()
    seen.append(flat(model))
    return seen, stats["steps"]


@pytest.mark.parametrize(
    "options",
    [
        {"every": 3, "op": "sbc:0.05", "memory": "feedback", "outer": "nesterov:0.9,lr=0.7"},
        {"every": 3, "op": "topk:0.05", "memory": "feedback:masking=on"},
        {"recipe": "diloco"},
    ],
    ids=str,
)
def test_models_are_common_after_a_round(run, options):
    first, other = run(local, 2, options)
    rounds = [2, 5] if "every" in options else []
    for step in range(7):
        assert (first[0][step] == other[0][step]) == (step in rounds), step
    assert first[0][7] == other[0][7]  # and at the end of the with
    assert first[1] == 7


def resumed(rank, size):
    def after(steps, saved=None):
        model = net()
        optimizer = sgd(model)
        around = lc.LocalSteps(model, optimizer, **SBC)
        if saved:
            around.load_state_dict(saved[0])
            optimizer.load_state_dict(saved[1])
        learn(model, around, rank, steps, 4 if saved else 0)
        return flat(model), (around.state_dict(), _torch(_plain(optimizer.state_dict())))

    whole, _ = after(8)
    _, saved = after(4)  # in the middle of a round
    return whole == after(4, saved)[0]


def test_local_steps_resume_in_a_round(run):
    assert all(run(resumed, 2))


STREAMING = {"every": 4, "op": "topk:0.2", "fragments": 2, "overlap": 1, "merge": 0.5, "transport": TRANSPORT}


def streamed(rank, size):
    """Saved while a round is under way; at the end all models are the same, and nothing is owed after a flush."""

    def after(steps, saved=None):
        model = net()
        optimizer = sgd(model)
        around = lc.LocalSteps(model, optimizer, **STREAMING)
        if saved:
            around.load_state_dict(saved[0])
            optimizer.load_state_dict(saved[1])
        learn(model, around, rank, steps, 6 if saved else 0)
        state = around.state_dict(), _torch(_plain(optimizer.state_dict()))
        before = flat(model)
        assert around.residual_norm() > 0
        around.flush()
        assert around.residual_norm() == 0
        around.close()
        return (before, flat(model)), state

    whole, _ = after(9)
    _, saved = after(6)
    assert whole == after(3, saved)[0]
    return whole[1]


def test_rounds_under_way_are_saved_and_all_is_delivered(run):
    first, other = run(streamed, 2)
    assert first == other


def followed(rank, size, scheduled):
    models = []
    for alone in (True, False):
        model = net()
        optimizer = sgd(model)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        with lc.LocalSteps(model, optimizer, **SBC) as around:
            for step in range(7):
                around.zero_grad()
                (model(batch(rank, step)) ** 2).mean().backward()
                if not alone:
                    optimizer.step()
                around.step()
                if scheduled:
                    scheduler.step()
        models.append(flat(model))
    gossip = lc.Gossip(model, optimizer, transport=TRANSPORT)
    optimizer.step()
    with pytest.raises(lc.UsageError, match="comes after mixing"):
        gossip.step()
    return models


@pytest.mark.parametrize("scheduled", [False, True])
def test_steps_may_follow_those_of_the_optimizer(run, scheduled):
    for alone, after in run(followed, 2, scheduled):
        assert alone == after


def runs_away(rank, size):
    model = net()
    optimizer = sgd(model)
    around = lc.LocalSteps(model, optimizer, **SBC)
    learn(model, around, rank, 3)
    assert around.residual_norm() > 0
    common = flat(model)
    if rank == 1:
        with torch.no_grad():
            next(model.parameters()).fill_(float("inf"))
    learn(model, around, rank, 3)
    return flat(model) == common, len(optimizer.state)


def test_a_model_that_ran_away_is_set_back(run):
    assert run(runs_away, 2) == [(True, 0)] * 2


def gossip(rank, size, mixer, op):
    model = net()
    around = lc.Gossip(model, sgd(model), topology="ring", mixer=mixer, op=op, transport=TRANSPORT)
    learn(model, around, rank, 4)
    mean = b"".join(p.numpy().tobytes() for p in around.mean())
    assert around.stats()["total"]["wire_bytes"] > 0
    return flat(model), mean


@pytest.mark.parametrize("mixer, op", [("powergossip", None), ("choco:0.45", "sign"), ("deepsqueeze:0.3", "sign")])
def test_gossip(run, mixer, op):
    results = run(gossip, 3, mixer, op)
    assert len({model for model, _ in results}) == 3  # each its own
    assert len({mean for _, mean in results}) == 1


def consensus(rank, size):
    """Without gradients models come together and their mean stays."""
    model = net()
    around = lc.Gossip(model, torch.optim.SGD(model.parameters(), lr=0.0), mixer="dpsgd", transport=TRANSPORT)
    with torch.no_grad():
        for p in model.parameters():
            p += rank
    before = [p.clone() for p in around.mean()]
    for _ in range(12):
        around.step()  # no gradients at all: zeros
    after = around.mean()
    apart = max(float((p - m).abs().max()) for p, m in zip(model.parameters(), after))
    moved = max(float((a - b).abs().max()) for a, b in zip(after, before))
    return apart, moved


def test_gossip_without_gradients_is_consensus(run):
    for apart, moved in run(consensus, 4):
        assert apart < 0.01 and moved < 1e-5


def wrong(rank, size):
    model = net()
    told = []
    for make in (
        lambda: lc.LocalSteps(model, sgd(model), recipe="sbc1", transport=TRANSPORT),
        lambda: lc.LocalSteps(wrapped(), sgd(model), transport=TRANSPORT),
        lambda: lc.LocalSteps(net().half(), sgd(model), transport=TRANSPORT),
        lambda: lc.Gossip(model, sgd(model), topology="moebius", transport=TRANSPORT),
        lambda: lc.LocalSteps(model, sgd(model), recipe="dpsgd", transport=TRANSPORT),
        lambda: lc.Gossip(model, sgd(model), recipe="sbc2", transport=TRANSPORT),
        lambda: lc.Gossip(model, sgd(model), recipe="natural", transport=TRANSPORT),
        lambda: lc.LocalSteps(net(), sgd(model), transport=TRANSPORT),
        lambda: lc.LocalSteps(model, "sgd", transport=TRANSPORT),
        lambda: lc.LocalSteps(5, sgd(model), transport=TRANSPORT),
        lambda: lc.LocalSteps(model, sgd(model), threads=0, transport=TRANSPORT),
    ):
        with pytest.raises(lc.UsageError) as caught:
            make()
        told.append(str(caught.value))
    return told


def test_wrong_arguments_are_named(run):
    words = ["lc.attach", "the module in it", "float32", "moebius", "use lc.Gossip", "use lc.LocalSteps", "lc.attach"]
    words += ["of other parameters", "optimizer 'sgd'", "a model of type int", "threads is 0"]
    for told in run(wrong, 2):
        assert len(told) == len(words)
        for word, sentence in zip(words, told):
            assert word in sentence
