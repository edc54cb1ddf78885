"""bench/study.py: the rule that chooses settings, the statistics, cells that survive a kill, tables and what is missing of them."""

import contextlib
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "bench", "study.py")
sys.path.insert(0, os.path.join(ROOT, "bench"))
import pages  # noqa: E402
import study  # noqa: E402
import study_cells as cells  # noqa: E402
import study_page as page  # noqa: E402
import study_skew as skew  # noqa: E402
import study_tune as tune  # noqa: E402
from hosts import Trouble  # noqa: E402

BARE = {"op": "identity", "memory": "none", "layout": "tensor", "exchange": "gather", "down": "", "down_memory": "none", "draws": "strata",
        "rules": [], "warmup": [], "delay": 1, "outer": "none", "mixer": "", "topology": "ring",
        "training": {"optimizer": "", "lr": None, "momentum": None, "decay": "", "workers": 0, "batch": 0}}  # fmt: skip
DENSE = {**BARE, "name": "dense", "exchange": "dense"}
SPARSE = {**BARE, "name": "sparse", "op": "topk:0.01", "memory": "feedback", "training": {**BARE["training"], "lr": 0.3, "momentum": 0}}
GOSSIP = {**BARE, "name": "dpsgd", "mixer": "dpsgd", "training": {**BARE["training"], "workers": 8, "batch": 16}}
KNOWN = {"dense": DENSE, "sparse": SPARSE, "dpsgd": GOSSIP}


def result(accuracy, **others):
    return {"step": 468, "accuracy": accuracy, "worker_accuracy": accuracy - 0.01, "dense_bytes": 4000, "wire_bytes": 100, "traffic_bytes": 468_000,
            "aside_bytes": 0, "residual_norm": 0, "model_norm": 10, **others}  # fmt: skip


class Statistics(unittest.TestCase):
    def test_quantiles_are_those_of_the_tables(self):
        for freedom, t in {1: 12.7062, 2: 4.30265, 3: 3.18245, 4: 2.77645, 5: 2.57058, 9: 2.26216, 30: 2.04227}.items():
            self.assertAlmostEqual(page.t_quantile(freedom), t, places=4)

    def test_an_interval_of_known_values(self):
        # Mean 3, deviation sqrt 2.5, five values: 2.77645 sqrt(2.5 / 5).
        self.assertAlmostEqual(page.interval([1, 2, 3, 4, 5]), 2.77645 * math.sqrt(0.5), places=4)
        self.assertIsNone(page.interval([1]))

    def test_differences_pair_seeds_that_both_have(self):
        self.assertEqual(page.paired({1: 3, 2: 5, 4: 9}, {1: 1, 2: 1, 3: 7}), [2, 4])
        # What all seeds share does not widen a difference.
        self.assertEqual(page.with_interval(page.paired({1: 0.8, 2: 0.6}, {1: 0.7, 2: 0.5}), "{:+.2f}"), "+10.00 ± 0.00")


