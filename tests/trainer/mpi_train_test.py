"""laconic train as processes under mpirun: the same model, bit for bit, as with threads.

    mpi_train_test.py LACONIC MPIRUN
"""

import os
import subprocess
import sys
import tempfile
import unittest

LACONIC, MPIRUN = sys.argv.pop(1), sys.argv.pop(1)
RUN = "train --recipe natural-feedback --model perceptron --batch 16 --seed 3 --guard off".split()


def threads(*args):
    return run([LACONIC, *RUN, "--workers", "4", *args])


def processes(*args):
    return run([MPIRUN, "-n", "4", LACONIC, *RUN, "--transport", "mpi", *args])


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


class MpiTrain(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def model(self, name):
        with open(self.path(name, "model.lac"), "rb") as file:
            return file.read()

    def ok(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_same_model_as_with_threads(self):
        with_threads = self.ok(threads("--steps", "10", "--out", self.path("threads")))
        with_processes = self.ok(processes("--steps", "10", "--out", self.path("mpi")))
        self.assertEqual(self.model("mpi"), self.model("threads"))
        # Rank 0 alone prints, and prints the same.
        self.assertEqual(
            with_processes.replace(self.path("mpi"), "OUT"),
            with_threads.replace(self.path("threads"), "OUT"),
        )

    def test_buckets_change_nothing(self):
        self.ok(threads("--steps", "4", "--bucket-bytes", "0", "--out", self.path("threads")))
        for size in "1", "3000":
            run = ["--steps", "4", "--bucket-bytes", size, "--out", self.path("mpi" + size)]
            self.ok(processes(*run))
            self.assertEqual(self.model("mpi" + size), self.model("threads"), size)

    def test_goes_on_with_a_run_of_threads(self):
        steps = ["--steps", "6", "--checkpoint-every", "2", "--out", self.path("run")]
        self.ok(threads(*steps))
        model = self.model("run")
        os.remove(self.path("run", "model.lac"))
        self.ok(processes(*steps, "--resume", "--bucket-bytes", "2000"))
        self.assertEqual(self.model("run"), model)

    def test_a_wrong_argument_is_said_once(self):
        result = processes("--steps", "2", "--lr", "-1")
        self.assertEqual(result.returncode, 2, result.stderr)
        said = [line for line in result.stderr.splitlines() if line.startswith("laconic: ")]
        self.assertEqual(len(said), 1, result.stderr)

    def test_ranks_with_other_settings_all_end(self):
        train = [LACONIC, *RUN, "--transport", "mpi", "--steps", "2", "--timeout", "3600"]
        result = run([MPIRUN, "-n", "3", *train, ":", "-n", "1", *train, "--lr", "0.7"])
        self.assertEqual(result.returncode, 2, result.stderr)
        said = [line for line in result.stderr.splitlines() if line.startswith("laconic: ")]
        self.assertEqual(said, ["laconic: rank 3 has other settings or data than rank 0"])

    def test_what_is_wrong_in_one_place_is_said_and_ends_all(self):
        train = [LACONIC, *RUN, "--transport", "mpi", "--steps", "2", "--timeout", "3600"]
        elsewhere = [*train, "--data", self.path("nowhere")]
        result = run([MPIRUN, "-n", "3", *train, ":", "-n", "1", *elsewhere])
        self.assertEqual(result.returncode, 2, result.stderr)
        said = [line for line in result.stderr.splitlines() if line.startswith("laconic: ")]
        self.assertEqual(len(said), 1, result.stderr)
        self.assertIn("rank 3: no data set", said[0])


if __name__ == "__main__":
    unittest.main()
