"""laconic train and laconic compare as a user runs them, on Fashion-MNIST with a small network.

    cli_train_test.py LACONIC
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy

LACONIC = os.path.abspath(sys.argv.pop(1))
SMALL = ["--model", "perceptron", "--workers", "2", "--batch", "16"]


def run(*args, **options):
    return subprocess.run([LACONIC, *args], capture_output=True, text=True, timeout=120, **options)


class TrainerTest(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.out = os.path.join(self.folder, "run")

    def ok(self, *args):
        result = run(*args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def refused(self, status, why, *args):
        result = run(*args)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertIn(why, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)


class BenchTraining(TrainerTest):
    FEW = ["--rounds", "2", "--steps", "2", "--warm", "1", *SMALL]

    def test_variants_take_turns(self):
        variants = ["alone", "barrier", "dense", "natural exchange=sharded guard=report"]
        words = [word for variant in variants for word in ("--variant", variant)]
        lines = [json.loads(line) for line in self.ok("bench", "training", *words, *self.FEW, "--json").splitlines()]
        self.assertEqual([(line["round"], line["variant"]) for line in lines], [(r, v) for r in (0, 1) for v in variants])
        for line in lines:
            self.assertEqual(len(line["step_seconds"]), 2)
            self.assertGreaterEqual(line["seconds"], sum(line["step_seconds"]) * 0.99)
            self.assertEqual(line["bytes"] == 0, line["variant"] == "alone")
            self.assertEqual(line["exposed_seconds"] == 0, line["variant"] == "alone")
            self.assertEqual(line["lanes"], ["recipe"] * 2)
        shown = self.ok("bench", "training", *words, *self.FEW)
        self.assertRegex(shown, r"2 ranks x 16 images, 2 rounds of 2 steps, transport threads\n")
        self.assertRegex(shown, r"\nalone +\d+\.\d +0\.0 +\d+ +0 +1\.000\n")
        self.assertRegex(shown, r"\nnatural exchange=sharded guard\.\. [^\n]+ \d\.\d{3} +\d+\.\d\d %\n")

    def test_what_is_no_variant_gets_a_sentence(self):
        self.refused(2, "no recipe 'fast'", "bench", "training", "--variant", "fast", *self.FEW)
        self.refused(2, "'speed=high' is not known; allowed: ", "bench", "training", "--variant", "dense speed=high", *self.FEW)
        self.refused(2, "a variant without a word", "bench", "training", "--variant", "", *self.FEW)
        self.refused(2, "--seconds -1; allowed: 0 and more", "bench", "training", "--seconds", "-1", *self.FEW)
        self.refused(2, "no guard 'maybe'", "bench", "training", "--variant", "natural guard=maybe", *self.FEW)


class Train(TrainerTest):
    def test_images_may_be_split_by_label_and_held_out(self):
        few = ("train", "--recipe", "natural", "--steps", "4", "--json", *SMALL)
        plain, skewed = self.ok(*few), self.ok(*few, "--split", "classes:2")
        last = [json.loads(text.splitlines()[-1]) for text in (plain, skewed)]
        self.assertNotEqual(last[0]["loss"], last[1]["loss"])
        held = json.loads(self.ok(*few, "--validation", "500").splitlines()[-1])
        self.assertNotEqual(held["accuracy"], last[0]["accuracy"])
        self.assertAlmostEqual(held["accuracy"] * 500, round(held["accuracy"] * 500), places=6)
        self.refused(2, "no split 'label'", *few, "--split", "label")
        self.refused(2, "validation 60000", *few, "--validation", "60000")

    def test_leaves_metrics_checkpoint_and_model(self):
        shown = self.ok("train", "--recipe", "natural", "--steps", "20", *SMALL, "--out", self.out)
        self.assertIn("after 20 steps, ratio 3.5", shown)
        self.assertEqual(
            sorted(os.listdir(self.out)), ["checkpoint.lac", "metrics.jsonl", "model.lac"]
        )
        with open(f"{self.out}/metrics.jsonl") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([line["step"] for line in lines], list(range(0, 21, 2)))
        keys = (
            "step epoch loss accuracy wire_bytes traffic_bytes dense_bytes seconds exposed_seconds"
        )
        self.assertLessEqual(set(keys.split()), set(lines[-1]))
        self.assertEqual(lines[-1]["dense_bytes"], 20 * 4 * 25450)
        self.ok("inspect", f"{self.out}/model.lac")

    def test_a_trace_says_where_the_time_of_each_step_went(self):
        self.refused(2, "a trace of all steps needs an output folder", "train", "--steps", "2", *SMALL, "--trace")
        train = ["train", "--recipe", "natural", "--guard", "on", *SMALL, "--out", self.out, "--trace", "--steps", "6"]
        self.ok(*train)
        with open(f"{self.out}/steps.jsonl") as file:
            steps = [json.loads(line) for line in file]
        self.assertEqual([step["step"] for step in steps], list(range(6)))
        for step in steps:
            whole = step["compute"] + sum(step["parts"]) + step["vote"] + step["update"]
            self.assertAlmostEqual(step["seconds"], whole, delta=0.05 * step["seconds"])
            self.assertEqual(sum(unit["bytes"] for unit in step["units"]), 4 * 25450)
            self.assertGreater(step["bytes"], 0)
        with open(f"{self.out}/report.html") as file:
            data = file.read().partition('id="report">')[2].partition("</script>")[0]
        page = json.loads(data)
        self.assertEqual((page["kind"], page["recipe"], page["steps"]), ("run", "natural", steps))
        self.assertEqual(page["decisions"][0]["why"], "the recipe's own comes first")
        self.assertEqual(page["command"], " ".join(["laconic", *train]))

    def test_json_lines_on_stdout(self):
        shown = self.ok("train", "--recipe", "dense", "--steps", "4", *SMALL, "--json")
        self.assertEqual([json.loads(line)["step"] for line in shown.splitlines()], [0, 1, 2, 3, 4])

    def test_own_recipe_from_json_and_from_options(self):
        path = f"{self.folder}/mine.json"
        with open(path, "w") as file:
            json.dump(
                {"name": "mine", "op": "natural:8", "rules": ["max_rank=1,op=identity"]}, file
            )
        self.assertIn("mine:", self.ok("train", "--recipe", path, "--steps", "3", *SMALL))
        self.ok(
            "train",
            "--op",
            "half",
            "--memory",
            "feedback",
            "--layout",
            "whole",
            "--steps",
            "3",
            *SMALL,
        )

    def last_line(self, text, *args):
        shown = self.ok("train", *text.split(), *SMALL, "--json", *args)
        return json.loads(shown.splitlines()[-1])

    def test_local_steps_send_once_a_round(self):
        every = self.last_line("--op natural --exchange gather --steps 6")
        rarely = self.last_line("--op natural --exchange gather --steps 6 --delay 3")
        self.assertEqual(every["dense_bytes"], rarely["dense_bytes"])
        self.assertAlmostEqual(every["wire_bytes"] / rarely["wire_bytes"], 3, delta=0.1)
        outer = self.last_line("--exchange dense --steps 4 --delay 2 --outer nesterov:0.9,0.7")
        self.assertGreater(outer["accuracy"], 0)

    def test_gossip_tells_of_the_workers_too(self):
        last = self.last_line("--mixer dpsgd --topology ring --steps 3")
        self.assertNotEqual(last["worker_accuracy"], last["accuracy"])
        shown = self.ok("train", "--recipe", "powergossip", "--steps", "3", *SMALL)
        self.assertIn("(workers ", shown)

    def test_both_directions_are_counted(self):
        last = self.last_line("--recipe natural-bidirectional --steps 2")
        self.assertGreater(last["up_bytes"], 0)
        self.assertGreater(last["down_bytes"], 0)

    def test_recipes_bring_what_they_were_tuned_with(self):
        shown = self.ok("train", "--recipe", "dgc", "--steps", "2", *SMALL)  # momentum 0
        self.assertIn("dgc:", shown)
        path = f"{self.folder}/decays.json"
        with open(path, "w") as file:
            json.dump({"name": "decays", "training": {"decay": "linear"}}, file)
        own, linear, constant = (
            self.last_line(f"--recipe {path} --steps 4", *more)["test_loss"]
            for more in ([], ["--decay", "linear"], ["--decay", "constant"])
        )
        self.assertEqual(own, linear)
        self.assertNotEqual(own, constant)
        with open(path, "w") as file:
            json.dump({"name": "decays", "training": {"decay": "fast"}}, file)
        self.refused(2, "no decay 'fast'; known: constant cosine linear", "train", "--recipe", path, *SMALL)
        self.refused(
            2, "carries the momentum itself", *"train --recipe dgc --momentum 0.9".split(), *SMALL
        )

    def test_a_rule_that_fits_no_tensor_is_refused_before_a_step(self):
        why = "rule 'name=fc9.*,op=half' fits no tensor of the model, which has fc1.weight (32, 784), fc1.bias (32,), "
        self.refused(2, why, "train", "--rule", "name=fc9.*,op=half", "--steps", "2", *SMALL)
        mine = f"{self.folder}/mine.json"
        for rule, fits in (("name=fc9.*,op=half", False), ("name=fc9.*,optional=on,op=half", True)):
            with open(mine, "w") as file:
                json.dump({"name": "mine", "rules": [rule]}, file)
            args = ["compare", "--recipes", f"dense,{mine}", "--report", "", "--steps", "2", *SMALL]
            self.ok(*args) if fits else self.refused(2, why, *args)

    def test_threads_are_obeyed_and_change_nothing(self):
        one = self.last_line("--recipe natural-feedback --steps 3")
        two = self.last_line("--recipe natural-feedback --steps 3", "--threads", "2")
        self.assertEqual(one["test_loss"], two["test_loss"])
        for command in ("train", "compare"):
            self.refused(
                2, "5000 threads; allowed: 1 to 1024", command, "--threads", "5000", *SMALL
            )

    def test_goes_on_with_other_workers(self):
        args = ["train", "--recipe", "natural-feedback", "--model", "perceptron", "--steps", "8"]
        args += ["--batch", "16", "--out", self.out, "--resume", "--workers"]
        self.ok(*args, "2")
        result = run(*args, "3")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("laconic: the run had 2 workers and goes on with 3; what was", result.stderr)

    def test_interrupted_and_resumed_is_the_same_model(self):
        straight = f"{self.folder}/straight"
        # Forty evaluations of half a kilobyte are more than a pipe holds: it cannot end before they are read.
        args = ["train", "--recipe", "natural-feedback", "--steps", "400", *SMALL, "--evaluate-every", "10", "--json", "--out"]
        self.ok(*args, straight)
        process = subprocess.Popen(
            [LACONIC, *args, self.out], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pipesize=4096
        )
        for _ in range(3):
            self.assertTrue(process.stdout.readline())
        for _ in range(2):  # as timeout(1) does: to the process, then to its group
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)  # a script must not take it for a run that has ended
        self.assertIn("of 400 steps; the same command with --resume goes on from there", errors)
        self.assertEqual(errors.count("\n"), 1)
        self.assertEqual(sorted(os.listdir(self.out)), ["checkpoint.lac", "metrics.jsonl"])
        self.ok(*args, self.out, "--resume")
        with open(f"{straight}/model.lac", "rb") as a, open(f"{self.out}/model.lac", "rb") as b:
            self.assertEqual(a.read(), b.read())

    def stopped(self, number, *args):
        with subprocess.Popen([LACONIC, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            self.assertTrue(process.stdout.readline())
            process.send_signal(number)
            output, errors = process.communicate(timeout=60)
        return process.returncode, output, errors

    def test_a_run_that_is_stopped_says_what_is_kept(self):
        args = ["train", "--recipe", "dense", "--steps", "1000000", *SMALL, "--evaluate-every", "100", "--json"]
        code, _, errors = self.stopped(signal.SIGTERM, *args)
        self.assertEqual(code, 143, errors)
        self.assertIn("of 1000000 steps; nothing of it is kept without --out FOLDER\n", errors)

    def test_a_comparison_that_is_stopped_shows_what_was_finished(self):
        args = ["compare", "--recipes", "dense,natural", "--seeds", "1000", "--report", "", "--steps", "20", *SMALL]
        code, output, errors = self.stopped(signal.SIGINT, *args)
        self.assertEqual(code, 130, errors)
        self.assertIn("laconic: stopped; what was finished is shown; laconic train --out FOLDER keeps", errors)
        self.assertIn("ratio", output)

    def test_recorded_gradients_are_named_arrays(self):
        self.ok(
            "train",
            "--recipe",
            "dense",
            "--steps",
            "3",
            *SMALL,
            "--out",
            self.out,
            "--record",
            "0,2",
        )
        with numpy.load(f"{self.out}/gradients-step-2.npz") as arrays:
            shapes = {name: arrays[name].shape for name in arrays}
            self.assertTrue(all(numpy.isfinite(arrays[name]).all() for name in arrays))
        expected = {
            "fc1.weight": (32, 784),
            "fc1.bias": (32,),
            "fc2.weight": (10, 32),
            "fc2.bias": (10,),
        }
        self.assertEqual(shapes, expected)

    def test_mistakes(self):
        self.refused(2, "no model 'resnet'", "train", "--model", "resnet", "--recipe", "dense")
        self.refused(
            2, "0 workers; allowed: 1 to 256", "train", "--workers", "0", "--recipe", "dense"
        )
        self.refused(
            2, "no data set 'imagenet'", "train", "--data", "imagenet", "--recipe", "dense"
        )
        self.refused(2, "no train-images", "train", "--data", self.folder, "--recipe", "dense")
        self.refused(2, "no recipe 'natrual'", "train", "--recipe", "natrual")
        self.refused(2, "no recipe ''", "train", "--recipe", "", "--steps", "2")
        self.refused(2, "no operator 'natrual'", "train", "--op", "natrual", "--steps", "2")
        for words in ("--resume", "--checkpoint-every 1"):
            self.refused(2, "output folder", "train", "--steps", "2", *SMALL, *words.split())
        self.refused(2, "--topology ring without a mixer", "train", "--topology", "ring", "--steps", "2", *SMALL)
        self.refused(2, "learning rate", "train", "--lr", "-1", "--recipe", "dense")
        for steps in ("-1", "0", "99999999999999999999"):
            self.refused(2, f"--steps: Value {steps} not in range 1 to", "train", "--steps", steps, *SMALL)
        self.refused(2, "epochs 0.000000; allowed: above 0", "train", "--epochs", "0", *SMALL)
        self.refused(2, "batches of 0 images; allowed: 1 and more", "train", "--steps", "3", "--batch", "0")
        for option in ("--warmup", "--seed", "--evaluate-every", "--checkpoint-every", "--bucket-bytes", "--record"):
            self.refused(2, f"{option}: -1 is not allowed", "train", "--steps", "3", *SMALL, option, "-1")
        most = str(2**64 - 1)
        self.refused(2, f"a warm-up of {most} steps", "train", "--steps", "3", *SMALL, "--warmup", most)
        self.refused(2, "no outer optimiser 'adam'", "train", "--outer", "adam", *SMALL)
        self.refused(2, "no mixer 'gossip'", "train", "--mixer", "gossip", *SMALL)
        self.refused(
            2, "no topology 'rnig'", *"train --mixer dpsgd --topology rnig".split(), *SMALL
        )
        self.refused(
            2, "a graph of 5 ranks", *"train --mixer dpsgd --topology ring:5".split(), *SMALL
        )
        self.refused(2, "must be left out", *"train --mixer dpsgd --outer momentum".split(), *SMALL)
        self.refused(
            2,
            "cannot be recorded",
            "train",
            "--steps",
            "3",
            "--record",
            "3",
            "--out",
            self.out,
            *SMALL,
        )
        self.assertFalse(os.path.exists(self.out))

    def test_a_run_that_is_there_is_not_overwritten(self):
        args = ["train", "--recipe", "dense", "--steps", "3", *SMALL, "--out", self.out]
        self.ok(*args)
        self.refused(2, "holds a run already", *args)
        self.refused(2, "has lr 0.05, not 0.3\n", *args, "--resume", "--lr", "0.3")
        other = ["--recipe", "topk-natural"]
        self.refused(2, 'has recipe "dense", not "topk-natural"\n', "train", *args[3:], *other, "--resume")

    def test_two_runs_do_not_write_to_one_folder(self):
        args = ["train", "--recipe", "dense", *SMALL, "--evaluate-every", "1000000", "--out", self.out, "--steps"]
        first = subprocess.Popen(
            [LACONIC, *args, "1000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.assertTrue(first.stdout.readline())  # it is training
        before = sorted(os.listdir(self.out))
        for more in ([], ["--resume"]):
            self.refused(2, f"another run is writing to '{self.out}'", *args, "2", *more)
        self.assertEqual(sorted(os.listdir(self.out)), before)
        first.send_signal(signal.SIGKILL)  # the system ends its hold
        first.communicate(timeout=60)
        self.ok(*args, "2")

    @unittest.skipUnless(os.geteuid() == 0, "mounting a small disk needs root")
    def test_full_disk(self):
        disk = f"{self.folder}/disk"
        os.mkdir(disk)
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=False
        )
        if mounted.returncode != 0:
            self.skipTest("a small disk cannot be mounted here")
        with contextlib.ExitStack() as stack:
            stack.callback(subprocess.run, ["umount", disk], check=False)
            self.refused(
                1,
                "No space left",
                "train",
                "--recipe",
                "dense",
                "--steps",
                "3",
                *SMALL,
                "--out",
                f"{disk}/run",
            )
            self.assertEqual(os.listdir(f"{disk}/run"), ["metrics.jsonl"])


class Compare(TrainerTest):
    def test_table_and_page(self):
        page = f"{self.folder}/report.html"
        shown = self.ok(
            "compare",
            "--recipes",
            "dense,natural",
            "--seeds",
            "2",
            "--steps",
            "6",
            *SMALL,
            "--report",
            page,
        )
        self.assertIn("computed for 100mbit,1ms", " ".join(shown.split()))
        self.assertRegex(shown, r"natural +\d+\.\d\d % .* 3\.5\dx")
        with open(page) as file:
            html = file.read()
        self.assertNotIn("@LACONIC_REPORT@", html)
        data = html.split('id="report">', 1)[1].split("</script>", 1)[0]
        report = json.loads(data)
        self.assertEqual([recipe["name"] for recipe in report["recipes"]], ["dense", "natural"])
        self.assertEqual(report["seeds"], [1, 2])
        self.assertEqual(report["command"].split()[:4], ["laconic", "compare", "--recipes", "dense,natural"])
        self.assertIn("--steps 6 --model perceptron", report["command"])

    def test_the_table_is_printed_where_the_page_cannot_be(self):
        words = ["--recipes", "dense", "--steps", "2", *SMALL, "--report", "/dev/full"]
        result = run("compare", *words)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, "laconic: cannot write /dev/full: No space left on device\n")
        self.assertRegex(result.stdout, r"\ndense +\d+\.\d\d %")

    def test_json(self):
        report = json.loads(
            self.ok(
                "compare",
                "--recipes",
                "dense",
                "--seeds",
                "1",
                "--steps",
                "3",
                *SMALL,
                "--report",
                "",
                "--json",
            )
        )
        self.assertEqual(report["parameters"], 25450)

    def test_mistakes(self):
        self.refused(2, "link 'fast'", "compare", "--link", "fast")
        self.refused(2, "0 seeds", "compare", "--seeds", "0")
        nowhere = f"{self.folder}/no/report.html"
        self.refused(1, f"cannot write {nowhere}", "compare", "--report", nowhere, "--steps", "2", *SMALL)
        self.refused(2, "no recipe 'natrual'", "compare", "--recipes", "dense,natrual")


if __name__ == "__main__":
    unittest.main()
