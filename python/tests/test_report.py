"""Shadow mode: what recipes would send, lose and save; and what training tells about itself."""

from __future__ import annotations

import logging
import math
import os

import pytest
import torch
from ranks import TRANSPORT, batch, flat, wrapped

import laconic_comm as lc
from laconic_comm._link import parse_link

STEPS = 4
LINK = "100mbit,1ms"


class Writer:
    def __init__(self):
        self.rows = []

    def add_scalar(self, name, value, step):
        self.rows.append((name, value, step))


def data(rank, steps=STEPS):
    targets = torch.arange(8) % 4
    return [(batch(rank, step), targets) for step in range(steps)]


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def trained_alone(rank, options):
    model = wrapped(**options)
    optimizer = sgd(model)
    for x, y in data(rank):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return flat(model)


def reported(rank, size, options, **more):
    model = wrapped(**options)
    said, writer = [], Writer()
    told = lc.report(model, data(rank), STEPS, optimizer=sgd(model), link=LINK, out=said.append, writer=writer,
                     transport=TRANSPORT, **more)  # fmt: skip
    return model, told, said, writer


def unchanged(rank, size, options):
    model, told, said, writer = reported(rank, size, options)
    same = flat(model) == trained_alone(rank, options)
    lc.attach(model, "natural", transport=TRANSPORT, guard="off")  # no hook was left behind
    return same, told, said, len(writer.rows)


@pytest.mark.parametrize("options", [{}, {"gradient_as_bucket_view": True}], ids=str)
def test_a_report_changes_nothing_and_is_the_same_on_all_ranks(run, options):
    results = run(unchanged, 2, options)
    assert all(same for same, *_ in results)
    assert results[0][1] == results[1][1]
    assert len(results[0][2]) == 1 and not results[1][2]  # rank 0 tells it
    told = results[0][1]
    assert told["ranks"] == 2 and told["steps"] == STEPS and len(told["rows"]) == 13
    assert all(row["recipe"] in results[0][2][0] for row in told["rows"])
    rows = {row["recipe"]: row for row in told["rows"]}
    seconds = [row["seconds"] for row in told["rows"]]
    assert all(later > 0.95 * sooner for sooner, later in zip(seconds, seconds[1:]))  # best first
    assert rows["dense"]["error"] == 0 and rows["dense"]["speedup"] == 1
    assert 0 < rows["half"]["error"] < 1e-3
    assert 0 < rows["natural-entropy"]["step_error"] < math.sqrt(1 / 8)  # what natural compression promises
    assert results[0][3] == 5 * 13


def exact(rank, size):
    """The bytes and the loss are those of a training with the recipe, on the gradients of the dense one."""
    recipe = {"name": "mine", "op": "topk:0.1", "memory": "feedback"}
    model, told, *_ = reported(rank, size, {}, recipes=[recipe])
    row = next(row for row in told["rows"] if row["recipe"] == "mine")

    dense, other = wrapped(), wrapped()
    state = lc.attach(other, recipe=recipe, transport=TRANSPORT, guard="off")
    optimizer = sgd(dense)
    whole, off, sent = 0, 0, 0
    for x, y in data(rank):
        gradients = []
        for one in (dense, other):
            one.zero_grad()
            torch.nn.functional.cross_entropy(one(x), y).backward()
            gradients.append(torch.cat([p.grad.flatten() for p in one.parameters()]))
        whole, off = whole + gradients[0], off + gradients[1] - gradients[0]
        sent += state.stats()["last"]["traffic_bytes"]
        optimizer.step()
        other.module.load_state_dict(dense.module.state_dict())
    owed = torch.cat([state.residual(f"feedback/{n}", p.numel()) for n, p in other.module.named_parameters()])
    return row, sent / STEPS, float(off.norm() / whole.norm()), float(owed.norm())


def test_bytes_and_errors_are_those_of_training(run):
    results = run(exact, 2)
    for row, sent, error, _ in results:
        # As one part there are fewer heads than in buckets; the frames are the same.
        assert 0.5 * sent < row["bytes"] <= sent
        assert row["error"] == pytest.approx(error, rel=1e-4)
        assert max(row["tensors"].values()) >= row["error"] >= min(row["tensors"].values())


def own_step(rank, size):
    model = wrapped()
    optimizer = sgd(model)

    def step(pair):
        x, y = pair
        optimizer.zero_grad()
        with model.no_sync():
            torch.nn.functional.cross_entropy(model(x), y).backward()
        torch.nn.functional.cross_entropy(model(x + 1), y).backward()
        optimizer.step()

    before = flat(model)
    told = lc.report(model, data(rank, 1), 3, step=step, recipes=["half"], out=None, transport=TRANSPORT)
    gradients_only = lc.report(model, data(rank), 2, recipes=["dgc"], out=None, link=LINK, transport=TRANSPORT)
    return flat(model) != before, told, gradients_only["rows"]


