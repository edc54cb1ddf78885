"""Tests of `laconic granularity`: layer-wise against entire-model compression, on files. Run with
the program's path in $LACONIC."""

import json
import unittest

import numpy as np

from cli_case import CliTest

# Worked by hand: layers (8, 4) and (1, 0.5), |x|^2 = 81.25.
SMALL = {"a": np.array([8, 4], "float32"), "b": np.array([1, 0.5], "float32")}


def model(seed=0):
    draw = np.random.default_rng(seed)
    shapes = {"conv.weight": ((8, 3, 3, 3), 0.1), "conv.bias": ((8,), 0.3), "fc": ((40, 100), 0.01)}
    return {name: draw.normal(0, s, shape).astype("float32") for name, (shape, s) in shapes.items()}


class Granularity(CliTest):
    def save_npz(self, name, arrays, save=np.savez):
        save(self.path(name), **arrays)
        return self.path(name)

    def measure(self, op, *args):
        report = json.loads(self.ok("granularity", "--json", "--op", op, *args))
        return report, {layout["layout"]: layout for layout in report["layouts"]}

    def test_top_k_by_hand(self):
        report, layouts = self.measure("topk:0.5", self.save_npz("s.npz", SMALL))
        self.assertAlmostEqual(layouts["tensor"]["error"], 16.25 / 81.25)
        self.assertAlmostEqual(layouts["whole"]["error"], 1.25 / 81.25)
        self.assertEqual((layouts["tensor"]["kept"], layouts["whole"]["kept"]), (2, 2))
        self.assertEqual((layouts["tensor"]["bound"], report["draws"]), (0.5, 1))
        self.assertEqual(report["smaller_error"], "whole")
        self.assertRegex(
            report["verdict"][0], "entire-model has the smaller error: 0.01538 against"
        )
        a, b = report["tensors"]
        self.assertAlmostEqual(a["errors"]["tensor"], 16 / 80)
        self.assertEqual((a["errors"]["whole"], b["errors"]["whole"]), (0, 1))
        self.assertAlmostEqual(a["share"], 80 / 81.25)

    def test_terngrad_by_hand(self):
        source = self.save_npz("s.npz", SMALL)
        report, layouts = self.measure("terngrad", "--draws", 4000, source)
        self.assertAlmostEqual(layouts["tensor"]["error"], 16.25 / 81.25, delta=0.02)
        self.assertAlmostEqual(layouts["whole"]["error"], 26.75 / 81.25, delta=0.03)
        self.assertEqual(report["smaller_error"], "tensor")

    def test_errors_stay_below_bounds(self):
        source = self.save_npz("g.npz", model())
        for op in ["natural", "qsgd:4", "topk:0.1", "sign", "randomk:0.2", "threshold:0.05"]:
            report, layouts = self.measure(op, source)
            for layout in layouts.values():
                self.assertLessEqual(layout["error"], 1.1 * layout["bound"], (op, layout))
            self.assertEqual(report["draws"], 20 if op in "natural qsgd:4 randomk:0.2" else 1)

    def test_what_does_not_depend_on_slices_is_the_same(self):
        source = self.save_npz("g.npz", model())
        for op in ["natural", "threshold:0.05"]:
            report, layouts = self.measure(op, source, "--layout", "split:100")
            self.assertIsNone(report["smaller_error"])
            errors = [layouts[name]["error"] for name in ["tensor", "whole", "split:100"]]
            np.testing.assert_allclose(errors, errors[0], rtol=1e-9)

    def test_files_are_averaged(self):
        files = [self.save_npz(f"{i}.npz", model(i)) for i in range(2)]
        alone = [self.measure("topk:0.1", file)[1]["whole"]["error"] for file in files]
        together = self.measure("topk:0.1", *files)[1]["whole"]["error"]
        self.assertAlmostEqual(together, sum(alone) / 2)

    def test_rules_leave_tensors_dense(self):
        source = self.save_npz("g.npz", model())
        report, layouts = self.measure("topk:0.01", "--rule", "max_rank=1,op=identity", source)
        bias = next(tensor for tensor in report["tensors"] if tensor["name"] == "conv.bias")
        self.assertEqual(bias["errors"], {"tensor": 0, "whole": 0})
        self.assertEqual(layouts["whole"]["slices"], 2)  # the weights together, and the bias

    def test_compressed_archives_and_single_arrays(self):
        plain = self.measure("topk:0.1", self.save_npz("g.npz", model()))[1]
        packed = self.measure("topk:0.1", self.save_npz("p.npz", model(), np.savez_compressed))[1]
        self.assertEqual(plain["whole"]["error"], packed["whole"]["error"])
        report, layouts = self.measure("topk:0.1", self.save(np.arange(10, dtype="float32")))
        self.assertEqual(report["tensors"][0]["name"], "in")
        self.assertEqual(layouts["tensor"]["error"], layouts["whole"]["error"])

    def test_text_fits_and_ends_with_the_verdict(self):
        source = self.save_npz("g.npz", model())
        shown = self.ok("granularity", "--op", "topk:0.1", source, "--layout", "fused:1K")
        self.assertLessEqual(max(map(len, shown.splitlines())), 100)
        self.assertIn("has the smaller error", shown.splitlines()[-1])

    def test_tensors_of_zeros_have_no_error_of_their_own(self):
        source = self.save_npz("z.npz", {"a": np.ones(10, "float32"), "z": np.zeros(5, "float32")})
        report, _ = self.measure("topk:0.5", source)
        self.assertIsNone(report["tensors"][1]["errors"]["tensor"])
        self.ok("granularity", "--op", "topk:0.5", source)

    def test_mistakes_are_explained(self):
        good = self.save_npz("g.npz", model())
        nan = self.save_npz("nan.npz", {"w": np.array([1, np.nan], "float32")})
        zero = self.save_npz("zero.npz", {"w": np.zeros(3, "float32")})
        integers = self.save_npz("int.npz", {"w": np.arange(3)})
        other = self.save_npz("other.npz", SMALL)
        cases = [
            (2, "topk:0.1", [self.path("no.npz")], ["no.npz", "No such file"]),
            (2, "topk:2", [good], ["'2' is not allowed"]),
            (2, "topk:0.1", [good, "--layout", "rows"], ["no layout 'rows'", "split"]),
            (2, "topk:0.1", [good, "--rule", "x=1"], ["rule 'x=1'"]),
            (2, "topk:0.1", [good, "--rule", "name=x,op=half"], ["rule 'name=x,op=half' fits no tensor of the model"]),
            (2, "topk:0.1", [good, "--rule", "rank=2"], ["rule 'rank=2' names a rank, which no frame has"]),
            (2, "topk:0.1", [good, "--draws", 0], ["--draws"]),
            (2, "topk:0.1", [good, other], ["other.npz", "2 tensors", "3"]),
            (2, "topk:0.1", [integers], ["int.npz", "array 'w'", "<i8", "float32"]),
            (3, "topk:0.1", [nan], ["nan.npz", "tensor 'w'", "NaN or Inf"]),
            (3, "topk:0.1", [zero], ["zero.npz", "all entries are 0"]),
        ]
        for code, op, args, says in cases:
            self.fails(code, "granularity", "--op", op, *args, says=says)
        self.fails(2, "granularity", "--op", "topk:0.1", says=["FILE", "--help"])
        whole = good.read_bytes()
        for size in [0, 10, len(whole) // 2, len(whole) - 1]:
            self.path("cut.npz").write_bytes(whole[:size])
            self.fails(3, "granularity", "--op", "sign", self.path("cut.npz"), says=["cut.npz"])


if __name__ == "__main__":
    unittest.main()
