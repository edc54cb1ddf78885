"""Label-skewed data: which memory a selector wants when every worker has other classes.

The claim that is tried: EF21-SGDM and EControl beat EF21 at equal bytes (Fatkhullin et al., arXiv 2305.15155; Gao et al., arXiv
2311.05645). Eight workers with two classes each, the largest 1 % of entries; only the memory differs, so bytes are the same. Rates, and
the number that a memory has, are chosen by the rule of study_tune.py on held-out training images, the figures made on the test images
with other seeds.
"""

import dataclasses
import statistics

import study_tune as tune
from pages import table
from study_cells import bytes_text, settings_of
from study_page import NOT_RUN, accuracies, interval, paired, with_interval

MODELS = ("perceptron", "lenet5")
SPLIT, WORKERS, BATCH = "classes:2", 8, 16
BASELINE = "ef21"
NUMBERS = (0.01, 0.03, 0.1, 0.3)
MEMORIES = {"ef21": None, "ef21-sgdm": tune.Knob("memory", NUMBERS, "ef21:momentum={}"), "econtrol": tune.Knob("memory", NUMBERS, "econtrol:{}"),
            "feedback": None}  # fmt: skip
BASE_LR, BUDGET = 0.1, 12


@dataclasses.dataclass(frozen=True)
class Plan:
    model: str = "lenet5"
    epochs: int = 1
    seeds: int = 3


def settings_at(known, name, point, seed, plan, validation=0):
    training, method = tune.settings_at(point, MEMORIES[name], BASE_LR)
    recipe = {**known["topk-natural"], "op": "topk:0.01", "memory": name, "exchange": "gather", "training": {}, **method}
    return settings_of(recipe, model=plan.model, epochs=plan.epochs, seed=seed, validation=validation, split=SPLIT, workers=WORKERS, batch=BATCH,
                       momentum=0, **training)  # fmt: skip


def choose(runner, known, name, plan):
    """Scores of points, and whether the best has all its neighbours."""
    knob = MEMORIES[name]

    def score(point):
        settings = settings_at(known, name, point, tune.FIRST_SEED, plan, tune.VALIDATION)
        cell = runner.run(settings, f"{settings['method']['memory']} at lr {settings['lr']:g}", BUDGET)
        return cell and cell["result"]["accuracy"]

    return tune.search(tune.Point(knob=NUMBERS.index(0.1) if knob else -1), knob, score, BUDGET, coarse=True)


def study(runner, known, plan):
    """By memory: the best point, what its neighbours came to, and cells by seed."""
    found = {}
    for name in MEMORIES:
        tried, ended = choose(runner, known, name, plan)
        if tried:
            found[name] = {"best": tune.best_of(tried), "tried": tried, "ended": ended, "cells": {}}
    for seed in range(1, plan.seeds + 1):
        for i, (name, row) in enumerate(found.items()):
            left = (plan.seeds - seed + 1) * len(found) - i
            cell = runner.run(settings_at(known, name, row["best"], seed, plan), name, left)
            if cell:
                row["cells"][seed] = cell
    return found


def tried_text(name, row):
    """The best and its neighbours."""
    knob = MEMORIES[name]
    near = [row["best"], *tune.neighbours(row["best"], knob, coarse=True).values()]
    told = []
    for point in near:
        number = f", {knob.values[point.knob]:g}" if knob else ""
        score = row["tried"].get(point)
        told.append(f"{tune.rate(BASE_LR, point.half_octaves):g}{number}: " + ("not tried" if score is None else f"{100 * score:.1f}"))
    return "; ".join(told)


def verdict(name, found):
    """Shown or refuted, in one sentence."""
    differences = paired(accuracies(found[name]["cells"]), accuracies(found[BASELINE]["cells"]))
    if len(differences) < 2:
        return f"`{name}` against `{BASELINE}`: {NOT_RUN} often enough to say."
    mean, half = statistics.mean(differences), interval(differences)
    word = "shown" if mean - half > 0 else "refuted" if mean + half < 0 else "neither shown nor refuted"
    return f"`{name}` better than `{BASELINE}` at equal bytes: **{word}** ({with_interval(differences, '{:+.2f}')} points over {len(differences)} seeds)."


def skew_lines(found, plan):
    yield (f"`bench/study.py skew --model {plan.model} --epochs {plan.epochs} --seeds {plan.seeds}`: Fashion-MNIST, {WORKERS} workers x {BATCH} images, "
           f"`--split {SPLIT}`, `topk:0.01`, momentum 0.")  # fmt: skip
    yield ""
    rows = []
    for name in MEMORIES:
        row = found.get(name)
        if not row or not row["cells"]:
            rows.append([name, NOT_RUN] + [""] * 5)
            continue
        cells = list(row["cells"].values())
        differences = paired(accuracies(row["cells"]), accuracies(found[BASELINE]["cells"])) if name != BASELINE else []
        traffic = statistics.mean((c["result"]["traffic_bytes"] - c["result"]["aside_bytes"]) / c["result"]["step"] for c in cells)
        rows.append([f"`{cells[0]['settings']['method']['memory']}`, lr {cells[0]['settings']['lr']:g}",
                     with_interval(list(accuracies(row["cells"]).values()), "{:.2f}"), str(len(cells)),
                     with_interval(differences, "{:+.2f}") if differences else "", bytes_text(traffic), tried_text(name, row),
                     f"{len(row['tried'])}" + ("" if row["ended"] else ", not all neighbours")])  # fmt: skip
    head = ["memory", "accuracy, %", "seeds", f"points to `{BASELINE}`", "traffic per step", "best and neighbours on held-out images, %", "points tried"]
    yield from table(head, rows)
    yield ""
    if BASELINE in found:
        yield " ".join(verdict(name, found) for name in found if name != BASELINE)