def test_steps_of_ones_own_and_a_link_as_it_is(run):
    for moved, told, rows in run(own_step, 2):
        assert moved
        assert told["link"]["measured"] and told["link"]["bits_per_second"] > 1e6
        assert 0 < told["link"]["latency_seconds"] < 60
        assert 0 < told["compute_seconds"]
        errors = {row["recipe"]: row["error"] for row in told["rows"]}
        assert errors["dense"] == 0 and 0 < errors["half"] < 1e-3  # all of an accumulated gradient was seen
        assert {row["recipe"]: row["error"] for row in rows}["dgc"] is None  # carries momentum


def refused(rank, size):
    model = wrapped()
    told = []
    for options in ({"steps": 0}, {"recipes": ["diloco"]}, {"link": "fast"}, {"loader": iter(())}, {"steps": 1.5}, {"recipes": "natrual"}, {"optimizer": 3},
                    {"link": 5}, {"loss": 5}, {"step": 5}, {"out": 5}, {"writer": 5}, {"model": None}):  # fmt: skip
        arguments = {"model": model, "loader": data(rank), "out": None, "link": LINK, "transport": TRANSPORT, **options}
        with pytest.raises(lc.UsageError) as caught:
            lc.report(**arguments)
        told.append(str(caught.value))
    with pytest.raises(lc.UsageError) as caught:
        lc.attach(model, "natural", writer=3, transport=TRANSPORT, guard="off")
    return [*told[:4], str(caught.value), *told[4:]]


def test_wrong_arguments_are_named(run):
    for told in run(refused, 2):
        words = ["0 steps", "diloco", "'fast'", "no batch", "add_scalar", "steps is 1.5", "no recipe 'natrual'", "optimizer 3",
                 "link '5'", "loss is 5", "step is 5", "out is 5", "add_scalar", "torch.nn.Module"]  # fmt: skip
        assert len(words) == len(told)
        for word, sentence in zip(words, told):
            assert word in sentence


def refused_late(rank, size):
    model = wrapped()
    lc.report(model, data(rank), STEPS, link=LINK, out=None, transport=TRANSPORT)
    before = len(os.listdir("/proc/self/task"))
    for _ in range(3):
        with pytest.raises(lc.UsageError, match="diverges"):
            lc.report(model, data(rank), STEPS, recipes=["natural", {"name": "x", "op": "qsgd:1", "memory": "feedback"}], link=LINK, out=None,
                      transport=TRANSPORT)  # fmt: skip
    return len(os.listdir("/proc/self/task")) - before


def test_a_recipe_that_is_refused_leaves_nothing_of_the_others(run):
    for left in run(refused_late, 2):
        assert left <= 0


def test_links_are_read_as_the_program_reads_them():
    link = parse_link("1.5gbit,200us")
    assert (link.bits_per_second, link.latency_seconds) == (1.5e9, pytest.approx(2e-4))
    assert parse_link("64kbit").latency_seconds == 0
    assert link.seconds(1.5e9 / 8, 10) == pytest.approx(1.002)
    for wrong in ("", "100", "1mbit,", "1mbit,5", "-1mbit", "1..2mbit", "0mbit", "1mbit,61s"):
        with pytest.raises(lc.UsageError, match="100mbit,1ms"):
            parse_link(wrong)


class Failing(Writer):
    def add_scalar(self, *row):
        super().add_scalar(*row)
        raise OSError("disk full")


def written(rank, size):
    records = []

    class Records(logging.Handler):
        def emit(self, record):
            records.append((record.levelname, record.getMessage()))

    logger = logging.getLogger("laconic")
    logger.addHandler(Records())
    logger.setLevel(logging.DEBUG)
    shown = []
    for writer in (Writer(), Failing()):
        model = wrapped()
        state = lc.attach(model, "topk:0.1", memory="feedback", writer=writer, transport=TRANSPORT, guard="off")
        for x, _ in data(rank, 3):
            model(x).sum().backward()
        stats = state.stats()
        shown.append(writer.rows)
        state.close()
    return shown, stats, records


def test_writers_loggers_and_stats_see_every_step(run):
    (rows, failed), stats, records = run(written, 2)[0]
    names = {name for name, *_ in rows}
    assert {"laconic/ratio", "laconic/traffic_bytes", "laconic/exposed_seconds"} <= names
    assert sorted({step for *_, step in rows}) == [1, 2, 3]
    assert len(failed) == 1 and any(level == "WARNING" and "disk full" in text for level, text in records)
    assert any(text.startswith("step 3:") for _, text in records)
    assert stats["steps"] == 3  # a writer that fails is no error of the training
    assert sum(t["payload_bytes"] for t in stats["tensors"].values()) == stats["last"]["payload_bytes"]
