"""What bench/record.py measures: each cell is one run, and what it gives is JSON."""

import json
import os
import re
import subprocess
import tempfile

import hosts as shaped
from record_torch import Cell, torch_cells

HOSTS, BATCH = 4, 64  # a global batch of 256
BF16 = "op=half:bf16 exchange=sharded"
# What is shown on every link: no communication at all, the same with ranks that wait for each other in every step, the two baselines, and nine
# recipes.
QUIET = ["alone", "barrier"]
RECIPES = ["natural-sharded", "natural-entropy exchange=sharded", "grid", "qsgd", "topk-natural", "stc", "sbc1", "powersgd", "signsgd-ef"]
SHAPED = [*QUIET, "dense", BF16, *RECIPES]
# Steps of a turn, so that a round of all of them takes some seconds, and steps before the first.
STEPS = {"10mbit": 2, "100mbit": 4, "1gbit": 6, "none": 6}
WARM = 2
# Recipes in which all ranks step together: those that the guard is for.
GUARDED = ["half", "natural", "natural-8", "natural-entropy", "natural-feedback", "natural-sharded", "natural-bidirectional",
           "natural-dithering", "grid", "terngrad", "qsgd", "signsgd-ef", "topk-natural", "dgc", "gmc", "threshold", "adaptive", "randomk",
           "spardl", "stc", "sbc1", "powersgd", "arc-topk", "diana", "dither", "natural-dithering-unbucketed", "qsgd-unbucketed",
           "global-qsgd", "terngrad-shared"]  # fmt: skip
GUARDED_AT_ONCE = 6
PAIRS = 15
SHAPED_GUARDED = ["natural", "grid", "qsgd", "topk-natural"]
LOSS_STEPS = 234  # of dense: one pass over the images
LOSS_MORE = 2  # others may take as many times as many steps to come to the same loss
PARTS = ("shaped", "guard", "change", "loss", "growth", "torch")


def turns(options, rate, transport, variants, rounds, steps, seconds, warm=3):
    """`laconic bench training` on hosts with such links: its lines."""
    if options.tiny:
        rounds, seconds, warm = min(rounds, 2), 0, 1
    words = [options.program, "bench", "training", "--transport", transport, "--batch", str(BATCH), "--json", "--rounds", str(rounds)]
    words += ["--steps", str(steps), "--warm", str(warm), "--seconds", str(seconds)]
    for variant in variants:
        words += ["--variant", variant]
    with shaped.Hosts(HOSTS, rate) as hosts:
        said = hosts.run(words, timeout=seconds * 3 + 600, mpi=transport == "mpi")
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


def columns(lines):
    """By variant: of every turn seconds, exposed seconds and bytes of a step; lanes and decisions of all steps."""
    by_variant = {}
    for line in lines:
        row = by_variant.setdefault(line["variant"], {"seconds": [], "exposed": [], "kernels": [], "bytes": [], "lanes": {}, "decisions": []})
        for key, of in (("seconds", "seconds"), ("exposed", "exposed_seconds"), ("kernels", "kernel_seconds"), ("bytes", "bytes")):
            row[key].append(line[of] / line["steps"])
        for lane in line["lanes"]:
            row["lanes"][lane] = row["lanes"].get(lane, 0) + 1
        row["decisions"] += [json.loads(decision) for decision in line["decisions"]]
    return by_variant


def shaped_cell(transport, rate):
    def run(options):
        return columns(turns(options, rate, transport, SHAPED, 99, STEPS[rate], seconds, warm=WARM))

    seconds = {"10mbit": 75}.get(rate, 32)
    return Cell(f"shaped/{transport}/{rate}", 1.3 * seconds + 5, run)


def loopback_cell(transport, recipes):
    def run(options):
        variants = ["dense"] + [f"{recipe} guard=on" for recipe in recipes]
        return columns(turns(options, "loopback", transport, variants, PAIRS, 8, 0, warm=30))

    return Cell(f"guard/{transport}/loopback/{'+'.join(recipes)}", 8 + 9 * len(recipes), run)


def guard_cell(rate, recipe):
    def run(options):
        variants = ["dense", recipe, f"{recipe} guard=on"]
        return columns(turns(options, rate, "sockets", variants, 99, {"10mbit": 2}.get(rate, 8), seconds, warm=24))

    seconds = {"10mbit": 60}.get(rate, 25)
    return Cell(f"guard/sockets/{rate}/{recipe}", {"10mbit": 110}.get(rate, 45), run)


def lines_of(path):
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file if line.endswith("}\n")]


