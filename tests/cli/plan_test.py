"""Tests of `laconic plan`: forecasts and recipes for one's own model. Run with the program's path in $LACONIC."""

import json
import unittest

import numpy as np

from cli_case import CliTest


class Plan(CliTest):
    def plan(self, *args):
        return json.loads(self.ok("plan", "--json", "--repeats", 1, *args))

    def gradients(self, name="gradients.npz"):
        path = self.path(name)
        random = np.random.default_rng(1)
        scales = {"embed.weight": (0.1, (200, 50)), "a.weight": (3, (100, 50)), "a.bias": (1, (100,))}
        np.savez(path, **{key: (s * random.standard_normal(shape)).astype(np.float32) for key, (s, shape) in scales.items()})
        return path

    def test_best_first_with_baselines_and_commands(self):
        report = self.plan("--model", self.gradients(), "--workers", 4, "--link", "1mbit,1ms", "--compute", 0.01,
                           "--recipes", "natural,topk-natural")  # fmt: skip
        rows = report["recipes"]
        self.assertEqual({row["recipe"] for row in rows}, {"natural", "topk-natural", "dense", "bf16"})
        steps = [row["step_seconds"] for row in rows]
        self.assertEqual(steps, sorted(steps))
        self.assertEqual(rows[0]["recipe"], "topk-natural")
        self.assertIn("--recipe topk-natural --workers 4", rows[0]["command"])
        for row in rows:
            self.assertAlmostEqual(row["step_seconds"], 0.01 + row["exposed_seconds"])

    def test_tables_fit(self):
        out = ["--out", self.path("mine.json")]
        for more in [], ["--adaptive", "topk:0.1", *out], ["--adaptive", "powersgd:4", *out]:
            shown = self.ok("plan", "--model", self.gradients(), "--workers", 10000, "--link", "1kbit,60s", "--compute", 1,
                            "--repeats", 1, *more)  # fmt: skip
            for line in shown.splitlines():
                self.assertLessEqual(len(line), 100, line)
            self.assertIn("laconic train --recipe", shown)

    def test_a_model_as_json(self):
        path = self.path("model.json")
        path.write_text('[{"name": "w", "shape": [300, 20]}, {"name": "b", "shape": [20]}]')
        report = self.plan("--model", path, "--workers", 2, "--recipes", "dense")
        self.assertEqual((report["tensors"], report["parameters"]), (2, 6020))
        self.assertTrue(report["compute_estimated"])
        self.assertIn("drawn", report["gradients"])

    def test_an_adaptive_recipe_keeps_its_budget_and_is_a_recipe(self):
        out = self.path("mine.json")
        report = self.plan("--model", self.gradients(), "--workers", 4, "--compute", 0.1, "--recipes", "dense",
                           "--adaptive", "topk:0.1", "--bytes", 4000, "--out", out)  # fmt: skip
        chosen = report["adaptive"]["chosen"]
        self.assertLessEqual(chosen["bytes"], 4000)
        self.assertEqual(json.loads(out.read_text()), chosen["recipe"])
        again = self.plan("--model", self.gradients(), "--workers", 4, "--compute", 0.1, "--recipes", out)
        self.assertIn("planned", [row["recipe"] for row in again["recipes"]])

    def test_a_rank_for_each_tensor_is_a_recipe(self):
        out = self.path("mine.json")
        report = self.plan("--model", self.gradients(), "--workers", 4, "--compute", 0.1, "--recipes", "dense",
                           "--adaptive", "powersgd:4", "--bytes", 9000, "--out", out)  # fmt: skip
        chosen = report["adaptive"]["chosen"]
        self.assertLessEqual(chosen["bytes"], 9000)
        self.assertLess(chosen["error"], report["adaptive"]["layer_wise"]["error"])
        self.assertEqual(json.loads(out.read_text()), chosen["recipe"])
        again = self.plan("--model", self.gradients(), "--workers", 4, "--compute", 0.1, "--recipes", out)
        rows = {row["recipe"]: row for row in again["recipes"]}
        self.assertGreater(rows["planned"]["over_dense"], 0)

    def test_workers_that_share_cores_wait_for_all_kernels(self):
        args = ["--model", self.gradients(), "--workers", 8, "--link", "1gbit", "--compute", 0.01, "--recipes", "grid"]
        report = self.plan(*args, "--cores", 2)
        self.assertEqual(report["cores"], 2)
        self.assertIsNone(self.plan(*args)["cores"])
        for row in report["recipes"]:
            self.assertGreaterEqual(row["exposed_seconds"], 0.999 * 8 / 2 * row["kernel_seconds"], row["recipe"])
        self.assertIn("8 workers that share 2 cores", " ".join(self.ok("plan", *args, "--cores", 2, "--repeats", 1).split()))

    def test_messages_take_of_cores_that_are_shared(self):
        args = ["--model", self.gradients(), "--workers", 4, "--link", "1gbit", "--compute", 0.01, "--recipes", "natural"]
        measured = self.plan(*args, "--cores", 2)["stack"]
        self.assertTrue(1e-7 < measured["message_seconds"] < 1e-2)
        self.assertTrue(0 <= measured["byte_seconds"] < 1e-6)
        self.assertIsNone(self.plan(*args)["stack"])
        free = self.plan(*args, "--cores", 2, "--stack", "0s,0s")["recipes"]
        dear = self.plan(*args, "--cores", 2, "--stack", "1ms,0ns")
        self.assertEqual(dear["stack"], {"message_seconds": 1e-3, "byte_seconds": 0})
        for row in dear["recipes"]:  # on half of a core; kernels of a small model are nothing beside it
            other = next(one for one in free if one["recipe"] == row["recipe"])
            longer = row["exposed_seconds"] - other["exposed_seconds"]
            self.assertAlmostEqual(longer, row["messages_per_step"] * 1e-3 * 2, delta=0.002, msg=row["recipe"])
        shown = " ".join(self.ok("plan", *args, "--cores", 2, "--stack", "7us,0.2ns", "--repeats", 1).split())
        self.assertIn("share 2 cores, of which a message takes 7.0 us and a byte 0.20 ns", shown)

    def test_an_estimate_is_for_cores_that_are_shared(self):
        args = ["--model", self.gradients(), "--workers", 8, "--recipes", "dense"]
        alone, shared = self.plan(*args)["compute_seconds"], self.plan(*args, "--cores", 2)["compute_seconds"]
        self.assertAlmostEqual(shared / alone, 4)

    def test_numbers_that_are_none_are_refused(self):
        for words in ("--compute nan", "--compute -1", "--adaptive topk:0.1 --bytes 0", "--adaptive topk:0.1 --error nan"):
            self.fails(2, "plan", *words.split(), says=["is not allowed; allowed: "])

    def test_mistakes_are_sentences(self):
        broken = self.path("broken.json")
        broken.write_text('[{"name": "w"}]')
        nan = self.path("nan.npz")
        np.savez(nan, w=np.array([np.nan], np.float32))
        for args, says in [
            (["--workers", 1], ["1 workers; allowed: 2 to 10000"]),
            (["--workers", 10001], ["10001 workers"]),
            (["--link", "fast"], ["link 'fast'", "100mbit,1ms"]),
            (["--model", "resnet51"], ["no model 'resnet51'", "resnet50"]),
            (["--model", broken], ["broken.json: a model must be a JSON list"]),
            (["--model", nan], ["nan.npz: it holds NaN or Inf"]),
            (["--model", "lenet5", "--gradients", self.gradients()], ["3 tensors; the model has 8"]),
            (["--recipes", "nothing"], ["no recipe 'nothing'"]),
            (["--adaptive", "sign"], ["no density, levels or bits"]),
            (["--cores", "100001"], ["100001 cores; allowed: 1 to 100000, or 0"]),
            (["--cores", "2", "--stack", "dear"], ["stack 'dear' is not seconds of a core", "6us,0.4ns"]),
            (["--stack", "6us,0.4ns"], ["a stack without 'cores'"]),
            (["--headers", "ipx"], ["headers 'ipx'; allowed: tcp none"]),
            (["--bytes", "100"], ["--adaptive"]),
        ]:
            with self.subTest(args):
                code = 3 if nan in args else 2
                self.fails(code, "plan", *args, says=says)


if __name__ == "__main__":
    unittest.main()
