"""Tests of `laconic audit`: the bytes of whole models. Run with the program's path in $LACONIC."""

import json
import re
import unittest
from pathlib import Path

import numpy as np

from cli_case import CliTest


class Audit(CliTest):
    def audit(self, *args):
        return json.loads(self.ok("audit", "--json", *args))

    def test_sparse_binary_compression_of_resnet50(self):
        expected = {  # ratio with headers at least, ideal, paper
            "sbc1": (2600, 2784, None),
            "sbc2": (3850, 3947, 3531),
            "sbc3": (38500, 39468, 37208),
        }
        for recipe, (least, ideal, paper) in expected.items():
            with self.subTest(recipe):
                report = self.audit("--recipe", recipe)
                self.assertEqual((report["tensors"], report["count"]), (161, 25_557_032))
                self.assertEqual(report["dense_bytes"], 102_228_128)
                self.assertGreaterEqual(report["ratio"], least)
                self.assertLess(report["ratio"], report["ratio_without_headers"])
                self.assertLess(report["ratio_without_headers"], ideal)
                self.assertAlmostEqual(report["ideal"]["ratio"], ideal, delta=0.5)
                self.assertEqual(report["paper_ratio"], paper)

    def test_readme_has_these_ratios(self):
        readme = (Path(__file__).parents[2] / "README.md").read_text()
        rows = re.findall(r"^\| (sbc\d) \| [^|]+ \| (\d+) \| (\d+) \| (\d*) ?\|$", readme, re.MULTILINE)
        self.assertEqual([name for name, *_ in rows], ["sbc1", "sbc2", "sbc3"])
        for name, *figures in rows:
            report = self.audit("--recipe", name)
            ratios = report["ratio"], report["ideal"]["ratio"], report["paper_ratio"]
            self.assertEqual(figures, ["" if ratio is None else f"{ratio:.0f}" for ratio in ratios])

    def test_sections_add_up(self):
        report = self.audit("--model", "resnet20", "--op", "topk:0.01+natural")
        sections = report["sections"]
        for total, part in [("count", "count"), ("payload_bytes", "payload_bytes")]:
            self.assertEqual(report[total], sum(section[part] for section in sections))
        self.assertEqual(report["kept"], sum(section["kept"] for section in sections))
        headers = sum(section["header_bytes"] for section in sections)
        self.assertLess(headers, report["header_bytes"])
        self.assertEqual(report["wire_bytes"], report["payload_bytes"] + report["header_bytes"])
        ratio = report["dense_bytes"] / report["wire_bytes"]
        self.assertAlmostEqual(report["ratio"], ratio)
        for section in sections:  # a varint, positions, and 9 bits for each
            values = section["payload_bytes"] - section["position_bytes"]
            self.assertEqual(values, section["kept"] + (section["kept"] + 7) // 8)

    def test_formulas_are_kept(self):
        count = 431_080
        for op, bits in {"identity": 32 * count, "natural": 9 * count, "sign": 32 + count}.items():
            report = self.audit("--model", "lenet5", "--layout", "whole", "--op", op)
            self.assertEqual(report["payload_bytes"], bits // 8)
            self.assertEqual(report["formulas"][0]["name"], op)
            self.assertIsNone(report["ideal"])

    def test_delay_and_rules(self):
        once = self.audit("--model", "lenet5", "--op", "sbc:0.01")
        tenth = self.audit("--model", "lenet5", "--op", "sbc:0.01", "--delay", 10)
        self.assertAlmostEqual(tenth["ratio"], 10 * once["ratio"])
        dense = self.audit("--model", "lenet5", "--op", "sbc:0.01", "--rule", "op=identity")
        self.assertIsNone(dense["kept"])
        self.assertLess(dense["ratio"], 1)

    def test_shapes_from_a_file(self):
        np.savez(self.path("g.npz"), a=np.zeros((30, 40)), b=np.zeros(50))
        report = self.audit("--shapes", self.path("g.npz"), "--op", "natural")
        self.assertEqual([section["name"] for section in report["sections"]], ["a", "b"])
        self.assertEqual(report["count"], 1250)

    def test_text_shows_where_bytes_go(self):
        shown = self.ok("audit", "--recipe", "sbc2", "--model", "resnet20")
        for words in ["59 tensors", "independent normal", "ratio with headers", "E = 8.1079"]:
            self.assertIn(words, shown)
        every = self.ok("audit", "--recipe", "sbc2", "--model", "resnet20", "--verbose")
        self.assertIn("layer2.1.bn1.bias", every)

    def test_same_seed_same_answer(self):
        command = ["audit", "--model", "resnet20", "--op", "adaptive", "--json", "--seed"]
        self.assertEqual(self.ok(*command, 1), self.ok("--threads", 2, *command, 1))
        self.assertNotEqual(self.ok(*command, 1), self.ok(*command, 2))

    def test_mistakes_are_explained(self):
        cases = [
            (["--model", "resnet51"], ["no model 'resnet51'", "resnet50"]),
            (["--recipe", "sbc4"], ["no recipe 'sbc4'", "sbc3", "natural"]),
            (["--op", "topkk"], ["no operator 'topkk'"]),
            (["--layout", "half"], ["no layout 'half'", "tensor"]),
            (["--rule", "max=1"], ["rule 'max=1'"]),
            (["--rule", "name=fc9,op=half"], ["rule 'name=fc9,op=half' fits no tensor of the model, which has conv1"]),
            (["--rule", "rank=2"], ["has no rank by tensor; allowed with one: powersgd"]),
            (["--delay", "0"], ["--delay"]),
            (["--op", "sign", "--recipe", "sbc1"], ["--op", "--recipe"]),
            (["--shapes", self.path("no.npz")], ["no.npz", "No such file"]),
        ]
        for args, says in cases:
            self.fails(2, "audit", *args, says=says)
        self.path("bad.npz").write_bytes(b"PK\x03\x04 and nothing else")
        self.fails(3, "audit", "--shapes", self.path("bad.npz"), says=["bad.npz", ".npz"])


if __name__ == "__main__":
    unittest.main()
