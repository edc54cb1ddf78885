"""What the ranks of the tests have in common."""

from __future__ import annotations

import datetime
from typing import Any, Callable

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

try:  # so that the server of the tests has it loaded; Debian's 1.13 fails with a ValueError of its own
    import torch.distributed.checkpoint
    import torch._dynamo  # which optimizers load with their first step
    import torch.distributed.fsdp  # noqa: F401
except (ImportError, ValueError):
    pass

TIMEOUT = 30.0
TRANSPORT = "sockets"


def meet(rank: int, size: int, store: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=size, timeout=datetime.timedelta(seconds=TIMEOUT)
    )


def net(seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)
    )


def wrapped(seed: int = 0, **options: Any) -> DDP:
    """Several buckets, so that steps have parts."""
    return DDP(net(seed), bucket_cap_mb=0.004, **options)


def batch(rank: int, step: int, entries: int = 20) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * rank + step)
    return torch.randn(8, entries, generator=generator)


def train(
    model: Any, rank: int, steps: int, lr: float = 0.1, first: int = 0, loss: Callable[..., Any] | None = None
) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    for step in range(first, first + steps):
        optimizer.zero_grad()
        output = model(batch(rank, step))
        (loss(output) if loss else (output**2).mean()).backward()
        optimizer.step()
    return optimizer


def flat(model: torch.nn.Module) -> bytes:
    return b"".join(p.detach().numpy().tobytes() for p in model.parameters())
