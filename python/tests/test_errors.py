"""Errors: the right type, one sentence, the rank at fault; and nobody is left waiting."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import threading
import time

import pytest
import torch
from ranks import TRANSPORT, batch, flat, net, train, wrapped

import laconic_comm as lc

TOPK = {"op": "topk:0.05+natural", "memory": "feedback", "transport": TRANSPORT, "guard": "off"}


def wrong(rank, size):
    model = wrapped()
    told = []
    for arguments in (
        {"op": "topkk"},
        {"recipe": "sbc2"},
        {"recipe": "dpsgd"},
        {"recipe": "sbc1", "op": "natural"},
        {},
        {"op": "natural", "transport": "pigeons"},
        {"recipe": {"name": "mine", "oops": 1}},
    ):
        with pytest.raises(lc.UsageError) as caught:
            lc.attach(model, **{"transport": TRANSPORT, **arguments})
        told.append(str(caught.value))
    with pytest.raises(lc.UsageError, match="a Sequential; allowed: DistributedDataParallel"):
        lc.attach(model.module, "natural")
    with pytest.raises(lc.UsageError, match="float64"):
        lc.attach(wrapped().double(), "natural")
    return told


def strange(rank, size):
    model = wrapped()
    told, before = [], len(os.listdir("/proc/self/fd"))
    for arguments in (
        {"timeout": float("nan")}, {"timeout": float("inf")}, {"timeout": 0}, {"timeout": "60"}, {"timeout": None},
        {"threads": 0}, {"threads": -1}, {"threads": 2**40}, {"threads": 1.5},
        {"seed": -1}, {"seed": 2**64}, {"seed": "a"},
        {"guard": True},
        {"op": b"natural"}, {"op": 5},
        {"rules": 5}, {"rules": "nope"},
        {"op": None, "recipe": 5}, {"op": None, "recipe": {"name": "mine", "op": {1}}}, {"op": None, "recipe": "\0"},
        {"optimizer": "adam"}, {"optimizer": torch.optim.SGD},
        {"scaler": 5}, {"optimizer": torch.optim.SGD([torch.zeros(1)], lr=0.1)},
        {"transport": ["sockets"]}, {"group": 5}, {"group": "gloo"},
        {"guard": "maybe"},
    ):  # fmt: skip
        with pytest.raises(lc.UsageError) as caught:
            lc.attach(model, **{"op": "natural", "transport": TRANSPORT, **arguments})
        told.append((list(arguments)[-1], str(caught.value)))
    for what in (5, None):
        with pytest.raises(lc.UsageError, match="allowed: DistributedDataParallel"):
            lc.attach(what, "natural")
    assert len(os.listdir("/proc/self/fd")) == before  # whoever is refused leaves no connection open
    assert not hasattr(torch.optim.SGD.step, "__self__")  # nor is the class of all optimizers touched
    rules = lc.attach(model, "natural", rules="name=*.bias,op=identity", transport=TRANSPORT).recipe["rules"]
    return told, rules


def test_strange_arguments_are_named_before_ranks_meet(run):
    for told, rules in run(strange, 2):
        for argument, sentence in told:
            assert argument in sentence.replace("an optimizer", "optimizer").replace("rule 'nope'", "rules"), sentence
        assert rules == ["name=*.bias,op=identity"]


def strange_questions(rank, size):
    state = lc.attach(wrapped(), **TOPK)
    for arguments, words in (
        ((5, 1280), "name is 5"),
        (("a\0b", 1), "zero byte"),
        (("feedback/0.weight", -1), "count is -1"),
        (("feedback/0.weight", "a"), "count is 'a'"),
    ):
        with pytest.raises(lc.UsageError, match=words):
            state.residual(*arguments)
    with pytest.raises(lc.UsageError, match="why is 5"):
        state.abort(5)
    model = net()
    for around in (lc.LocalSteps, lc.Gossip):
        one = around(model, torch.optim.SGD(model.parameters(), lr=0.1), transport=TRANSPORT)
        with pytest.raises(lc.UsageError, match="save its state_dict"):
            pickle.dumps(one)


def test_strange_questions_are_answered(run):
    run(strange_questions, 2)


def closed(rank, size):
    model = wrapped()
    state = lc.attach(model, **TOPK)
    train(model, rank, 2)
    state.close()
    with pytest.raises(lc.UsageError, match="this state was closed"):
        train(model, rank, 1)
    return state.stats()


def test_stats_outlive_close(run):
    for told in run(closed, 2):
        assert told["steps"] == 2 and told["total"]["ratio"] > 1


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_mistyped_word_is_pythons_own_error():
    with pytest.raises(TypeError, match="oops"):
        lc.State(None, "natural", oops=1)
    gc.collect()


def test_wrong_arguments_are_named(run):
    (told,) = run(wrong, 1)
    expected = ["topkk", "LocalSteps", "Gossip", "one or the other", "nothing to do", "pigeons", "oops"]
    for word, sentence in zip(expected, told):
        assert word in sentence


def different(rank, size):
    with pytest.raises(lc.UsageError) as caught:
        lc.attach(wrapped(), "natural", seed=rank, transport=TRANSPORT, guard="off")
    return str(caught.value), caught.value.rank


def test_ranks_must_agree(run):
    for sentence, rank in run(different, 2):
        assert "seed" in sentence and rank == 1


def killed(rank, size, transport):
    model = wrapped()
    state = lc.attach(model, **{**TOPK, "transport": transport})
    train(model, rank, 2)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(lc.TransportError) as caught:
        train(model, rank, 1)
    assert state.error is caught.value
    assert all(p.grad.isnan().all() for p in model.parameters())  # nobody trains with what is undefined
    return str(caught.value), caught.value.rank, time.monotonic() - began


@pytest.mark.parametrize("transport", ["sockets", "group"])
def test_a_killed_rank_is_named(run, transport):
    results = run(killed, 3, transport, dead=(1,))
    for rank in (0, 2):
        sentence, lost, seconds = results[rank]
        assert lost == 1 and "rank 1" in sentence
        assert seconds < 20  # not by the time-out of 60 s


def silent(rank, size):
    model = wrapped()
    lc.attach(model, timeout=3, **TOPK)
    train(model, rank, 2)  # DDP rebuilds its buckets in the second
    if rank == 1:
        torch.distributed.barrier()  # until the other has had enough
        return None
    with pytest.raises(lc.TransportError) as caught:
        train(model, rank, 1)
    torch.distributed.barrier()
    return str(caught.value), caught.value.rank


def test_a_silent_rank_is_named(run):
    sentence, lost = run(silent, 2)[0]
    assert lost == 1 and "rank 1" in sentence and "3 s" in sentence


class Breaks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, armed):
        ctx.armed = armed
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        if ctx.armed:
            raise ArithmeticError("one rank's own trouble")
        return grad, None


class Fragile(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = torch.nn.Linear(20, 20), torch.nn.Linear(20, 20)
        self.armed = False

    def forward(self, x):
        return self.last(Breaks.apply(self.first(x), self.armed))


def in_backward(rank, size):
    model = torch.nn.parallel.DistributedDataParallel(Fragile(), bucket_cap_mb=0.0001)
    state = lc.attach(model, timeout=20, **TOPK)
    train(model, rank, 2)
    model.module.armed = rank == 1
    try:
        train(model, rank, 1)
    except ArithmeticError as error:
        state.abort(str(error))
    except lc.Error as error:
        return str(error)
    return None


def test_an_exception_in_backward_ends_all(run):
    told, _ = run(in_backward, 2)
    assert "rank 1" in told


def in_forward(rank, size):
    """Before this rank has begun the step that the others wait in."""
    model = wrapped()
    state = lc.attach(model, timeout=100, **TOPK)
    train(model, rank, 2)
    began = time.monotonic()
    if rank == 1:
        state.abort("one rank's own trouble")
        told = str(state.error)
        state.abort("told twice")
    else:
        with pytest.raises(lc.Error) as caught:
            train(model, rank, 1, first=2)
        told = str(caught.value)
        state.abort("told by all")
    seconds = time.monotonic() - began
    train(model, rank, 2, first=2)
    return told, seconds, flat(model)


def test_an_exception_before_the_step_ends_it_on_all(run):
    results = run(in_forward, 3)
    for told, seconds, _ in results:
        assert "rank 1: one rank's own trouble" in told and seconds < 50
    assert len({model for _, _, model in results}) == 1


def when_waiting_goes_on(method, then):
    """Calls then, on a thread, once the first stretch of waiting for others has ended without them."""
    call, goes_on, waits = method._call, threading.Event(), []

    def noted(name, *arguments):
        if name == "wait":
            waits.append(name)
            if len(waits) == 2:
                goes_on.set()
        return call(name, *arguments)

    method._call = noted
    threading.Thread(target=lambda: goes_on.wait() and then(), daemon=True).start()


def interrupted(rank, size):
    model = wrapped()
    state = lc.attach(model, timeout=100, **TOPK)
    train(model, rank, 2)
    if rank == 1:
        torch.distributed.barrier()  # until the other is gone
        with pytest.raises(lc.Error) as caught:
            train(model, rank, 1)
        return str(caught.value), caught.value.rank
    signal.signal(signal.SIGINT, signal.default_int_handler)
    when_waiting_goes_on(state._method, lambda: os.kill(os.getpid(), signal.SIGINT))
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        train(model, rank, 1)
    seconds = time.monotonic() - began
    torch.distributed.barrier()
    return str(state.error), seconds


def test_a_ctrl_c_is_heard_while_others_are_waited_for(run):
    (own, seconds), (told, rank) = run(interrupted, 2)
    assert own == "rank 0: KeyboardInterrupt" and seconds < 50
    assert own in told and rank == 0


def in_hook(rank, size):
    """A parameter that the state does not know, on one rank."""
    model = wrapped()
    state = lc.attach(model, **TOPK)
    train(model, rank, 2)
    places = dict(state._places)
    if rank == 1:
        state._places.pop(id(model.module[2].bias))
    with pytest.raises(lc.Error) as caught:
        train(model, rank, 1)
    state._places.update(places)
    train(model, rank, 2)  # a step that failed can be made again
    return type(caught.value).__name__, str(caught.value), flat(model)


def test_an_exception_in_the_hook_ends_all(run):
    (kind, told, model), (own_kind, own, other) = run(in_hook, 2)
    assert own_kind == "UsageError" and "attach again" in own
    assert "rank 1" in told and "attach again" in told
    assert model == other


def not_finite(rank, size):
    model = wrapped()
    state = lc.attach(model, **TOPK)
    train(model, rank, 2)
    before = state.residual_norm()
    scale = float("inf") if rank == 1 else 1.0
    (model(batch(rank, 9)) * scale).sum().backward()
    finite = state.stats()["last"]["finite"]
    bad = [not p.grad.isfinite().all() for p in model.parameters()]
    kept = state.residual_norm() == before
    model.zero_grad()
    train(model, rank, 1)
    return finite, any(bad), kept, flat(model)


def test_a_gradient_that_is_not_finite(run):
    results = run(not_finite, 2)
    assert results[0] == results[1]
    assert results[0][:3] == (False, True, True)


def left_open(rank, size):
    """Exits without close(), in the middle of everything."""
    model = wrapped()
    lc.attach(model, **TOPK)
    train(model, rank, 1)
    return True


def test_exit_without_close(run):
    assert all(run(left_open, 2))


def test_errors_survive_a_pipe():
    error = pickle.loads(pickle.dumps(lc.TransportError("rank 3 has left", 3)))
    assert isinstance(error, lc.TransportError) and error.rank == 3 and str(error) == "rank 3 has left"


def callback_fails(rank, size):
    """An exception in a callback of ctypes would be printed and forgotten."""
    model = wrapped()
    state = lc.attach(model, "natural", transport="group", timeout=5)
    if rank == 0:
        state._method.transport._pass = None  # calling it is a TypeError
    with pytest.raises(lc.TransportError) as caught:
        train(model, rank, 1)
    again = pytest.raises(lc.TransportError, train, model, rank, 1)  # a transport that failed once stays so
    return str(caught.value), str(again.value)


def test_callbacks_tell_what_went_wrong(run):
    told = run(callback_fails, 2)
    assert "not callable" in told[0][0] and "not callable" in told[0][1]
