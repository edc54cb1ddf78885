"""The one rule by which every recipe's settings are chosen.

A point is a learning rate, a decay (constant or linear) and one more number that the method has: gamma of a mixer, the momentum of a
memory, else the optimiser's. The search begins at the recipe's own settings and always goes on from the best point so far: its
neighbours are tried one after the other (the rate doubled, halved, the other decay, the number one up, one down), and as soon as one
is better, its neighbours. Where no neighbour is better, rates sqrt 2 up and down are neighbours too. It ends when all neighbours of
the best have been tried, so that no optimum lies at a border, or when the budget is used up, which is the same for all and is told.
A momentum moves with lr / (1 - momentum) kept, as near as the ladder of factors 2 has it.
"""

import dataclasses
import math

from pages import table

DECAYS = ("constant", "linear")
FIRST_SEED = 101  # tables are made with 1, 2, ...
VALIDATION = 5000  # training images that nobody trains with


@dataclasses.dataclass(frozen=True)
class Knob:
    """A number of the method: the member that has it, what that reads with each value, and whether it is a momentum."""

    member: str
    values: tuple
    form: str = "{}"
    momentum: bool = False

    def text(self, value):
        return self.form.format(f"{value:g}")


OPTIMIZERS = Knob("momentum", (0, 0.5, 0.9), momentum=True)
GAMMAS = (0.05, 0.1, 0.2, 0.3, 0.45, 0.7, 1)
# Recipes that have another number than the optimiser's momentum, or none.
KNOBS = {
    "dgc": Knob("memory", (0, 0.3, 0.5, 0.7, 0.9), "dgc:{}", momentum=True),
    "gmc": Knob("memory", (0, 0.3, 0.5, 0.7, 0.9), "gmc:{}", momentum=True),
    "choco-sign": Knob("mixer", GAMMAS, "choco:{}"),
    "choco-topk": Knob("mixer", GAMMAS, "choco:{},fresh"),
    "deepsqueeze-sign": Knob("mixer", GAMMAS, "deepsqueeze:{}"),
    "moniqua": Knob("mixer", GAMMAS, "moniqua:0.1,{}"),
    "powergossip": Knob("mixer", (0.5, 0.7, 1, 1.3), "powergossip:1,2,{}"),
    "noloco": Knob("mixer", (0.5, 0.7, 1, 1.4), "noloco:0.5,{}"),
    "diloco": None,
    "sparseloco": None,
}


@dataclasses.dataclass(frozen=True)
class Point:
    half_octaves: int = 0  # of the rate above the recipe's own
    decay: str = "constant"
    knob: int = -1  # which of the knob's values; -1: the recipe has none


def rate(base, half_octaves):
    """Two digits, as one would write it."""
    return float(f"{base * 2 ** (half_octaves / 2):.2g}")


def knob_of(name, recipe):
    if name in KNOBS:
        return KNOBS[name]
    return OPTIMIZERS if recipe["training"].get("optimizer") in (None, "", "sgd") else None


def own_value(knob, recipe, own):
    """What the recipe has of it: the value whose text is the recipe's, which must be one of the knob's."""
    if knob.member == "momentum":
        return knob.values.index(own["momentum"])
    texts = [knob.text(value) for value in knob.values]
    bare = knob.form.partition(":")[0]
    fallback = {"dgc": 0.9, "gmc": 0.9, "powergossip": 1, "noloco": 0.7}.get(bare)
    given = recipe[knob.member]
    if given in texts:
        return texts.index(given)
    if fallback is not None and (given == bare or knob.text(fallback).startswith(given)):
        return knob.values.index(fallback)
    raise ValueError(f"'{given}' is none of {' '.join(texts)}")


def start_of(knob, recipe, own):
    return Point(0, own["decay"], own_value(knob, recipe, own) if knob else -1)


def moved_with(knob, point, index):
    """The point with another value of the knob."""
    shift = 0
    if knob.momentum:
        shift = 2 * round(math.log2((1 - knob.values[index]) / (1 - knob.values[point.knob])))
    return dataclasses.replace(point, knob=index, half_octaves=point.half_octaves + shift)


