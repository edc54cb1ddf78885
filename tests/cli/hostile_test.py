"""Files that are not what they should be: refused in one sentence, quickly and without their memory.

Run: python3 hostile_test.py path/to/laconic [unittest options], or with the path in $LACONIC.
"""

import itertools
import random
import struct

import numpy as np

from cli_case import CliTest, crc32c, main, npy_bytes, npy_with, run


class HostileArrays(CliTest):
    """Bytes that are no .npy file are refused in one sentence, quickly and without their memory."""

    def header(self, shape="(3,)", descr="'<f4'", order="False"):
        return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"

    def refuse(self, data, *says):
        self.path("in.npy").write_bytes(data)
        frame = self.path("x.lac")
        self.fails(3, "compress", "--op", "natural", self.path("in.npy"), frame, says=says)

    def test_the_helper_makes_good_files_too(self):
        for version in [1, 2, 3]:
            data = npy_with(self.header() + "  \n", bytes(12), version)
            self.path("in.npy").write_bytes(data)
            self.ok("compress", "--op", "natural", self.path("in.npy"), self.path("x.lac"))

    def test_lengths_that_do_not_fit(self):
        self.refuse(npy_with(self.header(), bytes(11)), "11 bytes", "takes 12")
        self.refuse(npy_with(self.header(), bytes(13)), "13 bytes", "takes 12")
        self.refuse(npy_with(self.header(), b"", length=60000), "60000")
        self.refuse(npy_with(self.header(), b"", version=2, length=2**32 - 1), "4294967295")
        self.refuse(npy_with(self.header("(1000000000000,)"), bytes(12)), "4000000000000")

    def test_shapes_that_overflow(self):
        for shape in [
            "(4294967296, 4294967296)",
            "(9223372036854775808, 2)",
            "(0, 18446744073709551615, 18446744073709551615)",
        ]:
            self.refuse(npy_with(self.header(shape), b""), "more than any memory holds")
        for shape in [
            "(18446744073709551616,)",
            "(-1,)",
            "(1e3,)",
            "(1,,)",
            "(1",
            "3",
            "(" + "1," * 65,
        ]:
            self.refuse(npy_with(self.header(shape), bytes(12)), "header")

    def test_headers_that_are_none(self):
        for text in [
            "",
            "{",
            "{}",
            "[]",
            "{'descr': '<f4'}",
            "{'descr': '<f4",
            "{'descr': [('a', '<f4'), }",
            self.header() + "x",
            self.header(order="1"),
            self.header().replace("shape", "form"),
            "\0" * 50,
        ]:
            self.refuse(npy_with(text, bytes(12)), "header")

    def test_foreign_files(self):
        self.refuse(b"", "not a .npy file")
        self.refuse(b"PK\x03\x04" + bytes(100), "not a .npy file")
        self.refuse(npy_with(self.header(), bytes(12), version=4), "version 4")

    def test_every_truncation(self):
        whole = npy_bytes(np.ones(3, "float32"))
        for size in range(len(whole)):
            self.refuse(whole[:size])


class HostileFrames(CliTest):
    def small(self):
        return self.compress(np.arange(16, dtype="float32")).read_bytes()

    def refuse(self, data, *says):
        frame = self.path("bad.lac")
        frame.write_bytes(data)
        self.fails(3, "inspect", frame, says=[str(frame), *says])

    def test_every_flipped_bit_is_found(self):
        whole = self.small()
        self.assertLess(len(whole), 100)
        for position, flip in itertools.product(range(len(whole)), [1, 16, 128, 255]):
            damaged = bytearray(whole)
            damaged[position] ^= flip
            self.refuse(damaged)

    def test_every_truncation_and_extension_is_found(self):
        whole = self.small()
        for size in range(len(whole)):
            self.refuse(whole[:size])
        self.refuse(whole + b"\0")

    def test_random_bytes_are_refused(self):
        draw = random.Random(1)
        for size in [0, 1, 4, 12, 100, 10_000]:
            self.refuse(draw.randbytes(size))
            self.refuse(b"LAC\1" + draw.randbytes(size))

    def test_decompress_refuses_as_well_and_writes_nothing(self):
        damaged = bytearray(self.small())
        damaged[40] ^= 1
        self.path("bad.lac").write_bytes(damaged)
        self.fails(3, "decompress", self.path("bad.lac"), self.path("out.npy"), says=["checksum"])
        self.assertFalse(self.path("out.npy").exists())

    def test_lies_with_a_right_checksum_are_refused_or_harmless(self):
        for op, position in itertools.product(["natural", "natural+entropy"], range(4, 90)):
            whole = bytearray(self.compress(np.arange(16, dtype="float32"), op=op).read_bytes())
            if position >= len(whole) - 4:
                continue
            whole[position] ^= 0xFF
            whole[-4:] = struct.pack("<I", crc32c(whole[:-4]))
            self.path("lie.lac").write_bytes(whole)
            result = run("decompress", self.path("lie.lac"), self.path("out.npy"))
            self.assertIn(result.returncode, [0, 3], result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1 if result.returncode else 0)

    def test_a_part_of_an_array_is_no_array(self):
        whole = self.small()
        header = whole.index(b"natural") + len("natural") + 8 + 3  # after seed, step, rank, ranks
        self.assertEqual(whole[header : header + 3], bytes([0, 1, 16]))  # dtype, shape
        longer = bytearray(whole)
        longer[header + 2] = 17
        longer[-4:] = struct.pack("<I", crc32c(longer[:-4]))
        self.path("part.lac").write_bytes(longer)
        self.ok("inspect", self.path("part.lac"))
        self.fails(3, "decompress", self.path("part.lac"), self.path("out.npy"), says=["part"])

    def test_max_count_refuses_larger_arrays(self):
        frame, target = self.compress(np.ones(100, "float32")), self.path("out.npy")
        self.fails(3, "decompress", "--max-count", 99, frame, target, says=["99"])
        self.assertFalse(target.exists())
        self.ok("decompress", "--max-count", 100, frame, target)


if __name__ == "__main__":
    main()
