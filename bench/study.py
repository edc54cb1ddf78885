#!/usr/bin/python3
"""Studies recipes: chooses their settings by one rule, and writes the tables of accuracy with their intervals.

    bench/study.py table --epochs 1 --seeds 5      recipes at their built-in settings; writes docs/methods.md, and some rows to README.md
    bench/study.py table --epochs 3 --seeds 3      the other one
    bench/study.py tune --recipes dgc,threshold    best settings and their neighbours, on held-out training images
    bench/study.py skew                            memories on label-skewed data; writes docs/methods.md

Every run is a cell, one line of JSON in --out (build/study): what is there is not run again, so a study that was interrupted goes on
where it was, and studies share their cells. --list says what is there and what is missing, --write makes only the page, --for SECONDS
begins no run that would end later. One epoch takes half a minute on two cores, all tables some hours. Needs a release build.
"""

import argparse
import json
import os
import sys
import time

import hosts
import study_page
import study_skew
import study_tune as tune
from pages import between
from study_cells import Cells, Runner, find_recipe, recipes_of, settings_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
README, METHODS = os.path.join(ROOT, "README.md"), os.path.join(ROOT, "docs", "methods.md")


def tell(text):
    print(f"study: {text}", file=sys.stderr, flush=True)


def put(path, name, lines):
    with open(path, encoding="utf-8") as file:
        page = between(file.read(), f"table {name}", "\n".join(lines))
    if page is None:
        raise hosts.Trouble(f"{os.path.relpath(path, ROOT)} has no table '{name}'")
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)
    tell(f"wrote table '{name}' of {os.path.relpath(path, ROOT)}")


def listed(cells, wanted):
    """Cells by what they are, each with whether it is there."""
    for what, settings in wanted:
        cell = cells.get(settings)
        facts = f"{100 * cell['result']['accuracy']:6.2f} %  {cell['seconds']:5.0f} s  {cell['at']}  {cell['program']}" if cell else "missing"
        print(f"{what:24} seed {settings['seed']:<4} {facts}")


def do_table(options, cells, known):
    chosen = {name: find_recipe(known, name) for name in options.recipes or known}
    # Seed by seed, so that a study that is stopped has whole rows of fewer seeds.
    wanted = [(name, settings_of(recipe, epochs=options.epochs, seed=seed))
              for seed in range(1, options.seeds + 1) for name, recipe in chosen.items()]  # fmt: skip
    if options.list:
        return listed(cells, wanted)
    if not options.write:
        runner = Runner(cells, options.program, tell, options.until)
        missing = [(name, settings) for name, settings in wanted if not cells.get(settings)]
        for i, (name, settings) in enumerate(missing):
            runner.run(settings, name, len(missing) - i)
    cells.refresh()
    command = f"bench/study.py table --epochs {options.epochs} --seeds {options.seeds}"
    place = f"recipes-{options.epochs}"
    shown = {**known, **chosen} if options.print else known  # pages have the built-in ones
    whole = study_page.recipe_table(cells, shown, options.epochs, options.seeds, command)
    if options.print:
        print("\n".join(whole))
    else:
        put(METHODS, place, whole)
        put(README, place, study_page.recipe_table(cells, known, options.epochs, options.seeds, command, few=True))


def tune_one(options, cells, name, recipe):
    base = settings_of(recipe, epochs=options.epochs, seed=0)
    knob = tune.knob_of(name, recipe)
    start = tune.start_of(knob, recipe, base)
    seeds = range(tune.FIRST_SEED, tune.FIRST_SEED + options.seeds)
    runner = Runner(cells, options.program, tell, options.until)
    tried = 0

    def score(point):
        nonlocal tried
        training, method = tune.settings_at(point, knob, base["lr"])
        scores = []
        for seed in seeds:
            settings = settings_of({**recipe, **method}, epochs=options.epochs, seed=seed, validation=tune.VALIDATION, **training)
            cell = cells.get(settings) if options.list else runner.run(
                settings, f"{name} at {tune.point_text(point, knob, base['lr'])}", (options.budget - tried) * len(seeds))  # fmt: skip
            if not cell:
                return None
            scores.append(cell["result"]["accuracy"])
        tried += 1
        return sum(scores) / len(scores)

    found, ended = tune.search(start, knob, score, options.budget)
    if not found:
        print(f"{name}: {study_page.NOT_RUN}")
        return
    data, lines = tune.report(name, found, ended, knob, base["lr"])
    print("\n".join(lines), flush=True)
    with open(os.path.join(options.out, f"tune-{name}.json"), "w", encoding="utf-8") as file:
        json.dump({**data, "epochs": options.epochs, "seeds": list(seeds), "validation": tune.VALIDATION, "budget": options.budget}, file, indent=1)


