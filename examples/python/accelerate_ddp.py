"""Compressed gradients with Accelerate: what prepare() returns is attached to.

    python3 accelerate_ddp.py
    accelerate launch --cpu --num_processes 4 accelerate_ddp.py
"""

from __future__ import annotations

import argparse
import time

import torch
from accelerate import Accelerator
from common import accuracy, batches, launch, lenet

import laconic_comm as lc


def train(options: argparse.Namespace) -> None:
    accelerator = Accelerator(cpu=True)
    model = lenet()
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5))
    state = lc.attach(model, "topk:0.01+natural", memory="feedback", optimizer=optimizer)
    began = time.monotonic()
    for images, labels in batches(options.steps):
        optimizer.zero_grad()
        accelerator.backward(torch.nn.functional.cross_entropy(model(images), labels))
        optimizer.step()
    seconds = time.monotonic() - began
    ratio = state.stats()["total"]["ratio"]
    accelerator.print(f"accuracy {accuracy(accelerator.unwrap_model(model)):.3f}, {seconds:.1f} s, {ratio:.0f} times fewer bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    launch(train, parser)
