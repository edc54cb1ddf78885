"""Accelerate, Lightning and torchrun, where they are."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest
import torch
from ranks import TRANSPORT, batch, flat, net, train, wrapped

import laconic_comm as lc

TOPK = {"op": "topk:0.05+natural", "memory": "feedback", "transport": TRANSPORT, "guard": "off"}
TWO = int(torch.__version__.split(".")[0]) >= 2


def needs(name):
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed")


def as_torchrun_says(rank, size):
    for name, value in {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}.items():
        os.environ[name] = str(value)
    os.environ.update(GROUP_RANK="0", MASTER_PORT="29511", TORCHELASTIC_RUN_ID="tests", TORCHELASTIC_USE_AGENT_STORE="0")


def in_accelerate(rank, size):
    as_torchrun_says(rank, size)
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = net()
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    state = lc.attach(model, optimizer=optimizer, **TOPK)
    norms = []
    for step in range(3):
        optimizer.zero_grad()
        accelerator.backward((model(batch(rank, step)) ** 2).mean())
        if step != 1:
            optimizer.step()
        norms.append(state.residual_norm())
    return flat(model), norms


@needs("accelerate")
def test_accelerate(run):
    results = run(in_accelerate, 2)
    assert results[0][0] == results[1][0]
    for _, norms in results:
        assert norms[0] == norms[1] != norms[2]  # the wrapped optimizer's steps are seen


def in_lightning(rank, size):
    as_torchrun_says(rank, size)
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net()

        def training_step(self, number, index):
            return (self.net(batch(rank, int(number))) ** 2).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    class Laconic(lightning.Callback):
        def on_train_start(self, trainer, module):
            self.state = lc.attach(trainer, optimizer=trainer.optimizers[0], **TOPK)
            with pytest.raises(lc.UsageError, match="communication hook already"):
                lc.attach(module, **TOPK)  # the module leads to the same model

    module, callback = Module(), Laconic()
    with pytest.raises(lc.UsageError, match="no Trainer has wrapped"):
        lc.attach(module, **TOPK)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=size, strategy="ddp", max_steps=3, callbacks=[callback], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False,
    )  # fmt: skip
    trainer.fit(module, torch.utils.data.DataLoader(torch.arange(3)))
    return flat(module), callback.state.stats()["steps"], callback.state.residual_norm() > 0


@needs("lightning")
def test_lightning(run):
    results = run(in_lightning, 2)
    assert results[0] == results[1] and results[0][1:] == (3, True)


SCRIPT = """
import torch, laconic_comm as lc
from ranks import flat, train, wrapped
torch.distributed.init_process_group("gloo")
model = wrapped()
state = lc.attach(model, "topk:0.05+natural", memory="feedback")
train(model, torch.distributed.get_rank(), 2)
everybody = [None] * 2
torch.distributed.all_gather_object(everybody, flat(model))
print("EQUAL" if everybody[0] == everybody[1] else "DIFFERENT", state.stats()["steps"])
"""


@pytest.mark.skipif(not TWO, reason="Debian's torchrun 1.13 fails in its own code under Python 3.11")
def test_torchrun(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    here = pathlib.Path(__file__).parent
    told = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)],
        env={**os.environ, "PYTHONPATH": f"{here}:{here.parent}"}, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert told.stdout.split() == ["EQUAL", "2"] * 2, told.stdout + told.stderr


EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "python"


@pytest.mark.skipif(not pathlib.Path("/usr/share/datasets/fashion-mnist").is_dir(), reason="no Fashion-MNIST here")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs(name)) for name in ("accelerate", "lightning")]
)
def test_examples(name):
    told = subprocess.run(
        [sys.executable, "-B", str(EXAMPLES / f"{name}_ddp.py"), "--steps", "5", "--ranks", "2"],
        env={**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parent.parent)}, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert "accuracy" in told.stdout and "times fewer bytes" in told.stdout, told.stdout + told.stderr


def bare(rank, size):
    model = wrapped()
    with pytest.raises(lc.UsageError, match="a Sequential; allowed: DistributedDataParallel"):
        lc.attach(model.module, "natural")
    train(model, rank, 1)
    return True


def test_what_is_not_wrapped_is_refused_in_words(run):
    assert run(bare, 1) == [True]