class Rule(unittest.TestCase):
    KNOB = tune.Knob("mixer", (0.1, 0.2, 0.4), "choco:{}")

    def search(self, score, knob=None, budget=100, start=None):
        return tune.search(start or tune.Point(), knob, score, budget)

    def test_the_ladder_is_extended_until_the_best_lies_within(self):
        tried, ended = self.search(lambda p: -abs(p.half_octaves - 7) - (p.decay != "constant"))
        best = tune.best_of(tried)
        self.assertTrue(ended)
        self.assertEqual((best.half_octaves, best.decay), (7, "constant"))
        for point in tune.neighbours(best, None).values():
            self.assertIn(point, tried)

    def test_all_of_rate_decay_and_knob_are_found(self):
        def score(p):
            return -abs(p.half_octaves + 4) - 3 * (p.decay == "constant") - 2 * abs(p.knob - 2)

        tried, ended = self.search(score, self.KNOB, start=tune.Point(knob=0))
        self.assertTrue(ended)
        self.assertEqual(tune.best_of(tried), tune.Point(-4, "linear", 2))

    def test_the_budget_is_the_same_for_all_and_its_end_is_told(self):
        tried, ended = self.search(lambda p: p.half_octaves, budget=5)
        self.assertEqual((len(tried), ended), (5, False))
        _, lines = tune.report("mine", tried, ended, None, 0.1)
        self.assertIn("not all of its neighbours were tried", lines[0])
        self.assertTrue(any("not tried" in line for line in lines[1:]))

    def test_best_and_neighbours_are_a_row(self):
        tried, ended = self.search(lambda p: 0.8 - 0.01 * abs(p.half_octaves) - 0.1 * (p.decay != "constant"))
        data, _ = tune.report("mine", tried, ended, None, 0.1)
        lines = list(tune.table_of([{**data, "epochs": 1, "seeds": [101], "budget": 16}]))
        self.assertIn("`bench/study.py tune --epochs 1 --seeds 1 --budget 16`", lines[0])
        row = [cell.strip() for cell in lines[-1].strip("|").split("|")]
        self.assertEqual(row[:3], ["mine", "lr 0.1, constant", "80.00"])
        self.assertIn("lr 0.2, constant: 78.00; lr 0.05, constant: 78.00; lr 0.1, linear: 70.00", row[3])
        self.assertEqual(row[4], "6")

    def test_no_time_ends_a_search(self):
        self.assertEqual(self.search(lambda p: None), ({}, False))

    def test_a_score_that_is_no_number_is_the_worst(self):
        tried, _ = self.search(lambda p: math.nan if p.half_octaves > 0 else -abs(p.half_octaves))
        self.assertEqual(tune.best_of(tried).half_octaves, 0)

    def test_momentum_moves_with_the_rate(self):
        dgc = tune.KNOBS["dgc"]
        start = tune.Point(knob=dgc.values.index(0.9))
        moved = tune.moved_with(dgc, start, dgc.values.index(0.5))
        self.assertEqual(tune.settings_at(moved, dgc, 0.1), ({"lr": 0.4, "decay": "constant"}, {"memory": "dgc:0.5"}))
        gamma = tune.moved_with(self.KNOB, tune.Point(knob=0), 1)
        self.assertEqual(gamma.half_octaves, 0)

    def test_a_recipe_begins_at_its_own_settings(self):
        own = cells.settings_of(SPARSE, epochs=1, seed=1)
        knob = tune.knob_of("sparse", SPARSE)
        start = tune.start_of(knob, SPARSE, own)
        self.assertEqual(tune.settings_at(start, knob, own["lr"]), ({"lr": 0.3, "decay": "constant", "momentum": 0}, {}))
        choco = {**GOSSIP, "mixer": "choco:0.2,fresh"}
        knob = tune.KNOBS["choco-topk"]
        self.assertEqual(knob.values[tune.start_of(knob, choco, own).knob], 0.2)
        noloco = {**GOSSIP, "mixer": "noloco"}
        self.assertEqual(tune.KNOBS["noloco"].values[tune.start_of(tune.KNOBS["noloco"], noloco, own).knob], 0.7)  # the outer rate, not the momentum
        dgc = {**SPARSE, "memory": "dgc"}
        self.assertEqual(tune.KNOBS["dgc"].values[tune.start_of(tune.KNOBS["dgc"], dgc, own).knob], 0.9)

    def test_tuning_uses_no_seed_of_the_tables(self):
        self.assertGreater(tune.FIRST_SEED, 100)  # the most --seeds allows


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def runner(self, train, **others):
        runner = cells.Runner(cells.Cells(self.folder), "laconic", lambda text: None, train=train, **others)
        runner.version = "test"
        return runner

    def test_what_is_there_is_not_run_again(self):
        runs = []

        def train(settings, program):
            runs.append(settings["seed"])
            return result(0.8)

        for _ in range(2):
            for seed in (1, 2):
                cell = self.runner(train).run(cells.settings_of(SPARSE, epochs=1, seed=seed), "sparse", 1)
                self.assertEqual(cell["result"]["accuracy"], 0.8)
        self.assertEqual(runs, [1, 2])

    def test_every_setting_makes_another_cell_and_a_name_does_not(self):
        base = cells.key_of(cells.settings_of(SPARSE, epochs=1, seed=1))
        self.assertEqual(cells.key_of(cells.settings_of({**SPARSE, "name": "other", "summary": "x"}, epochs=1, seed=1)), base)
        for change in ({"epochs": 3}, {"seed": 2}, {"validation": 5000}, {"split": "classes:2"}, {"lr": 0.1}, {"decay": "linear"}, {"momentum": 0.5},
                       {"workers": 8}, {"batch": 16}, {"optimizer": "adamw"}, {"model": "perceptron"}):  # fmt: skip
            self.assertNotEqual(cells.key_of(cells.settings_of(SPARSE, **{"epochs": 1, "seed": 1, **change})), base, change)
        for member in cells.METHOD:
            other = {**SPARSE, member: "other"}
            self.assertNotEqual(cells.key_of(cells.settings_of(other, epochs=1, seed=1)), base, member)

    def test_all_that_a_recipe_says_reaches_its_run(self):
        said = {**SPARSE, "delay": 30, "fragments": 3, "overlap": 5, "merge": 0.5}
        method = cells.settings_of(said, epochs=1, seed=1)["method"]
        self.assertEqual(method, {key: value for key, value in said.items() if key not in cells.TOLD})
        whole = cells.settings_of({**SPARSE, "fragments": 1, "overlap": 0, "merge": 0.0}, epochs=1, seed=1)
        self.assertEqual(cells.key_of(whole), cells.key_of(cells.settings_of(SPARSE, epochs=1, seed=1)))
        with self.assertRaisesRegex(Trouble, "recipe 'sparse' has 'newer'"):
            cells.settings_of({**SPARSE, "newer": 1}, epochs=1, seed=1)

    def test_a_line_that_a_kill_has_torn_is_run_again_and_harms_no_other(self):
        first, second = (cells.settings_of(SPARSE, epochs=1, seed=seed) for seed in (1, 2))
        train = lambda settings, program: result(settings["seed"] / 10)  # noqa: E731
        self.runner(train).run(first, "sparse", 2)
        path = os.path.join(self.folder, "cells.jsonl")
        with open(path, "rb") as file:
            whole = file.read()
        with open(path, "ab") as file:
            file.write(whole[: len(whole) // 2])
        self.assertEqual(self.runner(train).run(second, "sparse", 1)["result"]["accuracy"], 0.2)
        there = cells.Cells(self.folder)
        self.assertEqual([there.get(settings)["result"]["accuracy"] for settings in (first, second)], [0.1, 0.2])

    def test_two_studies_see_each_other(self):
        one, other = cells.Cells(self.folder), cells.Cells(self.folder)
        settings = cells.settings_of(DENSE, epochs=1, seed=1)
        self.assertIsNone(other.get(settings))
        one.add(settings, result(0.5), 1, "test")
        self.assertEqual(other.get(settings)["result"]["accuracy"], 0.5)

    def test_no_run_begins_that_would_end_too_late(self):
        def never(settings, program):
            raise AssertionError("it was run")

        self.assertIsNone(self.runner(never, until=0).run(cells.settings_of(DENSE, epochs=1, seed=1), "dense", 1))


class Tables(unittest.TestCase):
    def setUp(self):
        self.cells = cells.Cells(self.enterContext(tempfile.TemporaryDirectory()))

    def add(self, recipe, seed, accuracy, **others):
        self.cells.add(cells.settings_of(recipe, epochs=1, seed=seed), result(accuracy, **others), 1, "test")

    def rows(self):
        lines = list(page.recipe_table(self.cells, KNOWN, 1, 5, "the command"))
        self.assertTrue(lines[0].startswith("`the command`"))
        self.after = "\n".join(line for line in lines[1:] if not line.startswith("|")).strip()
        shown = [line for line in lines[4:] if line.startswith("|")]
        return {row[0]: row for row in ([cell.strip() for cell in line.strip("|").split("|")] for line in shown)}

    def test_recipes_that_were_not_run_are_named_below(self):
        self.add(SPARSE, 1, 0.85)
        rows = self.rows()
        self.assertEqual(list(rows), ["sparse"])
        self.assertEqual(self.after, "Not run: dense, dpsgd.")
        self.assertEqual(rows["sparse"][1:4], ["85.00", "1", ""])  # nothing to compare with
        self.add(DENSE, 1, 0.86)
        self.assertEqual(list(self.rows()), ["dense", "sparse"])
        self.assertEqual(self.after, "Not run: dpsgd.")

    def test_a_row_tells_mean_interval_difference_and_bytes(self):
        for seed, (plain, sparse) in enumerate([(0.86, 0.85), (0.88, 0.86)], start=1):
            self.add(DENSE, seed, plain)
            self.add(SPARSE, seed, sparse, residual_norm=2)
        row = self.rows()["sparse"]
        half = 12.7062 * 0.005 * 100
        self.assertEqual(row[1:4], [f"85.50 ± {half:.2f}", "2", f"-1.50 ± {half:.2f}"])
        # 2 x lr 0.3 / 10: what is owed in units of the model.
        self.assertEqual(row[4:], ["40.0x", "1000 B", "468", "0.060", "lr 0.3, momentum 0"])

    def test_gossip_is_compared_with_gossip(self):
        self.add(DENSE, 1, 0.9)
        self.add(GOSSIP, 1, 0.8)
        row = self.rows()["dpsgd"]
        self.assertEqual((row[1], row[3], row[8]), ("80.00 (79.00)", "", "lr 0.05, momentum 0.9, 8 x 16"))

    def test_a_few_rows_stand_for_the_whole_table(self):
        others = {name: {**SPARSE, "op": f"topk:0.{i}"} for i, name in enumerate(("topk-natural", "randomk"), start=1)}
        for recipe in (DENSE, *others.values()):
            self.add(recipe, 1, 0.86)
        lines = list(page.recipe_table(self.cells, {**KNOWN, **others}, 1, 1, "the command", few=True))
        self.assertIn("1 seed, 2 of 3 runs made.", lines[0])
        self.assertEqual(lines[2], "| recipe | accuracy, % | seeds | points | ratio | traffic |")
        self.assertEqual([line.split(" | ")[0] for line in lines[4:6]], ["| dense", "| topk-natural"])
        self.assertEqual(lines[6:], ["", "Not run: dpsgd."])

    def test_few_names_recipes_that_there_are(self):
        with open(os.path.join(study.ROOT, "laconic", "recipes", "built_in.cpp"), encoding="utf-8") as file:
            text = file.read()
        for name in page.FEW:
            self.assertIn(f'.name = "{name}"', text)

    def test_rounds_and_debts_of_local_steps(self):
        local = {**SPARSE, "delay": 10, "training": {**BARE["training"], "optimizer": "adamw", "lr": 0.001}}
        settings = cells.settings_of(local, epochs=1, seed=1)
        self.assertEqual(page.rounds_of(settings, 468), 47)
        self.assertAlmostEqual(page.owed(settings, result(0.5, residual_norm=2)), 0.2)
        self.assertNotIn("momentum", settings)
        self.assertIsNone(page.owed(settings, result(0.5)))

    def test_text_goes_between_its_marks_alone(self):
        text = "a\n<!-- table one -->\nold\n<!-- end one -->\nb\n"
        self.assertEqual(pages.between(text, "table one", "new\n"), "a\n<!-- table one -->\nnew\n<!-- end one -->\nb\n")
        self.assertIsNone(pages.between(text, "table two", "new"))

    def test_the_pages_have_their_places(self):
        for path, names in ((study.README, ("recipes-1", "recipes-3")), (study.METHODS, ("recipes-1", "recipes-3", "tune", *(f"skew-{model}" for model in skew.MODELS)))):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            for name in names:
                self.assertIsNotNone(pages.between(text, f"table {name}", ""), name)

    def test_bytes_are_told_in_three_digits(self):
        told = [cells.bytes_text(count) for count in (153, 1010 * 1024, 34.04 * 1024, 2.466 * 1024**2)]
        self.assertEqual(told, ["153 B", "1010 KiB", "34 KiB", "2.47 MiB"])


class Skew(unittest.TestCase):
    def found(self, **by_name):
        return {name: {"best": tune.Point(), "tried": {tune.Point(): 0.5}, "ended": True,
                       "cells": {seed: {"result": result(value)} for seed, value in enumerate(values, start=1)}}
                for name, values in by_name.items()}  # fmt: skip

    def test_the_verdict_follows_the_interval(self):
        found = self.found(ef21=[0.5, 0.6, 0.7], econtrol=[0.6, 0.71, 0.8], feedback=[0.4, 0.49, 0.6])
        self.assertIn("**shown**", skew.verdict("econtrol", found))
        self.assertIn("**refuted**", skew.verdict("feedback", found))
        found = self.found(ef21=[0.5, 0.6], econtrol=[0.6, 0.55])
        self.assertIn("neither shown nor refuted", skew.verdict("econtrol", found))
        self.assertIn("not run", skew.verdict("econtrol", self.found(ef21=[0.5], econtrol=[0.6])))

    def test_only_the_memory_differs(self):
        known = {"topk-natural": SPARSE}
        all_settings = [skew.settings_at(known, name, tune.Point(knob=0 if knob else -1), 1, skew.Plan()) for name, knob in skew.MEMORIES.items()]
        self.assertEqual([settings["method"].pop("memory") for settings in all_settings], ["ef21", "ef21:momentum=0.01", "econtrol:0.01", "feedback"])
        self.assertEqual(all_settings[0]["split"], "classes:2")
        self.assertTrue(all(settings == all_settings[0] for settings in all_settings))

    def test_a_study_without_time_has_its_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            runner = cells.Runner(cells.Cells(folder), "laconic", lambda text: None, until=0)
            found = skew.study(runner, {"topk-natural": SPARSE}, skew.Plan())
        lines = list(skew.skew_lines(found, skew.Plan()))
        self.assertEqual(sum("not run" in line for line in lines), len(skew.MEMORIES))

    def test_rates_and_numbers_are_chosen_and_then_run(self):
        def train(settings, program):
            near = abs(math.log2(settings["lr"] / 0.2)) + (settings["method"]["memory"] != "econtrol:0.03")
            return result(0.5 - 0.01 * near + (0.1 if settings["validation"] == 0 else 0))

        with tempfile.TemporaryDirectory() as folder:
            runner = cells.Runner(cells.Cells(folder), "laconic", lambda text: None, train=train)
            runner.version = "test"
            found = skew.study(runner, {"topk-natural": SPARSE}, skew.Plan(seeds=2))
        lines = list(skew.skew_lines(found, skew.Plan(seeds=2)))
        self.assertTrue(found["econtrol"]["ended"])
        self.assertIn("| `econtrol:0.03`, lr 0.2 | 60.00 ± 0.00 | 2 | +1.00 ± 0.00 |", "\n".join(lines))


class Mistakes(unittest.TestCase):
    def refused(self, *words, program=None):
        more = ["--program", program] if program else []
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, PROGRAM, *words, "--out", folder, *more], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("Traceback", done.stderr)
        return done.stderr.strip().splitlines()[-1]

    def test_each_gets_one_sentence(self):
        self.assertIn("'/nowhere' cannot be run", self.refused("table", program="/nowhere"))
        self.assertIn("'0' is not allowed: 1 to 100", self.refused("table", "--seeds", "0"))
        self.assertIn("'fast' is not allowed", self.refused("tune", "--for", "fast"))
        self.assertIn("invalid choice: 'guess'", self.refused("guess"))

    def test_recipes_that_are_none(self):
        with self.assertRaisesRegex(Trouble, "no recipe 'fast'; known: dense sparse dpsgd"):
            cells.find_recipe(KNOWN, "fast")
        with self.assertRaisesRegex(Trouble, "'/nowhere.json' cannot be read"):
            cells.find_recipe(KNOWN, "/nowhere.json")

    def test_a_folder_that_cannot_be(self):
        with self.assertRaisesRegex(Trouble, "folder '/dev/null/cells' cannot be made"):
            cells.Cells("/dev/null/cells")

    def test_help_names_the_verbs(self):
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown), self.assertRaises(SystemExit):
            study.parser().parse_args(["--help"])
        for verb in ("table", "tune", "skew"):
            self.assertIn(f"bench/study.py {verb}", shown.getvalue())


if __name__ == "__main__":
    unittest.main()
