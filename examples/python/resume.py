"""Checkpoints with residuals: a run that is killed and started again ends with the same model bit for bit.

    python3 resume.py --folder one                   # 60 steps
    python3 resume.py --folder two --kill 35         # all ranks die in step 35
    python3 resume.py --folder two                   # goes on from step 30; prints the same checksum
"""

from __future__ import annotations

import argparse
import os
import pathlib
import signal
import zlib

import torch
import torch.distributed as dist
from common import batches, launch, lenet

import laconic_comm as lc


def train(options: argparse.Namespace) -> None:
    model = torch.nn.parallel.DistributedDataParallel(lenet())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    state = lc.attach(
        model, "topk:0.01+natural", memory="feedback", optimizer=optimizer, transport=options.transport, guard="off"
    )
    file = pathlib.Path(options.folder) / f"rank{dist.get_rank()}.pt"
    file.parent.mkdir(parents=True, exist_ok=True)
    first = 0
    if file.exists():
        saved = torch.load(file)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        state.load_state_dict(saved["laconic"])
        first = saved["step"]
    for step, (images, labels) in enumerate(batches(options.steps)):
        if step < first:
            continue
        if step == options.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        if (step + 1) % 15 == 0:
            parts = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "laconic": state.state_dict()}
            torch.save({**parts, "step": step + 1}, file.with_suffix(".new"))
            os.replace(file.with_suffix(".new"), file)
    if dist.get_rank() == 0:
        checksum = 0
        for parameter in model.parameters():
            checksum = zlib.crc32(parameter.detach().numpy().tobytes(), checksum)
        print(f"steps {first} to {options.steps}: model {checksum:08x}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", default="checkpoints")
    parser.add_argument("--kill", type=int, default=-1, help="the step in which all ranks are killed")
    parser.add_argument("--steps", type=int, default=60)
    launch(train, parser)
