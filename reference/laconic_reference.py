"""Reads Laconic frames of data version 4 in plain Python, written from docs/frame.md only.

Names are those of the page, and so is the order: words, head, table and foot, sections, selectors,
codes of positions, bucket, quantisers, the coders levels and entropy. Specs follow what they name.

    shape, dtype, values = decode(open("gradient.lac", "rb").read())
"""

import math
import struct
import sys
from array import array
from dataclasses import dataclass
from decimal import Decimal
from itertools import count, islice

DATA_VERSION = 4
DTYPES = ("float32", "float16", "float64", "bfloat16")
STATES = ("coded", "not finite", "rests")
MOST = 64  # operators, dimensions
BLOCK = 4096  # entries that share a top
CHUNK = 262144  # bytes of a plane, or symbols of lanes, that are coded together
FOOT = 8
LIMIT = 2**31  # entries of an array, unless told otherwise
MOST_BITS = 11  # of a Huffman code
ESCAPE = 24  # ones in a Rice code that stand for a number as it is
LARGEST = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]  # binary32


class FrameError(ValueError):
    """Why a frame is refused, in one sentence."""


def require(condition, sentence):
    if not condition:
        raise FrameError(sentence)


# Words


class Reader:
    """Takes words off the front of some bytes; `part` is what sentences call them."""

    def __init__(self, data, part):
        self.data, self.part, self.position = data, part, 0

    @property
    def left(self):
        return len(self.data) - self.position

    def take(self, length):
        require(length <= self.left, f"{self.part}: {length} bytes wanted, {self.left} left")
        self.position += length
        return self.data[self.position - length : self.position]

    def u8(self):
        return self.take(1)[0]

    def u64(self):
        return int.from_bytes(self.take(8), "little")

    def varint(self):
        number = shift = 0
        while True:
            byte = self.u8()
            number |= (byte & 127) << shift
            require(number < 2**64 and shift < 70, f"{self.part}: a varint is 2^64 or more")
            if byte < 128:
                break
            shift += 7
        require(byte or not shift, f"{self.part}: a varint ends with a byte of 0")
        return number

    def text(self):
        # Not checked: bytes that are not UTF-8 become surrogates, which encode back.
        return self.take(self.varint()).decode("utf-8", "surrogateescape")

    def end(self):
        require(self.left == 0, f"{self.part}: {self.left} bytes left over")


class Bits:
    """Takes bits off the front of a reader of bytes; those after the last have to be 0."""

    def __init__(self, data):
        self.data, self.byte, self.left = data, 0, 0

    def bit(self):
        if self.left == 0:
            self.byte, self.left = self.data.u8(), 8
        self.left -= 1
        bit, self.byte = self.byte & 1, self.byte >> 1
        return bit

    def lowest_first(self, width):
        return sum(self.bit() << place for place in range(width))

    def highest_first(self, width):
        return sum(self.bit() << place for place in reversed(range(width)))

    def end(self):
        require(self.byte == 0, "a bit after the last is not 0")


def digits(number):
    """W(number): how many binary digits it has."""
    return number.bit_length()


def packed_size(count, width):
    return (count * width + 7) // 8


def unpack(data, count, width):
    """`count` symbols of `width` bits that are `data`."""
    if width in LETTERS:
        return list(struct.unpack(f"<{count}{LETTERS[width]}", data))
    bits = Bits(Reader(data, "packed symbols"))
    symbols = [bits.lowest_first(width) for _ in range(count)]
    bits.end()
    return symbols


def take_packed(data, count, width):
    return unpack(data.take(packed_size(count, width)), count, width)


LETTERS = {8: "B", 16: "H", 32: "I"}  # of struct


def binary32(number):
    """A binary64 number rounded to binary32: what one operation on binary32 numbers gives.

    For +, -, x and / of two binary32 numbers it does not matter that binary64 rounded before.
    """
    try:
        return struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


def floats(words):
    """The binary32 numbers with these bits."""
    return list(struct.unpack(f"<{len(words)}f", struct.pack(f"<{len(words)}I", *words)))


def finite_floats(words):
    require(all(word >> 23 & 255 != 255 for word in words), "a finite section has NaN or Inf")
    return floats(words)


def crc32c_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)  # 0x1edc6f41 reflected
        table.append(value)
    return table


CRC32C_TABLE = crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC32C_TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


# Head, table and foot


@dataclass
class Section:
    name: str
    position: int  # of its first entry in the array
    count: int
    operator: str
    state: str
    data: bytes


@dataclass
class Frame:
    version: int
    extensions: list  # (tag, bytes), all of them skipped
    operators: list
    seed: int
    step: int
    rank: int
    ranks: int  # 0: not said
    dtype: str
    extents: tuple
    sections: list

    @property
    def count(self):
        return math.prod(self.extents)


def read_frame(data, limit=LIMIT):
    """The frame that fills `data`, its sections still encoded."""
    data = bytes(data)
    table_start, table = check_and_find_table(data)
    head = Reader(data[:table_start], "head and sections")
    head.take(4)
    frame = Frame(
        version=DATA_VERSION,
        extensions=read_extensions(head),
        operators=read_operators(head),
        seed=head.u64(),
        step=head.varint(),
        rank=head.varint(),
        ranks=head.varint(),
        dtype=read_dtype(head),
        extents=read_extents(head, limit),
        sections=[],
    )
    require(not frame.ranks or frame.rank < frame.ranks, f"rank {frame.rank} of {frame.ranks}")
    read_sections(frame, table, head)
    return frame


def check_and_find_table(data):
    require(data[:3] == b"LAC", "not a Laconic frame: it does not begin with LAC")
    require(len(data) >= 4 + FOOT, f"{len(data)} bytes are too few for a frame")
    table_length, checksum = struct.unpack("<II", data[-FOOT:])
    require(checksum == crc32c(data[:-4]), "the checksum does not fit: the frame is damaged")
    require(data[3] == DATA_VERSION, f"data version {data[3]}; this reader knows {DATA_VERSION}")
    table_start = len(data) - FOOT - table_length
    require(table_start >= 4, f"a table of {table_length} bytes does not fit in the frame")
    return table_start, Reader(data[table_start:-FOOT], "table")


def read_extensions(head):
    extensions = []
    for _ in range(head.varint()):
        tag = head.varint()
        require(tag % 2 == 0, f"extension {tag} is unknown and may not be skipped")
        extensions.append((tag, head.take(head.varint())))
    return extensions


