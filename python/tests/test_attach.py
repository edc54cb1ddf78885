"""attach: equal models on all ranks, whatever DDP does."""

from __future__ import annotations

from ranks import flat, train, wrapped

import laconic_comm as lc

METHODS = {
    "gather": {"op": "topk:0.05+natural", "memory": "feedback"},
    "sharded": {"op": "natural", "exchange": "sharded"},
    "summed": {"op": "randomk:0.1", "exchange": "summed"},
    "sparse": {"op": "topk:0.05", "exchange": "sparse", "memory": "feedback"},
    "server": {"op": "natural", "exchange": "server"},
    "powersgd": {"exchange": "powersgd:2"},
    "ranks": {"recipe": {"name": "ranks", "exchange": "powersgd:2", "rules": ["name=0.weight,rank=5", "name=4.*,op=identity"]}},
    "dense": {"recipe": "dense"},
    "whole": {"op": "topk:0.05", "memory": "feedback", "layout": "whole"},
    "sbc1": {"recipe": "sbc1"},
}


def methods(rank, size, transport):
    models = []
    for method in METHODS.values():
        model = wrapped()
        state = lc.attach(model, transport=transport, guard="off", **method)
        train(model, rank, 4)
        stats = state.stats()
        assert stats["steps"] == 4 and stats["last"]["finite"]
        assert stats["total"]["dense_bytes"] == 4 * sum(p.numel() * 4 for p in model.parameters())
        models.append(flat(model))
        state.close()
    return models


def test_all_ranks_have_the_same_model(run):
    results = run(methods, 4, "sockets")
    for name, per_rank in zip(METHODS, zip(*results)):
        assert len(set(per_rank)) == 1, name
    assert len(set(results[0])) == len(METHODS)  # and each method its own


def test_transports_give_the_same_model(run):
    sockets, group = run(methods, 2, "sockets"), run(methods, 2, "group")
    assert sockets[0] == sockets[1] == group[0] == group[1]
