#!/usr/bin/python3
"""Bits per entry and error of operators on recorded gradients: the table of docs/dither.md.

    laconic train --recipe dense --steps 301 --record 300 --out run
    bench/unbiased.py --op grid --op dither run/gradients-step-300.npz
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parent.parent


def arrays_of(files):
    """All arrays of .npy and .npz files; each becomes a frame."""
    for file in files:
        try:
            loaded = numpy.load(file)
        except OSError as error:
            sys.exit(f"unbiased.py: '{file}' cannot be read: {error.strerror or error}")
        except ValueError as error:
            sys.exit(f"unbiased.py: '{file}' is neither .npy nor .npz: {error}")
        yield from loaded.values() if hasattr(loaded, "values") else [loaded]


def measure(program, spec, arrays):
    """Bits per entry of all frames together, and |C(x) - x|^2 / |x|^2."""
    bits = entries = error = norm = 0
    with tempfile.TemporaryDirectory() as folder:
        given, frame, back = (Path(folder) / name for name in ("x.npy", "x.lac", "y.npy"))
        for x in arrays:
            numpy.save(given, x)
            for command in (["compress", "--seed", "1", "--op", spec, given, frame], ["decompress", frame, back]):
                told = subprocess.run([program, *command, "--quiet"], capture_output=True, text=True)
                if told.returncode != 0:
                    sys.exit(f"unbiased.py: {told.stderr.strip()}")
            exact, decoded = x.astype("f8"), numpy.load(back).astype("f8")
            bits += 8 * frame.stat().st_size
            entries += x.size
            error += ((decoded - exact) ** 2).sum()
            norm += (exact**2).sum()
    return bits / entries, error / norm


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--op", action="append", required=True, help="may be given more than once")
    parser.add_argument("--program", default=ROOT / "build/release/cli/laconic")
    parser.add_argument("files", nargs="+", help=".npy or .npz, float32")
    options = parser.parse_args()
    arrays = list(arrays_of(options.files))
    print("| operator | bits per entry | error |\n|---|---|---|")
    for spec in options.op:
        bits, error = measure(options.program, spec, arrays)
        print(f"| `{spec}` | {bits:.3f} | {error:.3f} |")


if __name__ == "__main__":
    main()