def do_tune(options, cells, known):
    for name in [] if options.write else options.recipes or known:
        recipe = find_recipe(known, name)
        tune_one(options, cells, recipe.get("name", name), recipe)
    if options.list:
        return
    found = []
    for name in sorted(os.listdir(options.out)):
        if name.startswith("tune-") and name.endswith(".json"):
            with open(os.path.join(options.out, name), encoding="utf-8") as file:
                found.append(json.load(file))
    lines = tune.table_of(sorted(found, key=lambda one: [*known, one["recipe"]].index(one["recipe"])))
    if options.print:
        print("\n".join(lines))
    else:
        put(METHODS, "tune", lines)


def do_skew(options, cells, known):
    # Without time every run that is missing is left out.
    runner = Runner(cells, options.program, tell, 0 if options.list or options.write else options.until)
    plan = study_skew.Plan(options.model, options.epochs, options.seeds)
    lines = study_skew.skew_lines(study_skew.study(runner, known, plan), plan)
    if options.list or options.print:
        print("\n".join(lines))
    else:
        put(METHODS, f"skew-{options.model}", lines)


def whole(least, most):
    def read(text):
        if not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is not allowed: {least} to {most}")
        return int(text)

    return read


def parser():
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--out", default=os.path.join(ROOT, "build", "study"), metavar="DIR", help="folder of cells (build/study)")
    shared.add_argument("--program", default=os.path.join(ROOT, "build", "release", "cli", "laconic"))
    shared.add_argument("--for", dest="seconds", type=whole(1, 10**7), metavar="SECONDS", help="in which all must have ended")
    shared.add_argument("--list", action="store_true", help="what is there and what is missing")
    by_name = argparse.ArgumentParser(add_help=False)
    by_name.add_argument("--recipes", type=lambda text: text.split(","), metavar="NAME,...", help="built-in, or FILE.json; all if none is named")
    paged = argparse.ArgumentParser(add_help=False)
    paged.add_argument("--write", action="store_true", help="only make the page, from what is there")
    paged.add_argument("--print", action="store_true", help="print the table instead of writing the page")
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    one = verbs.add_parser("table", parents=[shared, by_name, paged], help="the tables of docs/methods.md and README.md")
    one.add_argument("--epochs", type=whole(1, 1000), default=1)
    one.add_argument("--seeds", type=whole(1, 100), default=5)
    one.set_defaults(do=do_table)
    one = verbs.add_parser("tune", parents=[shared, by_name, paged], help="best settings by one rule")
    one.add_argument("--epochs", type=whole(1, 1000), default=1)
    one.add_argument("--seeds", type=whole(1, 100), default=1, help="runs of each point")
    one.add_argument("--budget", type=whole(1, 1000), default=16, help="points, the same for every recipe (16)")
    one.set_defaults(do=do_tune)
    one = verbs.add_parser("skew", parents=[shared, paged], help="memories on label-skewed data")
    one.add_argument("--model", choices=study_skew.MODELS, default="lenet5", help="perceptron is twenty times faster")
    one.add_argument("--epochs", type=whole(1, 1000), default=1)
    one.add_argument("--seeds", type=whole(1, 100), default=3)
    one.set_defaults(do=do_skew)
    return top


def main():
    options = parser().parse_args()
    options.until = time.monotonic() + options.seconds if options.seconds else None
    hosts.stop_on_signals()
    try:
        options.do(options, Cells(options.out), recipes_of(options.program))
    except hosts.Trouble as trouble:
        print(f"study: {trouble}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
