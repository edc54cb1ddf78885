"""Training runs as cells: settings that decide a run, and a folder that keeps what came of it.

A cell is one line of JSON in cells.jsonl: `settings`, all that decides the run (and nothing else: a recipe's name does not, so that a
built-in recipe and a file with the same members share their cells); `result`, the last evaluation; `at`, `seconds` and `program`, by
which a run of older code can be told.
"""

import json
import os
import subprocess
import tempfile
import time

from hosts import Trouble

IMAGES = 60_000  # for training, in MNIST and Fashion-MNIST
OWN = {"optimizer": "sgd", "lr": 0.05, "momentum": 0.9, "decay": "constant", "workers": 4, "batch": 32}  # laconic train's
METHOD = ("op", "memory", "layout", "exchange", "down", "down_memory", "draws", "rules", "warmup", "delay", "outer", "mixer", "topology")
BY_TURNS = {"fragments": 1, "overlap": 0, "merge": 0}  # told where they differ from these, which are whole rounds
TOLD = ("name", "summary", "training")  # what else a recipe has: no setting, or the run's own
UNITS = ("B", "KiB", "MiB", "GiB")


def recipes_of(program):
    """Built-in recipes by name, in their order, as the program tells them."""
    try:
        said = subprocess.run([program, "list", "recipes", "--json"], check=True, capture_output=True, text=True).stdout
    except OSError as error:
        raise Trouble(f"'{program}' cannot be run: {error.strerror}; ./run builds it") from None
    except subprocess.CalledProcessError as error:
        raise Trouble(f"'{program} list recipes' fails: {error.stderr.strip()}") from None
    return {entry["name"]: entry["recipe"] for entry in json.loads(said)["recipes"]}


def find_recipe(known, name):
    """A built-in one, or a file's, with what it leaves out as the first built-in recipe has it by default."""
    if not name.endswith(".json"):
        if name not in known:
            raise Trouble(f"no recipe '{name}'; known: {' '.join(known)}, or a file FILE.json")
        return known[name]
    try:
        with open(name, encoding="utf-8") as file:
            own = json.load(file)
    except (OSError, ValueError) as error:
        raise Trouble(f"recipe '{name}' cannot be read: {error}") from None
    if not isinstance(own, dict) or not own.get("name"):
        raise Trouble(f"recipe '{name}' must be a JSON object with a 'name'")
    bare = {"op": "identity", "memory": "none", "layout": "tensor", "exchange": "gather", "down": "", "down_memory": "none",
            "draws": "strata", "rules": [], "warmup": [], "delay": 1, "outer": "none", "mixer": "", "topology": "ring", "training": {}}  # fmt: skip
    return {**bare, **own}


def settings_of(recipe, *, epochs, seed, model="lenet5", validation=0, split="reshuffled", **others):
    """All that decides a run: the recipe's members, what it was tuned with, and what `others` say instead."""
    strange = sorted(recipe.keys() - {*METHOD, *BY_TURNS, *TOLD})
    if strange:
        raise Trouble(f"recipe '{recipe.get('name')}' has '{strange[0]}', which is not a part of a run's settings here")
    tuned = {key: value for key, value in recipe["training"].items() if value}  # of numbers and texts, 0 and "" are the run's own
    if recipe["training"].get("momentum") == 0:
        tuned["momentum"] = 0
    settings = {"model": model, "data": "fashion-mnist", "epochs": epochs, "seed": seed, "validation": validation, "split": split}
    settings |= {**OWN, **tuned, **others}
    if settings["optimizer"] != "sgd":
        del settings["momentum"]
    settings["method"] = {key: recipe[key] for key in METHOD}
    settings["method"] |= {key: recipe[key] for key, whole in BY_TURNS.items() if recipe.get(key, whole) != whole}
    return settings


def key_of(settings):
    return json.dumps(settings, sort_keys=True)


def steps_per_epoch(settings):
    return (IMAGES - settings["validation"]) // (settings["workers"] * settings["batch"])


def words_of(settings, program, recipe_file):
    words = [program, "train", "--json", "--recipe", recipe_file, "--evaluate-every", str(steps_per_epoch(settings))]
    for key in ("model", "data", "epochs", "seed", "validation", "split", "optimizer", "lr", "momentum", "decay", "workers", "batch"):
        if key in settings:
            words += [f"--{key}", str(settings[key])]
    return words


