"""Tests of `laconic bench`: what is measured, how it is told, and the comparison with recorded speeds. Run with the program's path
in $LACONIC."""

import json
import unittest

from cli_case import CliTest

QUICK = ["--repeats", 1]


class Operators(CliTest):
    def test_every_registered_example_is_timed_once(self):
        report = json.loads(self.ok("bench", "operators", "--count", 500, *QUICK, "--json"))
        specs = [row["spec"] for row in report["operators"]]
        self.assertEqual(len(specs), len(set(specs)))
        listed = json.loads(self.ok("list", "--json"))
        for name in ("natural", "topk:0.01", "topk:0.1,rice", "sbc:0.01", "chunk", "grid"):
            self.assertIn(name, specs)
        self.assertGreater(len(specs), len(listed["operators"]))

    def test_figures_stand_beside_memory_passes(self):
        report = json.loads(
            self.ok("bench", "operators", "--op", "topk:0.1", "--count", 5000, *QUICK, "--json")
        )
        row = report["operators"][0]
        for verb in ("encode", "feedback", "add", "four", "touch"):
            ratio = row[f"{verb}_seconds"] / report["memcpy_seconds"]
            self.assertAlmostEqual(row[f"{verb}_over_memcpy"], ratio)
            self.assertGreaterEqual(row[f"{verb}_spread"], 0)
        share = report["read_seconds"] / row["encode_seconds"]
        self.assertAlmostEqual(row["encode_share_of_floor"], share)
        self.assertAlmostEqual(
            row["feedback_share_of_floor"], report["mix_seconds"] / row["feedback_seconds"]
        )

    def test_a_curve_over_counts(self):
        args = ["--op", "natural", "--counts", "1000,3000", *QUICK]
        report = json.loads(self.ok("bench", "operators", *args, "--json"))
        self.assertEqual([point["count"] for point in report["curve"]], [1000, 3000])
        self.assertEqual(report["curve"][1]["operators"][0]["bits_per_entry"], 9)
        shown = self.ok("bench", "operators", *args)
        self.assertRegex(shown, r"operator +1 k +3 k\n")
        self.fails(2, "bench", "operators", "--counts", "5,0", says=["--counts"])

    def test_inputs(self):
        for name in ("equal", "zeros", "sorted", "spike", "denormal", "mixed"):
            args = ["--op", "topk:0.01", "--op", "chunk", "--count", 5000, "--input", name, *QUICK]
            report = json.loads(self.ok("bench", "operators", *args, "--json"))
            self.assertEqual(report["input"], name)
        self.fails(2, "bench", "operators", "--input", "nice", says=["nice"])


class Recorded(CliTest):
    OPS = ["--op", "natural", "--op", "topk:0.01"]

    def record(self):
        path = self.path("speed.json")
        self.ok("bench", "operators", *self.OPS, "--count", 20_000, *QUICK, "--record", path)
        return path, json.loads(path.read_text())

    def compare(self, path):
        return ["bench", "operators", *self.OPS, *QUICK, "--against", path]

    def change(self, path, recorded, factor):
        for ratios in recorded["operators"].values():
            for verb in ratios:
                ratios[verb] = ratios[verb] * factor + factor
        path.write_text(json.dumps(recorded))

    def test_what_is_as_fast_passes(self):
        path, recorded = self.record()
        self.assertEqual(set(recorded["operators"]), {"natural", "topk:0.01"})
        self.change(path, recorded, 1000)
        self.assertIn("2 operators", self.ok(*self.compare(path)))

    # 0.05 of a memcpy is the least that counts: natural takes more, whatever the machine does.
    def test_what_has_become_slow_fails(self):
        path, recorded = self.record()
        self.change(path, recorded, 1e-9)
        self.fails(1, *self.compare(path), says=["encode of 'natural' takes", "instead of 0.00"])

    def test_what_was_not_recorded_is_named(self):
        path, recorded = self.record()
        del recorded["operators"]["natural"]
        self.change(path, recorded, 1000)
        self.assertIn("has no 'natural': not compared", self.ok(*self.compare(path)))
        path.write_text("{}")
        self.fails(3, *self.compare(path), says=["no recorded speeds"])


class Others(CliTest):
    def test_codecs(self):
        report = json.loads(self.ok("bench", "codecs", "--count", 20_000, *QUICK, "--json"))
        codes = {row["code"] for row in report["codes"]}
        self.assertLessEqual({"rice", "fano", "bitmap", "omega", "huffman", "fixed"}, codes)
        for row in report["codes"]:
            self.assertGreater(row["write_seconds"], 0)
            self.assertGreater(row["bits_per_number"], 0)
        self.fails(2, "bench", "codecs", "--count", 0, says=["--count"])

    def test_low_rank(self):
        args = ["--rows", 60, "--cols", 90, "--rank", "1,3", *QUICK]
        report = json.loads(self.ok("bench", "low-rank", *args, "--json"))
        self.assertEqual([row["rank"] for row in report["ranks"]], [1, 3])
        for row in report["ranks"]:
            total = sum(product["seconds"] for product in row["products"])
            self.assertAlmostEqual(row["seconds"], total)
        self.fails(2, "bench", "low-rank", "--rows", 0, says=["--rows"])
        self.fails(2, "bench", "low-rank", "--rank", "0", says=["rank of 0"])

    def test_tables_fit_100_columns(self):
        for command in (
            ["codecs", "--count", 2000],
            ["low-rank", "--rows", 50, "--cols", 70],
            ["operators", "--op", "natural", "--counts", "100,1000,2000,3000,4000,5000"],
        ):
            for line in self.ok("bench", *command, *QUICK).splitlines():
                self.assertLessEqual(len(line), 100, line)


if __name__ == "__main__":
    unittest.main()
