"""A stock DistributedDataParallel script, and the line that compresses its gradients.

    python3 ddp.py                                        # as torch does it
    python3 ddp.py --op topk:0.01+natural                 # about 190 times fewer bytes
    torchrun --nproc_per_node 4 ddp.py --op grid --memory none
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
    if options.op:
        state = lc.attach(model, options.op, memory=options.memory, transport=options.transport)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    began = time.monotonic()
    for images, labels in batches(options.steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    seconds = time.monotonic() - began
    if dist.get_rank() == 0:
        print(f"{options.op or 'stock'}: accuracy {accuracy(model.module):.3f}, {seconds:.1f} s", end="")
        print(f", {state.stats()['total']['ratio']:.1f} times fewer bytes" if options.op else "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--op", help="an operator; none: stock torch")
    parser.add_argument("--memory", default="feedback")
    parser.add_argument("--steps", type=int, default=150)
    launch(train, parser)
