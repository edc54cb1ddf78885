"""Local steps and gossip give the model that the program's trainer gives, up to rounding.

The data are two images for two workers, so that a batch is a worker's share whatever the order, and only who gets which image
is to be found out. SparseLoCo has SGD here: after AdamW many changes are equal but for rounding, and so which are kept is chance.
"""

from __future__ import annotations

import gzip
import os
import pathlib
import struct
import subprocess

import numpy as np
import pytest
import torch
from ranks import TRANSPORT

import laconic_comm as lc

PROGRAM = pathlib.Path(os.environ.get("LACONIC_LIBRARY", "none")).parent / "cli" / "laconic"
SIDE, CLASSES = 6, 10

pytestmark = pytest.mark.skipif(not PROGRAM.with_name("laconic-train").exists(), reason="the trainer is not built")


def pixels():
    return np.random.default_rng(1).integers(0, 256, (2, SIDE, SIDE)).astype(np.uint8)


def write_data(folder):
    labels = np.array([3, 7], np.uint8)
    for part in ("train", "t10k"):
        for name, head, values in (
            ("images-idx3", struct.pack(">IIII", 0x803, 2, SIDE, SIDE), pixels()),
            ("labels-idx1", struct.pack(">II", 0x801, 2), labels),
        ):
            with gzip.open(folder / f"{part}-{name}-ubyte.gz", "wb") as file:
                file.write(head + values.tobytes())


def by_program(folder, name, *options):
    out = folder / name
    command = [PROGRAM, "train", "--data", folder, "--model", "perceptron", "--workers", "2", "--batch", "1", "--split", "sharded",
               "--out", out, *map(str, options)]  # fmt: skip
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    flat = lc.decompress((out / "model.lac").read_bytes())  # tensors by their names: biases first
    sizes = [32, 32 * SIDE * SIDE, CLASSES, 32 * CLASSES]
    bias1, weight1, bias2, weight2 = np.split(flat, np.cumsum(sizes)[:-1])
    return np.concatenate([weight1, bias1, weight2, bias2])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Folder of the images, and the model that the program begins with."""
    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    return folder, by_program(folder, "start", "--steps", 1, "--lr", 1e-30, "--recipe", "dense", "--momentum", 0)


def perceptron(values):
    model = torch.nn.Sequential(torch.nn.Linear(SIDE * SIDE, 32), torch.nn.ReLU(), torch.nn.Linear(32, CLASSES))
    torch.nn.utils.vector_to_parameters(torch.from_numpy(values.copy()), model.parameters())
    return model


def in_torch(rank, size, start, recipe, steps, swapped, adamw):
    model = perceptron(start)
    if adamw:
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    mine = rank ^ swapped
    x = torch.from_numpy(pixels()[mine].astype(np.float32) / 255).reshape(1, -1)
    y = torch.tensor([[3], [7]][mine])
    make = lc.Gossip if lc_mixes(recipe) else lc.LocalSteps
    with make(model, optimizer, recipe=recipe, seed=1, transport=TRANSPORT) as around:
        for _ in range(steps):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            around.step()
        final = around.mean() if lc_mixes(recipe) else None
    final = final or [p.detach() for p in model.parameters()]
    return torch.cat([p.flatten() for p in final]).numpy()


def lc_mixes(recipe):
    return recipe in ("dpsgd", "choco-sign", "powergossip")


@pytest.mark.parametrize(
    "recipe, steps, adamw",
    [
        ("sbc2", 25, False), ("diloco", 60, True), ("sparseloco", 60, False), ("dpsgd", 12, False), ("choco-sign", 12, False),
        ("powergossip", 12, False),
    ],
)  # fmt: skip
def test_the_program_trains_the_same_model(run, data, recipe, steps, adamw):
    folder, start = data
    own = ["--optimizer", "adamw", "--lr", 0.01] if adamw else ["--optimizer", "sgd", "--lr", 0.05, "--momentum", 0.9]
    want = by_program(folder, recipe, "--steps", steps, "--recipe", recipe, *own)
    moved = np.abs(want - start).max()
    assert moved > 1e-3
    off = min(np.abs(run(in_torch, 2, start, recipe, steps, swapped, adamw)[0] - want).max() for swapped in (0, 1))
    assert off < 1e-4 * moved, (off, moved)
