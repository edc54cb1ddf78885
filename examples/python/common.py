"""What the examples share: processes, and Fashion-MNIST from Debian's package dataset-fashion-mnist."""

from __future__ import annotations

import argparse
import gzip
import os
import pathlib
import socket
from typing import Callable

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing

FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")


def launch(train: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser) -> None:
    """Runs train on every rank: one of torchrun's, or as many as --ranks says on this machine."""
    parser.add_argument("--ranks", type=int, default=4, help="processes, without torchrun")
    parser.add_argument("--transport", default="sockets", help="sockets, or group where only its connections pass")
    options = parser.parse_args()
    if "RANK" in os.environ:
        _run(int(os.environ["RANK"]), train, options)
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(options.ranks))
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.multiprocessing.spawn(_run, (train, options), nprocs=options.ranks)


def _run(rank: int, train: Callable[[argparse.Namespace], None], options: argparse.Namespace) -> None:
    os.environ["RANK"] = str(rank)
    os.environ.setdefault("LOCAL_RANK", str(rank))
    os.environ.setdefault("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(options)
    dist.barrier()
    dist.destroy_process_group()


def fashion_mnist(part: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Images of mean 0 and deviation 1, and their labels; part is "train" or "t10k"."""

    if not FASHION.is_dir():
        raise SystemExit(f"no Fashion-MNIST in {FASHION}: install Debian's package dataset-fashion-mnist")

    def read(name: str, offset: int) -> np.ndarray:
        with gzip.open(FASHION / f"{part}-{name}-ubyte.gz") as file:
            return np.frombuffer(file.read(), np.uint8, offset=offset)

    images = torch.from_numpy(read("images-idx3", 16).astype(np.float32)).view(-1, 1, 28, 28)
    labels = torch.from_numpy(read("labels-idx1", 8).astype(np.int64))
    return (images / 255 - 0.2860) / 0.3530, labels


def lenet() -> torch.nn.Module:
    torch.manual_seed(0)
    n = torch.nn
    return n.Sequential(
        n.Conv2d(1, 20, 5), n.ReLU(), n.MaxPool2d(2), n.Conv2d(20, 50, 5), n.ReLU(), n.MaxPool2d(2),
        n.Flatten(), n.Linear(800, 500), n.ReLU(), n.Linear(500, 10),
    )  # fmt: skip


def batches(steps: int, size: int = 32):
    """This rank's share of the training images, in an order of its own."""
    images, labels = fashion_mnist("train")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    images, labels = images[rank::ranks], labels[rank::ranks]
    generator = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        chosen = torch.randint(len(labels), (size,), generator=generator)
        yield images[chosen], labels[chosen]


def accuracy(model: torch.nn.Module) -> float:
    images, labels = fashion_mnist("t10k")
    with torch.no_grad():
        return float((model(images[:2000]).argmax(1) == labels[:2000]).float().mean())
