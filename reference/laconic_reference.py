"""Reads Laconic frames of data version 1 in plain Python, written from docs/frame.md only.

Names are those of the page, and so is the order: words, head, table and foot, quantisers, coder.

    shape, dtype, values = decode(open("gradient.lac", "rb").read())
"""

import math
import struct
import sys
from array import array
from dataclasses import dataclass

DATA_VERSION = 1
DTYPES = ("float32", "float16", "float64")
MOST = 64  # operators, dimensions
BLOCK = 4096  # entries that share a top
CHUNK = 262144  # bytes of a plane that are coded together
FOOT = 8
LIMIT = 2**31  # entries of an array, unless told otherwise
WINDOW = 8 * 2**20  # most bytes of a zstd frame's window
ZSTD_MAGIC = bytes.fromhex("28b52ffd")


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
        # The page gives no encoding: bytes that are not UTF-8 become surrogates, which encode back.
        return self.take(self.varint()).decode("utf-8", "surrogateescape")

    def end(self):
        require(self.left == 0, f"{self.part}: {self.left} bytes left over")


def packed_size(count, width):
    return (count * width + 7) // 8


def unpack_bits(data, count):
    """The first `count` bits, lowest bit of byte 0 first; all others have to be 0."""
    bits = [byte >> place & 1 for byte in data for place in range(8)]
    require(not any(bits[count:]), "a bit after the last symbol is not 0")
    return bits[:count]


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
    not_finite: bool
    data: bytes


@dataclass
class Frame:
    version: int
    extensions: list  # (tag, bytes), all of them skipped
    operators: list
    seed: int
    step: int
    rank: int
    dtype: str
    extents: tuple
    position: int  # of the first section
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
        dtype=read_dtype(head),
        extents=read_extents(head, limit),
        position=head.varint(),
        sections=[],
    )
    require(frame.position <= frame.count, "the first section begins beyond the array")
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
    position = frame.position
    for _ in range(table.varint()):
        name, count, choice, length = table.text(), table.varint(), table.varint(), table.varint()
        operator, not_finite = divmod(choice, 2)
        require(count <= frame.count - position, "a section ends beyond the array")
        require(operator < len(frame.operators), f"there is no operator {operator}")
        frame.sections.append(
            Section(
                name=name,
                position=position,
                count=count,
                operator=frame.operators[operator],
                not_finite=bool(not_finite),
                data=body.take(length),
            )
        )
        position += count
    table.end()
    body.end()


# Quantisers: from planes to the binary32 words of n entries


def identity(planes, n):
    words = planes.plane(n, 32)
    require_finite(words)
    return words


def natural(planes, n):
    exponents = planes.plane(n, 8)
    require(255 not in exponents, "natural: an exponent is 255")
    signs = planes.signs(exponents)
    return [power_of_two(s, e) if e else 0 for e, s in zip(exponents, signs)]


