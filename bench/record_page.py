"""Writes what bench/record.py has measured: tables between marks in docs/performance.md, and plots beside it."""

import itertools
import json
import math
import os
import re
import statistics
import subprocess
import tempfile

import hosts as shaped
from pages import between, table
from record_cells import BATCH, BF16, HOSTS, LOSS_MORE, LOSS_STEPS, PARTS, QUIET, SHAPED, STEPS, WARM
from record_torch import LOSS_MORE as TORCH_MORE
from torch_models import OPTIMIZERS

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PAGE = os.path.join(ROOT, "docs", "performance.md")
NAMES = {BF16: "bf16, sharded", "alone": "no communication", "barrier": "none, but in step", "natural-entropy exchange=sharded": "natural-entropy, sharded"}
LINKS = {"10mbit": "10 Mbit/s", "100mbit": "100 Mbit/s", "1gbit": "1 Gbit/s", "none": "unshaped"}
MODELS = {"resnet20": "ResNet-20, images of CIFAR-10's size", "gpt10m": "A GPT of 10.7 million parameters, Tiny Shakespeare", "gpt50m": "A GPT of 56.9 million parameters"}
LEARNT = {"resnet20": "ResNet-20 on CIFAR-10", "gpt10m": MODELS["gpt10m"]}
PROGRAM_BYTES = 12e6  # of a process that has no arrays yet
LATENCY = "150us"  # of these hosts, which the planner is told
median = statistics.median


def named(variant):
    guarded = " guard=on"
    if variant.endswith(guarded):
        return named(variant.removesuffix(guarded)) + ", guard"
    return NAMES.get(variant, variant)


def gains(rows, variant, against="dense"):
    """How many times as fast, round by round."""
    return [a / b for a, b in zip(rows[against]["seconds"], rows[variant]["seconds"])]


def interval(values):
    """Bounds of the median that hold with at least 95 %, by the binomial distribution."""
    ordered, n, k, below = sorted(values), len(values), 0, 0.0
    while k < n // 2 and below + math.comb(n, k) / 2**n <= 0.025:
        below += math.comb(n, k) / 2**n
        k += 1
    return ordered[max(0, k - 1)], ordered[n - 1 - max(0, k - 1)]


def with_interval(values):
    low, high = interval(values)
    return f"{median(values):.3f} ({low:.3f} to {high:.3f})"


def links_of(results, part, transport):
    rates = [rate for rate in shaped.RATES if f"{part}/{transport}/{rate}" in results]
    return [(rate, {k: v for k, v in results[f"{part}/{transport}/{rate}"].items() if k != "at"}) for rate in rates]


def where_not(results):
    if not any(name.startswith("shaped/") for name in results):
        return
    said = []
    for transport in ("sockets", "mpi"):
        for rate, rows in links_of(results, "shaped", transport):
            slow = [named(v) for v in rows if v not in (*QUIET, "dense") and median(gains(rows, v)) < 1]
            if slow:
                said.append(f"{LINKS[rate]} over {transport}: {', '.join(slow)}")
    yield ("**Where compression does not pay.** Slower than dense in the middle of all rounds: " + "; ".join(said) + "."
           if said else "No recipe here was slower than dense in the middle of all rounds.")  # fmt: skip


def shaped_tables(results):
    if not any(name.startswith("shaped/") for name in results):
        return
    for transport in ("sockets", "mpi"):
        links = links_of(results, "shaped", transport)
        if not links:
            continue
        rounds = ", ".join(f"{len(rows['dense']['seconds'])} at {LINKS[rate]}" for rate, rows in links)
        yield f"Over `{transport}`: ms per step / exposed ms / times dense's samples per second. Rounds: {rounds}."
        yield ""

        def row(variant):
            yield named(variant)
            for _, rows in links:
                of = rows[variant]
                yield (f"{1e3 * median(of['seconds']):.1f} / {1e3 * median(of['exposed']):.1f} / {median(gains(rows, variant)):.2f}")
            yield f"{median(links[-1][1][variant]['bytes']):,.0f}"

        variants = [v for v in SHAPED if all(v in rows for _, rows in links)]
        yield from table(["", *(LINKS[rate] for rate, _ in links), "bytes per step and rank"], (list(row(v)) for v in variants))
        yield ""
    yield "![ms per step](record-shaped.svg)"


