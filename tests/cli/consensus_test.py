"""Tests of `laconic consensus`: workers that start apart. The program's path is in $LACONIC."""

import json
import unittest

from cli_case import CliTest


class Consensus(CliTest):
    def consensus(self, *args):
        """The one run there is."""
        report = json.loads(self.ok("consensus", "--json", *args))
        self.assertEqual(report["kind"], "consensus")
        self.assertEqual(len(report["runs"]), 1)
        return report["runs"][0]

    def test_moniqua_tells_how_far_neighbours_are_from_theta(self):
        """Normal entries of neighbours differ by up to 6 or so."""
        args = ("--rounds", 3, "--shape", "20x20")
        for theta, beyond in ((1, True), (20, False)):
            report = self.ok("consensus", "--json", "--mixer", f"moniqua:{theta},0.1", *args)
            apart = [row["apart"] for row in json.loads(report)["runs"][0]["rounds"]]
            self.assertEqual(apart[0], 0)
            self.assertEqual(max(apart) > 1, beyond)
            self.assertGreater(apart[1], 0)
        shown = self.ok("consensus", "--mixer", "moniqua:1,0.1", *args)
        self.assertIn("of its bound (theta) apart in round", shown)
        self.assertNotIn("theta", self.ok("consensus", "--mixer", "dpsgd", *args))

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

    def test_several_mixers_on_several_graphs(self):
        args = "--mixer dpsgd --mixer choco:0.3 --op topk:0.3 --topology ring:6 --topology star:5 --gamma best"
        args = [*args.split(), "--shape", "9x7", "--rounds", 200]
        runs = json.loads(self.ok("consensus", "--json", *args))["runs"]
        self.assertEqual(
            [(run["topology"], run["mixer"].split(":")[0], run["op"]) for run in runs],
            [(t, m, op) for t in ("ring:6", "star:5") for m, op in (("dpsgd", "identity"), ("choco", "topk:0.3"))],
        )
        self.assertEqual(runs[1]["mixer"], "choco:0.3")  # its own gamma stays
        self.assertEqual(runs[0]["mixer"], "dpsgd:gamma=1.2")
        for run in runs:
            close = run["close"]["round"]
            self.assertLessEqual(run["rounds"][close]["error"], 1e-3)
            self.assertGreater(run["rounds"][close - 1]["error"], 1e-3)
            self.assertEqual(run["last"], run["rounds"][200])
        shown = self.ok("consensus", *args)
        self.assertEqual(shown.count("spectral gap"), 2)
        self.assertEqual([line.split()[0] for line in shown.splitlines()[2:4]], ["dpsgd:gamma=1.2", "choco:0.3"])
        for line in shown.splitlines():
            self.assertLessEqual(len(line), 100, line)

    def test_the_report_is_one_page_with_the_curves(self):
        path = self.path("gossip.html")
        shown = self.ok("consensus", "--shape", "3x3", "--rounds", 2000, "--mixer", "dpsgd", "--report", path)
        self.assertIn(f"Plots: {path}", shown)
        page = path.read_text()
        report = json.loads(page.split('id="report">', 1)[1].split("</script>", 1)[0])
        rounds = [row["round"] for row in report["runs"][0]["rounds"]]
        self.assertEqual((rounds[:5], rounds[-1]), ([0, 1, 2, 3, 4], 2000))
        self.assertLess(len(rounds), 800)
        self.assertIn("--mixer dpsgd", report["command"])
        self.fails(1, "consensus", "--rounds", 1, "--report", self.path("no/such/folder.html"), says=["folder.html"])

    def test_every_topology_with_256_ranks(self):
        edges = self.path("tree.txt")
        edges.write_text("".join(f"{n // 2} {n}\n" for n in range(1, 256)))
        topologies = "chain complete hypercube matching random star".split()
        for graph in [f"{t}:256" for t in topologies] + [edges]:
            option = "--edges" if graph is edges else "--topology"
            report = self.consensus(option, graph, "--mixer", "moniqua:16", "--shape", 4, "--rounds", 1)
            self.assertEqual(report["ranks"], 256)
            self.assertGreater(report["spectral_gap"], 0)

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
            ("--topology star:4 --weights uniform", "not doubly stochastic"),
            ("--weights heavy", "allowed: metropolis, uniform"),
            ("--mixer dpsgd --mixer powergossip --op natural", "allowed: operator identity"),
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
