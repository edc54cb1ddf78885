"""attach: equal models on all ranks, whatever DDP does."""

from __future__ import annotations

import pytest
import torch
from ranks import TRANSPORT, flat, net, train, wrapped

import laconic_comm as lc

METHODS = {
    "gather": {"op": "topk:0.05+natural", "memory": "feedback"},
    "sharded": {"op": "natural", "exchange": "sharded"},
    "summed": {"op": "randomk:0.1", "exchange": "summed"},
    "sparse": {"op": "topk:0.05", "exchange": "sparse", "memory": "feedback"},
    "server": {"op": "natural", "exchange": "server"},
    "powersgd": {"exchange": "powersgd:2"},
    "dense": {"recipe": "dense"},
    "whole": {"op": "topk:0.05", "memory": "feedback", "layout": "whole"},
    "sbc1": {"recipe": "sbc1"},
}


def methods(rank, size, names):
    models = []
    for name in names:
        model = wrapped()
        state = lc.attach(model, transport=TRANSPORT, **METHODS[name])
        train(model, rank, 4)
        stats = state.stats()
        assert stats["steps"] == 4 and stats["last"]["finite"]
        assert stats["total"]["dense_bytes"] == 4 * sum(p.numel() * 4 for p in model.parameters())
        models.append(flat(model))
        state.close()
    return models


@pytest.mark.parametrize("size", [2, 4])
def test_all_ranks_have_the_same_model(run, size):
    results = run(methods, size, list(METHODS))
    for name, per_rank in zip(METHODS, zip(*results)):
        assert len(set(per_rank)) == 1, name
    assert len(set(results[0])) == len(METHODS)  # and each method its own