def natural8(planes, n):
    tops = read_tops(planes, n, 127)
    words = []
    for i, code in enumerate(planes.plane(n, 8)):
        s, c = divmod(code, 128)
        words.append(power_of_two(s, tops[i // BLOCK] - 127 + c) if c else 0)
    return words


def half(planes, n):
    tops = read_tops(planes, n, 1)
    return [half_word(h, tops[i // BLOCK]) for i, h in enumerate(planes.plane(n, 16))]


def bf16(planes, n):
    words = [upper << 16 for upper in planes.plane(n, 16)]
    require_finite(words)
    return words


QUANTISERS = {
    "identity": identity,
    "natural": natural,
    "natural:nearest": natural,
    "natural:8": natural8,
    "natural:8,nearest": natural8,
    "half": half,
    "half:bf16": bf16,
}


def power_of_two(sign, exponent):
    return sign << 31 | exponent << 23


def require_finite(words):
    require(all(word >> 23 & 255 != 255 for word in words), "a finite section has NaN or Inf")


def read_tops(planes, n, least):
    tops = planes.plane(-(-n // BLOCK), 8)
    for top in tops:
        require(least <= top <= 254, f"a top is {top}; it has to be {least} to 254")
    return tops


def half_word(bits, top):
    """The product is exact in binary64, so that packing rounds once: to nearest, ties to even."""
    (number,) = struct.unpack("<e", struct.pack("<H", bits))
    allowed = abs(number) < 2**15 if top == 254 else abs(number) <= 2**15  # false for NaN
    require(allowed, f"half: an entry is {number} under the top {top}")
    return int.from_bytes(struct.pack("<f", math.ldexp(number, top - 141)), "little")


# Planes, without and with the coder


LETTERS = {8: "B", 16: "H", 32: "I"}  # of struct


class PackedPlanes:
    def __init__(self, section):
        self.section = section

    def plane(self, count, width):
        data = self.section.take(packed_size(count, width))
        if width == 1:
            return unpack_bits(data, count)
        return list(struct.unpack(f"<{count}{LETTERS[width]}", data))

    def signs(self, exponents):
        return self.plane(len(exponents), 1)


class EntropyPlanes:
    def __init__(self, section):
        self.section = section

    def plane(self, count, width):
        """A plane of bytes for each byte of a symbol, lowest first."""
        byte_planes = [self.chunks(count) for _ in range(width // 8)]
        return [int.from_bytes(symbol, "little") for symbol in zip(*byte_planes)]

    def signs(self, exponents):
        """The bits of entries that are not zero, spread to their places."""
        count = sum(e != 0 for e in exponents)
        bits = iter(unpack_bits(self.chunks(packed_size(count, 1)), count))
        return [next(bits) if e else 0 for e in exponents]

    def chunks(self, length):
        lengths = (min(CHUNK, length - start) for start in range(0, length, CHUNK))
        return b"".join(map(self.chunk, lengths))

    def chunk(self, length):
        m = self.section.varint()
        require(m <= length, f"a chunk of {length} bytes has {m} coded bytes")
        coded = self.section.take(m)
        return coded if m == length else decompress(coded, length)


def decompress(coded, length):
    """One zstd frame without its magic that holds exactly `length` bytes."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW).decompressobj()
    data = decompressor.decompress(ZSTD_MAGIC)
    step = 1024  # a frame of 256 KiB can stand for 8 GiB: stop soon after `length`
    try:
        for start in range(0, len(coded), step):
            require(not decompressor.eof, "bytes follow the zstd frame of a chunk")
            data += decompressor.decompress(coded[start : start + step])
            require(len(data) <= length, f"a chunk of {length} bytes decompresses to more")
    except zstandard.ZstdError as error:
        raise FrameError(f"a chunk is not a zstd frame: {error}") from None
    require(decompressor.eof, "the zstd frame of a chunk ends early")
    require(not decompressor.unused_data, "bytes follow the zstd frame of a chunk")
    require(len(data) == length, f"a chunk of {length} bytes decompresses to {len(data)}")
    return data


# Sections and arrays


def parse_spec(spec):
    """The quantiser and the reader of planes that a spec stands for."""
    if spec == "entropy":
        return identity, EntropyPlanes
    quantiser = spec.removesuffix("+entropy")
    require(quantiser in QUANTISERS, f"no operator {spec!r}")
    return QUANTISERS[quantiser], PackedPlanes if quantiser == spec else EntropyPlanes


def decode_section(section):
    """The entries of one section, as an array of binary32."""
    data = Reader(section.data, f"section at {section.position}")
    if section.not_finite:
        words = PackedPlanes(data).plane(section.count, 32)
    else:
        quantiser, planes = parse_spec(section.operator)
        words = quantiser(planes(data), section.count)
    data.end()
    return float32_array(words)


def float32_array(words):
    """Goes by the bytes: a Python float would not keep the payload of every NaN."""
    return array("f", struct.pack(f"={len(words)}I", *words))


def decode(data, limit=LIMIT):
    """Shape, dtype before compression and the float32 values of the whole array."""
    frame = read_frame(data, limit)
    held = sum(section.count for section in frame.sections)
    require(held == frame.count, "the frame holds only a part of its array")
    values = array("f")
    for section in frame.sections:
        values += decode_section(section)
    return frame.extents, frame.dtype, values


# Command line


def describe(frame):
    yield f"version {frame.version}, seed {frame.seed}, step {frame.step}, rank {frame.rank}"
    for tag, content in frame.extensions:
        yield f"extension {tag}: {len(content)} bytes"
    yield f"{frame.dtype} array {list(frame.extents)}, {frame.count} entries"
    yield f"{'position':>12} {'count':>12} {'bytes':>12}  operator name"
    for s in frame.sections:
        finite = "not finite" if s.not_finite else ""
        yield f"{s.position:12} {s.count:12} {len(s.data):12}  {s.operator!r} {s.name!r} {finite}"


def main(arguments):
    if len(arguments) != 1:
        sys.exit("usage: laconic_reference.py FILE.lac")
    try:
        with open(arguments[0], "rb") as file:
            data = file.read()
        frame = read_frame(data)
        print(*describe(frame), sep="\n")
        for section in frame.sections:
            first = decode_section(section)[:8]
            print(f"from entry {section.position}:", *(f"{value:.9g}" for value in first))
    except (FrameError, OSError) as error:
        sys.exit(f"{arguments[0]}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