def neighbours(point, knob, coarse=False):
    """By what they differ in: rate and knob, and unless only the coarse ones are asked for, the other decay and the fine ladder."""
    around = {"double rate": dataclasses.replace(point, half_octaves=point.half_octaves + 2),
              "half rate": dataclasses.replace(point, half_octaves=point.half_octaves - 2)}  # fmt: skip
    if not coarse:
        around["other decay"] = dataclasses.replace(point, decay=DECAYS[1 - DECAYS.index(point.decay)])
    if knob and point.knob + 1 < len(knob.values):
        around["knob up"] = moved_with(knob, point, point.knob + 1)
    if knob and point.knob > 0:
        around["knob down"] = moved_with(knob, point, point.knob - 1)
    if not coarse:
        around["rate x sqrt 2"] = dataclasses.replace(point, half_octaves=point.half_octaves + 1)
        around["rate / sqrt 2"] = dataclasses.replace(point, half_octaves=point.half_octaves - 1)
    return around


def best_of(tried):
    """The first of the best; a score that is no number is the worst."""
    return max(tried, key=lambda point: (not math.isnan(tried[point]), tried[point]))


def next_point(tried, start, knob, coarse=False):
    """What to try after these (scores by point, in the order in which they were tried); None when the search has ended."""
    if start not in tried:
        return start
    for point in neighbours(best_of(tried), knob, coarse).values():
        if point not in tried:
            return point
    return None


def settings_at(point, knob, base_lr):
    """The members of a run's settings that a point decides, and those of the recipe."""
    training = {"lr": rate(base_lr, point.half_octaves), "decay": point.decay}
    method = {}
    if knob and knob.member == "momentum":
        training["momentum"] = knob.values[point.knob]
    elif knob:
        method[knob.member] = knob.text(knob.values[point.knob])
    return training, method


def point_text(point, knob, base_lr):
    training, method = settings_at(point, knob, base_lr)
    words = [f"lr {training['lr']:g}", training["decay"]]
    words += [f"momentum {training['momentum']:g}"] if "momentum" in training else []
    return ", ".join(words + list(method.values()))


def search(start, knob, score, budget, coarse=False):
    """Scores by point, in order; score(point) may be None: there is no time. And whether all neighbours of the best were tried."""
    tried = {}
    while len(tried) < budget:
        point = next_point(tried, start, knob, coarse)
        if point is None:
            return tried, True
        value = score(point)
        if value is None:
            return tried, False
        tried[point] = value
    return tried, next_point(tried, start, knob, coarse) is None


def report(name, tried, ended, knob, base_lr, coarse=False):
    """Best and neighbours, as data and as lines."""
    best = best_of(tried)
    around = []
    for how, point in neighbours(best, knob, coarse).items():
        around.append({"how": how, "settings": point_text(point, knob, base_lr), "accuracy": tried.get(point)})
    training, method = settings_at(best, knob, base_lr)
    data = {"recipe": name, "best": {**training, **method}, "accuracy": tried[best], "ended": ended, "runs": len(tried), "neighbours": around,
            "tried": [{"settings": point_text(point, knob, base_lr), "accuracy": value} for point, value in tried.items()]}  # fmt: skip
    lines = [f"{name}: best of {len(tried)} points is {point_text(best, knob, base_lr)} with {100 * tried[best]:.2f} %"
             + ("" if ended else "; not all of its neighbours were tried")]  # fmt: skip
    for row in around:
        lines.append(f"  {row['how']:14} {row['settings']}: " + ("not tried" if row["accuracy"] is None else f"{100 * row['accuracy']:.2f} %"))
    return data, lines


def table_of(found):
    """Of what tune-RECIPE.json files say."""

    def near(row):
        return "not tried" if row["accuracy"] is None else f"{100 * row['accuracy']:.2f}"

    rows = []
    for one in found:
        around = "; ".join(f"{row['settings']}: {near(row)}" for row in one["neighbours"])
        best = ", ".join(value if isinstance(value, str) else f"{key} {value:g}" for key, value in one["best"].items())
        rows.append([one["recipe"], best, f"{100 * one['accuracy']:.2f}", around, f"{one['runs']}" + ("" if one["ended"] else ", not all neighbours")])
    told = sorted({f"bench/study.py tune --epochs {one['epochs']} --seeds {len(one['seeds'])} --budget {one['budget']}" for one in found})
    yield f"{', '.join(f'`{command}`' for command in told)}: accuracies in percent, on {VALIDATION:,} held-out training images."
    yield ""
    yield from table(["recipe", "best", "accuracy", "its neighbours", "points tried"], rows)
