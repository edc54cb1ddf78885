"""Gradients of other devices, on a CPU: copies that are late, and an event that must be waited for."""

from __future__ import annotations

import queue
import threading

import pytest
import torch
from ranks import TRANSPORT, flat, train, wrapped

import laconic_comm as lc
from laconic_comm._staging import HostStreams

TOPK = {"op": "topk:0.05+natural", "memory": "feedback", "transport": TRANSPORT, "guard": "off"}


class Event:
    def __init__(self):
        self._done = threading.Event()

    def synchronize(self):
        self._done.wait()


class LateStreams(HostStreams):
    """A stream that does nothing until somebody waits for an event, and then all in order, in a thread of its own."""

    def __init__(self, device):
        super().__init__(device)
        self._work = queue.SimpleQueue()
        self._wanted = threading.Semaphore(0)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            self._wanted.acquire()
            self._work.get()()

    def _later(self, what):
        event = Event()
        self._work.put(lambda: (what(), event._done.set()))
        event.synchronize, wait = (lambda: (self._wanted.release(), wait())), event.synchronize
        return event

    def down(self, host, tensor):
        return self._later(lambda: host.copy_(tensor))

    def up(self, tensor, host):
        self._later(lambda: tensor.copy_(host)).synchronize()


def staged(rank, size, method):
    results = []
    for streams in (False, True, LateStreams):
        model = wrapped()
        state = lc.attach(model, _staging=streams, transport=TRANSPORT, guard="off", **method)
        optimizer = train(model, rank, 4)
        del optimizer
        results.append((flat(model), state.residual_norm(), state.stats()["total"]["wire_bytes"]))
        state.close()
    return results


@pytest.mark.parametrize(
    "method", [{"op": "topk:0.05+natural", "memory": "feedback"}, {"op": "natural", "exchange": "sharded"}], ids=str
)
def test_staged_gradients_are_the_same_bit_for_bit(run, method):
    for direct, at_once, late in run(staged, 2, method):
        assert direct == at_once == late


def fails_while_copying(rank, size):
    model = wrapped()
    state = lc.attach(model, _staging=True, **TOPK)
    train(model, rank, 2)
    if rank == 1:
        streams = state._staging.streams(torch.device("cpu"))
        right = streams.down
        broken = Event()
        broken.synchronize = lambda: 1 / 0
        streams.down = lambda host, tensor: broken
    with pytest.raises(lc.Error) as caught:
        train(model, rank, 1)
    nan = all(p.grad.isnan().all() for p in model.parameters())
    if rank == 1:
        streams.down = right
    train(model, rank, 1)  # a step that failed can be made again
    return str(caught.value), nan, flat(model)


def test_a_copy_that_fails_ends_all(run):
    (told, nan, model), (own, own_nan, other) = run(fails_while_copying, 2)
    assert "rank 1" in told and "division by zero" in told and "division by zero" in own
    assert nan and own_nan and model == other


def closed_in_between(rank, size):
    """Copies under way when the state is closed or dropped."""
    model = wrapped()
    state = lc.attach(model, _staging=LateStreams, **TOPK)
    train(model, rank, 1)
    state.abort("nothing under way")
    state.close()
    return True


def test_close_with_copies(run):
    assert all(run(closed_in_between, 2))
