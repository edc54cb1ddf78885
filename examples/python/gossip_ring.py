"""Training without a centre: ranks on a ring, each mixes its model with its two neighbours'.

    python3 gossip_ring.py --mixer powergossip
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from common import accuracy, batches, launch, lenet

import laconic_comm as lc


def train(options: argparse.Namespace) -> None:
    model = lenet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    gossip = lc.Gossip(model, optimizer, topology=options.topology, mixer=options.mixer, transport=options.transport)
    for images, labels in batches(options.steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        gossip.step()
    own = accuracy(model)
    with torch.no_grad():
        for parameter, mean in zip(model.parameters(), gossip.mean()):
            parameter.copy_(mean)
    if dist.get_rank() == 0:
        total = gossip.stats()["total"]
        print(f"{options.mixer} on {options.topology}: accuracy {own:.3f} of rank 0's own model, ", end="")
        print(f"{accuracy(model):.3f} of the mean; {total['traffic_bytes'] / options.steps:.0f} bytes per step")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mixer", default="powergossip")
    parser.add_argument("--topology", default="ring")
    parser.add_argument("--steps", type=int, default=100)
    launch(train, parser)
