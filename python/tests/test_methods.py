"""Every built-in recipe and mixer beside reference/methods.py, step by step, from gradients that depend on the model.

Ranks are threads; their messages pass through here, where frames are read by the decoder in plain Python.
"""

from __future__ import annotations

import ctypes as c
import functools
import itertools
import json
import math
import pathlib
import queue
import sys
import threading
from typing import NamedTuple

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "reference"))
import laconic_reference as reader  # noqa: E402
import methods as m  # noqa: E402

from laconic_comm import _library as l  # noqa: E402
from laconic_comm import recipes  # noqa: E402
from laconic_comm._method import Method, Transport, pointers, recipe_of  # noqa: E402

SEED, TIMEOUT = 7, 3600.0
SHAPES = {"fc.weight": (40, 30), "fc.bias": (40,), "conv.weight": (6, 4, 3, 3), "conv.bias": (6,)}
COUNTS = [math.prod(shape) for shape in SHAPES.values()]
PARTS = m.Slices(COUNTS).all
COUNT = sum(COUNTS)


class Wires:
    """Messages between threads, and what was sent in the step under way."""

    def __init__(self, ranks):
        self.ranks = ranks
        self.queues = {(a, b): queue.Queue() for a in range(ranks) for b in range(ranks)}
        self.sent = {rank: [] for rank in range(ranks)}

    def end(self, rank):
        transport = Transport(rank, self.ranks)

        def exchange(_, sends, send_count, receives, receive_count, timeout, what):
            for one in sends[:send_count]:
                data = c.string_at(one.bytes, one.size)
                self.sent[rank].append((one.to, data))
                self.queues[rank, one.to].put(data)
            for one in receives[:receive_count]:
                data = self.queues[one.source, rank].get()
                if len(data) != one.size:
                    return 1
                c.memmove(one.bytes, data, one.size)
            return 0

        transport.callback = l.ExchangeCallback(exchange)  # lives as long
        callbacks = l.Callbacks(rank=rank, size=self.ranks, exchange=transport.callback)
        transport.handle = l.library().handle("transport_from_callbacks", c.byref(callbacks))
        return transport


class Asked(NamedTuple):
    """One receive that is not done."""

    tag: int
    source: int
    address: int
    size: int


class Posted(Wires):
    """Messages that are started and asked after, as rounds that are under way for some steps need them."""

    def __init__(self, ranks):
        super().__init__(ranks)
        self.lock, self.letters = threading.Lock(), {}

    def end(self, rank):
        transport = Transport(rank, self.ranks)
        asked, numbers = {}, itertools.count(1)

        def start(_, tag, sends, send_count, receives, receive_count, transfer):
            with self.lock:
                for one in sends[:send_count]:
                    data = c.string_at(one.bytes, one.size)
                    self.sent[rank].append((one.to, data))
                    self.letters.setdefault((rank, one.to, tag), []).append(data)
            transfer[0] = None
            for one in receives[:receive_count]:
                number = next(numbers)
                asked[number] = Asked(tag, one.source, one.bytes, one.size)
                transfer[0] = number
            return 0

        def test(_, transfer, done):
            one = asked[transfer]
            with self.lock:
                letters = self.letters.get((one.source, rank, one.tag))
                if not letters:
                    return 0
                data = letters.pop(0)
            if len(data) != one.size:
                return 1
            c.memmove(one.address, data, one.size)
            del asked[transfer]
            done[0] = 1
            return 0

        def cancel(_, transfer):
            asked.pop(transfer, None)

        transport.callbacks = l.StartCallback(start), l.TestCallback(test), l.CancelCallback(cancel)  # live as long
        callbacks = l.Callbacks(rank=rank, size=self.ranks)
        callbacks.start, callbacks.test, callbacks.cancel = transport.callbacks
        transport.handle = l.library().handle("transport_from_callbacks", c.byref(callbacks))
        return transport


FRAME = b"LAC" + bytes([l.library().data_version()])


