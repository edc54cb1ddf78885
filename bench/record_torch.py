"""Cells of bench/record.py in PyTorch, by bench/ddp.py: what a step takes and sends, and the loss by seconds of training."""

import dataclasses
import json
import os
import subprocess
import sys
import typing

import hosts as shaped

HERE = os.path.dirname(os.path.abspath(__file__))
HOSTS = 4
# The first is what others are compared with; then 16 bits, torch's own hooks, and eight recipes.
VARIANTS = ["stock", "half:bf16 exchange=sharded", "fp16", "powersgd-hook:1", "recipe=natural-sharded", "recipe=natural-entropy", "recipe=grid",
            "recipe=qsgd", "recipe=topk-natural", "recipe=stc", "recipe=powersgd", "recipe=signsgd-ef"]  # fmt: skip
GUARDED = "recipe=grid guard=on"
AT_ONCE = {"resnet20": 12, "gpt10m": 4, "gpt50m": 1}  # beside the first: models of all of them lie in memory
BATCH = {"resnet20": 16, "gpt10m": 4, "gpt50m": 2}
STEP_SECONDS = {"resnet20": 0.1, "gpt10m": 0.6, "gpt50m": 5}  # of computing, about, when all hosts are one machine
MEGABYTES = {"resnet20": 1.1, "gpt10m": 43, "gpt50m": 229}
TRAINED = {"resnet20": 200, "gpt10m": 120}  # steps of torch's own; others end when they come to its loss
LOSS_MORE = 2  # or after as many times as many
NEEDS = {"resnet20": "cifar", "gpt10m": "text"}
LOSS_VARIANTS = [*VARIANTS, GUARDED]


@dataclasses.dataclass
class Cell:
    name: str
    seconds: float  # what it takes, about
    run: typing.Callable[[typing.Any], dict]  # with the options of bench/record.py
    needs: str = ""  # the option without which it cannot be


def path_of(options, name):
    return os.path.join(options.folder, name.replace("/", "--") + ".json")


def ddp(options, *words):
    """What bench/ddp.py says, with the library of the program."""
    library = os.path.join(os.path.dirname(os.path.abspath(options.program)), "..", "liblaconic.so")
    command = [sys.executable, os.path.join(HERE, "ddp.py"), "--hosts", str(HOSTS), "--timeout", "7200", *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, "LACONIC_LIBRARY": library}) as process:
        try:
            said, complained = process.communicate()
        except BaseException:
            process.terminate()  # not killed, as subprocess.run would: it has hosts to take down
            process.wait()
            raise
    if process.returncode != 0:
        raise shaped.Trouble(complained.strip())
    return said


def data_words(options, model):
    given = getattr(options, NEEDS[model]) if model in NEEDS else None
    return [f"--{NEEDS[model]}", given] if given else []


def seconds_of_step(model, rate):
    bits = None if rate == "none" else shaped.bits_per_second(rate)
    return STEP_SECONDS[model] + (2 * 0.75 * 8e6 * MEGABYTES[model] / bits if bits else 0)


def step_cell(model, rate, variants, rounds):
    def run(options):
        words = ["--rate", rate, "--model", model, "--batch", str(BATCH[model]), "--rounds", "1" if options.tiny else str(rounds)]
        return json.loads(ddp(options, *words, "--variants", ",".join(variants), "--json", *data_words(options, model)))

    name = "+".join(v.removeprefix("recipe=") for v in variants[1:])
    return Cell(f"torch/step/{rate}/{model}/{name}", 20 + (rounds + 4) * len(variants) * seconds_of_step(model, rate), run)


def loss_cell(model, rate, variant):
    """The first of the variants trains so many steps; others end when they come to its last loss."""

    def name_of(one):
        return f"torch/loss/{rate}/{model}/{one}"

    def run(options):
        steps, words = 3 if options.tiny else TRAINED[model], []
        every = max(1, steps // 20)
        if variant != VARIANTS[0]:
            first = path_of(options, name_of(VARIANTS[0]))
            if not os.path.exists(first):
                raise shaped.Trouble(f"'{name_of(variant)}' goes on until the loss of '{name_of(VARIANTS[0])}', which is not measured yet")
            with open(first) as file:
                words, steps = ["--until", str(json.load(file)["points"][-1][2])], steps * LOSS_MORE
        words += ["--rate", rate, "--model", model, "--batch", str(BATCH[model]), "--train", str(steps), "--every", str(every)]
        return json.loads(ddp(options, *words, "--variants", variant, *data_words(options, model)))

    slow = seconds_of_step(model, rate) if variant == VARIANTS[0] else 2 * STEP_SECONDS[model]
    return Cell(name_of(variant), 20 + TRAINED[model] * slow, run, needs=NEEDS[model])


def torch_cells():
    cells = []
    for model, rates, rounds in (("resnet20", ("10mbit", "100mbit", "none"), 7), ("gpt10m", ("100mbit", "1gbit", "none"), 5), ("gpt50m", ("1gbit",), 3)):
        others = [*VARIANTS[1:], GUARDED]
        groups = [others[i : i + AT_ONCE[model]] for i in range(0, len(others), AT_ONCE[model])]
        cells += [step_cell(model, rate, [VARIANTS[0], *group], rounds) for rate in rates for group in groups]
    for model, rate in (("resnet20", "10mbit"), ("gpt10m", "1gbit")):
        cells += [loss_cell(model, rate, variant) for variant in LOSS_VARIANTS]
    return cells
