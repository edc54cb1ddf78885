#!/usr/bin/python3
"""Bits per entry and error of operators on arrays in files: the tables of docs/dither.md.

    bench/unbiased.py --op grid --op dither conv1.npy fc1.npy
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parent.parent


def measure(program, spec, files):
    """Bits per entry of all frames together, and |C(x) - x|^2 / |x|^2."""
    bits = entries = error = norm = 0
    with tempfile.TemporaryDirectory() as folder:
        frame, back = Path(folder) / "x.lac", Path(folder) / "x.npy"
        for file in files:
            run = [program, "compress", "--quiet", "--seed", "1", "--op", spec, file, frame]
            subprocess.run(run, check=True)
            subprocess.run([program, "decompress", "--quiet", frame, back], check=True)
            x, y = numpy.load(file).astype("f8"), numpy.load(back).astype("f8")
            bits += 8 * frame.stat().st_size
            entries += x.size
            error += ((y - x) ** 2).sum()
            norm += (x**2).sum()
    return bits / entries, error / norm


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--op", action="append", required=True, help="may be given more than once")
    parser.add_argument("--program", default=ROOT / "build/release/cli/laconic")
    parser.add_argument("files", nargs="+", help=".npy, float32")
    options = parser.parse_args()
    print("| operator | bits per entry | error |\n|---|---|---|")
    for spec in options.op:
        bits, error = measure(options.program, spec, options.files)
        print(f"| `{spec}` | {bits:.3f} | {error:.3f} |")


if __name__ == "__main__":
    main()