def read_operators(head):
    number = head.varint()
    require(number <= MOST, f"{number} operators; at most {MOST} are allowed")
    specs = [head.text() for _ in range(number)]
    for spec in specs:
        parse_spec(spec)  # an unknown one is refused, used or not
    return specs


def read_dtype(head):
    dtype = head.u8()
    require(dtype < len(DTYPES), f"dtype {dtype} is unknown")
    return DTYPES[dtype]


def read_extents(head, limit):
    number = head.varint()
    require(number <= MOST, f"{number} dimensions; at most {MOST} are allowed")
    extents = tuple(head.varint() for _ in range(number))
    product = math.prod(extent for extent in extents if extent > 0)
    require(product <= limit, f"the array has more than {limit} entries")
    return extents


def read_sections(frame, table, body):
    """Reads the table and cuts `body` into its sections; neither may have a byte more."""
    end = 0
    for _ in range(table.varint()):
        name, gap, count = table.text(), table.varint(), table.varint()
        choice, length = table.varint(), table.varint()
        operator, state = divmod(choice, 4)
        require(end + gap + count <= frame.count, "a section ends beyond the array")
        require(operator < len(frame.operators), f"there is no operator {operator}")
        require(state < len(STATES), f"there is no state {state}")
        section = Section(
            name=name,
            position=end + gap,
            count=count,
            operator=frame.operators[operator],
            state=STATES[state],
            data=body.take(length),
        )
        require_length(section)
        frame.sections.append(section)
        end += gap + count
    table.end()
    body.end()


def require_length(section):
    """How long a section is follows from its state, unless it is coded."""
    lengths = {"not finite": 4 * section.count, "rests": 0}
    length = lengths.get(section.state, len(section.data))
    require(
        len(section.data) == length,
        f"section at {section.position}: {section.state}, in {len(section.data)} bytes",
    )


# Sections


@dataclass
class Operator:
    """What a spec stands for."""

    shrink: object = None
    selector: object = None
    bucket: int = 0  # entries of a run, 0 if there is no bucket
    quantiser: object = None
    coder: object = None


def decode_section(frame, section):
    """The entries of one section, as an array of binary32."""
    data = Reader(section.data, f"section at {section.position}")
    n = section.count
    if section.state == "rests":
        return array("f", bytes(4 * n))
    if section.state == "not finite":
        words = take_packed(data, n, 32)
        data.end()
        return array("f", struct.pack(f"={n}I", *words))  # a float does not keep every NaN's bits
    step = fork(mix(frame.seed + G), frame.step)
    own = fork(fork(step, 1), frame.rank)
    mask = fork(own, 2**64 - 1)
    keys = fork(fork(step, 0), section.position), fork(mask, section.position)
    dither = (draw32(own, j) for j in count(section.position))
    entries = decode_entries(parse_spec(section.operator), data, n, keys, dither) if n else []
    data.end()
    return array("f", entries)


def decode_entries(operator, data, n, keys, dither):
    if operator.selector is None:
        return decode_values(operator, data, n, dither)
    require(n < 2**32, "a slice under a selector has 2^32 entries or more")
    kept, positions = operator.selector.read(data, n, keys)
    values = decode_values(operator, data, kept, dither) if kept else []
    entries = [0.0] * n
    for position, value in zip(positions, values):
        entries[position] = value
    return entries


def decode_values(operator, data, n, dither):
    if isinstance(operator.quantiser, Drawing):
        return operator.quantiser.read(data, n, dither)
    return decode_runs(operator, data, n)


# Selectors: each reads the number of entries kept and their positions


@dataclass
class Indexed:
    most: object  # m, of n
    index: str
    exact: bool = False
    runs: object = None  # (size, kept)

    def read(self, data, n, keys):
        m = self.most(n)
        v = data.varint()
        if self.index == "auto":
            v, tag = divmod(v, 8)
        else:
            tag = POSITION_NAMES.index(self.index)
        require(v <= m, f"{data.part}: the number of positions is {v}; it is at most {m}")
        c = m - v if self.exact else v
        return c, read_positions(data, tag, c, n, self.runs if c == m else None)


@dataclass
class Drawn:
    density: float
    own: bool  # which of the two keys

    def read(self, data, n, keys):
        k = share(self.density, n)
        return k, drawn_positions(keys[self.own], n, k)


def share(density, n):
    """k(density, n)"""
    return min(n, max(1, math.ceil(density * n * (1 - 1e-12))))


def topk(density, index):
    return {"selector": Indexed(lambda n: share(density, n), index, exact=True)}


def threshold(value, index):
    return {"selector": Indexed(lambda n: n, index)}


def adaptive(factor, index):
    return {"selector": Indexed(lambda n: n, index)}


def chunk(size, kept, index):
    require(kept <= size, f"chunk: {kept} entries of {size} cannot be kept")

    def most(n):
        return n // size * kept + min(kept, n % size)

    return {"selector": Indexed(most, index, exact=True, runs=(size, kept))}


def randomk(density, scale, mask):
    return {"selector": Drawn(density, mask == "own")}


G = 0x9E3779B97F4A7C15


def mix(z):
    z %= 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def fork(key, w):
    return mix(key + mix(w + G))


def draw(key, j):
    return mix(key ^ mix(j * G + 0xD1B54A32D192ED03))


def draw32(key, j):
    """32 bits for position j."""
    key = fork(key, j >> 32)
    h = (j + key) % 2**32
    h = (h ^ h >> 16) * 0x7FEB352D % 2**32 ^ key >> 32
    h = (h ^ h >> 15) * 0x846CA68B % 2**32
    return h ^ h >> 16


def drawn_positions(key, n, k):
    """A generator: k may be large, and nothing is drawn for a section that is refused."""
    taken = set()
    for j in range(n - k, n):
        t = draw(key, j) * (j + 1) >> 64
        taken.add(j if t in taken else t)
    yield from sorted(taken)


# Codes of positions: each reads c > 0 ascending positions below n


def read_positions(data, tag, c, n, runs=None):
    """`runs` is (size, kept) if every run of size entries holds as many positions as it can."""
    require(tag < len(POSITION_NAMES), f"there is no code of positions {tag}")
    require(c <= n, f"{c} positions among {n} entries")
    if c == 0:
        return []
    if POSITION_NAMES[tag] == "fixed" and runs and n > runs[0]:
        return fixed_positions_in_runs(data, c, n, *runs)
    return POSITION_CODES[POSITION_NAMES[tag]](data, c, n)