def change_cell(recipe, steps=60):
    """100 Mbit/s, then 1 Gbit/s, then 10 Mbit/s: what each step took and by which lane, and when links changed. Ranks that take different
    lanes cannot end a step, and those whose models differ end the run with a sentence."""

    def run(options):
        rates, seen, each = ["1gbit", "10mbit"], [], 4 if options.tiny else steps
        with tempfile.TemporaryDirectory() as folder, shaped.Hosts(HOSTS, "100mbit") as hosts:

            def meanwhile(_):
                done = len(lines_of(f"{folder}/run/steps.jsonl"))
                if rates and done >= each * (3 - len(rates)):
                    seen.append([done, rates[0]])
                    hosts.shape(rates.pop(0))

            words = [options.program, "train", "--transport", "sockets", "--batch", str(BATCH), "--recipe", recipe, "--guard", "on"]
            words += ["--steps", str(3 * each), "--evaluate-every", str(3 * each), "--out", f"{folder}/run", "--trace"]
            hosts.run(words, timeout=1800, meanwhile=meanwhile)
            made = lines_of(f"{folder}/run/steps.jsonl")
            return {"changes": seen, "seconds": [step["seconds"] for step in made], "lanes": [step["lane"] for step in made],
                    "decisions": lines_of(f"{folder}/run/guard.jsonl")}  # fmt: skip

    return Cell(f"change/{recipe}", 110, run)


def loss_cell(rate, variant):
    """Dense's pass over the images with evaluations, or two by another: what the loss was after so many seconds of training."""

    def run(options):
        recipe, *more = variant.split()
        steps = 4 if options.tiny else all_steps
        words = [options.program, "train", "--transport", "sockets", "--batch", str(BATCH), "--steps", str(steps), "--evaluate-every", "18"]
        words += ["--json"]
        if variant == BF16:
            words += ["--op", "half:bf16", "--exchange", "sharded"]
        elif variant == "natural-entropy exchange=sharded":
            words += ["--op", "natural+entropy", "--exchange", "sharded"]
        else:
            words += ["--recipe", recipe]
        words += ["--guard", "on" if "guard=on" in more else "off"]
        with shaped.Hosts(HOSTS, rate) as hosts:
            said = hosts.run(words, timeout=1800)
        points = []
        for line in said.splitlines():
            if not line.startswith("{"):
                continue
            e = json.loads(line)
            seconds = e["seconds"]["compute"] + e["exposed_seconds"] + e["seconds"]["update"]
            points.append([e["step"], seconds, e["test_loss"], e["accuracy"]])
        return {"points": points}

    all_steps = LOSS_STEPS * (1 if variant == "dense" else LOSS_MORE)
    slow = {"10mbit": 2.4, "100mbit": 0.3}.get(rate, 0.2) if variant == "dense" else {"10mbit": 0.4}.get(rate, 0.08)
    return Cell(f"loss/{rate}/{variant}", 10 + all_steps * slow, run)


GROWN = ["dense identity none", "sharded natural none", "gather topk:0.01 feedback", "sharded topk:0.01 feedback"]


def growth_cell(count, ranks):
    """Processor seconds of a step without a network, and the most memory that the process had, by model size and ranks."""

    def run(options):
        rows = []
        repeats = "1" if options.tiny else "3"
        for method in GROWN:
            words = [options.program, "bench", "step", "--count", str(count), "--ranks", str(ranks), "--repeats", repeats, "--method", method, "--json"]
            with tempfile.NamedTemporaryFile("r") as memory:
                script = ("import json,resource,subprocess,sys;subprocess.run(sys.argv[2:],check=True);"
                          "open(sys.argv[1],'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))")  # fmt: skip
                said = subprocess.run(["/usr/bin/python3", "-c", script, memory.name, *words], check=True, capture_output=True, text=True)
                peak = int(memory.read()) * 1024
            rows.append({**json.loads(said.stdout)["methods"][0], "method": method, "peak_bytes": peak})
        return {"count": count, "ranks": ranks, "methods": rows}

    return Cell(f"growth/{count}x{ranks}", 5 + count * ranks / 4e6, run)


def cells_of(parts):
    cells = []
    if "shaped" in parts:
        cells += [shaped_cell(transport, rate) for rate in reversed(shaped.RATES) for transport in ("sockets", "mpi")]
    if "guard" in parts:
        groups = [GUARDED[i : i + GUARDED_AT_ONCE] for i in range(0, len(GUARDED), GUARDED_AT_ONCE)]
        cells += [loopback_cell("sockets", group) for group in groups]
        cells += [guard_cell(rate, recipe) for recipe in SHAPED_GUARDED for rate in ("1gbit", "100mbit", "10mbit")]
    if "change" in parts:
        cells += [change_cell(recipe) for recipe in ("natural", "qsgd", "topk-natural")]
    if "loss" in parts:
        cells += [loss_cell(rate, variant) for rate in ("100mbit", "10mbit") for variant in ["dense", BF16, *RECIPES, "grid guard=on"]]
    if "growth" in parts:
        cells += [growth_cell(count, 4) for count in (1_000_000, 4_000_000, 16_000_000, 64_000_000, 100_000_000)]
        cells += [growth_cell(1_000_000, ranks) for ranks in (2, 8, 16, 32, 64)]
    if "torch" in parts:
        cells += torch_cells()
    return cells
