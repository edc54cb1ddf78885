"""Tests the reference reader on frames built here from docs/frame.md, and on the golden files.

Run by /usr/bin/python3 reference/test_reference.py.
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
from collections import Counter
from pathlib import Path

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


def code_lengths(counts):
    """Of a Huffman tree; the weights are flattened until no code has more than 11 bits."""
    while True:
        trees = sorted((count, [symbol]) for symbol, count in counts.items())
        lengths = dict.fromkeys(counts, 0)
        while len(trees) > 1:
            (first, left), (second, right) = trees[:2]
            for symbol in left + right:
                lengths[symbol] += 1
            trees = sorted(trees[2:] + [(first + second, left + right)])
        if max(lengths.values()) <= 11:
            return lengths
        counts = {symbol: count // 2 + 1 for symbol, count in counts.items()}


def huffman_table(lengths):
    lowest, highest = min(lengths), max(lengths)
    fours = []
    symbol = lowest
    while symbol <= highest:
        run = 0
        while symbol + run not in lengths and run < 16:
            run += 1
        fours += [0, run - 1] if run else [lengths[symbol]]
        symbol += run or 1
    return bytes([lowest, highest]) + pack(fours, 4)


def huffman_stream(symbols, lengths):
    codes = {symbol: key for key, symbol in laconic.canonical(lengths).items()}
    text = "".join(f"{code:0{length}b}" for length, code in map(codes.get, symbols))
    return pack(list(map(int, text)), 1)


def huffman(data):
    """Huffman codes of some bytes."""
    lengths = code_lengths(Counter(data))
    if len(lengths) == 1:
        return bytes([data[0], data[0]])
    q = math.ceil(len(data) / 4)
    streams = [huffman_stream(data[q * k : q * (k + 1)], lengths) for k in range(4)]
    sizes = b"".join(varint(len(stream)) for stream in streams[:3])
    return huffman_table(lengths) + sizes + b"".join(streams)


def coded_form(data, form):
    """Bytes in the form of a coded chunk; none if what is above the low bits is too much for it."""
    low_bits = form % 8
    above = [byte >> low_bits for byte in data]
    if form < 8:
        above = bytes(above)
    elif max(above) > 15:
        return None
    else:
        above = pack(above, 4)
    low = pack([byte & ((1 << low_bits) - 1) for byte in data], low_bits) if low_bits else b""
    return bytes([form]) + low + huffman(above)


def coded(data):
    """Chunks in coded form, few bytes in any of them, where this is shorter."""
    result = b""
    for start in range(0, len(data), CHUNK):
        chunk = data[start : start + CHUNK]
        forms = [coded_form(chunk, form) for form in range(16 if len(chunk) < 300 else 1)]
        shortest = min([chunk, *filter(None, forms)], key=len)
        result += varint(len(shortest)) + shortest
    return result


def foot(before_foot, table_length):
    body = before_foot + struct.pack("<I", table_length)
    return body + crc_bytes(body)


def crc_bytes(body):
    return struct.pack("<I", laconic.crc32c(body))


CODED, NOT_FINITE, RESTS = range(3)


def row(count, length, operator=0, name="", state=CODED, gap=0):
    choice = varint(4 * operator + state)
    return text(name) + varint(gap) + varint(count) + choice + varint(length)


def table_of(*rows):
    return varint(len(rows)) + b"".join(rows)


def head(operators=("identity",), extents=(3,), **changes):
    parts = dict(
        magic=b"LAC",
        version=b"\4",
        extensions=varint(0),
        operators=varint(len(operators)) + b"".join(map(text, operators)),
        seed=struct.pack("<Q", 2**63 + 5),
        step=varint(300),
        rank=varint(2),
        ranks=varint(4),
        dtype=b"\0",
        extents=varint(len(extents)) + b"".join(map(varint, extents)),
    )
    return b"".join((parts | changes).values())


def build(head, sections, table):
    return foot(head + sections + table, len(table))


def one_section(operator, count, section, state=CODED):
    """A frame of one section that is the whole array."""
    table = table_of(row(count, len(section), state=state))
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
        if width > 8:
            symbols = [symbol << 1 & (1 << width) - 1 | symbol >> width - 1 for symbol in symbols]
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


# Writers of bits, positions and levels, from the page's definitions.


def stream(text):
    """The bytes of a text of bits, in the order of the stream."""
    bits = [int(bit) for bit in text.replace(" ", "")]
    return pack(bits, 1)


def digits(number):
    return number.bit_length()


def low_first(number, width):
    return "".join(str(number >> place & 1) for place in range(width))


def rice_code(number, b, largest):
    if number >> b >= 24:
        return "1" * 24 + low_first(number, max(1, digits(largest)))
    return "1" * (number >> b) + "0" + low_first(number, b)[::-1]


def omega_code(number):
    code = "0"
    while number > 1:
        code = f"{number:b}" + code
        number = digits(number) - 1
    return code


def gaps_of(positions):
    return [later - earlier for earlier, later in zip([-1, *positions], positions)]


def rice_width(c, n):
    g = (math.sqrt(5) - 1) / 2
    return max([b for b in range(32) if c / n < 1 - g**2 ** (1 - b)], default=0)


def write_rice(positions, n):
    b = rice_width(len(positions), n)
    return stream("".join(rice_code(gap - 1, b, n - 1) for gap in gaps_of(positions)))


def write_fano(positions, n):
    c = len(positions)
    l = digits(n // c) - 1
    bits = [0] * (c + (n - 1 >> l))
    for j, position in enumerate(positions):
        bits[(position >> l) + j] = 1
    return pack([position % 2**l for position in positions], l) + pack(bits, 1)


POSITION_WRITERS = {
    "rice": write_rice,
    "fano": write_fano,
    "bitmap": lambda positions, n: pack([int(i in positions) for i in range(n)], 1),
    "varint": lambda positions, n: b"".join(varint(gap - 1) for gap in gaps_of(positions)),
    "fixed": lambda positions, n: pack(positions, digits(n - 1)),
    "omega": lambda positions, n: stream("".join(map(omega_code, gaps_of(positions)))),
}


def binary32(*numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


def zigzag(level):
    return 2 * level if level >= 0 else -2 * level - 1


def not_zero(levels):
    return [i for i, level in enumerate(levels) if level]


def write_fixed_levels(levels, most):
    if most <= 32767:
        return pack(list(map(zigzag, levels)), digits(2 * most))
    width = digits(2 * max(map(abs, levels)))
    return bytes([width]) + pack(list(map(zigzag, levels)), width)


def write_trits(levels, most):
    rows = (levels[i : i + 5] for i in range(0, len(levels), 5))
    return bytes(sum((level + 1) * 3**j for j, level in enumerate(row)) for row in rows)


def write_elias(levels, most):
    positions = not_zero(levels)
    bits = ""
    for gap, position in zip(gaps_of(positions), positions):
        level = levels[position]
        bits += omega_code(gap) + str(int(level < 0))
        bits += omega_code(abs(level)) if most > 1 else ""
    return varint(len(positions)) + stream(bits)


def write_sparse(levels, most, code="rice", b=1):
    positions = not_zero(levels)
    c, tag = len(positions), list(POSITION_WRITERS).index(code)
    section = varint(8 * c + tag)
    if c:
        section += POSITION_WRITERS[code](positions, len(levels))
        section += pack([int(levels[position] < 0) for position in positions], 1)
        if most > 1:
            numbers = (abs(levels[position]) - 1 for position in positions)
            section += bytes([b]) + stream("".join(rice_code(x, b, most - 1) for x in numbers))
    return section


def write_pairs(levels, most, form=None):
    numbers = list(map(zigzag, levels))
    if form is None:
        form = 2 if max(numbers) > 254 else int(max(numbers) > 14)
    width, escape = ((4, 15), (8, 255), (16, 65535))[form]
    symbols = [min(number, escape) for number in numbers]
    beyond = (varint(number - escape) for number in numbers if number >= escape)
    if form < 2:
        symbols = coded(pack(symbols, width))
    else:
        lanes = (bytes(symbol >> shift & 255 for symbol in symbols) for shift in (0, 8))
        symbols = b"".join(map(coded, lanes))
    return bytes([form]) + symbols + b"".join(beyond)


LEVEL_WRITERS = {
    "fixed": write_fixed_levels,
    "trits": write_trits,
    "elias": write_elias,
    "sparse": write_sparse,
    "pairs": write_pairs,
}


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
        changes = dict(extensions=extensions, dtype=b"\2", extents=(2, 3))
        rows = row(2, 8, operator=1, name="weights", gap=1), row(1, 4, gap=2)
        frame = laconic.read_frame(
            frame_of_three(operators=("natural", "identity"), table=table_of(*rows), **changes)
        )
        self.assertEqual(frame.extensions, [(0, b""), (1000, b"abc")])
        self.assertEqual(frame.operators, ["natural", "identity"])
        self.assertEqual((frame.seed, frame.step), (2**63 + 5, 300))
        self.assertEqual((frame.rank, frame.ranks), (2, 4))
        self.assertEqual((frame.dtype, frame.extents), ("float64", (2, 3)))
        self.assertEqual(frame.count, 6)
        first, second = frame.sections
        self.assertEqual(first, laconic.Section("weights", 1, 2, "identity", "coded", THREE[:8]))
        self.assertEqual(second, laconic.Section("", 5, 1, "natural", "coded", THREE[8:]))

    def test_a_part_of_an_array_is_read_but_is_not_the_array(self):
        part = frame_of_three(extents=(2, 3), table=table_of(row(3, 12, gap=2)))
        self.assertEqual(laconic.read_frame(part).sections[0].position, 2)
        self.refuses(part, "only a part")

    def test_unknown_operators_are_refused_used_or_not(self):
        self.refuses(frame_of_three(operators=("identity", "natrual")), "no operator 'natrual'")

    def test_shape_and_dtype(self):
        shape, dtype, values = laconic.decode(frame_of_three(extents=(1, 3), dtype=b"\1"))
        self.assertEqual((shape, dtype, list(values)), ((1, 3), "float16", [1, -2, 0.5]))
        self.assertEqual(laconic.decode(frame_of_three(dtype=b"\3"))[1], "bfloat16")

    def test_no_dimension_is_one_entry(self):
        self.decodes(build(head(extents=()), THREE[:4], table_of(row(1, 4))), [1])

    def test_no_sections(self):
        self.decodes(build(head((), (0, 7)), b"", table_of()), [])
        self.refuses(build(head((), (3,)), b"", table_of()), "only a part")

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
        self.refuses(frame_of_three(version=b"\3"), "data version 3; this reader knows 4")
        self.refuses(frame_of_three(extensions=varint(1) + varint(7) + text("a")), "extension 7")
        self.refuses(frame_of_three(extensions=varint(1) + varint(2) + varint(999)), "999 bytes")
        self.refuses(frame_of_three(extensions=varint(2**64 - 1)), "extension 1")
        self.refuses(frame_of_three(dtype=b"\4"), "dtype 4")
        self.refuses(frame_of_three(extents=(2**32, 2**32)), "more than 2147483648 entries")
        self.refuses(frame_of_three(extents=(2**40, 0)), "more than 2147483648 entries")
        self.refuses(frame_of_three(ranks=varint(2)), "rank 2 of 2")
        self.decodes(frame_of_three(ranks=varint(0)), [1, -2, 0.5])

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
        for last in row(1, 4, gap=1), row(2**64 - 1, 4), row(1, 4, gap=2**64 - 1):
            self.refuses(frame_of_three(table=table_of(row(2, 8), last)), "ends beyond the array")
        self.refuses(frame_of_three(table=table_of(row(0, 0, gap=4))), "ends beyond the array")

    def test_states(self):
        rows = row(1, 4), row(1, 0, state=RESTS), row(1, 4, state=NOT_FINITE)
        self.decodes(frame_of_three(sections=THREE[:8], table=table_of(*rows)), [1, 0, -2])
        self.refuses(frame_of_three(table=table_of(row(3, 12, state=RESTS))), "rests, in 12 bytes")
        self.refuses(frame_of_three(table=table_of(row(3, 12, state=3))), "no state 3")

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
            frame = one_section(operator, 6, section, state=NOT_FINITE)
            words = array("I", laconic.decode(frame)[2].tobytes())
            self.assertEqual(list(words), self.WORDS)

    def test_length(self):
        for section in pack(self.WORDS, 32)[:-1], pack(self.WORDS, 32) + b"\0":
            self.refuses(one_section("half+entropy", 6, section, state=NOT_FINITE), "section at 0")


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
            self.section_refused("entropy", 1, stored_lanes(*struct.unpack("<f", pack([word], 32))), "NaN or Inf")
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
            self.section_refused("natural+entropy", 3, section, "after the last")

    def test_natural_without_signs(self):
        self.section_decodes("natural+entropy", 3, bytes([3, 0, 0, 0]), [0, 0, 0])
        self.section_refused("natural+entropy", 3, bytes([3, 0, 0, 0, 0]), "left over")

    def test_natural_reads_exponent_255_as_254(self):
        self.section_decodes("natural", 2, bytes([255, 254, 1]), [-(2.0**127), 2.0**127])
        self.section_decodes("natural+entropy", 1, bytes([1, 255, 1, 0]), [2.0**127])

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
        self.section_decodes("half+entropy", 1, bytes([1, 141, 1, 0xAA, 1, 0x6A]), [0.333251953125])

    def test_half_rounds_to_the_nearest_even_number(self):
        least = 2.0**-149
        multiples = {0x3C00: 512, 0x1800: 1, 0x1401: 1, 0x1400: 0, 0x1A00: 2, 1: 0}
        for half, multiple in multiples.items():
            self.section_decodes("half", 1, half_section(1, half), [multiple * least])

    def test_half_has_no_larger_magnitude_than_its_top_allows(self):
        below, limit, beyond = 0x77FF, 0x7800, 0x7801  # limit is 2^15
        infinite, nan, signalling = 0x7C00, 0x7E00, 0x7C01
        self.section_decodes("half", 1, half_section(254, below), [32752 * 2.0**113])
        self.section_decodes("half", 1, half_section(254, limit), [32752 * 2.0**113])
        self.section_decodes("half", 1, half_section(253, limit), [2.0**127])
        self.section_decodes("half", 1, half_section(253, limit + 0x8000), [-(2.0**127)])
        for top, most in (1, 2.0**-125), (141, 2.0**15), (253, 2.0**127), (254, 32752 * 2.0**113):
            for half in beyond, infinite, nan, signalling:
                self.section_decodes("half", 1, half_section(top, half), [most])
                self.section_decodes("half", 1, half_section(top, half + 0x8000), [-most])

    def test_bf16_is_finite(self):
        self.section_decodes("half:bf16", 2, pack([0x3F80, 0x8001], 16), [1, -(2.0**-133)])
        largest = 255 * 2.0**120
        for upper in 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0, 0x7F81:
            most = -largest if upper & 0x8000 else largest
            self.section_decodes("half:bf16", 1, pack([upper], 16), [most])


def half_section(top, half):
    return bytes([top]) + struct.pack("<H", half)


def stored_lanes(*numbers):
    """Few binary32 numbers as lanes, chunks as they are."""
    words = struct.unpack(f"<{len(numbers)}I", binary32(*numbers))
    turned = struct.pack(f"<{len(words)}I", *(w << 1 & 2**32 - 1 | w >> 31 for w in words))
    return b"".join(stored(turned[byte::4]) for byte in range(4))


class Entropy(ReaderTest):
    """Most cases damage the codes of natural:8, a plane of n bytes."""

    def refuses_codes(self, n, chunks, why):
        tops = stored(bytes([127] * math.ceil(n / 4096)))
        self.section_refused("natural:8+entropy", n, tops + chunks, why)

    def test_chunks(self):
        for n in CHUNK - 1, CHUNK, CHUNK + 1:
            tops = stored(bytes([127] * math.ceil(n / 4096)))
            with self.subTest(n=n):
                values = [0] * (n - 1) + [1]
                codes = stored(bytes(n - 1) + b"\x7f")
                self.section_decodes("natural:8+entropy", n, tops + codes, values)

    def test_lanes(self):
        for n in CHUNK - 1, CHUNK, CHUNK + 1:
            lower, upper = bytes(n), bytes(n - 1) + b"\x7e"  # 0x3f00, turned
            chunks = b"".join(
                coded(lower[start : start + CHUNK]) + stored(upper[start : start + CHUNK])
                for start in range(0, n, CHUNK)
            )
            with self.subTest(n=n):
                self.section_decodes("half:bf16+entropy", n, chunks, [0] * (n - 1) + [0.5])

    def test_every_form(self):
        data = bytes([0, 1, 1, 2, 1, 0, 3, 1] * 13)
        for form in range(16):
            for n in 100, 101, 104:
                low = [byte << form % 8 & 127 | byte & 1 for byte in data[:n]]
                part = bytes(low)
                coded = coded_form(part, form)
                if coded is not None:
                    self.assertEqual(laconic.coded_bytes(coded, n), part)

    def test_forms_that_are_wrong(self):
        for section, n, why in (
            (b"\x10\1\1", 9, "form 16"),
            (b"\1\xff", 9, "bytes wanted"),
            (b"\1\x0f\3\3", 3, "bit after the last"),
            (b"\1\7\x80\x80", 3, "a part is above 127"),
            (b"\x08\x32\x32", 3, "bit after the last"),
            (b"\x0d\0\0\x88\x88", 2, "a part is above 7"),
        ):
            with self.assertRaisesRegex(laconic.FrameError, why):
                laconic.coded_bytes(section, n)

    def test_symbols_across_bytes(self):
        for n in 4095, 4096:
            symbols = [i % 8 for i in range(n)]
            codes = stored(pack(symbols, 3) if n < 4096 else bytes(symbols))
            data = laconic.Reader(codes, "symbols")
            self.assertEqual(laconic.entropy_symbols(data, n, 3), symbols)
            data.end()
        with self.assertRaisesRegex(laconic.FrameError, "more than 3 bits"):
            data = laconic.Reader(stored(bytes([8] * 4096)), "symbols")
            laconic.entropy_symbols(data, 4096, 3)

    def test_a_chunk_longer_than_its_bytes(self):
        self.refuses_codes(3, b"\4abcd", "a chunk of 3 bytes has 4")

    def test_huffman_codes(self):
        for data in b"a" * 99, b"ab" * 50, bytes(range(256)) * 9, b"\0" * 900 + b"\x7f", b"abcde" * 7:
            for n in len(data), len(data) - 3:
                self.assertEqual(laconic.decompress(huffman(data[:n]), n), data[:n])

    def test_a_chunk_that_is_no_code(self):
        self.refuses_codes(100, b"\0", "bytes wanted")
        self.refuses_codes(100, b"\1\0", "bytes wanted")
        self.refuses_codes(100, b"\4\0\0\0\0", "bytes follow|left over")
        self.refuses_codes(100, b"\4\0\1\0\0", "above the highest")

    def test_tables_that_are_wrong(self):
        rest = bytes(9)
        for table, why in (
            (bytes([0, 1, 0x1C]), "a code of 12 bits"),
            (bytes([0, 1, 0x21]), "not used up"),
            (bytes([0, 2, 0x11, 0x01]), "not used up"),
            (bytes([0, 2, 0x01, 0x11]), "beyond the highest|not used up"),
            (bytes([0, 2, 0x00, 0x11]), "no code"),
            (bytes([0, 2, 0x21, 0x12]), "bit after the last"),
        ):
            chunk = b"\0" + table + rest
            self.refuses_codes(100, varint(len(chunk)) + chunk, why)

    def test_codes_of_another_length(self):
        data = bytes([0, 1, 1, 2] * 25)
        for n in 60, 140:
            chunk = b"\0" + huffman((data * 2)[:n])
            self.refuses_codes(100, varint(len(chunk)) + chunk, "bytes wanted|left over|not 0")

    def test_codes_that_are_cut_or_followed(self):
        chunk = b"\0" + huffman(bytes([0, 1, 1, 2] * 25))
        for length in range(len(chunk)):
            self.refuses_codes(100, varint(length) + chunk[:length], "bytes wanted")
        for more in b"\0", b"\1", chunk:
            longer = chunk + more
            self.refuses_codes(100, varint(len(longer)) + longer, "left over|not 0")

    def test_a_section_that_promises_too_much_is_refused_soon(self):
        huge = build(head(("natural+entropy",), (2**31,)), b"\0", table_of(row(2**31, 1)))
        self.refuses(huge, "bytes wanted")
        huge = build(head(("natural",), (2**31,)), b"\0", table_of(row(2**31, 1)))
        self.refuses(huge, "bytes wanted")


class Specs(ReaderTest):
    def accepts(self, *specs):
        for spec in specs:
            with self.subTest(spec=spec):
                self.section_decodes(spec, 0, b"", [])

    def rejects(self, why, *specs):
        for spec in specs:
            with self.subTest(spec=spec):
                self.section_refused(spec, 0, b"", f"no operator.*{why}")

    def test_numbers_in_fixed_notation_unless_very_small_or_large(self):
        spelt = {0.1: "0.1", 0.01: "0.01", 1e-4: "0.0001", 1e-6: "0.000001", 9e-7: "9e-07"}
        spelt |= {0.000025: "0.000025", 1e-30: "1e-30", 1.25e-9: "1.25e-09", 2.5: "2.5", 1.0: "1"}
        spelt |= {1e5: "100000", 1.2e7: "12000000", 2.0**30: "1073741824", 1e15: "1e15"}
        spelt |= {0.0: "0", -0.0: "0", 1 / 3: "0.3333333333333333", 1e30: "1e30"}
        spelt |= {2.0**80: "1.2089258196146292e24", 999999999999999.0: "999999999999999"}
        for value, text in spelt.items():
            self.assertEqual(laconic.spelling(value), text)

    def test_stages_in_order_each_may_be_missing(self):
        self.accepts("shrink", "topk:0.1", "bucket", "sign", "entropy", "shrink+entropy")
        self.accepts("shrink+topk:0.1+bucket+qsgd:4+levels:elias", "topk:0.1+identity+entropy")
        self.accepts("sbc:0.1", "shrink+stc:0.1+entropy")

    def test_wrong_order(self):
        order = "not in their order"
        self.rejects(order, "entropy+sign", "sign+bucket", "bucket+topk:0.1", "topk:0.1+shrink")
        self.rejects(order, "sign+sign", "sign+half", "topk:0.1+randomk:0.1", "shrink+shrink")
        self.rejects(order, "entropy+entropy", "qsgd:4+levels:fixed+entropy", "bucket+bucket")
        self.rejects(order, "sbc:0.1+sign", "bucket+sbc:0.1", "sbc:0.1+bucket", "topk:0.1+stc:0.1")

    def test_unknown_stages(self):
        self.rejects("no stage", "", "topk0.1", "sign+", "+sign", "sign++entropy", "Sign", " sign")

    def test_arguments(self):
        self.accepts("adaptive:rice", "adaptive:3,rice", "chunk:kept=4", "chunk:64,kept=4,fano")
        self.accepts("uniform:nearest", "uniform:absmax,nearest", "uniform:1,absmax", "bucket:9")
        self.accepts("dithering:1,1", "dithering:127,inf", "qsgd:32767,max", "randomk:1,unscaled")
        self.rejects("lacks an argument", "topk", "topk:rice", "randomk", "sbc", "stc", "qsgd")
        self.rejects("lacks an argument", "qsgd:max", "dithering", "threshold", "topk:0x1p-3")
        self.rejects(
            "has no argument", "topk:0.1,bits", "sign:1", "chunk:64,4", "shrink:", "half:8"
        )
        self.rejects("has no argument", "topk:0.1,rice,rice", "chunk:fixed,kept=4", "topk:0.1,")
        self.rejects("has no argument", "uniform:nearest,absmax", "chunk:size=64", "levels:bits")

    def test_defaults_are_left_out(self):
        self.rejects("is left out", "adaptive:2", "chunk:4096", "chunk:kept=64", "bucket:512")
        self.rejects("is left out", "terngrad:0", "terngrad:-0", "grid:0.125", "uniform:8,nearest")
        self.rejects("is left out", "binned:2")
        self.rejects("has no argument", "topk:0.1,auto", "randomk:0.1,scaled", "dithering:4,2")

    def test_numbers_have_one_spelling(self):
        for spec in "topk:0.10", "topk:.1", "topk:1.0", "topk:1e-1", "topk:1e-04", "qsgd:1e3":
            self.rejects("is spelt", spec)
        for spec in "topk: 0.1", "topk:0_1", "threshold:1e6", "threshold:1e06", "qsgd:04":
            self.rejects("is spelt", spec)
        self.rejects("is spelt", "grid:1e-03", "bucket:1e05+sign")

    def test_a_plus_joins_stages_and_is_in_no_number(self):
        self.accepts("threshold:1000000", "bucket:100000+sign", "shrink+adaptive:100000,rice+half")
        self.rejects("", "threshold:1e+natural", "topk:1e+06", "qsgd:+4")

    def test_ranges(self):
        self.accepts("topk:1e-09", "topk:1", "threshold:1e-30", "threshold:1e30", "adaptive:1")
        self.accepts("chunk:2,kept=1", "chunk:1073741824,kept=1073741824", "bucket:8+sign")
        self.accepts("qsgd:1", "terngrad:1000", "grid:0.001", "grid:16", "uniform:1", "binned:4")
        below = "topk:9e-10", "topk:0", "topk:-1", "threshold:0", "adaptive:0.5", "chunk:1"
        beyond = (
            "topk:1.5",
            "topk:inf",
            "topk:nan",
            "threshold:2e30",
            "adaptive:2000000000",
            "grid:17",
        )
        self.rejects("is .* to ", *below, "chunk:kept=0", "bucket:7", "qsgd:0", "terngrad:-1")
        self.rejects("is .* to ", *beyond, "chunk:1073741825", "qsgd:32768", "dithering:128")
        self.rejects("is .* to ", "uniform:0", "uniform:9", "grid:1e-09", "terngrad:1001", "sbc:2")
        self.rejects("is .* to ", "binned:0", "binned:5")
        self.rejects(
            "whole",
            "binned:1.5",
            "qsgd:1.5",
            "chunk:2.5",
            "uniform:7.5",
            "dithering:1.5",
            "bucket:8.5",
        )
        self.rejects("cannot be kept", "chunk:32", "chunk:32,kept=33")

    def test_levels_need_levels(self):
        for stages in "natural", "sign", "topk:0.1", "stc:0.1", "uniform", "identity":
            self.rejects("no levels", f"{stages}+levels", f"{stages}+levels:fixed")
        self.rejects("no levels", "levels", "levels:trits")
        self.rejects("not trits", "qsgd:2+levels:trits", "grid+levels:trits")
        self.accepts("qsgd:1+levels:trits", "dithering:1+levels:trits", "terngrad+levels:trits")

    def test_runs_end_on_a_byte(self):
        self.rejects("on a byte", "bucket:9+natural", "bucket:12+sign", "bucket:10+uniform:2")
        self.accepts("bucket:9+half", "bucket:9+qsgd:4", "bucket:12+uniform:2", "bucket:9+uniform")


class Positions(ReaderTest):
    """Positions of threshold:1, whose number is not exact; every entry that is kept is 1."""

    def section(self, c, positions, code=None):
        """With the name of a code: as if the spec names none."""
        number = c if code is None else 8 * c + list(POSITION_WRITERS).index(code)
        return varint(number) + positions + binary32(*[1] * c)

    def reads(self, code, n, positions, data):
        values = [float(i in positions) for i in range(n)]
        named = self.section(len(positions), data)
        self.section_decodes(f"threshold:1,{code}", n, named, values)
        tagged = self.section(len(positions), data, code)
        self.section_decodes("threshold:1", n, tagged, values)

    def refuses_positions(self, code, n, c, data, why):
        self.section_refused(f"threshold:1,{code}", n, self.section(c, data), why)

    def test_known_streams(self):
        data = stream("0000 0000 0111 1110110")
        self.reads("rice", 64, {0, 1, 9, 40}, data)
        data = stream("0000101 0111001 0000000 110000111")
        self.reads("rice", 300, {5, 63, 64, 200}, data)
        self.reads("omega", 20, {3, 19}, stream("101000 10100100000"))
        self.reads("omega", 20, {0}, stream("0"))

    def test_all_codes(self):
        generator = random.Random(3)
        for n in 1, 2, 8, 9, 100, 4097:
            for c in sorted({1, n // 10, n // 3, n - 1, n} - {0}):
                positions = sorted(generator.sample(range(n), c))
                for code, write in POSITION_WRITERS.items():
                    with self.subTest(code=code, n=n, c=c):
                        self.reads(code, n, set(positions), write(positions, n))

    def test_far_apart(self):
        for code, write in POSITION_WRITERS.items():
            self.reads(code, 5000, {4998, 4999}, write([4998, 4999], 5000))

    def test_rice_widths(self):
        for b in range(1, 31):
            limit = 1 - ((math.sqrt(5) - 1) / 2) ** 2 ** (1 - b)
            n = math.floor(1000 / limit)
            if n < 2**32:
                self.assertEqual(laconic.rice_width(1000, n + 1), b)
                self.assertEqual(laconic.rice_width(1000, n), b - 1)
        self.assertEqual(laconic.rice_width(1, 1), 0)
        self.assertEqual(laconic.rice_width(1, 2**32 - 1), 31)

    def test_rice_escape(self):
        positions = [*range(600), 999]  # b is 0, and the last gap is 400
        codes = "0" * 600 + "1" * 24 + low_first(399, 10)
        self.reads("rice", 1000, set(positions), stream(codes))
        short = "0" * 600 + "1" * 24 + low_first(23, 10)
        self.refuses_positions("rice", 1000, 601, stream(short), "spells out 23")
        large = "0" * 600 + "1" * 24 + low_first(1000, 10)
        self.refuses_positions("rice", 1000, 601, stream(large), "is 1000; it is at most 999")

    def test_no_positions_take_no_bytes(self):
        for tag in range(6):
            self.section_decodes("threshold:1", 3, bytes([tag]), [0, 0, 0])
            self.section_refused("threshold:1", 3, bytes([tag, 0]), "left over")
        self.section_decodes("threshold:1,fano", 3, b"\0", [0, 0, 0])

    def test_unknown_tags(self):
        for tag in 6, 7:
            self.section_refused("threshold:1", 3, bytes([8 + tag]), f"code of positions {tag}")

    def test_too_many_positions(self):
        self.section_refused("threshold:1,varint", 3, b"\4" + bytes(99), "it is at most 3")
        self.section_refused("threshold:1", 3, varint(8 * 4 + 3) + bytes(99), "it is at most 3")
        self.section_refused("topk:0.5,varint", 3, b"\3" + bytes(99), "it is at most 2")
        self.section_refused("threshold:1", 3, varint(2**64 - 1), "it is at most 3")

    def test_bits_after_the_last(self):
        for code, write in POSITION_WRITERS.items():
            if code == "varint":
                continue
            data = bytearray(write([1, 4, 5], 13))
            data[-1] |= 0x80
            self.refuses_positions(code, 13, 3, bytes(data), "bit after the last is not 0")
        data = bytearray(write_fano([1, 4, 40], 41))  # three low bits of each position
        data[1] |= 0x80
        self.refuses_positions("fano", 41, 3, bytes(data), "bit after the last is not 0")

    def test_positions_beyond_the_last(self):
        beyond = "beyond|at most|above"
        self.refuses_positions("rice", 10, 2, stream(rice_code(9, 2, 9) + "000"), beyond)
        self.refuses_positions("varint", 10, 2, bytes([4, 5]), beyond)
        self.refuses_positions("varint", 10, 1, varint(2**64 - 1), beyond)
        self.refuses_positions("fixed", 10, 1, pack([10], 4), beyond)
        self.refuses_positions("omega", 10, 1, stream(omega_code(11)), beyond)
        self.refuses_positions("omega", 10, 1, stream(omega_code(2**40)), beyond)
        self.refuses_positions("omega", 10, 1, b"\xff" * 99, beyond)
        self.refuses_positions("fano", 10, 1, pack([2], 3) + pack([0, 1], 1), beyond)

    def test_positions_not_ascending(self):
        self.refuses_positions("fixed", 10, 2, pack([5, 5], 4), "not ascending")
        self.refuses_positions("fixed", 10, 2, pack([5, 4], 4), "not ascending")
        low, bits = pack([3, 3], 2), pack([1, 1, 0, 0], 1)
        self.refuses_positions("fano", 10, 2, low + bits, "not ascending")
        self.refuses_positions("fano", 10, 2, pack([3, 2], 2) + bits, "not ascending")

    def test_number_of_bits_that_are_1(self):
        for code in "bitmap", "fano":
            for positions in [1, 4], [1, 4, 5, 6]:
                data = pack([int(i in positions) for i in range(10)], 1)
                low = pack([0] * 3, 1) if code == "fano" else b""
                self.refuses_positions(code, 10, 3, low + data, "bits are 1 for 3 positions")

    def test_cut(self):
        for code, write in POSITION_WRITERS.items():
            section = self.section(3, write([1, 40, 77], 300))
            for length in range(len(section)):
                self.section_refused(f"threshold:1,{code}", 300, section[:length], "")
            self.section_refused(f"threshold:1,{code}", 300, section + b"\0", "left over")


class Selectors(ReaderTest):
    def test_exact_numbers_count_what_is_missing(self):
        section = b"\1" + bytes([2]) + binary32(7)  # one of two, position 2
        self.section_decodes("topk:0.5,varint", 4, section, [0, 0, 7, 0])
        section = varint(8 * 1 + 3) + bytes([2]) + binary32(7)
        self.section_decodes("topk:0.5", 4, section, [0, 0, 7, 0])
        self.section_decodes("topk:0.5", 4, varint(8 * 2 + 3), [0, 0, 0, 0])
        section = varint(1) + bytes([2]) + binary32(7)
        self.section_decodes("adaptive:varint", 4, section, [0, 0, 7, 0])

    def test_share(self):
        shares = {(0.01, 4100): 41, (0.1, 10): 1, (0.1, 11): 2, (1, 7): 7, (1e-9, 5): 1}
        shares |= {(0.3, 10): 3, (0.07, 100): 7, (0.5, 1): 1, (0.999999999, 3): 3}
        for (density, n), k in shares.items():
            self.assertEqual(laconic.share(density, n), k)

    def test_empty_sections_have_no_bytes(self):
        for spec in "topk:0.1", "threshold:1", "chunk", "randomk:0.1", "sbc:0.1", "topk:0.1+qsgd:4":
            self.section_decodes(spec, 0, b"", [])
            self.section_refused(spec, 0, b"\0", "left over")

    def test_nothing_follows_when_nothing_is_kept(self):
        for spec in "threshold:1", "threshold:1+qsgd:4", "threshold:1+half+entropy":
            self.section_decodes(spec, 3, b"\0", [0, 0, 0])
            self.section_refused(spec, 3, bytes(5), "left over")
        for spec in "sbc:1,rice", "stc:1,rice", "chunk:2,kept=1,rice":
            m = 2 if spec.startswith("chunk") else 3
            self.section_decodes(spec, 3, bytes([m]), [0, 0, 0])
            self.section_refused(spec, 3, bytes([m]) + bytes(4), "left over")

    def test_chunks_in_runs(self):
        section = b"\0" + pack([1, 3, 0, 2, 0, 1], 2) + binary32(1, 2, 3, 4, 5, 6)
        values = [0, 1, 0, 2, 3, 0, 4, 0, 5, 6]
        self.section_decodes("chunk:4,kept=2,fixed", 10, section, values)
        tagged = varint(4) + section[1:]
        self.section_decodes("chunk:4,kept=2", 10, tagged, values)
        for bad in [1, 1, 0, 2, 0, 1], [3, 1, 0, 2, 0, 1], [1, 3, 0, 2, 1, 0]:
            section = b"\0" + pack(bad, 2) + bytes(24)
            self.section_refused("chunk:4,kept=2,fixed", 10, section, "not ascending")
        section = b"\0" + pack([1, 3, 0, 2, 0, 2], 2) + bytes(24)
        self.section_refused("chunk:4,kept=2,fixed", 10, section, "beyond")

    def test_chunks_that_lack_some(self):
        section = b"\3" + pack([1, 3, 9], 4) + binary32(1, 2, 3)
        self.section_decodes("chunk:4,kept=2,fixed", 10, section, [0, 1, 0, 2, 0, 0, 0, 0, 0, 3])
        self.section_refused("chunk:4,kept=2,fixed", 10, b"\7" + bytes(99), "at most 6")

    def test_one_short_run(self):
        section = b"\0" + pack([1, 3], 2) + binary32(1, 2)
        self.section_decodes("chunk:16,kept=2,fixed", 4, section, [0, 1, 0, 2])
        section = b"\0" + pack([0, 1, 2], 2) + binary32(1, 2, 3)
        self.section_decodes("chunk:16,kept=4,fixed", 3, section, [1, 2, 3])

    def test_drawn_positions_depend_on_seed_step_and_place(self):
        def decode(position, **changes):
            first = row(position, 4 * position)
            table = table_of(first, row(90, 36, operator=1))
            data = build(
                head(("identity", "randomk:0.1"), (position + 90,), **changes),
                bytes(4 * position) + binary32(*range(1, 10)),
                table,
            )
            return list(laconic.decode(data)[2])[position:]

        good = decode(0)
        self.assertEqual([value for value in good if value], list(range(1, 10)))
        for other in decode(1), decode(0, step=varint(301)), decode(0, seed=bytes(8)):
            self.assertEqual([value for value in other if value], list(range(1, 10)))
            self.assertNotEqual(other, good)
        self.assertEqual(decode(0, rank=varint(3)), good)

    def test_all_entries_drawn(self):
        self.section_decodes("randomk:1", 3, binary32(1, 2, 3), [1, 2, 3])
        self.section_decodes("randomk:1,unscaled", 3, binary32(1, 2, 3), [1, 2, 3])
        self.section_refused("randomk:1", 3, binary32(1, 2), "bytes wanted")
        self.section_refused("randomk:1", 3, binary32(1, 2, 3) + b"\0", "left over")

    def test_slices_are_below_2_32(self):
        for n, why in (2**32 - 1, "bytes wanted"), (2**32, "2.32 entries or more"):
            data = build(head(("topk:1e-09",), (n,)), b"", table_of(row(n, 0)))
            with self.assertRaisesRegex(laconic.FrameError, why):
                laconic.decode(data, limit=2**33)

    def test_a_section_that_promises_too_much_is_refused_soon(self):
        n = 2**31
        specs = "topk:1", "randomk:1", "randomk:1+natural", "threshold:1,rice", "topk:1+sign"
        for spec in *specs, "bucket:8+sign", "bucket:8+uniform", "bucket:8+qsgd:4", "topk:1,bitmap":
            self.refuses(build(head((spec,), (n,)), b"\1", table_of(row(n, 1))), "")


class Sparse(ReaderTest):
    def test_sbc(self):
        section = b"\1" + bytes([1, 1]) + binary32(-2.5)
        self.section_decodes("sbc:0.5,varint", 6, section, [0, -2.5, 0, -2.5, 0, 0])
        stored_value = b"\1" + bytes([1, 1]) + stored_lanes(-2.5)
        self.section_decodes("sbc:0.5,varint+entropy", 6, stored_value, [0, -2.5, 0, -2.5, 0, 0])
        for value in math.inf, -math.inf, math.nan:
            section = b"\1" + bytes([1, 1]) + binary32(value)
            self.section_refused("sbc:0.5,varint", 6, section, "NaN or Inf")

    def test_stc(self):
        section = b"\1" + bytes([1, 1]) + binary32(2.5) + b"\2"
        for spec in "stc:0.5,varint", "topk:0.5,varint+sign":
            self.section_decodes(spec, 6, section, [0, 2.5, 0, -2.5, 0, 0])
            self.section_refused(spec, 6, section[:-1] + b"\4", "bit after the last")


class Bucket(ReaderTest):
    def test_planes_are_joined(self):
        section = binary32(1, 2) + stream("11000000 10")
        values = [-1, -1, 1, 1, 1, 1, 1, 1, -2, 2]
        self.section_decodes("bucket:8+sign", 10, section, values)
        coded_section = stored_lanes(1, 2) + stored(stream("11000000 10"))
        self.section_decodes("bucket:8+sign+entropy", 10, coded_section, values)
        self.section_refused("bucket:8+sign", 10, section[:-1] + b"\4", "bit after the last")

    def test_ends_of_every_run(self):
        codes = [0, 1, 2, 3] * 2 + [3, 0]
        section = binary32(0, 3, -1, 1) + pack(codes, 2)
        self.section_decodes("bucket:8+uniform:2", 10, section, [0, 1, 2, 3, 0, 1, 2, 3, 1, -1])

    def test_blocks_begin_anew_in_each_run(self):
        n = 5000
        codes = bytes([127] * n)
        tops = bytes([127, 128, 129])  # 4096, 404 and 500 entries
        values = [1] * 4096 + [2] * 404 + [4] * 500
        self.section_decodes("bucket:4500+natural:8", n, tops + codes, values)

    def test_natural_is_compacted_across_runs(self):
        exponents = [127] * 7 + [0] + [128] + [0] * 8 + [129]
        section = stored(bytes(exponents)) + stored(stream("0000001 1 1"))
        values = [1] * 6 + [-1, 0, -2] + [0] * 8 + [-4]
        self.section_decodes("bucket:8+natural+entropy", 18, section, values)

    def test_levels_of_all_runs_are_one_plane(self):
        levels = [1, 0, 0, 0, 0, 0, 0, 0, 0, -1, 1]
        values = [3, 0, 0, 0, 0, 0, 0, 0, 0, -5, 5]
        for tag, write in enumerate(LEVEL_WRITERS.values()):
            section = binary32(3, 5) + bytes([tag]) + write(levels, 1)
            self.section_decodes("bucket:9+terngrad", 11, section, values)

    def test_grid_has_the_limit_of_each_run(self):
        levels = [5] + [0] * 7 + [5]
        for scales in (1, 2.0**126), (2.0**126, 1):
            section = binary32(*scales) + write_fixed_levels(levels, 2**31 - 1)
            self.section_refused(
                "bucket:8+grid+levels:fixed", 9, section, "level 5 is 2.128 or more"
            )

    def test_after_a_selector(self):
        section = b"\0" + bytes(9) + binary32(1, 2) + stream("10000000 1")
        self.section_decodes(
            "topk:0.5,varint+bucket:8+sign", 18, section, [-1] + [1] * 7 + [-2] + [0] * 9
        )


class Dither(unittest.TestCase):
    """Symbols of `dither`: how many states there are, and that they are read in turn."""

    BEGINS = [0, 1, 100, 7000, 16380, 16381, 16382, 16383, 16384]

    def written(self, symbols, many):
        states, words = [2**15] * many, []
        for i in reversed(range(len(symbols))):
            begin = self.BEGINS[symbols[i]]
            share = self.BEGINS[symbols[i] + 1] - begin
            x = states[i % many]
            if x >= share << 17:
                words.append(x % 2**16)
                x >>= 16
            states[i % many] = (x // share << 14) + x % share + begin
        return struct.pack(f"<{many}I{len(words)}H", *states, *reversed(words))

    def test_states(self):
        for count, many in (10, 4), (65535, 4), (65536, 16), (262143, 16), (262144, 32):
            symbols = [2 + (i * i >> 4) % 3 % 2 for i in range(count)]
            symbols[7] = 7
            data = laconic.Reader(self.written(symbols, many), "symbols")
            self.assertEqual(laconic.read_symbols(data, [self.BEGINS] * count), symbols)
        few = laconic.Reader(self.written([2] * 65536, 4), "symbols")
        with self.assertRaises(laconic.FrameError):
            laconic.read_symbols(few, [self.BEGINS] * 65536)


class Scales(ReaderTest):
    """Quantisers that have a scale or two ends, in the code fixed of levels."""

    def levels_decode(self, quantiser, most, scale, levels, values):
        section = binary32(scale) + write_fixed_levels(levels, most)
        self.section_decodes(f"{quantiser}+levels:fixed", len(levels), section, values)

    def test_qsgd(self):
        self.levels_decode("qsgd:4", 4, 2, [0, 1, -1, 4, -4], [0, 0.5, -0.5, 2, -2])
        third = 0.3333333432674408  # binary32
        self.levels_decode("qsgd:3,max", 3, 1, [1, 2], [third, 2 * third])
        self.levels_decode("qsgd:3", 3, 3, [1, 3], [1, 3])

    def test_terngrad(self):
        self.levels_decode(
            "terngrad:2.5", 1, 0.1, [0, 1, -1], [0, float_of(0x3DCCCCCD), float_of(0xBDCCCCCD)]
        )

    def test_dithering(self):
        self.levels_decode("dithering:3", 3, 4, [0, 1, -2, 3], [0, 1, -2, 4])
        least = 2.0**-149
        self.levels_decode("dithering:3", 3, 3 * least, [1, -2, 3], [least, -2 * least, 3 * least])
        self.levels_decode("dithering:127,inf", 127, 1, [1, 127], [2.0**-126, 1])

    def test_grid(self):
        self.levels_decode("grid", 2**31 - 1, 0.25, [0, 3, -5], [0, 0.75, -1.25])
        self.levels_decode("grid", 2**31 - 1, 0, [0, 2**31 - 1], [0, 0])
        self.levels_decode(
            "grid", 2**31 - 1, 1, [2**24 + 1, -(2**31) + 1], [2.0**24, -(2.0**31)]
        )
        self.levels_decode("grid", 2**31 - 1, 0.25, [0, 0], [0, 0])

    def test_grid_is_below_2_128(self):
        self.levels_decode(
            "grid", 2**31 - 1, 2.0**126, [3, -3], [3 * 2.0**126, -3 * 2.0**126]
        )
        for level, scale in (4, 2.0**126), (-4, 2.0**126), (2**28, 2.0**100):
            section = binary32(scale) + write_fixed_levels([level], 2**31 - 1)
            self.section_refused("grid+levels:fixed", 1, section, "is 2.128 or more")
        self.levels_decode("grid", 2**31 - 1, 2.0**97, [2**30], [2.0**127])
        section = binary32(2.0**97) + write_fixed_levels([2**31 - 1], 2**31 - 1)
        self.section_refused("grid+levels:fixed", 1, section, "2.128 or more")  # L is above 2^30

    def test_sign(self):
        self.section_decodes("sign", 3, binary32(0.5) + b"\5", [-0.5, 0.5, -0.5])
        self.section_refused("sign", 3, binary32(0.5) + b"\x0d", "bit after the last")

    def test_bad_scales(self):
        for scale in -1, -(2.0**-149), math.inf, -math.inf, math.nan:
            for spec, most in ("qsgd:4", 4), ("terngrad", 1), ("dithering:3", 3), ("grid", 2**31):
                section = binary32(scale) + write_fixed_levels([1], most)
                self.section_refused(f"{spec}+levels:fixed", 1, section, "a scale is")
            for spec in "sign", "uniform:1,absmax", "uniform:absmax", "uniform:4,absmax,nearest":
                self.section_refused(spec, 1, binary32(scale) + b"\0", "a scale is")

    def test_uniform(self):
        section = binary32(-1, 2) + pack([0, 1, 2, 3], 2)
        self.section_decodes("uniform:2", 4, section, [-1, 2.0**-24, 1, 2])
        section = binary32(5, 5) + bytes([0, 77, 255])
        self.section_decodes("uniform:nearest", 3, section, [5, 5, 5])
        largest = float_of(0x7F7FFFFF)
        section = binary32(-largest, largest) + pack([0, 7], 3)
        self.section_decodes("uniform:3", 2, section, [-largest, largest])
        section = binary32(largest, largest) + bytes(range(256))
        self.section_decodes("uniform", 256, section, [largest] * 256)
        section = binary32(0.1, 0.7) + bytes([85])
        tenth, seven_tenths, third = 0.10000000149011612, 0.699999988079071, 0.3333333432674408
        exact = tenth * (1 - third) + seven_tenths * third
        (value,) = laconic.decode(one_section("uniform", 1, section))[2]
        self.assertAlmostEqual(value, exact, delta=3e-8)

    def test_bad_ends(self):
        for low, high in (1, 0), (-math.inf, 0), (0, math.inf), (math.nan, 0), (0, math.nan):
            self.section_refused("uniform", 1, binary32(low, high) + b"\0", "low is")

    def test_uniform_absmax(self):
        section = binary32(7) + pack([0, 7, 14, 8], 4)
        self.section_decodes("uniform:4,absmax", 4, section, [-7, 0, 7, 1])
        section = binary32(7) + pack([0, 15], 4)
        self.section_refused("uniform:4,absmax", 2, section, "code 15 is above 14")
        self.section_decodes("uniform:1,absmax", 3, binary32(7) + b"\2", [-7, 7, -7])
        self.section_decodes(
            "uniform:2,absmax,nearest", 3, binary32(7) + pack([0, 1, 2], 2), [-7, 0, 7]
        )
        self.section_refused("uniform:2,absmax", 1, binary32(7) + b"\3", "code 3 is above 2")
        self.section_refused("uniform:absmax", 1, binary32(7) + b"\xff", "code 255 is above 254")

    def test_uniform_with_entropy(self):
        low, high = 0.0, 3.0
        section = stored_lanes(low, high)
        self.section_decodes("uniform:3+entropy", 2, section + stored(pack([0, 7], 3)), [low, high])
        self.section_refused(
            "uniform:3+entropy", 2, section + stored(b"\xff"), "bit after the last"
        )

    def test_binned(self):
        section = binary32(1, 2, -3, -4) + pack([0, 3, 2, 1, 1], 2)
        self.section_decodes("binned", 5, section, [1, -4, -3, 2, 2])
        self.section_refused("binned", 4, section, "bit after the last|left over")
        self.section_decodes("binned:1", 3, binary32(0.5, -2) + b"\5", [-2, 0.5, -2])
        self.section_refused("binned:1", 3, binary32(0.5, -2) + b"\x0d", "bit after the last")
        means = [float(mean) for mean in range(-8, 8)]
        section = binary32(*means) + pack(list(range(16)), 4)
        self.section_decodes("binned:4", 16, section, means)

    def test_binned_in_runs(self):
        means = binary32(1, -1, 2, -2)
        self.section_decodes(
            "bucket:8+binned:1", 10, means + b"\x81\2", [-1] + [1] * 6 + [-1, 2, -2]
        )

    def test_binned_with_entropy(self):
        means = stored_lanes(1, 2, -3, -4)
        self.section_decodes("binned+entropy", 2, means + stored(pack([3, 0], 2)), [-4, 1])

    def test_means_that_are_not_finite(self):
        for bad in math.inf, -math.inf, math.nan:
            for place in range(4):
                means = [1, 2, 3, 4]
                means[place] = bad
                self.section_refused("binned", 1, binary32(*means) + b"\0", "NaN or Inf")


class Levels(ReaderTest):
    LEVELS = [0, 0, 3, -1, 0, 0, 0, 0, 0, 0, 0, -4, 1, 0]

    def refuses_levels(self, code, n, levels, why, spec="qsgd:4"):
        self.section_refused(f"{spec}+levels:{code}", n, binary32(4) + levels, why)

    def test_all_codes(self):
        generator = random.Random(4)
        for spec, most in ("qsgd:1", 1), ("qsgd:2", 2), ("qsgd:1000", 1000), ("grid", 2**31 - 1):
            for n in 1, 4, 5, 6, 300:
                levels = [generator.choice((0, 0, 1, -1, most, -most)) for _ in range(n)]
                self.check_codes(spec, most, levels)
                self.check_codes(spec, most, [0] * n)

    def check_codes(self, spec, most, levels):
        n, scale = len(levels), 1 if spec == "grid" else most
        values = list(struct.unpack(f"<{n}f", binary32(*levels)))
        for tag, (code, write) in enumerate(LEVEL_WRITERS.items()):
            if code == "trits" and most != 1:
                continue
            with self.subTest(spec=spec, levels=levels, code=code):
                written = write(levels, most)
                section = binary32(scale) + written
                self.section_decodes(f"{spec}+levels:{code}", n, section, values)
                self.section_decodes(spec, n, binary32(scale) + bytes([tag]) + written, values)
                self.section_decodes(
                    f"{spec}+levels", n, binary32(scale) + bytes([tag]) + written, values
                )
                self.section_refused(f"{spec}+levels:{code}", n, section + b"\0", "left over")
                self.section_refused(f"{spec}+levels:{code}", n, section[:-1], "")

    def test_sparse_with_every_code_of_positions(self):
        for code in POSITION_WRITERS:
            for b in 0, 1, 2, 30:
                section = binary32(4) + write_sparse(self.LEVELS, 4, code, b)
                self.section_decodes("qsgd:4+levels:sparse", 14, section, self.LEVELS)

    def test_known_streams(self):
        section = varint(2) + stream("101000 0 110" + "10100100000 1 0")
        values = [0] * 3 + [3] + [0] * 15 + [-1]
        self.section_decodes("qsgd:4+levels:elias", 20, binary32(4) + section, values)
        self.section_decodes("terngrad", 5, binary32(1) + bytes([1, 242]), [1] * 5)
        self.section_decodes("terngrad", 2, binary32(1) + bytes([1, 2 + 3 * 1]), [1, 0])
        self.section_decodes("terngrad", 3, binary32(1) + bytes([0, 0b010010]), [1, 0, -1])

    def test_unknown_tags(self):
        for tag in 5, 6, 255:
            section = binary32(1) + bytes([tag]) + bytes(9)
            self.section_refused("terngrad", 5, section, f"code of levels {tag}")
        self.section_refused("qsgd:4", 5, binary32(1) + bytes([1, 0]), "not trits")

    def test_fixed(self):
        for number in range(9, 16):
            self.refuses_levels("fixed", 2, pack([0, number], 4), "beyond 4")
        self.refuses_levels("fixed", 1, pack([3], 2), "beyond 1", "terngrad")
        self.refuses_levels("fixed", 1, b"\x10", "bit after the last")

    def test_widths_of_grid(self):
        for width in 4, 5, 32, 33, 255:
            section = bytes([width]) + pack([4, 3], width)  # levels 2 and -2 take 3 bits
            self.refuses_levels("fixed", 2, section, "bits", "grid")
        for width in range(1, 33):
            section = bytes([width]) + pack([0, 0], width)
            self.refuses_levels("fixed", 2, section, f"{width} bits for a largest of 0", "grid")
        self.refuses_levels("fixed", 2, b"\x21" + bytes(9), "a width of 33 bits", "grid")
        self.refuses_levels("fixed", 1, b"\x20" + b"\xff" * 4, "beyond 2147483647", "grid")
        self.refuses_levels("fixed", 2, b"\0\0", "left over", "grid")

    def test_trits(self):
        for byte in range(243, 256):
            self.refuses_levels("trits", 5, bytes([byte]), f"trits is {byte}", "terngrad")
        for byte in 27, 81, 242:
            self.refuses_levels("trits", 3, bytes([byte]), "after the last is not -1", "terngrad")

    def test_pairs(self):
        for form in 0, 1, 2:
            for levels in [0, 7, -7, 8], [-8, 500, 0, -500, 1], [127, -127, 128, -128]:
                section = binary32(1) + write_pairs(levels, 1000, form)
                values = [laconic.parts(level, 1000, 1) for level in levels]
                self.section_decodes("qsgd:1000+levels:pairs", len(levels), section, values)
        for levels in [32767, -32767, -32768, 32768, 0], [2**31 - 1, -(2**31) + 1]:
            section = binary32(1) + write_pairs(levels, 2**31 - 1, 2)
            values = [struct.unpack("<f", binary32(level))[0] for level in levels]
            self.section_decodes("grid+levels:pairs", len(levels), section, values)
        self.refuses_levels("pairs", 2, bytes([2, 1, 0]), "form 2")
        self.refuses_levels("pairs", 2, bytes([3, 1, 0]), "form 3")
        self.refuses_levels("pairs", 2, bytes([0, 1, 0x99]), "beyond 4")
        self.refuses_levels("pairs", 2, bytes([0, 1, 0xF0, 0]), "beyond 4")
        self.refuses_levels("pairs", 1, bytes([0, 1, 0x10]), "bit after the last")
        self.refuses_levels("pairs", 1, bytes([0, 1, 0x0F]), "bytes wanted")
        self.refuses_levels("pairs", 1, bytes([1, 1, 9]), "beyond 4")

    def test_elias(self):
        beyond = "beyond|above|at most"
        self.refuses_levels("elias", 3, varint(4) + bytes(9), "4 levels that are not 0 among 3")
        self.refuses_levels("elias", 3, varint(1) + stream(omega_code(4) + "00"), beyond)
        self.refuses_levels("elias", 3, varint(2) + stream((omega_code(2) + "00") * 2), beyond)
        self.refuses_levels("elias", 3, varint(1) + stream("00" + omega_code(5)), beyond)
        self.refuses_levels("elias", 3, varint(1) + b"\xff" * 99, beyond)
        self.refuses_levels("elias", 3, varint(1) + stream("0000 1"), "bit after the last")
        self.refuses_levels("elias", 3, varint(0) + b"\0", "left over")

    def test_sparse(self):
        refused = self.refuses_levels
        refused("sparse", 3, varint(8 * 4 + 3) + bytes(9), "4 positions among 3")
        refused("sparse", 3, varint(8 + 6) + bytes(9), "code of positions 6")
        refused("sparse", 3, varint(7), "code of positions 7")
        refused("sparse", 3, varint(8 + 3) + b"\3" + bytes(9), "beyond")
        refused("sparse", 3, varint(8 + 3) + b"\0" + b"\2" + bytes(2), "bit after the last")
        refused("sparse", 3, varint(8 + 3) + b"\0\0" + bytes([31, 0]), "31 low bits")
        refused("sparse", 3, varint(8 + 3) + b"\0\0\0" + stream("11110"), "is 4; it is at most 3")
        refused("sparse", 3, varint(8 + 3) + b"\0\0\0" + stream("01"), "bit after the last")
        refused("sparse", 3, varint(8 + 3) + b"\0\0\0" + b"\xff" * 9, "spells out 3")
        refused("sparse", 3, varint(8 + 3) + b"\0\0\0", "bytes wanted")
        refused("sparse", 3, varint(3) + b"\0", "left over")
        section = binary32(4) + varint(8 + 3) + b"\2\1"  # of a level of 1 there is no magnitude
        self.section_decodes("terngrad+levels:sparse", 3, section, [0, 0, -4])

    def test_a_large_magnitude_is_escaped(self):
        levels = [25, 24, -1000]
        for b in 0, 3, 9:
            section = binary32(1000) + write_sparse(levels, 1000, "varint", b)
            (*values,) = laconic.decode(one_section("qsgd:1000+levels:sparse", 3, section))[2]
            self.assertEqual([round(value) for value in values], levels)


class EntropyLevels(ReaderTest):
    SCALE = stored_lanes(4)

    def section(self, z, symbols, width):
        return (
            self.SCALE
            + varint(z)
            + b"".join(stored(plane) for plane in self.planes(symbols, width) if plane)
        )

    def planes(self, symbols, width):
        if width <= 8:
            return [pack(symbols, width)]
        return [bytes(s >> 8 * byte & 255 for s in symbols) for byte in range(width // 8)]

    def test_widths(self):
        widths = {0: 0, 1: 1, 2: 2, 3: 2, 4: 4, 15: 4, 16: 8, 255: 8, 256: 16, 65535: 16}
        for z, width in (widths | {65536: 32, 2**32 - 2: 32}).items():
            level = -(z + 1) // 2 if z % 2 else z // 2
            section = self.section(z, [z] + [0] * 8, width)
            values = [4 * struct.unpack("<f", binary32(level))[0]] + [0] * 8
            self.section_decodes("grid+entropy", 9, section, values)
            if width < 32:
                wider = self.section(z, [z] + [0] * 8, 2 * width or 1)
                self.section_refused("grid+entropy", 9, wider, "")

    def test_levels_of_qsgd(self):
        section = self.section(8, [0, 8, 7, 1, 2], 4)
        self.section_decodes("qsgd:4+entropy", 5, section, [0, 4, -4, -1, 1])
        section = self.section(9, [0, 9], 4)
        self.section_refused("qsgd:4+entropy", 2, section, "number 9 is above 8")
        section = self.SCALE + varint(2**64 - 1)
        self.section_refused("grid+entropy", 2, section, "is above 4294967294")

    def test_the_largest_number_is_exact(self):
        for z, symbols in (7, [0, 6]), (5, [6, 0]), (4, [0, 0]):
            section = self.section(z, symbols, 4)
            self.section_refused("qsgd:4+entropy", 2, section, f", not {z}")

    def test_no_bytes_for_zeros(self):
        self.section_decodes("qsgd:4+entropy", 9, self.SCALE + b"\0", [0] * 9)
        self.section_refused("qsgd:4+entropy", 9, self.SCALE + b"\0\0", "left over")

    def test_bits_after_the_last(self):
        section = self.SCALE + varint(2) + stored(b"\x12")
        self.section_refused("qsgd:4+entropy", 2, section, "bit after the last")


def small_sections():
    """One or more of every selector, code, quantiser and coder: spec, count, section."""
    n, positions = 40, [0, 7, 8, 20, 39]
    levels = [0, 1, -1, 0, 1] * 8
    for spec in "threshold:1", "threshold:1,{}", "topk:0.125,{}", "topk:0.125,{}+natural":
        kept = bytes([127] * 5 + [9]) if "natural" in spec else binary32(1, 2, 3, 4, 5)
        for tag, (code, write) in enumerate(POSITION_WRITERS.items()):
            number = 5 if "threshold" in spec else 0
            number = number if "{}" in spec else 8 * number + tag
            yield spec.format(code), n, varint(number) + write(positions, n) + kept
    runs = pack([0, 7, 0, 3, 4, 5, 6, 7, 1, 2], 3)
    yield "chunk:8,kept=2,fixed+sign", n, b"\0" + runs + binary32(3) + bytes([1, 2])
    yield "randomk:0.125+uniform:4", n, binary32(-1, 1) + pack([0, 1, 2, 14, 15], 4)
    yield "randomk:0.125+binned", n, binary32(1, 2, -1, -2) + pack([0, 1, 2, 3, 0], 2)
    yield "sbc:0.125,varint", n, b"\0" + POSITION_WRITERS["varint"](positions, n) + binary32(2)
    yield "stc:0.125,rice", n, b"\0" + write_rice(positions, n) + binary32(2) + b"\7"
    for spec in "qsgd:1", "terngrad", "dithering:5", "grid", "bucket:16+qsgd:3", "bucket:16+grid":
        most = {"dithering:5": 5, "bucket:16+qsgd:3": 3}.get(spec, 1)
        most = 2**31 - 1 if "grid" in spec else most
        scales = binary32(*[2] * (3 if "bucket" in spec else 1))
        for tag, (code, write) in enumerate(LEVEL_WRITERS.items()):
            if code != "trits" or most == 1:
                yield spec, n, scales + bytes([tag]) + write(levels, most)
                yield f"{spec}+levels:{code}", n, scales + write(levels, most)
        coded_levels = varint(2) + stored(pack(list(map(zigzag, levels)), 2))
        coded_scales = b"".join(stored(scales[byte::4]) for byte in range(4))
        yield f"{spec}+entropy", n, coded_scales + coded_levels


class Damage(ReaderTest):
    def decode_or_refuse(self, before_checksum):
        """Not the array as a whole: damaged extents may ask for any memory."""
        with contextlib.suppress(laconic.FrameError):
            frame = laconic.read_frame(before_checksum + crc_bytes(before_checksum))
            for section in frame.sections:
                values = laconic.decode_section(frame, section)
                self.assertEqual(len(values), section.count)
                finite = all(map(math.isfinite, values))
                self.assertTrue(finite or section.state == "not finite")

    def test_damage_under_a_right_checksum_is_decoded_or_refused(self):
        generator = random.Random(2)
        small = [(spec, n, section) for spec, n, section, _ in random_sections((1, 9, 300))]
        for operator, n, section in *small, *small_sections():
            good = one_section(operator, n, section)[:-4]
            for _ in range(100):
                damaged = bytearray(good)
                damaged[generator.randrange(4, len(good))] = generator.randrange(256)
                self.decode_or_refuse(damaged)

    def test_sections_that_are_cut_are_refused(self):
        for operator, n, section in small_sections():
            with self.subTest(operator=operator):
                laconic.decode(one_section(operator, n, section))
                for length in range(len(section)):
                    self.section_refused(operator, n, section[:length], "")
                self.section_refused(operator, n, section + b"\0", "left over|follow")

    def test_frames_that_are_cut_are_refused(self):
        for operator, n, section in small_sections():
            good = one_section(operator, n, section)
            for length in range(len(good)):
                self.refuses(good[:length], "")

    def test_damaged_golden_files(self):
        generator = random.Random(5)
        for path in sorted(GOLDEN.glob("*.lac")):
            good = path.read_bytes()[:-4]
            for _ in range(5):
                damaged = bytearray(good)
                damaged[generator.randrange(4, len(good))] = generator.randrange(256)
                self.decode_or_refuse(damaged)


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
        for words in "step 300", "rank 2 of 4", "float32 array [3]", "'identity' 'bias'", "1 -2 0.5":
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
                values = decode_what_is_there(path.read_bytes())
                expected = path.with_suffix(".expected").read_bytes()
                self.assertEqual(words_of(values.tobytes(), "="), words_of(expected, "<"))

    def test_no_expected_file_is_alone(self):
        for path in GOLDEN.glob("*.expected"):
            self.assertTrue(path.with_suffix(".lac").exists(), path.name)


def decode_what_is_there(data):
    """The array with zeros where the frame has no section."""
    frame = laconic.read_frame(data)
    values = array("f", bytes(4 * frame.count))
    for section in frame.sections:
        end = section.position + section.count
        values[section.position : end] = laconic.decode_section(frame, section)
    return values


def words_of(data, byte_order):
    """The bits of each value; the page leaves the sign of a zero open."""
    words = struct.unpack(f"{byte_order}{len(data) // 4}I", data)
    return [0 if word == 0x80000000 else word for word in words]


if __name__ == "__main__":
    unittest.main()
