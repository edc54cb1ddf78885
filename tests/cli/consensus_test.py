"""Tests of `laconic consensus`: workers that start apart. The program's path is in $LACONIC."""

import json
import unittest

from cli_test import CliTest


class Consensus(CliTest):
    def consensus(self, *args):
        return json.loads(self.ok("consensus", "--json", *args))

    def test_plain_gossip_on_the_ring_of_eight(self):
        report = self.consensus("--mixer", "dpsgd", "--gamma", "best", "--rounds", 20)
        self.assertAlmostEqual(report["spectral_gap"], 0.195262, 6)
        self.assertAlmostEqual(report["best_gamma"], 1.308391, 6)
        self.assertAlmostEqual(report["best_contraction"], 0.744521, 6)
        rounds = report["rounds"]
        self.assertEqual([row["round"] for row in rounds], list(range(21)))
        self.assertAlmostEqual(rounds[0]["error"], 1)
        self.assertAlmostEqual((rounds[20]["error"] / rounds[10]["error"]) ** 0.05, 0.7445, 2)
        self.assertEqual(rounds[20]["payload_bytes"], 20 * 2 * 40000)
        self.assertGreater(rounds[20]["traffic_bytes"], rounds[20]["payload_bytes"])

    def test_the_table_has_a_row_per_power_of_two(self):
        shown = self.ok("consensus", "--shape", "6x6", "--rounds", 100)
        rows = [line.split()[0] for line in shown.splitlines() if line[:9].strip().isdigit()]
        self.assertEqual(rows, "0 1 2 4 8 16 32 64 100".split())

    def test_payload_per_worker_does_not_grow_with_workers(self):
        for topologies in ["ring:4 ring:16 ring:64 ring:256", "torus:4x4 torus:8x8 torus:16x16"]:
            sent = set()
            for topology in topologies.split():
                report = self.consensus("--topology", topology, "--shape", "8x8", "--rounds", 2)
                sent.add(report["rounds"][2]["payload_bytes"])
            self.assertEqual(len(sent), 1, sent)

    def test_same_seed_same_report(self):
        args = "--mixer choco:0.2 --op topk:0.2 --shape 9x7 --rounds 5 --seed".split()
        self.assertEqual(self.consensus(*args, 3), self.consensus(*args, 3))
        self.assertNotEqual(self.consensus(*args, 3), self.consensus(*args, 4))

    def test_a_graph_may_come_from_a_file(self):
        path = self.path("edges.txt")
        path.write_text("0 1\n1 2\n2 0\n")
        report = self.consensus("--edges", path, "--shape", "5", "--rounds", 1)
        self.assertEqual(report["ranks"], 3)
        self.assertAlmostEqual(report["best_gamma"], 1)
        path.write_text("0 1\n1 b\n")
        self.fails(3, "consensus", "--edges", path, says=["line 2 of the edge list"])

    def test_mistakes_are_explained(self):
        for args, says in [
            ("--topology ring:1", "'1' is not allowed"),
            ("--topology hypercube:6", "powers of two"),
            ("--topology ring:2000", "up to 1024"),
            ("--mixer gossip", "no mixer 'gossip'; known: choco"),
            ("--mixer dpsgd --op natural", "allowed: operator identity"),
            ("--mixer choco:0.1 --op qsgd:1", "no contraction"),
            ("--shape 0x3", "--shape '0x3'"),
            ("--shape 3x", "--shape '3x'"),
            ("--rounds 0", "--rounds 0"),
            ("--gamma fast", "'gamma=fast' is not allowed"),
            ("--timeout 0", "time-out"),
        ]:
            self.fails(2, "consensus", *args.split(), says=[says])

    def test_help_has_examples_and_output_fits_100_columns(self):
        self.assertIn("Examples:\n  laconic consensus", self.ok("consensus", "--help"))
        for line in self.ok("consensus", "--rounds", 2).splitlines():
            self.assertLessEqual(len(line), 100, line)


if __name__ == "__main__":
    unittest.main()