class Heard:
    """What crossed the wires in one step."""

    def __init__(self, sent, ranks=()):
        self.sent, self.ranks = sent, ranks

    def frames(self, rank):
        """Of a rank, in the order sent, and to whom each went."""
        found = {}
        for to, data in self.sent[rank]:
            at = data.find(FRAME)
            if at >= 0:
                found.setdefault(data[at:], []).append(to)
        return [(reader.read_frame(data), to) for data, to in found.items()]

    @functools.cache
    def up(self, rank):
        return self.values(rank, self.frames(rank))

    @functools.cache
    def down(self):
        """Sums travel back to all others in the last frame of those who made them."""
        return sum(self.values(rank, self.sums(rank)) for rank in self.sent)

    def sums(self, rank):
        return [(frame, to) for frame, to in self.frames(rank)[-1:] if len(to) == len(self.sent) - 1]

    def owed(self, rank):
        """What is kept of the gradients of a rank."""
        arrays = [self.ranks[rank].array(f"feedback/{name}", math.prod(shape)) for name, shape in SHAPES.items()]
        return np.concatenate(arrays)

    def steps(self, rank):
        """Of `dither`, by entry."""
        steps = np.zeros(COUNT)
        for frame, _ in self.frames(rank):
            for section in frame.sections:
                steps[section.position : section.position + section.count] = reader.dither_steps(section)
        return steps

    @staticmethod
    def values(rank, frames):
        values = np.zeros(COUNT)
        for frame, _ in frames:
            for section in frame.sections:
                entries = reader.decode_section(frame, section)
                values[section.position : section.position + section.count] = entries
        return values

    def shards(self):
        """(owner, from, to) of `sparse`."""
        for rank in self.sent:
            for frame, _ in self.sums(rank):
                for section in frame.sections:
                    yield rank, section.position, section.position + section.count

    def cells(self, count, width):
        """Packed sums of `global`, eight to a cell, by those who made them."""
        symbols, ranks = [], len(self.sent)
        for rank in self.sent:
            size = (count * (rank + 1) // ranks - count * rank // ranks) * width
            message = next(d for _, d in self.sent[rank] if len(d) in (size, size + 40))[-size:]
            bits = np.unpackbits(np.frombuffer(message, np.uint8), bitorder="little")
            symbols.append(bits.reshape(-1, width) @ (1 << np.arange(width)))
        return np.concatenate(symbols)

    def codes(self, rank, count):
        """Moniqua's, two bits each, before a tail of 28 bytes."""
        size = (count + 3) // 4
        message = next(d for _, d in self.sent[rank] if len(d) >= size + 28)[-size - 28 :]
        assert reader.crc32c(message[:-4]) == int.from_bytes(message[-4:], "little")
        packed = np.frombuffer(message[:size], np.uint8)
        return (packed[:, None] >> np.array([0, 2, 4, 6]) & 3).ravel()[:count].astype(float)


def gradient(rank, x, step):
    """Of a problem without symmetry: each rank has another optimum, entries and tensors are coupled, and it moves."""
    i = np.arange(COUNT)
    g = (0.5 + (i % 7) / 10) * (x - 0.3 * np.sin(i * (1 + 0.1 * rank))) + 0.2 * np.cos(3 * x + 0.1 * step + i)
    return g + 0.05 * np.roll(x, 5) * (1 + rank / 3)


def start(rank, mixes):
    """The same on all ranks, but for mixers: they start apart."""
    i = np.arange(COUNT)
    return (0.1 * np.cos(i * 0.7) + mixes * 0.03 * np.sin(i * (0.3 + rank))).astype(np.float32)


def addresses(x):
    return [x[a:b].ctypes.data for a, b in PARTS]


class Rank:
    """The library on one rank, with a host's optimiser in float32."""

    def __init__(self, end, recipe, optimizer):
        mixes = bool(recipe_of(recipe)["mixer"])
        self.rank, self.x, self.optimizer = end.rank, start(end.rank, mixes), optimizer
        common = None if mixes else addresses(self.x)
        self.method = Method(end, recipe, list(SHAPES.items()), start=common, seed=SEED, timeout=TIMEOUT)
        self.averages = self.method.averages_gradients

    def step(self, step, lr):
        g = gradient(self.rank, self.x.astype(np.float64), step).astype(np.float32)
        if self.averages:
            self.method.begin(step, lr, 1.0, addresses(self.x))
            self.method.submit(range(len(COUNTS)), addresses(g), l.FLOAT32)
            assert self.method.finish().finite
            self.method.commit()
            self.optimizer.update(self.x, g, lr)
            return
        self.method.before_update(pointers(addresses(self.x)), pointers(addresses(g)), step, lr)
        self.optimizer.update(self.x, g, lr)
        self.method.after_update(pointers(addresses(self.x)), step, lr, addresses(self.optimizer.v))

    def array(self, name, count):
        values = np.zeros(count, np.float32)
        self.method.get(name, values.ctypes.data, count)
        return values.astype(np.float64)


def together(calls):
    """Runs them as threads and gives what they return."""
    results, errors = [None] * len(calls), []

    def run(i):
        try:
            results[i] = calls[i]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def optimizer_of(recipe, dtype):
    tuning = recipe["training"]
    if tuning["optimizer"] == "adamw":
        return m.AdamW(COUNT, dtype)
    momentum = 0.9 if tuning["momentum"] is None else tuning["momentum"]
    return m.Sgd(COUNT, momentum, dtype)


def factor(values, length):
    """Columns one after the other, as rows x rank."""
    return values.reshape(-1, length).T


def powersgd_starts(first, recipe):
    own, starts = int((numbers_of(recipe["exchange"]) or [2])[0]), []
    by_name = dict(rule.removeprefix("name=").split(",rank=") for rule in recipe["rules"])
    for name, shape in SHAPES.items():
        rows, cols = m.matrix_shape(shape)
        few = min(int(by_name.get(name, own)), rows, cols)
        gains = few * (rows + cols) < rows * cols
        starts.append(factor(first.array(f"powersgd.start/{name}", few * cols), cols) if gains else None)
    return starts


def powergossip_starts(all_ranks, rank):
    starts = {}
    for low, one in enumerate(all_ranks):
        for high in m.neighbours(low, len(all_ranks)):
            if low < high:
                starts[low, high] = [edge_start(one, high, *tensor, rank) for tensor in SHAPES.items()]
    return starts


def edge_start(one, peer, name, shape, rank):
    if len(shape) < 2:
        return None
    rows, cols = m.matrix_shape(shape)
    few = min(rank, rows, cols)
    p, q = (one.array(f"powergossip/{peer}/{side}/{name}", few * n) for side, n in (("p", rows), ("q", cols)))
    return factor(p, rows), factor(q, cols)


def numbers_of(spec):
    return [float(w.split("=")[-1]) for w in spec.partition(":")[2].split(",") if w.split("=")[-1][:1].isdigit()]


def mixer_of(recipe, ranks, all_ranks):
    spec = recipe["mixer"]
    name, numbers = spec.partition(":")[0], numbers_of(spec)
    if name == "dpsgd":
        return m.Dpsgd(*numbers), False
    if name == "noloco":
        return m.Noloco(recipe["op"], COUNTS, ranks, recipe["delay"], *numbers), True
    if name == "choco":
        return m.Choco(recipe["op"], COUNTS, ranks, *numbers, "fresh" in spec), "after" not in spec
    if name == "deepsqueeze":
        return m.DeepSqueeze(recipe["op"], COUNTS, ranks, *numbers), "after" not in spec
    if name in ("dcd", "ecd"):
        kind = m.Dcd if name == "dcd" else m.Ecd
        return kind(recipe["op"], COUNTS, *(numbers or [1.0]), SEED), name == "dcd"
    if name == "moniqua":
        return m.Moniqua(*numbers), False
    rank, iterations, gamma = (*numbers, *(1, 1, 1)[len(numbers) :])
    starts = powergossip_starts(all_ranks, int(rank))
    return m.PowerGossip(list(SHAPES.values()), ranks, starts, gamma, int(iterations)), False


def reference_of(recipe, all_ranks):
    ranks = len(all_ranks)
    make = lambda: optimizer_of(recipe, np.float64)  # noqa: E731
    begin = [start(rank, bool(recipe["mixer"])).astype(np.float64) for rank in range(ranks)]
    if recipe["mixer"]:
        mix, first = mixer_of(recipe, ranks, all_ranks)
        return m.Gossip(mix, begin, make, first)
    if recipe["exchange"].startswith("powersgd"):
        starts = powersgd_starts(all_ranks[0], recipe)
        averaging = m.PowerSgd(recipe, list(SHAPES.values()), ranks, SEED, starts)
    elif recipe["exchange"].startswith("arc"):
        averaging = m.Arc(recipe, list(SHAPES.values()), ranks, SEED)
    else:
        kind = {"sparse": m.SparseRing, "global": m.Global}.get(recipe["exchange"].partition(":")[0], m.Averaging)
        averaging = kind(recipe, COUNTS, ranks, SEED)
    if recipe["fragments"] > 1 or recipe["overlap"] > 0 or recipe["merge"] > 0:
        return m.Streaming(averaging, begin, make, recipe, COUNTS)
    if recipe["delay"] > 1 or recipe["outer"] != "none":
        return m.LocalSteps(averaging, begin, make, recipe)
    return m.Synchronous(averaging, begin, make)


def steps_of(recipe):
    """At least 25, two rounds of local steps, and beyond a warm-up."""
    warm = int(recipe["warmup"][-1].split(" ")[0]) if recipe["warmup"] else 0
    return max(25, 2 * recipe["delay"] + 5 if recipe["delay"] > 1 else 0, warm + 10)


# The second direction of a factor is ill-conditioned: rounding grows along it. dgc runs for 130 steps.
TOLERANCE = {"powersgd": 1e-3, "dgc": 1e-5}


def distance(some, others):
    return max(np.abs(x - y).max() / np.abs(y).max() for x, y in zip(some, others))


def grows(recipe):
    name, numbers = recipe["mixer"].partition(":")[0], numbers_of(recipe["mixer"])
    return name == "powergossip" and len(numbers) > 1 and numbers[1] > 1


def rounded_start(reference):
    """The reference with its start as far off as float32's rounding."""
    noise = np.random.default_rng(1)
    for x in reference.x:
        x *= 1 + 2.0**-24 * noise.uniform(-1, 1, x.size)
    return reference


def follow(text, ranks, lr=0.05, reference=None):
    """The largest difference of two models, in parts of the largest entry, in any step.

    Several iterations of PowerGossip make rounding grow tenfold every five steps, whoever computes them. There the difference is counted in
    parts of what that makes of one rounding of the start, in the reference itself, and 1e-7 is as much as that.
    """
    recipe = recipe_of(text)
    told = {**recipe, **(reference or {})}
    wires = (Posted if recipe["overlap"] > 0 else Wires)(ranks)
    ends = [wires.end(rank) for rank in range(ranks)]
    all_ranks = together([lambda end=end: Rank(end, text, optimizer_of(recipe, np.float32)) for end in ends])
    try:
        reference = reference_of(told, all_ranks)
        rounded = rounded_start(reference_of(told, all_ranks)) if grows(recipe) else None
        worst = 0.0
        for step in range(steps_of(recipe)):
            if getattr(reference, "landed", True):  # what is sent in one step may arrive in another
                for rank in range(ranks):
                    wires.sent[rank] = []
            together([lambda one=one: one.step(step, lr) for one in all_ranks])
            reference.step(gradient, lr, step, Heard(wires.sent, all_ranks))
            apart = distance([one.x for one in all_ranks], reference.x)
            if rounded:
                rounded.step(gradient, lr, step, None)
                apart *= 1e-7 / distance(rounded.x, reference.x)
            worst = max(worst, apart)
        assert np.abs(reference.x[0] - start(0, bool(recipe["mixer"]))).max() > 0.01  # it has moved
        return worst
    finally:
        together([one.method.close for one in all_ranks])


def test_the_two_do_not_agree_by_accident():
    """A reference that differs in one thing is far off."""
    wrong = {"name": "wrong", "op": "topk:0.05", "memory": "feedback:0.9"}
    right = {**wrong, "memory": "feedback"}
    assert follow(json.dumps(right), 4) < 2e-6 and follow(json.dumps(wrong), 4) < 2e-6
    assert follow(json.dumps(right), 4, reference=wrong) > 1e-3


# What no built-in recipe has.
MORE = [
    {"op": "topk:0.05", "memory": "dgc:0.5"},
    {"op": "topk:0.05", "memory": "feedback:8bit"},
    {"op": "sign", "memory": "feedback:0.95,8bit"},
    {"op": "stc:0.05", "memory": "feedback:0.9", "exchange": "server", "down": "topk:0.1", "down_memory": "feedback"},
    {"op": "topk:0.05", "memory": "ef21"},
    {"op": "sign", "memory": "ef21:momentum=0.1"},
    {"op": "topk:0.05", "memory": "econtrol:0.2"},
    {"op": "randomk:0.2", "memory": "diana", "exchange": "summed"},
    {"op": "natural", "memory": "diana:0.5"},
    {"op": "randomk:0.2", "exchange": "summed"},
    {"op": "randomk:0.2,own"},
    {"op": "natural", "draws": "own"},
    {"op": "terngrad:2.5"},
    {"exchange": "powersgd:1"},
    {"exchange": "powersgd:2", "rules": ["name=fc.weight,rank=1", "name=conv.weight,rank=3"]},
    {"exchange": "global:100,2", "draws": "own"},
    {"exchange": "arc:0.2,sketch=2"},
    {"op": "topk:0.05", "memory": "feedback", "delay": 5, "outer": "momentum:0.5,0.8"},
    {"op": "topk:0.05", "memory": "feedback", "delay": 6, "fragments": 3, "outer": "nesterov:0.9,0.7"},
    {"op": "sign", "memory": "feedback", "delay": 6, "fragments": 2, "overlap": 2, "merge": 0.25},
    {"op": "natural", "memory": "diana", "delay": 4, "overlap": 3},
    {"op": "topk:0.1", "mixer": "choco:0.3"},
    {"op": "topk:0.1", "mixer": "choco:0.3,after"},
    {"op": "sign", "mixer": "choco:0.3,fresh"},
    {"op": "sign", "mixer": "deepsqueeze:0.3,after"},
    {"op": "randomk:0.8", "mixer": "dcd:0.7"},
    {"op": "randomk:0.8", "mixer": "ecd"},
    {"mixer": "powergossip:2"},
    {"mixer": "powergossip:2,3"},
    {"mixer": "dpsgd:0.7"},
    {"mixer": "noloco:0.3,lr=1,pull=0.5", "topology": "pairs", "delay": 4},
    {"op": "topk:0.2", "mixer": "noloco:0.3,lr=1,pull=0.2", "topology": "pairs", "delay": 2},
]


@pytest.mark.parametrize("recipe", MORE, ids=lambda recipe: "-".join(map(str, recipe.values())))
def test_other_settings_do_too(recipe):
    text = json.dumps({"name": "more", "training": {"momentum": 0}, **recipe})
    low_rank = "power" in text
    assert follow(text, 5 if "mixer" in recipe else 4) < (1e-3 if low_rank else 2e-6)


@pytest.mark.parametrize("name", recipes())
def test_a_recipe_follows_its_paper(name):
    assert follow(name, 5 if recipe_of(name)["mixer"] else 4) < TOLERANCE.get(name, 2e-6)
