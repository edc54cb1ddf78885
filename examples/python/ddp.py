"""The stock script ddp_stock.py with one line more, which compresses its gradients about 190 times.

    python3 ddp.py
    torchrun --nproc_per_node 4 ddp.py
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist
from common import accuracy, batches, launch, lenet

import laconic_comm as lc


def train(options: argparse.Namespace) -> None:
    model = torch.nn.parallel.DistributedDataParallel(lenet())
    lc.attach(model, "topk:0.01+natural", memory="feedback")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    began = time.monotonic()
    for images, labels in batches(options.steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    seconds = time.monotonic() - began
    if dist.get_rank() == 0:
        print(f"accuracy {accuracy(model.module):.3f}, {seconds:.1f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    launch(train, parser)