def rice_positions(data, c, n):
    b = rice_width(c, n)
    bits = Bits(data)
    positions = add_gaps(lambda: rice(bits, b, n - 1) + 1, c, n)
    bits.end()
    return positions


def fano_positions(data, c, n):
    l = digits(n // c) - 1
    packed_lows = data.take(packed_size(c, l))
    bits = take_packed(data, c + (n - 1 >> l), 1)
    lows = unpack(packed_lows, c, l)  # not before: l may be 0 and c large
    places = [place for place, bit in enumerate(bits) if bit]
    require(len(places) == c, f"fano: {len(places)} bits are 1 for {c} positions")
    return ascending((place - j << l | low for j, (place, low) in enumerate(zip(places, lows))), n)


def bitmap_positions(data, c, n):
    positions = [position for position, bit in enumerate(take_packed(data, n, 1)) if bit]
    require(len(positions) == c, f"bitmap: {len(positions)} bits are 1 for {c} positions")
    return positions


def varint_positions(data, c, n):
    return add_gaps(lambda: data.varint() + 1, c, n)


def fixed_positions(data, c, n):
    return ascending(take_packed(data, c, digits(n - 1)), n)


def fixed_positions_in_runs(data, c, n, size, kept):
    symbols = iter(take_packed(data, c, digits(size - 1)))
    positions = []
    for start in range(0, n, size):
        run = min(size, n - start)
        within = ascending(islice(symbols, min(kept, run)), run)
        positions += [start + position for position in within]
    return positions


def omega_positions(data, c, n):
    bits = Bits(data)
    positions = add_gaps(lambda: omega(bits, n), c, n)
    bits.end()
    return positions


POSITION_CODES = {  # in the order of their tags
    "rice": rice_positions,
    "fano": fano_positions,
    "bitmap": bitmap_positions,
    "varint": varint_positions,
    "fixed": fixed_positions,
    "omega": omega_positions,
}
POSITION_NAMES = list(POSITION_CODES)


def ascending(positions, n):
    result = []
    for position in positions:
        require(position < n, f"position {position} is beyond the last of {n} entries")
        require(not result or result[-1] < position, "positions are not ascending")
        result.append(position)
    return result


def add_gaps(read_gap, c, n):
    positions, position = [], -1
    for _ in range(c):
        position += read_gap()
        require(position < n, f"position {position} is beyond the last of {n} entries")
        positions.append(position)
    return positions


GOLDEN = (Decimal(5).sqrt() - 1) / 2  # g
RICE_LIMITS = [1 - GOLDEN ** Decimal(2) ** (1 - b) for b in range(32)]


def rice_width(c, n):
    """The low bits b for c positions among n entries; Decimal, as binary64 rounds too early."""
    return max((b for b in range(32) if c < n * RICE_LIMITS[b]), default=0)


def rice(bits, b, largest):
    ones = 0
    while ones < ESCAPE and bits.bit():
        ones += 1
    if ones < ESCAPE:
        number = ones << b | bits.highest_first(b)
    else:
        number = bits.lowest_first(max(1, digits(largest)))
        require(number >> b >= ESCAPE, f"a Rice code spells out {number}")
    require(number <= largest, f"a Rice code is {number}; it is at most {largest}")
    return number


def omega(bits, largest):
    number = 1
    while bits.bit():  # the highest of number + 1 digits
        require(number < digits(largest), f"an Elias omega code is above {largest}")
        number = 1 << number | bits.highest_first(number)
    require(number <= largest, f"an Elias omega code is {number}; it is at most {largest}")
    return number


# Bucket


def bucket(size):
    return {"bucket": size}


def require_runs_on_bytes(size, planes):
    for plane in planes:
        whole = plane.count(size) * plane.width % 8 == 0  # the width of levels is 0
        require(whole, f"a plane of {size} entries does not end on a byte")


def decode_runs(operator, data, n):
    """Reads the joined planes and hands each run of entries its part of them."""
    quantiser = operator.quantiser
    size = operator.bucket or n
    joined, symbols = [], []
    for plane in quantiser.planes:
        count = n // size * plane.count(size)
        if n % size:
            count += plane.count(n % size)
        symbols = operator.coder.read(data, plane, count, symbols)
        joined.append(iter(symbols))
    values = []
    for start in range(0, n, size):
        run = min(size, n - start)
        parts = [list(islice(j, p.count(run))) for j, p in zip(joined, quantiser.planes)]
        values += quantiser.entries(run, *parts)
    return values


# Quantisers: which planes they have, and from these to the values of n entries


@dataclass
class Plane:
    count: object  # symbols for n entries
    width: int = 0  # of a symbol in bits, 0 for levels
    most: int = 0  # a level is -most to most
    compacted: bool = False  # entropy leaves out the symbols where the plane before has a 0


@dataclass
class Quantiser:
    planes: list
    entries: object  # the values, of n and the symbols of each plane


def each(n):
    return n


def blocks(n):
    return -(-n // BLOCK)


def one(n):
    return 1


def two(n):
    return 2


SCALE = Plane(one, 32)


def quantiser(planes, entries):
    return {"quantiser": Quantiser(planes, entries)}


def identity():
    return quantiser([Plane(each, 32)], lambda n, words: finite_floats(words))


def natural(width, rounding):
    if width == "8":
        return quantiser([Plane(blocks, 8), Plane(each, 8)], natural8_entries)
    return quantiser([Plane(each, 8), Plane(each, 1, compacted=True)], natural_entries)


def natural_entries(n, exponents, signs):
    return [power_of_two(s, min(e, 254)) if e else 0.0 for e, s in zip(exponents, signs)]


def natural8_entries(n, tops, codes):
    require_tops(tops, 127)
    values = []
    for i, code in enumerate(codes):
        s, c = divmod(code, 128)
        values.append(power_of_two(s, tops[i // BLOCK] - 127 + c) if c else 0.0)
    return values


def power_of_two(sign, exponent):
    return (-1) ** sign * 2.0 ** (exponent - 127)


def require_tops(tops, least):
    for top in tops:
        require(least <= top <= 254, f"a top is {top}; it has to be {least} to 254")


def half(kind):
    if kind == "bf16":
        return quantiser([Plane(each, 16)], bf16_entries)
    return quantiser([Plane(blocks, 8), Plane(each, 16)], half_entries)


def half_entries(n, tops, halves):
    require_tops(tops, 1)
    return [half_entry(bits, tops[i // BLOCK]) for i, bits in enumerate(halves)]


def half_entry(bits, top):
    magnitude = min(bits & 0x7FFF, 0x77FF if top == 254 else 0x7800)
    (number,) = struct.unpack("<e", struct.pack("<H", bits & 0x8000 | magnitude))
    return binary32(math.ldexp(number, top - 141))  # the product is exact in binary64


def bf16_entries(n, uppers):
    return finite_floats([(upper & 0x8000 | min(upper & 0x7FFF, 0x7F7F)) << 16 for upper in uppers])


def with_levels(most, entry):
    """A quantiser of a scale and levels; `entry` makes a value of a level and the scale."""

    def entries(n, scale_word, levels):
        scale = read_scale(scale_word)
        return [entry(l, scale) for l in levels]

    return quantiser([SCALE, Plane(each, most=most)], entries)


def read_scale(words):
    (scale,) = floats(words)
    require(0 <= scale < math.inf, f"a scale is {scale}")  # false for NaN
    return scale


def qsgd(s, norm):
    return with_levels(s, lambda l, scale: parts(l, s, scale))


def parts(l, s, scale):
    """l of the s parts of a scale."""
    return min(max(binary32(l * binary32(scale / s)), -scale), scale)


def terngrad(clip):
    return with_levels(1, lambda l, scale: l * scale)


def dithering(s, norm):
    def entry(l, scale):
        return math.copysign(binary32(scale * 2.0 ** (abs(l) - s)), l) if l else 0.0

    return with_levels(s, entry)


def grid(omega, levels):
    if levels == "contexts":
        return drawing(grid_in_contexts)
    return with_levels(2**31 - 1, grid_entry)


def grid_entry(l, scale):
    value = binary32(binary32(l) * scale)
    require(math.isfinite(value), f"grid: level {l} is 2^128 or more")
    return value


def sign():
    def entries(n, scale_word, bits):
        scale = read_scale(scale_word)
        return [-scale if bit else scale for bit in bits]

    return quantiser([SCALE, Plane(each, 1)], entries)


def uniform(bits, scaling, rounding):
    codes = Plane(each, bits)
    largest = 2**bits - 1
    h = 2 ** (bits - 1) - 1

    def between(n, ends, codes):
        low, high = floats(ends)
        require(-math.inf < low <= high < math.inf, f"uniform: low is {low} and high {high}")
        return [uniform_entry(low, high, c, largest) for c in codes]

    def symmetric(n, scale_word, codes):
        scale = read_scale(scale_word)
        if bits == 1:
            return [uniform_entry(-scale, scale, c, largest) for c in codes]
        require(max(codes) <= 2 * h, f"uniform: code {max(codes)} is above {2 * h}")
        return [parts(c - h, h, scale) for c in codes]

    if scaling == "absmax":
        return quantiser([SCALE, codes], symmetric)
    return quantiser([Plane(two, 32), codes], between)


def uniform_entry(low, high, c, largest):
    part = binary32(c * binary32(1 / largest))
    value = binary32(binary32(low * binary32(1 - part)) + binary32(high * part))
    return min(max(value, low), high)


def binned(bits):
    def means(n):
        return 2**bits

    def entries(n, words, codes):
        table = finite_floats(words)
        return [table[c] for c in codes]

    return quantiser([Plane(means, 32), Plane(each, bits)], entries)


def sbc(density, index):
    return topk(density, index) | no_bucket() | quantiser([Plane(one, 32)], sbc_entries)


def sbc_entries(n, word):
    return finite_floats(word) * n


def stc(density, index):
    return topk(density, index) | no_bucket() | sign()


def no_bucket():
    return {"bucket": 0}


# Quantisers that read a section by themselves, with the draws that its sender made


@dataclass
class Drawing:
    read: object  # the values, of a reader, n and 32 random bits for each entry


def drawing(read):
    return {"bucket": 0, "quantiser": Drawing(read), "coder": None}


# Quantisers `drive` and `eden`


def rotated():
    return drawing(rotated_entries)


def rotated_entries(data, n, draws):
    scales = finite_floats(take_packed(data, blocks(n), 32))
    require(min(scales) >= 0, f"a scale is {min(scales)}")
    sizes = [min(BLOCK, n - start) for start in range(0, n, BLOCK)]
    signs = iter(take_packed(data, sum(map(power_at_least, sizes)), 1))
    values = []
    for scale, size in zip(scales, sizes):
        z = hadamard([1 - 2 * bit for bit in islice(signs, power_at_least(size))])
        for whole in z[:size]:
            value = min(max(binary32(whole * scale), -LARGEST), LARGEST)
            values.append(-value if next(draws) >> 31 else value)
    return values


def power_at_least(size):
    return 1 << (size - 1).bit_length()


def hadamard(x):
    if len(x) == 1:
        return x
    a, b = hadamard(x[: len(x) // 2]), hadamard(x[len(x) // 2 :])
    return [p + q for p, q in zip(a, b)] + [p - q for p, q in zip(a, b)]


# Quantiser `dither`


ROW = 64  # entries that share a scale where there is no matrix
DEAD = 63  # the scale of a row or column that is not sent
MOST_RANK = 8  # of a product that entries are counted from
PART = 1 << 19  # entries whose symbols are coded together
SHARES = 1 << 14
LEAST_STATE = 1 << 15
ROOT = (1.0, float.fromhex("0x1.306fe0a31b715p0"), float.fromhex("0x1.6a09e667f3bcdp0"),
        float.fromhex("0x1.ae89f995ad3adp0"))  # 2^(i / 4)  # fmt: skip


def dither(omega):
    return drawing(dither_entries)


@dataclass
class DitherSection:
    """What stands in front of the levels: the step and the class of entries, and their bases."""

    steps: list = None  # and classes, by scale; None if all entries are zeros
    width: int = ROW
    rows: bytes = b""  # scales
    cols: bytes = b""
    factors: list = None  # (a x w for each row, b for each column) of each column

    def of(self, i):
        row, col = self.rows[i // self.width], self.cols[i % self.width]
        return (0.0, 0) if DEAD in (row, col) else self.steps[row + col]

    def base(self, i):
        total = 0.0
        for left, right in self.factors:
            total = binary32(total + binary32(left[i // self.width] * right[i % self.width]))
        return total


def dither_steps(section):
    """Of a section by `dither`: the step of each entry, 0 where nothing is sent."""
    data = Reader(section.data, f"section at {section.position}")
    known = dither_section(data, section.count)
    return [known.of(i)[0] if known.steps else 0.0 for i in range(section.count)]


def dither_section(data, n):
    rank, columns = divmod(data.varint(), n)
    if n == 1:
        rank, columns = 0, rank
    if columns == rank == 0:
        return DitherSection()
    require(rank <= MOST_RANK, f"dither: a product of rank {rank}")
    require(rank == 0 or columns > 1, f"dither: a product of rows of {columns} entries")
    exponent, c = struct.unpack("<hf", data.take(6))
    require(abs(exponent) <= 200 and 0 < c < math.inf, f"dither: noise {c} times 4^{exponent}")
    width, rows, cols = read_scales(data, n, columns)
    steps = [dither_step(exponent, c, k) for k in range(2 * DEAD - 1)]
    factors = [dither_column(data, rows, cols) for _ in range(rank)]
    return DitherSection(steps, width, rows, cols, factors)


def read_scales(data, n, columns):
    """The length of a row, and the scales of rows and columns."""
    matrix = columns > 1 and n % columns == 0 and n // 8 >= columns + n // columns
    require(matrix or columns == 1, f"scales: rows of {columns} entries, of {n}")
    width = columns if matrix else ROW
    rows = read_chunks(data, -(-n // width))
    cols = read_chunks(data, columns) if matrix else bytes(width)
    require(max(rows + cols) <= DEAD, "scales: one is above 63")
    return width, rows, cols


def dither_column(data, rows, cols):
    """A column of both factors."""
    (size,) = struct.unpack("<f", data.take(4))
    require(2.0**-100 <= size <= 2.0**100, f"dither: a column of size {size}")
    numbers = read_chunks(data, sum(scale != DEAD for scale in rows + cols))
    require(0 not in numbers, "dither: a factor is -128")
    numbers = iter(numbers)
    left, right = (
        [0 if scale == DEAD else next(numbers) - 128 for scale in scales] for scales in (rows, cols)
    )
    return [binary32(a * size) for a in left], right


def dither_entries(data, n, draws):
    known = dither_section(data, n)
    of = known.of
    if known.steps is None:
        return [0.0] * n
    dithers = [2 * (h >> 8) + 1 - 2**24 for h in islice(draws, n)]  # u is this / 2^25
    classes = [cls for _, cls in map(of, range(n))]
    bins = [dither_bin(cls, m) for cls, m in zip(classes, dithers)]
    levels = levels_in_classes(data, classes, bins, dither_shares, -2)
    values = []
    for i, level in enumerate(levels):
        step, _ = of(i)
        u = abs(dithers[i]) / 2**25
        value = within(binary32(binary32(binary32(level) - u) * step))
        value = value if dithers[i] > 0 else -value
        values.append(within(binary32(value + known.base(i))) if known.factors else value)
    return values


def levels_in_classes(data, classes, bins, shares_of, least):
    """Levels of entries of some class, 0 for those that are not sent, to the end of the data."""
    used = sorted(set(classes) - {0})
    require(used, "levels: no entry is sent")
    shares = {cls: shares_of(cls, data.u8()) for cls in used}
    symbols, lowest = [], []
    for start in range(0, len(classes), PART):
        some = classes[start : start + PART]
        here = zip(some, bins[start : start + PART])
        contexts = [shares[cls][bin] if cls else None for cls, bin in here]
        symbols += read_symbols(Reader(data.take(data.varint()), "symbols"), contexts, -least)
        lowest += read_lowest(data, some) if low_bits(used[-1]) else [0] * len(some)
    escapes = Bits(data)
    levels = []
    for symbol, cls, bits in zip(symbols, classes, lowest):
        low = low_bits(cls)
        high = symbol + least if symbol < 7 else read_escape(escapes, least)
        levels.append((high << low) + bits - (1 << low >> 1))
        require(abs(levels[-1]) <= 2**30, "dither: a level beyond 2^30")
    escapes.end()
    return levels


def read_lowest(data, classes):
    """The lowest bits of a part's levels."""
    part = Reader(data.take(data.varint()), "lowest bits")
    bits = Bits(part)
    numbers = [bits.lowest_first(low_bits(cls)) for cls in classes]
    bits.end()
    part.end()
    return numbers


def grid_in_contexts(data, n, draws):
    columns = data.varint()
    if columns == 0:
        return [0.0] * n
    exponent, step = struct.unpack("<hf", data.take(6))
    require(abs(exponent) <= 200, f"grid: a largest scale of 2^{exponent}")
    require(2.0**-126 <= step < math.inf, f"grid: a step of {step}")
    width, rows, cols = read_scales(data, n, columns)
    ratios = [math.ldexp(1.0, 2 * exponent - k) / (step * step) for k in range(2 * DEAD - 1)]
    of = list(map(dither_class, ratios))
    classes = []
    for i in range(n):
        row, col = rows[i // width], cols[i % width]
        classes.append(0 if DEAD in (row, col) else of[row + col])
    levels = levels_in_classes(data, classes, [0] * n, lambda *law: [grid_shares(*law)], -3)
    return [grid_entry(level, step) for level in levels]


def within(value):
    return min(max(value, -LARGEST), LARGEST)


def dither_step(exponent, c, k):
    """Step and class of entries whose variance is 4^exponent / 2^k."""
    s = math.ldexp(1.0, -k)
    noise = 2 * c * s / (math.sqrt(s * s + 4 * c * s) + s)
    exact = min(math.ldexp(math.sqrt(12 * noise), exponent), 2.0**126)
    step = binary32(exact)
    if step > exact:
        step = floats([struct.unpack("<I", struct.pack("<f", step))[0] - 1])[0]
    if step < 2.0**-126:
        return 0.0, 0
    return step, dither_class(s / (12 * noise))


def dither_class(ratio):
    _, power = math.frexp(max(ratio, 2.0**-60) * ROOT[2])
    return min(max(power - 1, -13), 17) + 14


def low_bits(cls):
    return max(0, (cls - 14) // 2) if cls >= 16 else 0


def dither_bin(cls, m):
    low = low_bits(cls)
    return (abs(m) + (2**24 if low else 0)) >> 21 + low


def dither_shares(cls, law):
    """For each bin of |u|, where the share of each symbol begins, and the end."""
    return [law_shares(cls, law, [(bin + 0.25) / 16, (bin + 0.75) / 16], -2) for bin in range(8)]


def grid_shares(cls, law):
    return law_shares(cls, law, [(i + 0.5) / 16 - 0.5 for i in range(16)], -3)


def law_shares(cls, law, offsets, least):
    shape, scale = law >> 5, 2 * (cls - 14 - 2 * low_bits(cls)) + law % 32 - 16
    b = math.ldexp(ROOT[scale % 4], scale // 4)

    def below(y):
        tail = beyond(shape, abs(y) / b) / 2
        return tail if y < 0 else 1 - tail

    reached = [0.0] * 8
    for u in offsets:
        parts = [below(i + (least - 0.5) - u) / len(offsets) for i in range(8)]
        reached = [sum(pair) for pair in zip(reached, parts)]
    likely = [reached[i + 1] - reached[i] for i in range(7)] + [1 - (reached[7] - reached[0])]
    shares = [1 + int(max(0.0, p) * (SHARES - 16)) for p in likely]
    shares[-least] += SHARES - sum(shares)
    return [sum(shares[:i]) for i in range(9)]


def beyond(shape, t):
    """The part of entries that are more than t times b from 0."""
    if shape == 0:
        power = 1 + t * (0.278393 + t * (0.230389 + t * (0.000972 + t * 0.078108)))
        return 1 / squared(squared(power))
    if shape == 7:
        return 1 / math.sqrt(1 + 2 * t)
    power = 1 + t / (64 >> shape)
    for _ in range(6 - shape):
        power = squared(power)
    return 1 / power


def squared(x):
    return x * x


def read_symbols(data, contexts, zero=2):
    """A symbol for each context, a list of begins, or None where it can only be that of zeros."""
    many = 4 if len(contexts) < 2**16 else 16 if len(contexts) < 2**18 else 32
    states = [int.from_bytes(data.take(4), "little") for _ in range(many)]
    require(all(LEAST_STATE <= x < 2**31 for x in states), "dither: a state that cannot be")
    symbols = []
    for i, begins in enumerate(contexts):
        if begins is None:
            symbols.append(zero)
            continue
        x, slot = divmod(states[i % many], SHARES)
        symbol = max(s for s in range(8) if begins[s] <= slot)
        x = (begins[symbol + 1] - begins[symbol]) * x + slot - begins[symbol]
        if x < LEAST_STATE:
            x = x << 16 | int.from_bytes(data.take(2), "little")
        states[i % many] = x
        symbols.append(symbol)
    require(states == [LEAST_STATE] * many, "dither: symbols do not end where they should")
    data.end()
    return symbols


def read_escape(bits, least):
    """A high part that no symbol stands for."""
    zeros = 0
    while bits.bit() == 0:
        zeros += 1
    require(zeros <= 32, "dither: a level beyond 2^30")
    number = bits.lowest_first(zeros) + 2**zeros - 1
    return least - 1 - number // 2 if number % 2 else least + 7 + number // 2


# Coder `levels`, and none. A coder reads a plane of `count` symbols, knowing those of the one before


class Packed:
    def read(self, data, plane, count, before):
        return take_packed(data, count, plane.width)


@dataclass
class Levels(Packed):
    code: str = ""  # a tag names it if it is empty

    def read(self, data, plane, count, before):
        if not plane.most:
            return super().read(data, plane, count, before)
        tag = LEVEL_NAMES.index(self.code) if self.code else data.u8()
        require(tag < len(LEVEL_NAMES), f"there is no code of levels {tag}")
        return LEVEL_CODES[LEVEL_NAMES[tag]](data, count, plane.most)


def levels(code):
    return {"coder": Levels(code)}


def default_coder(planes):
    return Levels() if any(plane.most for plane in planes) else Packed()


def require_levels_for(code, planes):
    """`code` has to be able to write the levels there are."""
    mosts = [plane.most for plane in planes if plane.most]
    require(mosts, "there are no levels for the coder")
    require(code != "trits" or mosts == [1], "the levels are not trits")


def from_zigzag(number):
    return -(number // 2) - 1 if number % 2 else number // 2


def fixed_levels(data, count, most):
    width = digits(2 * most)
    if most > 32767:
        written = data.u8()
        require(written <= width, f"levels: a width of {written} bits; at most {width} are needed")
        width = written
    result = list(map(from_zigzag, take_packed(data, count, width)))
    largest = max(map(abs, result))
    require(largest <= most, f"levels: one is beyond {most}")
    if most > 32767:
        require(width == digits(2 * largest), f"levels: {width} bits for a largest of {largest}")
    return result


def trit_levels(data, count, most):
    require(most == 1, f"levels up to {most} are not trits")
    result = []
    for byte in data.take(-(-count // 5)):
        require(byte <= 242, f"a byte of trits is {byte}")
        result += [byte // 3**j % 3 - 1 for j in range(5)]
    require(all(l == -1 for l in result[count:]), "a trit after the last is not -1")
    return result[:count]


def elias_levels(data, count, most):
    c = data.varint()
    require(c <= count, f"{c} levels that are not 0 among {count}")
    bits, position, placed = Bits(data), -1, []
    for _ in range(c):
        position += omega(bits, count)
        require(position < count, f"position {position} is beyond the last of {count} levels")
        negative = bits.bit()
        magnitude = omega(bits, most) if most > 1 else 1
        placed.append((position, -magnitude if negative else magnitude))
    bits.end()
    return place_levels(placed, count)


def sparse_levels(data, count, most):
    c, tag = divmod(data.varint(), 8)
    positions = read_positions(data, tag, c, count)
    signs = take_packed(data, c, 1)
    magnitudes = [1] * c
    if most > 1 and c > 0:
        b = data.u8()
        require(b <= 30, f"levels: a Rice code of {b} low bits")
        bits = Bits(data)
        magnitudes = [rice(bits, b, most - 1) + 1 for _ in range(c)]
        bits.end()
    found = (-m if negative else m for m, negative in zip(magnitudes, signs))
    return place_levels(zip(positions, found), count)


def pair_levels(data, count, most):
    form = data.u8()
    require(form <= (2 if most > 127 else 1), f"levels: form {form}")
    width, escape = ((4, 15), (8, 255), (16, 65535))[form]
    if form == 2:
        symbols = read_lanes(data, count, 2)
    else:
        symbols = unpack(read_chunks(data, packed_size(count, width)), count, width)
    numbers = [data.varint() + escape if symbol == escape else symbol for symbol in symbols]
    require(max(numbers) <= 2 * most, f"levels: one is beyond {most}")
    return list(map(from_zigzag, numbers))


def place_levels(placed, count):
    result = [0] * count
    for position, level in placed:
        result[position] = level
    return result


LEVEL_CODES = {  # in the order of their tags
    "fixed": fixed_levels,
    "trits": trit_levels,
    "elias": elias_levels,
    "sparse": sparse_levels,
    "pairs": pair_levels,
}
LEVEL_NAMES = list(LEVEL_CODES)


# Coder `entropy`


class Entropy:
    def read(self, data, plane, count, before):
        if plane.most:
            return entropy_levels(data, count, plane.most)
        if plane.compacted:
            bits = iter(entropy_symbols(data, sum(symbol != 0 for symbol in before), 1))
            return [next(bits) if symbol else 0 for symbol in before]
        symbols = entropy_symbols(data, count, plane.width)
        if plane.width < 16:
            return symbols
        top = plane.width - 1
        return [symbol >> 1 | (symbol & 1) << top for symbol in symbols]


def entropy():
    return {"coder": Entropy()}


def entropy_levels(data, count, most):
    z = data.varint()
    require(z <= 2 * most, f"entropy: the largest zigzag number {z} is above {2 * most}")
    width = next(width for width in (0, 1, 2, 4, 8, 16, 32) if width >= digits(z))
    numbers = entropy_symbols(data, count, width)
    require(max(numbers) == z, f"entropy: the largest zigzag number is {max(numbers)}, not {z}")
    return list(map(from_zigzag, numbers))


def entropy_symbols(data, count, width):
    if width in (16, 32):
        return read_lanes(data, count, width // 8)
    if width in (3, 5, 6, 7) and count >= 4096:  # a byte each
        symbols = list(read_chunks(data, count))
        require(max(symbols) < 1 << width, f"entropy: a symbol of more than {width} bits")
        return symbols
    return unpack(read_chunks(data, packed_size(count, width)), count, width)


def read_chunks(data, length):
    return b"".join(read_chunk(data, part) for part in chunk_lengths(length, CHUNK))


def read_lanes(data, count, lanes):
    """Symbols of so many bytes, of which the lowest ones of a chunk come first."""
    symbols = []
    for part in chunk_lengths(count, CHUNK):
        parts = [read_chunk(data, part) for _ in range(lanes)]
        symbols += [int.from_bytes(symbol, "little") for symbol in zip(*parts)]
    return symbols


def chunk_lengths(length, most):
    return [min(most, length - start) for start in range(0, length, most)]


def read_chunk(data, length):
    m = data.varint()
    require(m <= length, f"a chunk of {length} bytes has {m} coded bytes")
    coded = data.take(m)
    return coded if m == length else coded_bytes(coded, length)


def coded_bytes(coded, n):
    data = Reader(coded, "a coded chunk")
    form = data.u8()
    require(form <= 15, f"a coded chunk: form {form}")
    low_bits, paired = form % 8, form >= 8
    low = take_packed(data, n, low_bits) if low_bits else [0] * n
    above = decompress(data.take(data.left), packed_size(n, 4) if paired else n)
    if paired:
        above = unpack(above, n, 4)
    most = 255 >> low_bits
    require(all(part <= most for part in above), f"a coded chunk: a part is above {most}")
    return bytes(high << low_bits | rest for high, rest in zip(above, low))


def decompress(coded, n):
    """The n symbols whose Huffman codes are `coded`."""
    data = Reader(coded, "Huffman codes")
    lowest, highest = data.u8(), data.u8()
    if lowest == highest:
        data.end()
        return bytes([lowest]) * n
    codes = canonical(read_lengths(data, lowest, highest))
    sizes = [data.varint() for _ in range(3)]
    streams = [data.take(size) for size in sizes]
    streams.append(data.take(data.left))
    q = -(-n // 4)
    counts = [max(0, min(q, n - q * k)) for k in range(4)]
    return b"".join(read_stream(*each, codes) for each in zip(streams, counts))


def read_lengths(data, lowest, highest):
    """The length of the code of each symbol that has one."""
    require(lowest < highest, "Huffman codes: the lowest symbol is above the highest")
    lengths = {}
    bits = Bits(data)
    symbol = lowest
    while symbol <= highest:
        length = bits.lowest_first(4)
        require(length <= MOST_BITS, f"Huffman codes: a code of {length} bits")
        if length:
            lengths[symbol] = length
        else:
            symbol += bits.lowest_first(4)
            require(symbol < highest, "Huffman codes: a run beyond the highest symbol")
        symbol += 1
    bits.end()
    require(lowest in lengths, "Huffman codes: the lowest symbol has no code")
    space = sum(2 ** (MOST_BITS - length) for length in lengths.values())
    require(space == 2**MOST_BITS, "Huffman codes: the code space is not used up")
    return lengths


def canonical(lengths):
    """Symbols by (length, code)."""
    codes = {}
    code = before = 0
    for length, symbol in sorted((length, symbol) for symbol, length in lengths.items()):
        code <<= length - before
        codes[length, code] = symbol
        code, before = code + 1, length
    return codes


def read_stream(stream, count, codes):
    data = Reader(stream, "a stream of Huffman codes")
    bits = Bits(data)
    symbols = bytearray()
    for _ in range(count):
        length = code = 0
        while (length, code) not in codes:
            length, code = length + 1, code << 1 | bits.bit()
        symbols.append(codes[length, code])
    bits.end()
    data.end()
    return bytes(symbols)


# Specs


@dataclass
class Number:
    """A number as an argument of a stage."""

    name: str
    least: float
    most: float
    default: float = None
    whole: bool = False

    def parse(self, content, first):
        """Its value if `content` is such an argument, else None."""
        prefix = "" if first else f"{self.name}="
        if not content.startswith(prefix):
            return None
        digits = content.removeprefix(prefix)
        try:
            value = float(digits)
        except ValueError:
            return None
        within = self.least <= value <= self.most  # false for NaN
        require(within, f"{self.name} is {self.least} to {self.most}")
        require(value != self.default, f"{self.name} {digits} is left out")
        require(not self.whole or value == int(value), f"{self.name} is a whole number")
        require(digits == spelling(value), f"{digits} is spelt {spelling(value)}")
        return int(value) if self.whole else value


@dataclass
class Word:
    """A word as an argument; another one is the default, which is left out."""

    choices: tuple
    default: str

    def parse(self, content, first):
        return content if content in self.choices else None


def spelling(value):
    """The shortest digits that read back the same, in fixed notation from 1e-6 to below 1e15."""
    if value == 0:
        return "0"
    shortest = Decimal(repr(value)).normalize()
    _, figures, exponent = shortest.as_tuple()
    if 1e-6 <= abs(value) < 1e15:
        return str(int(value)) if exponent >= 0 else f"{shortest:f}"
    first, *others = map(str, figures)
    power = exponent + len(others)
    point = "." if others else ""
    minus = "-" if value < 0 else ""
    return f"{minus}{first}{point}{''.join(others)}e{'-' if power < 0 else ''}{abs(power):02}"


DENSITY = Number("density", 1e-9, 1)
INDEX = Word(tuple(POSITION_NAMES), "auto")
NEAREST = Word(("nearest",), "stochastic")

STAGES = {  # arguments, and what makes parts of an operator of them
    "shrink": ((), lambda: {"shrink": True}),
    "topk": ((DENSITY, INDEX), topk),
    "threshold": ((Number("value", 1e-30, 1e30), INDEX), threshold),
    "adaptive": ((Number("factor", 1, 1e9, 2), INDEX), adaptive),
    "chunk": (
        (Number("size", 2, 2**30, 4096, True), Number("kept", 1, 2**30, 64, True), INDEX),
        chunk,
    ),
    "randomk": ((DENSITY, Word(("unscaled",), "scaled"), Word(("own",), "shared")), randomk),
    "bucket": ((Number("size", 8, 2**30, 512, True),), bucket),
    "identity": ((), identity),
    "natural": ((Word(("8",), "9"), NEAREST), natural),
    "half": ((Word(("bf16",), "binary16"),), half),
    "qsgd": ((Number("s", 1, 32767, whole=True), Word(("max",), "2")), qsgd),
    "terngrad": ((Number("clip", 0, 1000, 0),), terngrad),
    "dithering": ((Number("s", 1, 127, whole=True), Word(("1", "inf"), "2")), dithering),
    "grid": ((Number("omega", 0.001, 16, 0.125), Word(("contexts",), "plain")), grid),
    "dither": ((Number("omega", 0.001, 16, 0.125),), dither),
    "drive": ((), rotated),
    "eden": ((), rotated),
    "sign": ((), sign),
    "uniform": ((Number("bits", 1, 8, 8, True), Word(("absmax",), "ends"), NEAREST), uniform),
    "binned": ((Number("bits", 1, 4, 2, True),), binned),
    "sbc": ((DENSITY, INDEX), sbc),
    "stc": ((DENSITY, INDEX), stc),
    "levels": ((Word(tuple(LEVEL_NAMES), ""),), levels),
    "entropy": ((), entropy),
}
ORDER = ["shrink", "selector", "bucket", "quantiser", "coder"]


def parse_spec(spec):
    """The operator that a spec stands for."""
    try:
        return make_operator([parse_stage(stage) for stage in split_spec(spec)])
    except FrameError as error:
        raise FrameError(f"no operator {spec!r}: {error}") from None


def split_spec(spec):
    """The specs of its stages."""
    return spec.split("+")


def parse_stage(stage):
    """The parts of an operator that a stage defines."""
    name, colon, rest = stage.partition(":")
    require(name in STAGES, f"no stage {name!r}")
    arguments, make = STAGES[name]
    contents = rest.split(",") if colon else []
    values = []
    for i, argument in enumerate(arguments):
        value = argument.parse(contents[0], first=i == 0) if contents else None
        if value is None:
            value = argument.default
            require(value is not None, f"{name} lacks an argument")
        else:
            del contents[0]
        values.append(value)
    require(not contents, f"{name} has no argument {','.join(contents)!r} there")
    return make(*values)


def make_operator(stages):
    places = [ORDER.index(part) for stage in stages for part in stage]
    require(places == sorted(set(places)), "the stages are not in their order")
    operator = Operator()
    for stage in stages:
        for part, value in stage.items():
            setattr(operator, part, value)
    if operator.quantiser is None:
        operator.quantiser = identity()["quantiser"]
    if isinstance(operator.quantiser, Drawing):
        return operator
    planes = operator.quantiser.planes
    if operator.bucket:
        require_runs_on_bytes(operator.bucket, planes)
    if operator.coder is None:
        operator.coder = default_coder(planes)
    elif isinstance(operator.coder, Levels):
        require_levels_for(operator.coder.code, planes)
    return operator


# Arrays


def decode(data, limit=LIMIT):
    """Shape, dtype before compression and the float32 values of the whole array."""
    frame = read_frame(data, limit)
    held = sum(section.count for section in frame.sections)
    require(held == frame.count, "the frame holds only a part of its array")
    values = array("f")
    for section in frame.sections:
        values += decode_section(frame, section)
    return frame.extents, frame.dtype, values


# Command line


def describe(frame):
    yield f"version {frame.version}, seed {frame.seed}, step {frame.step}"
    yield f"rank {frame.rank}" + (f" of {frame.ranks}" if frame.ranks else "")
    for tag, content in frame.extensions:
        yield f"extension {tag}: {len(content)} bytes"
    yield f"{frame.dtype} array {list(frame.extents)}, {frame.count} entries"
    yield f"{'position':>12} {'count':>12} {'bytes':>12}  operator name"
    for s in frame.sections:
        state = "" if s.state == "coded" else s.state
        yield f"{s.position:12} {s.count:12} {len(s.data):12}  {s.operator!r} {s.name!r} {state}"


def main(arguments):
    if len(arguments) != 1:
        sys.exit("usage: laconic_reference.py FILE.lac")
    try:
        with open(arguments[0], "rb") as file:
            data = file.read()
        frame = read_frame(data)
        print(*describe(frame), sep="\n")
        for section in frame.sections:
            first = decode_section(frame, section)[:8]
            print(f"from entry {section.position}:", *(f"{value:.9g}" for value in first))
    except (FrameError, OSError) as error:
        sys.exit(f"{arguments[0]}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
