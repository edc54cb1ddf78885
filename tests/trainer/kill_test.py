"""Kills a training run again and again (SIGKILL, at random moments), resumes it each time, and compares
the final model with that of a run that was never killed.

    kill_test.py LACONIC [--kills N] [-- more options of train]
"""

import argparse
import filecmp
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("laconic")
parser.add_argument("--kills", type=int, default=50)
parser.add_argument("--recipe", default="natural-feedback")
parser.add_argument("--model", default="perceptron")
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--seed", type=int, default=1, help="of the moments at which it is killed")
arguments = parser.parse_args()
moments = random.Random(arguments.seed)


def command(out):
    return [arguments.laconic, "train", "--recipe", arguments.recipe, "--model", arguments.model,
            "--steps", str(arguments.steps), "--evaluate-every", "100", "--batch", "16",
            "--checkpoint-every", "3", "--out", out, "--resume"]  # fmt: skip


with tempfile.TemporaryDirectory() as folder:
    straight, killed = os.path.join(folder, "straight"), os.path.join(folder, "killed")
    start = time.monotonic()
    subprocess.run(
        command(straight), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    # Long enough to get past start-up most times, short enough that many kills fit in the run.
    longest = max(1.5, 1.5 * (time.monotonic() - start))
    kills = 0
    while kills < arguments.kills:
        process = subprocess.Popen(
            command(killed), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        time.sleep(moments.uniform(0.3, longest))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        elif process.returncode != 0:
            sys.exit(f"a resumed run failed: {process.stderr.read().decode()}")
        else:  # finished: start over, the next kills must have something to interrupt
            if not filecmp.cmp(f"{straight}/model.lac", f"{killed}/model.lac", shallow=False):
                sys.exit(f"after {kills} kills the model differs")
            for name in os.listdir(killed):
                os.remove(os.path.join(killed, name))
        process.stderr.close()
    subprocess.run(
        command(killed), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    if not filecmp.cmp(f"{straight}/model.lac", f"{killed}/model.lac", shallow=False):
        sys.exit(f"after {kills} kills the model differs")
    left = sorted(set(os.listdir(killed)) - {"model.lac", "metrics.jsonl", "checkpoint.lac"})
    if left:
        sys.exit(f"left over: {left}")
    print(f"{kills} kills, the same model bit for bit")
