"""Statistics of cells, and the tables made of them: means and paired differences with their 95 % intervals."""

import math
import statistics

from pages import table
from study_cells import bytes_text, key_of, settings_of, steps_per_epoch

NOT_RUN = "not run"
# What README.md shows of the whole table: one of each kind, whatever its figures.
FEW = ("dense", "half", "natural", "natural-entropy", "grid", "dither", "qsgd", "terngrad", "signsgd-ef", "topk-natural", "sbc1",
       "powersgd", "streaming-diloco", "dpsgd", "choco-sign", "powergossip")  # fmt: skip
HEAD = ("recipe", "accuracy, %", "seeds", "points", "ratio", "traffic", "rounds", "owed", "settings")
FEW_COLUMNS = 6


def t_below(t, freedom):
    """P(|T| < t) of Student's t with whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    if freedom % 2:
        term, total = cosine, 0.0
        for k in range(1, freedom - 1, 2):
            total += term
            term *= cosine**2 * (k + 1) / (k + 2)
        return 2 / math.pi * (angle + sine * total)
    term, total = 1.0, 0.0
    for k in range(0, freedom - 1, 2):
        total += term
        term *= cosine**2 * (k + 1) / (k + 2)
    return sine * total


def t_quantile(freedom, share=0.95):
    """The t that |T| stays below with this probability."""
    low, high = 0.0, 1e3
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if t_below(middle, freedom) < share else (low, middle)
    return high


def interval(values):
    """Half the width of the mean's 95 % interval; None of fewer than two values."""
    if len(values) < 2:
        return None
    return t_quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def paired(of, against):
    """Differences seed by seed, of those both have; both are numbers by seed."""
    return [of[seed] - against[seed] for seed in sorted(of) if seed in against]


def with_interval(values, form):
    """In points of a hundred."""
    half = interval(values)
    text = form.format(100 * statistics.mean(values))
    return text if half is None else f"{text} ± {100 * half:.2f}"


def rounds_of(settings, steps):
    """How often all of the model was exchanged, the last incomplete round of local steps too."""
    return math.ceil(steps / settings["method"]["delay"])


def owed(settings, result):
    """Length of what rank 0 still owes over that of the model, at the rate that training began with; None where nothing is remembered.

    Residuals are in units of the model where changes of models travel, in units of gradients elsewhere.
    """
    method = settings["method"]
    if not result["residual_norm"] or not result.get("model_norm"):
        return None
    of_models = method["mixer"] or method["delay"] > 1 or method["outer"] != "none"
    return result["residual_norm"] * (1 if of_models else settings["lr"]) / result["model_norm"]


def ratio_text(ratio):
    return f"{ratio:.{2 if ratio < 10 else 1 if ratio < 1000 else 0}f}x"


def settings_text(settings):
    words = [f"lr {settings['lr']:g}"]
    words += [f"momentum {settings['momentum']:g}"] if "momentum" in settings else [settings["optimizer"]]
    words += [settings["decay"]] if settings["decay"] != "constant" else []
    words += [f"{settings['workers']} x {settings['batch']}"] if (settings["workers"], settings["batch"]) != (4, 32) else []
    return ", ".join(words)


def rows_of(cells, recipes, epochs, seeds):
    """By recipe the cells that are there, by seed."""
    rows = {}
    for name, recipe in recipes.items():
        by_seed = {}
        for seed in range(1, seeds + 1):
            cell = cells.seen.get(key_of(settings_of(recipe, epochs=epochs, seed=seed)))
            if cell:
                by_seed[seed] = cell
        rows[name] = by_seed
    return rows


def accuracies(by_seed, which="accuracy"):
    return {seed: cell["result"][which] for seed, cell in by_seed.items()}


def mean_of(by_seed, of):
    values = [of(cell) for cell in by_seed.values()]
    return None if None in values else statistics.mean(values)


def columns(recipe, by_seed, baseline):
    """All of a row but its name; of one run at least."""
    result = next(iter(by_seed.values()))["result"]
    settings = next(iter(by_seed.values()))["settings"]
    accuracy = with_interval(list(accuracies(by_seed).values()), "{:.2f}")
    if recipe["mixer"]:
        accuracy += f" ({100 * statistics.mean(accuracies(by_seed, 'worker_accuracy').values()):.2f})"
    differences = paired(accuracies(by_seed), accuracies(baseline))
    ratio = sum(c["result"]["dense_bytes"] for c in by_seed.values()) / sum(c["result"]["wire_bytes"] for c in by_seed.values())
    traffic = mean_of(by_seed, lambda c: (c["result"]["traffic_bytes"] - c["result"]["aside_bytes"]) / c["result"]["step"])
    debt = mean_of(by_seed, lambda c: owed(c["settings"], c["result"]))
    return [accuracy, str(len(by_seed)), with_interval(differences, "{:+.2f}") if differences and by_seed is not baseline else "",
            ratio_text(ratio), bytes_text(traffic), str(rounds_of(settings, result["step"])), "" if debt is None else f"{debt:.3f}",
            settings_text(settings)]  # fmt: skip


def recipe_table(cells, recipes, epochs, seeds, command, few=False):
    """The lines of the table, the command first; with `few` some of its rows and its first columns."""
    rows = rows_of(cells, recipes, epochs, seeds)
    baselines = {mixes: rows["dpsgd" if mixes else "dense"] for mixes in (False, True)}
    wide = FEW_COLUMNS if few else len(HEAD)
    rows = {name: by_seed for name, by_seed in rows.items() if not few or name in FEW}
    plain = settings_of(recipes["dense"], epochs=epochs, seed=1)
    yield (f"`{command}`: LeNet-5 on Fashion-MNIST, {epochs} epoch{'s' * (epochs != 1)} ({epochs * steps_per_epoch(plain)} steps), "
           f"{seeds} seed{'s' if seeds > 1 else ''}, {sum(map(len, rows.values()))} of {seeds * len(rows)} runs made.")  # fmt: skip
    yield ""
    yield from table(HEAD[:wide], ([name, *columns(recipes[name], by_seed, baselines[bool(recipes[name]["mixer"])])][:wide]
                                   for name, by_seed in rows.items() if by_seed))  # fmt: skip
    left_out = [name for name, by_seed in rows.items() if not by_seed]
    if left_out:
        yield ""
        yield f"Not run: {', '.join(left_out)}."
