"""What bench/record.py would measure, and that its page is written from what is there.

    LACONIC=build/release/cli/laconic record_test.py
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROGRAM = os.path.join(ROOT, "bench", "record.py")
sys.path.insert(0, os.path.join(ROOT, "bench"))
import record_cells  # noqa: E402
import record_page  # noqa: E402


def run(*words):
    return subprocess.run([sys.executable, PROGRAM, *words], capture_output=True, text=True, timeout=120)


class Record(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def test_a_list_has_cells_of_every_part_and_what_is_there(self):
        name = "growth/1000000x4"
        with open(os.path.join(self.folder, name.replace("/", "--") + ".json"), "w") as file:
            json.dump({}, file)
        done = run("--list", "--folder", self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        states = {line.split(" s  ")[1]: line.split()[0] for line in done.stdout.splitlines()}
        self.assertEqual({cell.split("/")[0] for cell in states}, {"shaped", "guard", "change", "loss", "growth", "torch"})
        self.assertEqual([cell for cell, state in states.items() if state == "there"], [name])
        self.assertEqual(states["torch/loss/1gbit/gpt10m/recipe=grid"], "--text")
        with_text = run("--list", "--folder", self.folder, "--text", "input.txt")
        self.assertIn("missing", next(line for line in with_text.stdout.splitlines() if line.endswith("torch/loss/1gbit/gpt10m/recipe=grid")))

    def test_the_guard_is_measured_on_every_recipe_in_which_ranks_step_together(self):
        said = subprocess.run([os.environ["LACONIC"], "list", "recipes", "--json"], capture_output=True, text=True, check=True).stdout
        recipes = [row["recipe"] for row in json.loads(said)["recipes"]]
        together = [recipe["name"] for recipe in recipes if not recipe["mixer"] and recipe["delay"] == 1 and recipe["name"] != "dense"]
        self.assertEqual(sorted(record_cells.GUARDED), sorted(together))

    def test_what_says_how_it_is_run_can_be_run(self):
        folder = os.path.dirname(PROGRAM)
        for name in sorted(os.listdir(folder)):
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                with open(path) as file:
                    self.assertEqual(file.readline().startswith("#!"), os.access(path, os.X_OK), name)

    def test_what_cannot_be_gets_a_sentence(self):
        self.assertIn("no part 'all'; known: shaped guard", run("all").stderr)
        self.assertIn("--tiny leaves figures that say nothing", run("--tiny").stderr)

    def test_who_is_stopped_waits_until_hosts_are_taken_down(self):
        with open(os.path.join(self.folder, "ddp.py"), "w") as file:
            file.write("import signal, sys, time\n"
                       "def leave(*_):\n"
                       "    time.sleep(0.7)\n"
                       "    open(sys.argv[-1] + '/down', 'w').close()\n"
                       "    sys.exit(143)\n"
                       "signal.signal(signal.SIGTERM, leave)\n"
                       "open(sys.argv[-1] + '/up', 'w').close()\n"
                       "time.sleep(3600)\n")  # fmt: skip
        code = ("import sys, types; sys.path.insert(0, sys.argv[1]); import hosts, record_torch; hosts.stop_on_signals()\n"
                "record_torch.HERE = sys.argv[2]; record_torch.ddp(types.SimpleNamespace(program='x'), sys.argv[2])\n")  # fmt: skip
        process = subprocess.Popen([sys.executable, "-B", "-c", code, os.path.join(ROOT, "bench"), self.folder])
        while not os.path.exists(os.path.join(self.folder, "up")):
            self.assertIsNone(process.poll())
            time.sleep(0.02)
        process.terminate()
        self.assertEqual(process.wait(), 143)
        self.assertTrue(os.path.exists(os.path.join(self.folder, "down")))

    def test_tables_are_made_of_what_is_there(self):
        row = {"variant": "stock", "samples_per_second": 32.0, "speedup": 1.0, "sent_megabytes": 1.5}
        other = {"variant": "recipe=grid", "samples_per_second": 64.0, "speedup": 2.0, "sent_megabytes": 0.1}
        results = {
            "torch/step/10mbit/resnet20/grid": {"batch": 16, "hosts": 4, "rows": [row, other]},
            "torch/loss/10mbit/resnet20/stock": {"points": [[0, 0.0, 2.3], [20, 50.0, 1.5]]},
            "torch/loss/10mbit/resnet20/recipe=grid": {"points": [[0, 0.0, 2.3], [10, 5.0, 1.4]]},
            "torch/loss/10mbit/resnet20/fp16": {"points": [[0, 0.0, 2.3], [20, 25.0, 1.7], [40, 60.0, 1.6]]},
        }
        page = "\n".join(record_page.torch_tables(results))
        self.assertIn("| torch's own | 2000 / 1.00 / 1.500 |", page)
        self.assertIn("| grid | 1000 / 2.00 / 0.100 |", page)
        page = "\n".join(record_page.torch_losses(results))
        self.assertIn("| grid | 5.0 | 10.00 | 10 | 500 | 1.4000 |", page)
        self.assertIn("| torch's own | 50.0 | 1.00 | 20 | 2500 | 1.5000 |", page)
        self.assertIn("| torch's fp16 hook | not reached in 60.0 |  | 40 | 1500 | 1.6000 |", page)
        step = {"step_seconds": 0.5, "peak_bytes": 12e6 + 64e6 * (2 + 4 + 4 * 2), "method": "gather topk:0.01 feedback"}
        growth = "\n".join(record_page.growth_tables({"growth/16000000x4": {"count": 16_000_000, "ranks": 4, "methods": [step]}}))
        self.assertIn("| 16 million x 4 | 500.00 (memory 2.00) |", growth)

    def test_a_table_without_cells_stays_as_it_is(self):
        page = os.path.join(self.folder, "page.md")
        with open(record_page.PAGE) as file:
            before = file.read()
        with open(page, "w") as file:
            file.write(before)
        step = {"step_seconds": 0.5, "peak_bytes": 1e9, "method": "dense identity none"}
        cell = {"at": "2026-01-02", "count": 1_000_000, "ranks": 4, "methods": [step]}
        with unittest.mock.patch.object(record_page, "PAGE", page):
            record_page.write({"growth/1000000x4": cell}, "no program is needed", ["growth/1000000x4", "growth/1000000x2", "change/qsgd"])
        with open(page) as file:
            after = file.read()
        for name in ("where-not", "shaped", "guard", "change", "loss", "plan", "torch", "torch-loss"):
            part = before[before.index(f"<!-- record {name} -->") : before.index(f"<!-- end record {name} -->")]
            self.assertIn(part, after)
        self.assertIn("| 1 million x 4 | 500.00 |", after)
        self.assertIn("| growth | 1 of 2 | 2026-01-02 |", after)


if __name__ == "__main__":
    unittest.main()
