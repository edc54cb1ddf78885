"""bench/tables.py and bench/peers.py on few entries: every table of docs/performance.md is made, and only they change."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FEW = ["--count", "5000", "--rounds", "1"]


def run(script, *args, **more):
    command = [sys.executable, os.path.join(ROOT, "bench", script), *args]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **more})


def outside(page):
    return re.sub(r"(<!-- table (\S+) -->\n).*?(<!-- end \2 -->)", r"\1\3", page, flags=re.DOTALL)


class Tables(unittest.TestCase):
    def test_all_are_made_and_nothing_else_changes(self):
        page = os.path.join(ROOT, "docs", "performance.md")
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "page.md")
            shutil.copy(page, copy)
            made = run("tables.py", *FEW, "--page", copy, "--program", os.environ["LACONIC"])
            self.assertEqual(made.returncode, 0, made.stderr)
            with open(page, encoding="utf-8") as before, open(copy, encoding="utf-8") as after:
                before, after = before.read(), after.read()
            self.assertEqual(outside(before), outside(after))
            tables = dict(re.findall(r"<!-- table (\S+) -->\n(.*?)<!-- end", after, flags=re.DOTALL))
            self.assertEqual(set(tables), {"operators", "slowest", "threads", "inputs", "sizes", "codecs", "low-rank", "peers"})
            for name, table in tables.items():
                rows = [line for line in table.splitlines() if line.startswith("|")]
                self.assertGreater(len(rows), 2, name)
            self.assertIn("| `topk:0.01` |", tables["sizes"])
            self.assertIn("| operator | equal | zeros |", tables["inputs"])
            drawn = xml.parse(os.path.join(folder, "performance-sizes.svg")).getroot()
            self.assertGreater(len(drawn.findall(".//{*}polyline")), 3)

    def test_what_is_not_there_is_told(self):
        refused = run("tables.py", "speed")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("no table 'speed'; known: operators", refused.stderr)
        self.assertEqual(run("tables.py", "--count", "10").returncode, 2)
        missing = run("peers.py", *FEW, LACONIC_LIBRARY="/nowhere/liblaconic.so")
        self.assertNotEqual(missing.returncode, 0)
        self.assertIn("no library /nowhere/liblaconic.so", missing.stderr)


class Peers(unittest.TestCase):
    def test_each_row_is_a_ratio_of_two_times(self):
        told = run("peers.py", *FEW, "--json")
        self.assertEqual(told.returncode, 0, told.stderr)
        told = json.loads(told.stdout)
        self.assertEqual(told["count"], 5000)
        for row in told["peers"]:
            self.assertGreater(row["seconds"], 0)
            self.assertAlmostEqual(row["times"], row["peer_seconds"] / row["seconds"])
        bits = {row["ours"]: row["bits"] for row in told["peers"] if "bits" in row}
        if told["torch"]:
            self.assertAlmostEqual(bits["half"], 16, delta=1)
            self.assertLess(bits["topk:0.01"], 1)
        else:
            self.assertIn("torch", " ".join(told["notes"]))


if __name__ == "__main__":
    unittest.main()
