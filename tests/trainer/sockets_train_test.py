"""laconic train as processes over sockets: the same model, bit for bit, as with threads.

    sockets_train_test.py LACONIC
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

LACONIC = sys.argv.pop(1)
RUN = "train --op natural+entropy --exchange auto --memory feedback --model perceptron --batch 16 --seed 3".split()
RANKS = 4


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def start(port, rank, *args):
    environment = {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(RANKS),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    return subprocess.Popen(
        [LACONIC, *RUN, "--transport", "sockets", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        pipesize=4096,
    )


def start_all(*args):
    port = free_port()
    return [start(port, rank, *args) for rank in range(RANKS)]


def ends_of(processes):
    """Exit code, stdout and stderr by rank."""
    said = [process.communicate(timeout=240) for process in processes]
    return [(process.returncode, *texts) for process, texts in zip(processes, said)]


def lines_of(stderr):
    return [line for line in stderr.splitlines() if line.startswith("laconic: ")]


class SocketsTrain(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def model(self, name):
        with open(self.path(name, "model.lac"), "rb") as file:
            return file.read()

    def test_same_model_as_with_threads(self):
        steps = ["--steps", "10", "--bucket-bytes", "3000", "--guard", "off", "--out"]
        workers = ["--workers", str(RANKS)]
        threads = subprocess.run(
            [LACONIC, *RUN, *workers, *steps, self.path("threads")],
            capture_output=True,
            text=True,
            timeout=240,
        )
        self.assertEqual(threads.returncode, 0, threads.stderr)
        ends = ends_of(start_all(*steps, self.path("sockets")))
        for code, _, stderr in ends:
            self.assertEqual(code, 0, stderr)
        self.assertEqual(self.model("sockets"), self.model("threads"))
        # Rank 0 alone prints, and prints the same.
        printed = ends[0][1].replace(self.path("sockets"), "OUT")
        self.assertEqual(printed, threads.stdout.replace(self.path("threads"), "OUT"))
        self.assertEqual([stdout for _, stdout, _ in ends[1:]], [""] * (RANKS - 1))

    def run_all(self, *args):
        for code, _, stderr in ends_of(start_all(*args)):
            self.assertEqual(code, 0, stderr)

    def traffic(self, name):
        with open(self.path(name, "metrics.jsonl")) as file:
            return [json.loads(line)["traffic_bytes"] for line in file]

    def test_a_guarded_run_is_replayed_byte_for_byte(self):
        steps = ["--steps", "60", "--evaluate-every", "20", "--out"]
        self.run_all(*steps, self.path("first"))  # among processes it is on
        # Whatever it has decided on this machine: lanes are taken in the middle, so that some are.
        with open(self.path("first", "guard.jsonl")) as file:
            decided = [line for line in map(json.loads, file) if line["step"] < 50]
        self.assertGreater(len(decided), 3)  # the recipe's own, and probes
        with open(self.path("record.jsonl"), "w") as file:
            for line in [*decided, {"step": 50, "lane": "dense"}, {"step": 53, "lane": "half"}, {"step": 55, "lane": "light"}, {"step": 57, "lane": "tight"}, {"step": 58, "lane": "recipe"}]:
                file.write(json.dumps(line) + "\n")
        for name in ("again", "once more"):
            self.run_all("--guard", f"replay={self.path('record.jsonl')}", *steps, self.path(name))
        self.assertEqual(self.model("again"), self.model("once more"))
        self.assertEqual(self.traffic("again"), self.traffic("once more"))
        self.assertEqual(self.traffic("again")[:3], self.traffic("first")[:3])  # up to step 40
        self.run_all("--guard", f"replay={self.path('first', 'guard.jsonl')}", *steps, self.path("as it was"))
        self.assertEqual(self.model("as it was"), self.model("first"))
        self.assertEqual(self.traffic("as it was"), self.traffic("first"))

    def test_a_guarded_run_is_resumed_and_replayed_as_one(self):
        """Who goes on knows nothing of what was measured before: the recipe's lane comes first again, and the record says so."""
        # Thirty evaluations of half a kilobyte are more than a pipe holds: it cannot end before they are read.
        steps = ["--steps", "120", "--evaluate-every", "4", "--json", "--out"]
        processes = start_all(*steps, self.path("run"))
        for _ in range(5):
            self.assertTrue(processes[0].stdout.readline())
        processes[0].send_signal(signal.SIGINT)
        ends = ends_of(processes)
        for code, _, stderr in ends:
            self.assertEqual(code, 130, stderr)
        self.assertIn("of 120 steps; the same command with --resume goes on from there", ends[0][2])
        self.assertFalse(os.path.exists(self.path("run", "model.lac")))
        self.run_all(*steps, self.path("run"), "--resume")
        with open(self.path("run", "guard.jsonl")) as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual(sorted({line["step"] for line in lines}), [line["step"] for line in lines])
        self.assertEqual([line["lane"] for line in lines if line.get("why") == "the recipe's own comes first"], ["recipe"] * 2)
        self.run_all("--guard", f"replay={self.path('run', 'guard.jsonl')}", *steps, self.path("again"))
        self.assertEqual(self.model("again"), self.model("run"))

    def test_a_wrong_argument_is_said_once(self):
        ends = ends_of(start_all("--steps", "2", "--lr", "-1"))
        self.assertEqual([code for code, _, _ in ends], [2] * RANKS, ends)
        self.assertEqual([len(lines_of(stderr)) for _, _, stderr in ends], [1, 0, 0, 0], ends)

    def test_workers_are_the_processes(self):
        ends = ends_of(start_all("--steps", "2", "--workers", "3"))
        self.assertEqual([code for code, _, _ in ends], [2] * RANKS, ends)
        self.assertIn(f"--workers 3, but there are {RANKS} processes; each is a worker", ends[0][2])

    def test_a_killed_rank_is_named_by_all(self):
        processes = start_all("--steps", "1000000", "--json", "--out", self.path("run"))
        self.assertTrue(processes[0].stdout.readline())  # all are at work
        processes[2].send_signal(signal.SIGKILL)
        for rank, (code, _, stderr) in enumerate(ends_of(processes)):
            if rank != 2:
                self.assertEqual(code, 4, stderr)
                self.assertIn("rank 2 has left", "".join(lines_of(stderr)))

    def test_a_missing_rank_is_named(self):
        port = free_port()
        ends = ends_of([start(port, rank, "--timeout", "1") for rank in (0, 1, 3)])
        for code, _, stderr in ends:
            self.assertEqual(code, 4, stderr)
            self.assertIn("rank 2 has not come within 1 s", stderr)

    def test_the_environment_is_needed(self):
        result = subprocess.run(
            [LACONIC, *RUN, "--transport", "sockets"], capture_output=True, text=True, timeout=60
        )
        self.assertEqual(result.returncode, 2)
        self.assertIn("WORLD_SIZE is '' in the environment", result.stderr)


if __name__ == "__main__":
    unittest.main()