def version_of(program):
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    folder = os.path.dirname(os.path.abspath(__file__))
    commit = subprocess.run(["git", "-C", folder, "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    return f"{said} {commit}".strip()


def trained(settings, program):
    """Runs it: the last evaluation. Ranks are threads already, so the libraries below get one each."""
    with tempfile.TemporaryDirectory() as folder:
        recipe_file = os.path.join(folder, "recipe.json")
        with open(recipe_file, "w", encoding="utf-8") as file:
            json.dump({"name": "cell", **settings["method"]}, file)
        alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        words = words_of(settings, program, recipe_file)
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **alone})
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise Trouble(f"'{' '.join(words)}' fails: {(done.stderr.strip().splitlines() or ['it says nothing'])[-1]}")
    last = json.loads(lines[-1])
    planned = round(settings["epochs"] * steps_per_epoch(settings))
    if last["step"] != planned:
        raise Trouble(f"'{' '.join(words)}' was stopped after {last['step']} of {planned} steps")
    return last


class Cells:
    """The folder. Several studies may work in it at a time: what others have finished meanwhile is seen."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "cells.jsonl")
        self.seen, self.read_to = {}, 0
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise Trouble(f"folder '{folder}' cannot be made: {error.strerror}") from None

    def refresh(self):
        """Lines that have come since. The last one may be torn by a kill, or still be on its way: it counts when it has ended."""
        if not os.path.exists(self.path):
            return
        with open(self.path, "rb") as file:
            file.seek(self.read_to)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self.read_to += len(line)
                try:
                    cell = json.loads(line)
                    self.seen[key_of(cell["settings"])] = cell
                except (ValueError, KeyError, TypeError):
                    continue  # what a kill has torn, closed by the next cell's line end

    def get(self, settings):
        self.refresh()
        return self.seen.get(key_of(settings))

    def add(self, settings, result, seconds, program):
        cell = {"settings": settings, "result": result, "at": time.strftime("%Y-%m-%d"), "seconds": round(seconds, 1), "program": program}
        torn = False
        if os.path.exists(self.path) and os.path.getsize(self.path):
            with open(self.path, "rb") as file:
                file.seek(-1, os.SEEK_END)
                torn = file.read(1) != b"\n"
        with open(self.path, "ab") as file:
            file.write(b"\n" * torn + json.dumps(cell).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.refresh()
        return cell


class Runner:
    """Cells that are there, or run now, with a line of progress each."""

    def __init__(self, cells, program, tell, until=None, train=trained):
        self.cells, self.program, self.tell, self.until, self.train = cells, program, tell, until, train
        self.version, self.done, self.spent = None, 0, 0.0

    def seconds_each(self, settings):
        """What one such run takes, by those that were made: of this study, else of all that are there."""
        if self.done:
            return self.spent / self.done
        self.cells.refresh()
        took = [c["seconds"] / c["settings"]["epochs"] for c in self.cells.seen.values() if c["settings"]["model"] == settings["model"]]
        return settings["epochs"] * (sum(took) / len(took) if took else 40.0)

    def run(self, settings, what, left):
        """The cell; None when there is no time for it. `left` is how many are missing, this one among them."""
        cell = self.cells.get(settings)
        if cell:
            return cell
        each = self.seconds_each(settings)
        if self.until is not None and time.monotonic() + each > self.until:
            return None
        self.tell(f"{what}, seed {settings['seed']}: {left} left, about {each * left / 60:.0f} minutes")
        self.version = self.version or version_of(self.program)
        begin = time.monotonic()
        result = self.train(settings, self.program)
        seconds = time.monotonic() - begin
        self.done, self.spent = self.done + 1, self.spent + seconds
        cell = self.cells.add(settings, result, seconds, self.version)
        self.tell(f"{what}, seed {settings['seed']}: {100 * result['accuracy']:.2f} % in {seconds:.0f} s")
        return cell


def bytes_text(count):
    unit = 0
    while unit < len(UNITS) - 1 and count >= 1024:
        count, unit = count / 1024, unit + 1
    return f"{count:.0f} {UNITS[unit]}" if unit == 0 or count >= 100 else f"{count:.3g} {UNITS[unit]}"
