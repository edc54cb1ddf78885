"""Tests the reference reader on frames built here from docs/frame.md, and on the golden files.

Run by /usr/bin/python3 reference/test_reference.py; needs the Debian package python3-zstandard.
"""

import contextlib
import io
import math
import random
import struct
import sys
import tempfile
import unittest
from array import array
from pathlib import Path

import zstandard

sys.path.insert(0, str(Path(__file__).parent))
import laconic_reference as laconic

GOLDEN = Path(__file__).parent.parent / "tests" / "golden"
COUNTS = (0, 1, 7, 8, 9, 4096, 4097)
CHUNK = 262144


# A builder of frames. It writes what it is told, also what a reader has to refuse.


def varint(number):
    head = b""
    while number > 127:
        head += bytes([number % 128 + 128])
        number //= 128
    return head + bytes([number])


def text(content):
    return varint(len(content)) + content.encode()


def pack(symbols, width):
    stream = sum(symbol << i * width for i, symbol in enumerate(symbols))
    return stream.to_bytes(math.ceil(len(symbols) * width / 8), "little")


def stored(data):
    """Chunks as they are."""
    chunks = (data[start : start + CHUNK] for start in range(0, len(data), CHUNK))
    return b"".join(varint(len(chunk)) + chunk for chunk in chunks)


def zstd(data):
    parameters = zstandard.ZstdCompressionParameters(format=zstandard.FORMAT_ZSTD1_MAGICLESS)
    return zstandard.ZstdCompressor(compression_params=parameters).compress(data)


def coded(data):
    """Chunks as zstd frames where this is shorter."""
    result = b""
    for start in range(0, len(data), CHUNK):
        chunk = data[start : start + CHUNK]
        shortest = min(chunk, zstd(chunk), key=len)
        result += varint(len(shortest)) + shortest
    return result


def foot(before_foot, table_length):
    body = before_foot + struct.pack("<I", table_length)
    return body + crc_bytes(body)


def crc_bytes(body):
    return struct.pack("<I", laconic.crc32c(body))


def row(count, length, operator=0, name="", not_finite=False):
    return text(name) + varint(count) + varint(2 * operator + not_finite) + varint(length)


def table_of(*rows):
    return varint(len(rows)) + b"".join(rows)


def head(operators=("identity",), extents=(3,), position=0, **changes):
    parts = dict(
        magic=b"LAC",
        version=b"\1",
        extensions=varint(0),
        operators=varint(len(operators)) + b"".join(map(text, operators)),
        seed=struct.pack("<Q", 2**63 + 5),
        step=varint(300),
        rank=varint(2),
        dtype=b"\0",
        extents=varint(len(extents)) + b"".join(map(varint, extents)),
        position=varint(position),
    )
    return b"".join((parts | changes).values())


def build(head, sections, table):
    return foot(head + sections + table, len(table))


def one_section(operator, count, section, not_finite=False):
    """A frame of one section that is the whole array."""
    table = table_of(row(count, len(section), not_finite=not_finite))
    return build(head((operator,), (count,)), section, table)


THREE = struct.pack("<3f", 1, -2, 0.5)


def frame_of_three(**changes):
    """A good frame but for the changes: of parts of the head, the sections or the table."""
    sections = changes.pop("sections", THREE)
    table = changes.pop("table", table_of(row(3, 12)))
    return build(head(**changes), sections, table)


# Sections: random symbols of each quantiser, and the values that the page gives them.
# Each returns (planes, values); a plane is (symbols, width), a plane of signs has the width 1.


def float_of(word):
    return struct.unpack("<f", struct.pack("<I", word))[0]


def finite_word(generator):
    sign, exponent, mantissa = (generator.randrange(limit) for limit in (2, 255, 2**23))
    return sign << 31 | exponent << 23 | mantissa


def make_identity(generator, n):
    words = [finite_word(generator) for _ in range(n)]
    return [(words, 32)], list(map(float_of, words))


def make_natural(generator, n):
    exponents = [generator.choice((0, 0, 1, 120, 126, 127, 254)) for _ in range(n)]
    signs = [generator.randrange(2) if e else 0 for e in exponents]
    values = [(-1) ** s * 2.0 ** (e - 127) if e else 0.0 for e, s in zip(exponents, signs)]
    return [(exponents, 8), (signs, 1)], values


