"""Compressed gradients with Lightning: a callback attaches when the trainer has wrapped the model.

    python3 lightning_ddp.py
    torchrun --nproc_per_node 4 lightning_ddp.py
"""

from __future__ import annotations

import argparse
import time

import lightning
import torch
from common import accuracy, batches, launch, lenet

import laconic_comm as lc


class Laconic(lightning.Callback):
    """Lightning's own argument for hooks is ignored on a CPU, so the hook is registered here."""

    def __init__(self, op: str, **options: str) -> None:
        self.op, self.options = op, options

    def on_train_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        self.state = lc.attach(trainer, self.op, optimizer=trainer.optimizers[0], **self.options)


class LeNet(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = lenet()

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        images, labels = batch
        return torch.nn.functional.cross_entropy(self.net(images), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.5)


def train(options: argparse.Namespace) -> None:
    module, laconic = LeNet(), Laconic("topk:0.01+natural", memory="feedback")
    trainer = lightning.Trainer(
        accelerator="cpu", devices=torch.distributed.get_world_size(), strategy="ddp", max_steps=options.steps,
        callbacks=[laconic], logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, use_distributed_sampler=False,
    )  # fmt: skip
    began = time.monotonic()
    trainer.fit(module, torch.utils.data.DataLoader(list(batches(options.steps)), batch_size=None))
    seconds = time.monotonic() - began
    if trainer.is_global_zero:
        ratio = laconic.state.stats()["total"]["ratio"]
        print(f"accuracy {accuracy(module.net):.3f}, {seconds:.1f} s, {ratio:.0f} times fewer bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    launch(train, parser)