def guard_tables(results):
    rows = []
    for name, cell in results.items():
        if name.startswith("guard/sockets/loopback/"):
            for variant in cell:
                if variant not in ("at", "dense"):
                    lanes = ", ".join(f"{lane} {count}" for lane, count in cell[variant]["lanes"].items())
                    rows.append([named(variant), str(len(cell[variant]["seconds"])), with_interval(gains(cell, variant)), lanes])
    if rows:
        yield "Loopback, 4 processes on this machine, samples per second with the guard over dense's (median of pairs, 95 %):"
        yield ""
        yield from table(["", "pairs", "times dense", "steps by lane"], rows)
        yield ""
    rows = []
    for name, cell in results.items():
        found = re.fullmatch(r"guard/sockets/(\w+bit)/(.+)", name)
        if found:
            plain, guarded = found[2], f"{found[2]} guard=on"
            better = [min(a, b) / c for a, b, c in zip(cell["dense"]["seconds"], cell[plain]["seconds"], cell[guarded]["seconds"])]
            rows.append([LINKS[found[1]], plain, *(f"{1e3 * median(cell[v]['seconds']):.1f}" for v in ("dense", plain, guarded)),
                         with_interval(better), ", ".join(f"{k} {v}" for k, v in cell[guarded]["lanes"].items())])  # fmt: skip
    if rows:
        yield "Shaped links: ms per step; *of the better*: the shorter step of the two in the same round, over that with the guard."
        yield ""
        yield from table(["link", "recipe", "dense", "recipe alone", "with the guard", "of the better", "steps by lane"], rows)
        yield ""


def change_tables(results):
    for name, cell in results.items():
        if not name.startswith("change/"):
            continue
        begins = [0, *(done for done, _ in cell["changes"]), len(cell["lanes"])]
        rows = []
        for i, rate in enumerate(["100mbit", *(rate for _, rate in cell["changes"])]):
            lanes, seconds = cell["lanes"][begins[i] : begins[i + 1]], cell["seconds"][begins[i] : begins[i + 1]]
            settled = next(k for k in range(len(lanes)) if set(lanes[k:]) == {lanes[-1]})
            rows.append([LINKS[rate], str(len(lanes)), lanes[-1], str(settled), f"{1e3 * median(seconds[settled:]):.1f}"])
        yield f"`{name.removeprefix('change/')}` while links change:"
        yield ""
        yield from table(["link", "steps", "last lane", "steps until it was taken for good", "ms per step then"], rows)
        yield ""


def loss_tables(results):
    for rate in shaped.RATES:
        cells = {name.split("/", 2)[2]: cell["points"] for name, cell in results.items() if name.startswith(f"loss/{rate}/")}
        if "dense" not in cells:
            continue
        goal = cells["dense"][-1][2]
        dense = cells["dense"][-1][1]

        def row(variant):
            points = cells[variant]
            there = next((p for p in points if p[2] <= goal), None)
            last = points[-1]
            return [named(variant), f"{there[1]:.1f}" if there else "not reached", f"{dense / there[1]:.2f}" if there else "",
                    str(there[0]) if there else "", str(last[0]), f"{last[1]:.1f}", f"{last[2]:.4f}", f"{100 * last[3]:.1f} %"]  # fmt: skip

        yield (f"{LINKS[rate]}: seconds of training to a test loss of {goal:.4f}, which dense reaches after {LOSS_STEPS} steps; others may take "
               f"{LOSS_MORE} times as many. Evaluated every 18 steps; one seed, fastest first.")  # fmt: skip
        yield ""
        ordered = sorted(cells, key=lambda v: next((p[1] for p in cells[v] if p[2] <= goal), math.inf))
        yield from table(["", "seconds", "times dense", "steps", "all steps", "all, s", "last loss", "accuracy"], (row(v) for v in ordered))
        yield ""


