"""Ranks killed at random moments: the others know who, within a second, and no mean is wrong.

LACONIC_KILLS=100 python3 -m pytest -s tests/test_kills.py is the long run; it prints what it has seen.
"""

from __future__ import annotations

import os
import random
import signal
import time
import zlib

import pytest
import torch.distributed as dist
from ranks import TRANSPORT, flat, train, wrapped

import laconic_comm as lc

KILLS = int(os.environ.get("LACONIC_KILLS", "4"))  # in all, of all methods
RANKS = 4
METHODS = {
    "gather": {"op": "topk:0.05+natural", "memory": "feedback"},
    "sharded": {"op": "natural", "exchange": "sharded"},
    "powersgd": {"exchange": "powersgd:2"},
    "dense": {"recipe": "dense"},
}


def attached(rank, method):
    """After two steps: before the second DDP rebuilds its buckets by a broadcast of its own, whose errors are torch's."""
    model = wrapped()
    state = lc.attach(model, transport=TRANSPORT, guard="off", **method)
    for step in range(2):
        train(model, rank, 1, first=step)
    return model, state


def dies(rank, size, method, victim, delay):
    """Trains until somebody dies. The model after every step, who is named, and how long after the moment of death."""
    model, state = attached(rank, method)
    moment = [time.monotonic() + delay]  # a clock that all processes of a machine have in common
    dist.broadcast_object_list(moment, victim)
    if rank == victim:
        signal.setitimer(signal.ITIMER_REAL, max(moment[0] - time.monotonic(), 1e-6))  # its default action ends the process
    models, slowest = [], 0.0
    try:
        for step in range(2, 10**6):
            began = time.monotonic()
            train(model, rank, 1, first=step)
            models.append(zlib.crc32(flat(model)))
            slowest = max(slowest, time.monotonic() - began)
    except lc.TransportError as error:
        seconds = time.monotonic() - moment[0]
        nan = all(p.grad.isnan().all() for p in model.parameters())
        return models, error.rank, seconds, slowest, nan and state.error is error
    except BaseException as error:
        raise AssertionError(f"{type(error).__name__} instead of TransportError: {error}") from error


def lives(rank, size, method, steps):
    model, _ = attached(rank, method)
    models = []
    for step in range(2, 2 + steps):
        train(model, rank, 1, first=step)
        models.append(zlib.crc32(flat(model)))
    return models


@pytest.mark.parametrize("name", METHODS)
def test_kills_at_random_moments(run, name):
    draw = random.Random(name)
    seen = []
    for kill in range(-(-KILLS // len(METHODS))):
        victim = draw.randrange(RANKS)
        results = run(dies, RANKS, METHODS[name], victim, draw.random() * 0.4, dead=(victim,))
        others = [result for rank, result in enumerate(results) if rank != victim]
        for _, named, seconds, slowest, kept in others:
            assert named == victim and kept, (kill, victim, named)
            assert seconds < 1 + 10 * slowest, (kill, seconds, slowest)  # a busy machine is slow at everything
        made = [len(models) for models, *_ in others]
        assert max(made) - min(made) <= 1
        seen.append((max(others, key=lambda one: len(one[0]))[0], max(seconds for _, _, seconds, *_ in others)))
        assert all(models == seen[-1][0][: len(models)] for models, *_ in others)
    # All means were those of a run in which nobody dies.
    whole = run(lives, RANKS, METHODS[name], max(len(models) for models, _ in seen))[0]
    assert all(models == whole[: len(models)] for models, _ in seen)
    told = sorted(seconds for _, seconds in seen)
    print(f"\n{name}: {len(told)} kills after {min(len(m) for m, _ in seen)} to {len(whole)} steps; "
          f"all others knew after {told[len(told) // 2]:.3f} s, at most {told[-1]:.3f} s")  # fmt: skip
