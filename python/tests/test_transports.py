"""How ranks find each other."""

from __future__ import annotations

import socket

import pytest
import torch.distributed as dist
from ranks import flat, train, wrapped

import laconic_comm as lc
from laconic_comm import _transports


def strangers(rank, size):
    """Others connect first: one is silent, one lies, one has no token, one leaves."""
    real, held = dist.all_gather_object, []

    def gather(everybody, mine, group=None):
        for said in (b"\0" * 16 + b"\1\0\0\0", b"hello", b""):
            stranger = socket.create_connection(mine[0])
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
            held.append(stranger)
        real(everybody, mine, group=group)

    dist.all_gather_object = gather
    model = wrapped()
    lc.attach(model, "topk:0.1", memory="feedback", guard="off")
    dist.all_gather_object = real
    train(model, rank, 2)
    return flat(model)


def test_strangers_are_dropped(run):
    results = run(strangers, 2)
    assert results[0] == results[1]


def test_the_interface_can_be_chosen(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    assert _transports.own_address() == "127.0.0.1"
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo9")
    with pytest.raises(lc.UsageError, match="'lo9'"):
        _transports.own_address()
    monkeypatch.delenv("GLOO_SOCKET_IFNAME")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    assert _transports.own_address() == "127.0.0.1"


def moves(rank, size):
    """Goes on over another group, with all that is remembered."""
    models = []
    for changes in (False, True):
        model = wrapped()
        state = lc.attach(model, "topk:0.05", memory="feedback", guard="off")
        train(model, rank, 2)
        if changes:
            state.set_process_group(dist.new_group())
        train(model, rank, 2, first=2)
        models.append(flat(model))
    return models


def test_another_group(run):
    for stayed, moved in run(moves, 2):
        assert stayed == moved