def plan_table(results, program):
    """Foreseen by `laconic plan` from the time that a step without communication takes here, and measured."""
    wanted = {"dense": "dense", "natural-sharded": "natural-sharded", "grid": "grid", "qsgd": "qsgd", "topk-natural": "topk-natural", "stc": "stc",
              "powersgd": "powersgd", "signsgd-ef": "signsgd-ef"}  # fmt: skip
    columns = [(rate, rows) for rate, rows in links_of(results, "shaped", "sockets") if rate != "none"]
    if not columns:
        return
    foreseen = {}
    # Levels that are coded take as many bits as gradients of this training need, which become fewer: the one in the middle of what was measured.
    steps = {rate: WARM + len(rows["dense"]["seconds"]) * STEPS[rate] // 2 for rate, rows in columns}
    with tempfile.TemporaryDirectory() as folder:
        words = [program, "train", "--recipe", "dense", "--steps", str(max(steps.values()) + 1), "--batch", str(BATCH), "--out", folder]
        words += ["--record", ",".join(map(str, steps.values()))]
        subprocess.run(words, check=True, capture_output=True)
        for rate, rows in columns:
            words = [program, "plan", "--model", "lenet5", "--workers", str(HOSTS), "--link", f"{rate},{LATENCY}", "--json", "--recipes", ",".join(wanted)]
            words += ["--cores", str(os.cpu_count()), "--compute", f"{median(rows['alone']['seconds']):.4f}"]
            words += ["--gradients", f"{folder}/gradients-step-{steps[rate]}.npz"]
            said = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
            foreseen[rate] = {row["recipe"]["name"] if isinstance(row["recipe"], dict) else row["recipe"]: row for row in said["recipes"]}
    worst = 0

    def row(variant):
        nonlocal worst
        cells = [variant]
        for rate, rows in columns:
            expected, real = foreseen[rate][variant]["step_seconds"], median(rows[variant]["seconds"])
            worst = max(worst, abs(expected / real - 1))
            cells.append(f"{1e3 * expected:.1f} / {1e3 * real:.1f} ({expected / real:.2f})")
        return cells

    rows = [row(v) for v in wanted]
    named_steps = ", ".join(map(str, steps.values()))
    yield (f"ms of a step foreseen from the gradients of steps {named_steps}, in the middle of what was measured / measured over sockets (their ratio); "
           f"the worst is off by {100 * worst:.0f} %. "
           f"The planner knows that {HOSTS} workers share {os.cpu_count()} cores, and what messages take of them over the loopback.")  # fmt: skip
    yield ""
    yield from table(["", *(LINKS[rate] for rate, _ in columns)], rows)


def own_memory(cell, row):
    """What the library takes of memory, in gradients of one rank: the program itself has two arrays, and one for each rank."""
    gradient = 4 * cell["count"]
    return (row["peak_bytes"] - gradient * (2 + cell["ranks"]) - PROGRAM_BYTES) / cell["ranks"] / gradient


def growth_tables(results):
    cells = sorted((c for name, c in results.items() if name.startswith("growth/")), key=lambda c: (c["ranks"] != 4, c["ranks"], c["count"]))
    if not cells:
        return
    yield "Processor ms of one rank for a step without a network, and what the library takes of memory for a rank, in gradients (from 16 million entries on):"
    yield ""
    methods = [row["method"] for row in cells[0]["methods"]]

    def text(cell, row):
        large = cell["count"] >= 16_000_000
        return f"{1e3 * row['step_seconds']:.2f}" + (f" (memory {own_memory(cell, row):.2f})" if large else "")

    rows = [[f"{c['count'] / 1e6:g} million x {c['ranks']}", *(text(c, row) for row in c["methods"])] for c in cells]
    yield from table(["entries x ranks", *methods], rows)


def torch_name(variant):
    return {"stock": "torch's own", "fp16": "torch's fp16 hook", "powersgd-hook:1": "torch's PowerSGD hook, rank 1"}.get(
        variant, named(variant.removeprefix("recipe=").replace("half:bf16 exchange", "op=half:bf16 exchange")))  # fmt: skip


def torch_steps(results, model):
    """By link and variant: ms of a step over rounds, against torch's own in the same run, and megabytes."""
    found = {}
    for name, cell in results.items():
        parts = name.split("/")
        if parts[:2] == ["torch", "step"] and parts[3] == model:
            for row in cell["rows"]:
                found.setdefault(parts[2], {}).setdefault(row["variant"], (1e3 * images_of(cell) / row["samples_per_second"], row))
    return found


def images_of(cell):
    return cell["batch"] * cell["hosts"]


def torch_tables(results):
    for model, about in MODELS.items():
        found = torch_steps(results, model)
        links = [rate for rate in shaped.RATES if rate in found]
        if not links:
            continue
        yield f"{about}, {HOSTS} hosts: ms per step / times torch's own / megabytes that a host sends in a step."
        yield ""
        variants = list(dict.fromkeys(v for rate in links for v in found[rate]))

        def row(variant):
            yield torch_name(variant)
            for rate in links:
                ms, of = found[rate].get(variant, (None, None))
                yield f"{ms:.0f} / {of['speedup']:.2f} / {of['sent_megabytes']:.3f}" if of else ""

        yield from table(["", *(LINKS[rate] for rate in links)], (list(row(v)) for v in variants))
        yield ""


def torch_losses(results):
    for model, rate in itertools.product(LEARNT, shaped.RATES):
        cells = {name.split("/", 4)[4]: cell for name, cell in results.items() if name.startswith(f"torch/loss/{rate}/{model}/")}
        if "stock" not in cells:
            continue
        steps, _, goal = cells["stock"]["points"][-1]
        own = next(p[1] for p in cells["stock"]["points"] if p[2] <= goal)

        def row(variant):
            points = cells[variant]["points"]
            there = next((p for p in points if p[2] <= goal), None)
            step, seconds, loss = there or points[-1]
            return [torch_name(variant), f"{seconds:.1f}" if there else f"not reached in {seconds:.1f}", f"{own / seconds:.2f}" if there else "",
                    str(step), f"{1e3 * points[-1][1] / points[-1][0]:.0f}", f"{loss:.4f}"]  # fmt: skip

        kind, settings = OPTIMIZERS[model]
        yield (f"{LEARNT[model]}, {LINKS[rate]}: seconds of training to a held-out loss of {goal:.4f}, which torch's own has after {steps} steps; others may take {TORCH_MORE} "
               f"times as many and end when they are there. Told every {cells['stock']['points'][1][0]} steps; one seed; the same optimizer for all, "
               f"{kind} with {', '.join(f'{key} {value:g}' for key, value in settings.items())}; fastest first.")  # fmt: skip
        yield ""
        ordered = sorted(cells, key=lambda v: next((p[1] for p in cells[v]["points"] if p[2] <= goal), math.inf))
        yield from table(["", "seconds", "times torch's own", "steps", "ms per step", "loss"], (row(v) for v in ordered))
        yield ""


def plot(results):
    """Bars of ms per step, by link, in logarithms: the svg."""
    links = links_of(results, "shaped", "sockets")
    if not links:
        return
    left, wide, high, gap = 190, 620, 13, 26
    tops = [rows["dense"]["seconds"] for _, rows in links]
    low, most = 20, 1e3 * max(max(top) for top in tops) * 1.3

    def x(ms):
        return left + wide * (math.log(max(ms, low)) - math.log(low)) / (math.log(most) - math.log(low))

    parts, y = [], 10
    for rate, rows in links:
        parts.append(f'<text x="4" y="{y + 12}" font-weight="bold">{LINKS[rate]}</text>')
        y += 20
        for variant in rows:
            ms = 1e3 * median(rows[variant]["seconds"])
            hidden = ms - 1e3 * median(rows[variant]["exposed"])
            parts.append(f'<text x="{left - 6}" y="{y + 10}" text-anchor="end">{named(variant)}</text>')
            parts.append(f'<rect x="{left}" y="{y}" width="{x(ms) - left:.1f}" height="{high - 2}" fill="#e07b00"/>')
            parts.append(f'<rect x="{left}" y="{y}" width="{max(0, x(hidden) - left):.1f}" height="{high - 2}" fill="#0062bd"/>')
            parts.append(f'<text x="{x(ms) + 4:.1f}" y="{y + 10}">{ms:.0f}</text>')
            y += high
        y += gap - 14
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + wide + 50} {y + 20}" font-family="sans-serif" font-size="11" fill="#59626d">'
    foot = f'<text x="{left}" y="{y + 12}">ms per step, logarithmic; orange: exposed communication</text></svg>'
    with open(os.path.join(ROOT, "docs", "record-shaped.svg"), "w") as file:
        file.write("\n".join([head, *parts, foot]) + "\n")