def make_tops(generator, n, least, most):
    return [generator.randint(least, most) for _ in range(math.ceil(n / 4096))]


def make_natural8(generator, n):
    tops = make_tops(generator, n, 127, 254)
    codes = [generator.randrange(256) for _ in range(n)]
    values = []
    for i, code in enumerate(codes):
        c, s = code % 128, code // 128
        field = tops[i // 4096] - 127 + c
        values.append((-1) ** s * 2.0 ** (field - 127) if c else 0.0)
    return [(tops, 8), (codes, 8)], values


def make_half(generator, n):
    tops = make_tops(generator, n, 16, 253)  # here every product is exact in binary32
    numbers = [generator.choice((0, 1, -1, 2**-24, -(2**15), 1.5, -0.25)) for _ in range(n)]
    halves = [struct.unpack("<H", struct.pack("<e", number))[0] for number in numbers]
    values = [number * 2.0 ** (tops[i // 4096] - 141) for i, number in enumerate(numbers)]
    return [(tops, 8), (halves, 16)], values


def make_bf16(generator, n):
    uppers = [finite_word(generator) >> 16 for _ in range(n)]
    return [(uppers, 16)], [float_of(upper << 16) for upper in uppers]


MAKERS = {
    "identity": make_identity,
    "natural": make_natural,
    "natural:nearest": make_natural,
    "natural:8": make_natural8,
    "natural:8,nearest": make_natural8,
    "half": make_half,
    "half:bf16": make_bf16,
}


def packed_section(planes):
    return b"".join(pack(symbols, width) for symbols, width in planes)


def entropy_section(planes, code):
    section = b""
    for i, (symbols, width) in enumerate(planes):
        if width == 1:
            exponents = planes[i - 1][0]
            section += code(pack([s for s, e in zip(symbols, exponents) if e], 1))
        for byte in range(width // 8):
            section += code(bytes(symbol >> 8 * byte & 255 for symbol in symbols))
    return section


def random_sections(counts):
    """Every quantiser, without and with the coder: spec, count, section, values."""
    generator = random.Random(1)
    for quantiser, make in MAKERS.items():
        for n in counts:
            planes, values = make(generator, n)
            yield quantiser, n, packed_section(planes), values
            for code in stored, coded:
                yield f"{quantiser}+entropy", n, entropy_section(planes, code), values
                if quantiser == "identity":
                    yield "entropy", n, entropy_section(planes, code), values


class ReaderTest(unittest.TestCase):
    def decodes(self, data, values):
        self.assertEqual(list(laconic.decode(data)[2]), list(values))

    def refuses(self, data, why):
        with self.assertRaisesRegex(laconic.FrameError, why):
            laconic.decode(data)

    def section_decodes(self, operator, count, section, values):
        self.decodes(one_section(operator, count, section), values)

    def section_refused(self, operator, count, section, why):
        self.refuses(one_section(operator, count, section), why)


class Head(ReaderTest):
    def test_known_checksum(self):
        self.assertEqual(laconic.crc32c(b"123456789"), 0xE3069283)

    def test_every_field(self):
        extensions = varint(2) + varint(0) + varint(0) + varint(1000) + text("abc")
        changes = dict(extensions=extensions, dtype=b"\2", extents=(2, 3), position=1)
        rows = row(2, 8, operator=1, name="weights"), row(1, 4)
        frame = laconic.read_frame(
            frame_of_three(operators=("natural", "identity"), table=table_of(*rows), **changes)
        )
        self.assertEqual(frame.extensions, [(0, b""), (1000, b"abc")])
        self.assertEqual(frame.operators, ["natural", "identity"])
        self.assertEqual((frame.seed, frame.step, frame.rank), (2**63 + 5, 300, 2))
        self.assertEqual((frame.dtype, frame.extents), ("float64", (2, 3)))
        self.assertEqual((frame.position, frame.count), (1, 6))
        first, second = frame.sections
        self.assertEqual(first, laconic.Section("weights", 1, 2, "identity", False, THREE[:8]))
        self.assertEqual(second, laconic.Section("", 3, 1, "natural", False, THREE[8:]))

    def test_a_part_of_an_array_is_read_but_is_not_the_array(self):
        part = frame_of_three(extents=(2, 3), position=2)
        self.assertEqual(laconic.read_frame(part).sections[0].position, 2)
        self.refuses(part, "only a part")

    def test_unknown_operators_are_refused_used_or_not(self):
        self.refuses(frame_of_three(operators=("identity", "natrual")), "no operator 'natrual'")

    def test_shape_and_dtype(self):
        shape, dtype, values = laconic.decode(frame_of_three(extents=(1, 3), dtype=b"\1"))
        self.assertEqual((shape, dtype, list(values)), ((1, 3), "float16", [1, -2, 0.5]))

    def test_no_dimension_is_one_entry(self):
        self.decodes(build(head(extents=()), THREE[:4], table_of(row(1, 4))), [1])

    def test_no_sections(self):
        self.decodes(build(head((), (0, 7)), b"", table_of()), [])
        self.refuses(build(head((), (3,), position=3), b"", table_of()), "only a part")

    def test_sixty_four_operators_and_dimensions(self):
        self.decodes(frame_of_three(operators=["identity"] * 64), [1, -2, 0.5])
        self.decodes(frame_of_three(extents=[3] + [1] * 63), [1, -2, 0.5])
        self.refuses(frame_of_three(operators=["identity"] * 65), "65 operators")
        self.refuses(frame_of_three(extents=[3] + [1] * 64), "65 dimensions")

    def test_numbers_near_the_limit(self):
        frame = laconic.read_frame(frame_of_three(step=varint(2**64 - 1)))
        self.assertEqual(frame.step, 2**64 - 1)

    def test_a_number_has_one_spelling(self):
        for spelling in b"\x80\0", b"\x85\0", b"\x80\x80\0", b"\xff" * 9 + b"\0":
            self.refuses(frame_of_three(step=spelling), "ends with a byte of 0")
        for spelling in b"\x80" * 9 + b"\2", b"\xff" * 9 + b"\x81\0", b"\x80" * 10 + b"\1":
            self.refuses(frame_of_three(step=spelling), "2.64 or more")

    def test_refusals(self):
        self.refuses(frame_of_three(magic=b"LAD"), "LAC")
        self.refuses(frame_of_three(version=b"\0"), "data version 0")
        self.refuses(frame_of_three(version=b"\2"), "data version 2")
        self.refuses(frame_of_three(extensions=varint(1) + varint(7) + text("a")), "extension 7")
        self.refuses(frame_of_three(extensions=varint(1) + varint(2) + varint(999)), "999 bytes")
        self.refuses(frame_of_three(extensions=varint(2**64 - 1)), "extension 1")
        self.refuses(frame_of_three(dtype=b"\3"), "dtype 3")
        self.refuses(frame_of_three(extents=(2**32, 2**32)), "more than 2147483648 entries")
        self.refuses(frame_of_three(extents=(2**40, 0)), "more than 2147483648 entries")
        self.refuses(frame_of_three(position=4), "begins beyond the array")

    def test_a_prefix_is_refused(self):
        good = frame_of_three()
        for length in range(len(good)):
            self.refuses(good[:length], "")

    def test_a_flipped_bit_is_refused(self):
        good = frame_of_three()
        for bit in range(8 * len(good)):
            flipped = int.from_bytes(good, "little") ^ 1 << bit
            self.refuses(flipped.to_bytes(len(good), "little"), "checksum|LAC|version")


class Table(ReaderTest):
    def test_sections_beyond_the_array(self):
        self.refuses(frame_of_three(extents=(2,)), "ends beyond the array")
        self.refuses(frame_of_three(position=1), "ends beyond the array")
        rows = table_of(row(2, 8), row(2**64 - 1, 4))
        self.refuses(frame_of_three(table=rows), "ends beyond the array")

    def test_operator_that_is_not_there(self):
        self.refuses(frame_of_three(table=table_of(row(3, 12, operator=1))), "no operator 1")
        self.refuses(frame_of_three(operators=()), "no operator 0")

    def test_lengths_that_do_not_fit(self):
        self.refuses(frame_of_three(table=table_of(row(3, 11))), "1 bytes left over")
        self.refuses(frame_of_three(table=table_of(row(3, 13))), "13 bytes wanted")
        self.refuses(frame_of_three(table=table_of(row(3, 2**64 - 1))), "bytes wanted")
        self.refuses(frame_of_three(sections=THREE + b"\0"), "1 bytes left over")
        self.refuses(frame_of_three(sections=THREE[:-1]), "12 bytes wanted, 11 left")

    def test_table_that_does_not_end_with_its_last_section(self):
        self.refuses(frame_of_three(table=table_of(row(3, 12)) + b"\0"), "table: 1 bytes left")
        self.refuses(frame_of_three(table=varint(2) + row(3, 12)), "table: 1 bytes wanted")
        self.refuses(
            frame_of_three(table=varint(2**64 - 1) + row(3, 12)), "table: 1 bytes wanted"
        )

    def test_length_of_the_table(self):
        table = table_of(row(3, 12))
        before_foot = head() + THREE + table
        for length in range(len(before_foot) + 10):
            if length != len(table):
                self.refuses(foot(before_foot, length), "")
        self.refuses(foot(before_foot, 2**32 - 1), "table of 4294967295 bytes")

    def test_empty_sections_among_others(self):
        rows = row(0, 0, name="a"), row(1, 4), row(0, 0, name="a"), row(2, 8), row(0, 0)
        self.decodes(frame_of_three(table=table_of(*rows)), [1, -2, 0.5])


class NotFinite(ReaderTest):
    WORDS = [0x7F800000, 0xFF800000, 0x7FC00000, 0xFFABCDEF, 0x7F800001, 0x3F800000]

    def test_bits_are_kept_under_any_operator(self):
        section = pack(self.WORDS, 32)
        for operator in *MAKERS, "entropy", "natural+entropy":
            frame = one_section(operator, 6, section, not_finite=True)
            words = array("I", laconic.decode(frame)[2].tobytes())
            self.assertEqual(list(words), self.WORDS)

    def test_length(self):
        for section in pack(self.WORDS, 32)[:-1], pack(self.WORDS, 32) + b"\0":
            self.refuses(one_section("half+entropy", 6, section, not_finite=True), "section at 0")


class Quantisers(ReaderTest):
    def test_values_of_every_quantiser_and_count(self):
        for operator, n, section, values in random_sections(COUNTS):
            with self.subTest(operator=operator, n=n):
                self.section_decodes(operator, n, section, values)

    def test_a_byte_more_or_less_is_refused(self):
        for operator, n, section, _ in random_sections((0, 1, 9)):
            with self.subTest(operator=operator, n=n):
                self.section_refused(operator, n, section + b"\0", "left over")
                if section:
                    self.section_refused(operator, n, section[:-1], "bytes wanted")

    def test_unknown_operators(self):
        specs = "", "none", "naturals", "natural:9", "entropy+natural", "natural+", "+entropy"
        for spec in *specs, "natural+half", "entropy+entropy", "natural+entropy+entropy":
            self.section_refused(spec, 0, b"", "no operator")

    def test_identity_is_finite(self):
        for word in 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001:
            self.section_refused("identity", 1, pack([word], 32), "NaN or Inf")
            self.section_refused("entropy", 1, stored_bytes(pack([word], 32)), "NaN or Inf")
        self.section_decodes(
            "identity", 2, pack([0x7F7FFFFF, 1], 32), [3.4028234663852886e38, 2**-149]
        )

    def test_natural_by_hand(self):
        section = bytes([127, 0, 130, 1]) + bytes([0b1100])
        self.section_decodes("natural", 4, section, [1, 0, -8, -(2**-126)])
        section = b"\4" + bytes([127, 0, 130, 1]) + b"\1" + bytes([0b110])
        self.section_decodes("natural+entropy", 4, section, [1, 0, -8, -(2**-126)])

    def test_natural_ignores_the_sign_of_zero(self):
        self.section_decodes("natural", 3, bytes([127, 0, 127, 0b110]), [1, 0, -1])

    def test_natural_refuses_bits_after_the_last_sign(self):
        for padding in range(3, 8):
            self.section_refused("natural", 3, bytes([127, 0, 127, 1 << padding]), "after the last")
        for padding in range(2, 8):
            section = bytes([3, 127, 0, 127, 1, 1 << padding])
            self.section_refused("natural+entropy", 3, section, "after the last symbol")

    def test_natural_without_signs(self):
        self.section_decodes("natural+entropy", 3, bytes([3, 0, 0, 0]), [0, 0, 0])
        self.section_refused("natural+entropy", 3, bytes([3, 0, 0, 0, 0]), "left over")

    def test_natural_refuses_exponent_255(self):
        self.section_refused("natural", 1, bytes([255, 0]), "exponent is 255")
        self.section_refused("natural+entropy", 1, bytes([1, 255, 1, 0]), "exponent is 255")

    def test_natural8_by_hand(self):
        section = bytes([127, 0, 128, 1, 127, 129, 255])
        values = [0, 0, 2**-126, 1, -(2**-126), -1]
        self.section_decodes("natural:8", 6, section, values)
        self.section_decodes("natural:8", 2, bytes([254, 127, 1]), [2.0**127, 2])

    def test_tops_out_of_range(self):
        for top in 0, 126, 255:
            self.section_refused("natural:8", 1, bytes([top, 0]), f"top is {top}")
            self.section_refused("natural:8+entropy", 1, bytes([1, top, 1, 0]), f"top is {top}")
        for top in 0, 255:
            self.section_refused("half", 1, bytes([top, 0, 0]), f"top is {top}")
            self.section_refused("half+entropy", 1, bytes([1, top, 1, 0, 1, 0]), f"top is {top}")

    def test_half_by_hand(self):
        one, third = 0x3C00, 0x3555
        self.section_decodes("half", 1, half_section(141, one), [1])
        self.section_decodes("half", 1, half_section(141, third), [0.333251953125])
        self.section_decodes("half+entropy", 1, bytes([1, 141, 1, 0x55, 1, 0x35]), [0.333251953125])

    def test_half_rounds_to_the_nearest_even_number(self):
        least = 2.0**-149
        multiples = {0x3C00: 512, 0x1800: 1, 0x1401: 1, 0x1400: 0, 0x1A00: 2, 1: 0}
        for half, multiple in multiples.items():
            self.section_decodes("half", 1, half_section(1, half), [multiple * least])

    def test_half_has_no_larger_magnitude_than_its_top_allows(self):
        below, limit, beyond = 0x77FF, 0x7800, 0x7801  # limit is 2^15
        infinite, nan, signalling = 0x7C00, 0x7E00, 0x7C01
        self.section_decodes("half", 1, half_section(254, below), [32752 * 2.0**113])
        self.section_refused("half", 1, half_section(254, limit), "an entry is 32768")
        self.section_decodes("half", 1, half_section(253, limit), [2.0**127])
        self.section_decodes("half", 1, half_section(253, limit + 0x8000), [-(2.0**127)])
        for top in 1, 141, 253, 254:
            for half in beyond, infinite, nan, signalling:
                for sign in 0, 0x8000:
                    self.section_refused("half", 1, half_section(top, half + sign), "an entry is")

    def test_bf16_is_finite(self):
        self.section_decodes("half:bf16", 2, pack([0x3F80, 0x8001], 16), [1, -(2.0**-133)])
        for upper in 0x7F80, 0xFF80, 0x7FC0, 0x7F81:
            self.section_refused("half:bf16", 1, pack([upper], 16), "NaN or Inf")


def half_section(top, half):
    return bytes([top]) + struct.pack("<H", half)


def stored_bytes(planes):
    return b"".join(stored(bytes([byte])) for byte in planes)


class Entropy(ReaderTest):
    """Most cases damage the codes of natural:8, a plane of n bytes."""

    def refuses_codes(self, n, chunks, why):
        tops = stored(bytes([127] * math.ceil(n / 4096)))
        self.section_refused("natural:8+entropy", n, tops + chunks, why)

    def test_chunks(self):
        for n in CHUNK - 1, CHUNK, CHUNK + 1:
            lower, upper = coded(bytes(n)), stored(bytes(n - 1) + b"\x3f")
            with self.subTest(n=n):
                values = [0] * (n - 1) + [0.5]
                self.section_decodes("half:bf16+entropy", n, lower + upper, values)

    def test_a_chunk_longer_than_its_bytes(self):
        self.refuses_codes(3, b"\4abcd", "a chunk of 3 bytes has 4")

    def test_a_chunk_that_is_not_zstd(self):
        self.refuses_codes(100, b"\0", "ends early")
        self.refuses_codes(100, text("not a zstd frame"), "not a zstd frame|ends early")

    def test_a_chunk_with_magic(self):
        frame = zstandard.ZstdCompressor().compress(bytes(100))
        self.refuses_codes(100, varint(len(frame)) + frame, "not a zstd frame|ends early|follow")

    def test_zstd_frames_of_another_length(self):
        for length in 0, 1, 99999, 100001, 2**27:
            frame = zstd(bytes(length))
            self.refuses_codes(100000, varint(len(frame)) + frame, "decompresses to")

    def test_zstd_frames_that_are_cut(self):
        frame = zstd(bytes(1000))
        for length in range(len(frame)):
            self.refuses_codes(1000, varint(length) + frame[:length], "ends early")

    def test_bytes_after_the_zstd_frame(self):
        frame = zstd(bytes(9000))
        for more in b"\0", frame, zstd(b""), laconic.ZSTD_MAGIC + zstd(b""), bytes(5000):
            longer = frame + more
            self.refuses_codes(9000, varint(len(longer)) + longer, "bytes follow the zstd frame")

    def test_two_zstd_frames_for_one_chunk(self):
        two = zstd(bytes(600)) + zstd(bytes(400))
        self.refuses_codes(1000, varint(len(two)) + two, "bytes follow the zstd frame")

    def test_a_section_that_promises_too_much_is_refused_soon(self):
        huge = build(head(("natural+entropy",), (2**31,)), b"\0", table_of(row(2**31, 1)))
        self.refuses(huge, "ends early")
        huge = build(head(("natural",), (2**31,)), b"\0", table_of(row(2**31, 1)))
        self.refuses(huge, "bytes wanted")


class Damage(unittest.TestCase):
    def test_damage_under_a_right_checksum_is_decoded_or_refused(self):
        """Not the array as a whole: damaged extents may ask for any memory."""
        generator = random.Random(2)
        for operator, n, section, _ in random_sections((1, 9, 300)):
            good = one_section(operator, n, section)[:-4]
            for _ in range(100):
                damaged = bytearray(good)
                damaged[generator.randrange(4, len(good))] = generator.randrange(256)
                with contextlib.suppress(laconic.FrameError):
                    frame = laconic.read_frame(damaged + crc_bytes(damaged))
                    for section in frame.sections:
                        self.assertEqual(len(laconic.decode_section(section)), section.count)


class CommandLine(unittest.TestCase):
    def run_on(self, data):
        with tempfile.NamedTemporaryFile(suffix=".lac") as file:
            file.write(data)
            file.flush()
            with contextlib.redirect_stdout(io.StringIO()) as output:
                laconic.main([file.name])
        return output.getvalue()

    def test_prints_head_table_and_values(self):
        output = self.run_on(frame_of_three(table=table_of(row(3, 12, name="bias"))))
        for words in "step 300", "float32 array [3]", "'identity' 'bias'", "1 -2 0.5":
            self.assertIn(words, output)

    def test_a_refusal_is_one_sentence(self):
        with self.assertRaisesRegex(SystemExit, "does not begin with LAC"):
            self.run_on(b"GIF89a")


class Golden(unittest.TestCase):
    def test_files(self):
        frames = sorted(GOLDEN.glob("*.lac"))
        self.assertTrue(frames, f"no golden files in {GOLDEN}")
        for path in frames:
            with self.subTest(path.name):
                values = laconic.decode(path.read_bytes())[2]
                expected = path.with_suffix(".expected").read_bytes()
                self.assertEqual(words_of(values.tobytes(), "="), words_of(expected, "<"))

    def test_no_expected_file_is_alone(self):
        for path in GOLDEN.glob("*.expected"):
            self.assertTrue(path.with_suffix(".lac").exists(), path.name)


def words_of(data, byte_order):
    """The bits of each value; the page leaves the sign of a zero open."""
    words = struct.unpack(f"{byte_order}{len(data) // 4}I", data)
    return [0 if word == 0x80000000 else word for word in words]


if __name__ == "__main__":
    unittest.main()
