"""What tests of the program have in common: how it is run, and files to give it."""

import io
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

PROGRAM = os.environ.get("LACONIC")
GOLDEN = Path(__file__).parent.parent / "golden"


def command(*args):
    return [PROGRAM, *map(str, args)]


def run(*args, **options):
    return subprocess.run(command(*args), capture_output=True, text=True, timeout=60, **options)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def npy_bytes(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npy_with(header, data, version=1, length=None):
    """A .npy file with any header text, right or wrong."""
    text = header.encode("latin-1")
    length = len(text) if length is None else length
    form = "<H" if version == 1 else "<I"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack(form, length) + text + data


class CliTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def path(self, name):
        return self.folder / name

    def ok(self, *args, **options):
        result = run(*args, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        return result.stdout

    def fails(self, code, *args, says=()):
        """The command fails with this exit code and exactly one sentence, which has these words."""
        result = run(*args)
        self.assertEqual(result.returncode, code, f"{args}: {result.stderr}")
        self.assertEqual(result.stdout, "")
        self.assertRegex(result.stderr, r"\Alaconic: [^\n]+\n\Z")
        for words in says:
            self.assertIn(words, result.stderr)

    def save(self, array, name="in.npy"):
        self.path(name).write_bytes(npy_bytes(array))
        return self.path(name)

    def compress(self, array, *options, op="natural"):
        source, frame = self.save(array), self.path("x.lac")
        self.ok("compress", "--op", op, *options, source, frame)
        return frame

    def round_trip(self, array, op):
        frame, target = self.compress(array, op=op), self.path("out.npy")
        self.ok("decompress", frame, target)
        return np.load(target)


def main():
    """Runs the tests of the file that was started."""
    global PROGRAM
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        PROGRAM = sys.argv.pop(1)
    if not PROGRAM or not shutil.which(PROGRAM):
        sys.exit(f"usage: {os.path.basename(sys.argv[0])} path/to/laconic, or set LACONIC")
    unittest.main()