def what_was_run(results, every):
    """How much of each part, and when."""
    if not results:
        return
    yield f"{HOSTS} hosts (network namespaces on one machine of {os.cpu_count()} cores); in the trainer LeNet-5 with a global batch of {HOSTS * BATCH}."
    yield ""
    rows = []
    for part in PARTS:
        there = sorted(results[name]["at"] for name in results if name.startswith(f"{part}/"))
        whole = sum(name.startswith(f"{part}/") for name in every)
        if there:
            rows.append([part, f"{len(there)} of {whole}", there[0] if there[0] == there[-1] else f"{there[0]} to {there[-1]}"])
    yield from table(["part", "cells", "measured"], rows)


def write(results, program, every):
    """Of a table none of whose cells is there, what stands on the page stays: it is an earlier run's."""
    tables = {"where-not": where_not(results), "shaped": shaped_tables(results), "guard": guard_tables(results), "change": change_tables(results),
              "loss": loss_tables(results), "plan": plan_table(results, program), "growth": growth_tables(results),
              "torch": torch_tables(results), "torch-loss": torch_losses(results), "run": what_was_run(results, every)}  # fmt: skip
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    for name, lines in tables.items():
        text = "\n".join(lines).strip()
        if text:
            page = between(page, f"record {name}", text)
        if page is None:
            raise shaped.Trouble(f"docs/performance.md has no place for '{name}'")
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(page)
    plot(results)
