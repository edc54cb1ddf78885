"""With Hugging Face Accelerate: what prepare() returns is what attach() takes.

    python3 accelerate_ddp.py
"""

from __future__ import annotations

import argparse

import torch
from accelerate import Accelerator
from common import accuracy, batches, launch, lenet

import laconic_comm as lc


def train(options: argparse.Namespace) -> None:
    accelerator = Accelerator(cpu=True)
    model = lenet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    model, optimizer = accelerator.prepare(model, optimizer)
    state = lc.attach(model, options.op, memory="feedback", transport=options.transport)
    for images, labels in batches(options.steps):
        optimizer.zero_grad()
        accelerator.backward(torch.nn.functional.cross_entropy(model(images), labels))
        optimizer.step()
    if accelerator.is_main_process:
        ratio = state.stats()["total"]["ratio"]
        print(f"{options.op}: accuracy {accuracy(model.module):.3f}, {ratio:.1f} times fewer bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--op", default="topk:0.01+natural")
    parser.add_argument("--steps", type=int, default=100)
    launch(train, parser)
