#!/usr/bin/python3
"""What users would take instead, beside Laconic: torch's top-k, quantisers, half() and PowerSGD products, zstd's Huffman, Stream VByte.

    bench/peers.py                       25 million floats, one thread each
    bench/peers.py --count 1000000 --rounds 3 --json

All take turns in one process, round by round, on one array of normal numbers of deviation 0.01, and the best round counts. PowerSGD's
products are those of torch.distributed's hook, and ours by `laconic bench low-rank`, run between torch's rounds. Ours are whole frames,
checksum and header included. malloc keeps freed blocks, for all alike: without that, most of torch's time is the kernel handing out
pages. Needs numpy, a built liblaconic (LACONIC_LIBRARY) and program (LACONIC); torch, libzstd and libstreamvbyte where they are found:
what is missing is told, and the rest compared.
"""

import argparse
import ctypes
import ctypes.util
import json
import os
import subprocess
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "python"))
KEEPS = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 40),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TOP_PAD_": str(1 << 28),
    "OPENBLAS_NUM_THREADS": "1",
}


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Row:
    def __init__(self, what, ours, theirs, bits=None):
        self.what, self.ours, self.theirs, self.bits = what, ours, theirs, bits
        self.seconds = [float("inf"), float("inf")]

    def note(self, ours, theirs):
        self.seconds = [min(self.seconds[0], ours), min(self.seconds[1], theirs)]

    def told(self):
        ours, theirs = self.seconds
        told = {"what": self.what, "ours": self.ours, "theirs": self.theirs, "seconds": ours, "peer_seconds": theirs,
                "times": theirs / ours}  # fmt: skip
        return {**told, "bits": self.bits[0], "peer_bits": self.bits[1]} if self.bits else told


class Ours:
    """One operator on one array by the C ABI, with memory that is kept from call to call."""

    def __init__(self, spec, x):
        from laconic_comm import _library as l

        self.spec, self.l, self.lib, self.x = spec, l, l.library(), x
        self.operator = self.lib.handle("operator_parse", spec.encode())
        self.scratch = self.lib.handle("scratch_create", 1)
        capacity = l.size_t()
        self.lib.frame_max_size(self.operator, x.size, 1, ctypes.byref(capacity))
        import numpy

        self.out = numpy.empty(capacity.value, numpy.uint8)
        self.y = numpy.zeros_like(x)
        self.size = l.size_t()

    def encode(self):
        shape = (ctypes.c_uint64 * 1)(self.x.size)
        header = self.l.Header(seed=0, step=0, rank=0, dtype=self.l.FLOAT32, ndim=1, shape=shape)
        finite = ctypes.c_int()
        self.lib.frame_write(
            self.operator, self.x.ctypes.data, self.x.size, ctypes.byref(header), self.out.ctypes.data, self.out.size,
            ctypes.byref(self.size), ctypes.byref(finite), self.scratch,
        )  # fmt: skip

    def decode(self):
        frame = self.lib.handle("frame_read", self.out.ctypes.data, self.size, 0)
        self.lib.frame_add(frame, 1.0, self.y.ctypes.data, self.y.size, self.scratch)
        self.lib.frame_free(frame)


def contests(torch, x):
    """Pairs of a row and the work of both, in turns."""
    t = torch.from_numpy(x)
    y, half = torch.zeros(x.size), t.half()
    quantised = torch.quantize_per_tensor(t, 0.0005, 128, torch.quint8)

    def quantise():
        low, high = (float(end) for end in torch.aminmax(t))
        scale = max((high - low) / 255, 1e-30)
        torch.quantize_per_tensor(t, scale, round(-low / scale), torch.quint8)

    def chosen(k):
        positions = torch.topk(t.abs(), k, sorted=False)[1]
        return positions, t[positions]

    pairs = []

    def add(what, spec, encode, encode_text, decode, decode_text, peer_bytes):
        ours = Ours(spec, x)
        ours.encode()
        bits = [8 * ours.size.value / x.size, 8 * peer_bytes / x.size]
        pairs.append((Row(f"{what}, encode", spec, encode_text, bits), ours.encode, encode))
        pairs.append((Row(f"{what}, add", spec, decode_text, bits), ours.decode, decode))

    for share in (0.001, 0.01):
        k = max(int(share * x.size), 1)
        add(f"top {share:g}", f"topk:{share}", lambda k=k: chosen(k), "topk of abs, gather",
            lambda kept=chosen(k): y.index_add_(0, *kept), "index_add_", 12 * k)  # fmt: skip
    for what, spec in (("8 bits, nearest", "uniform:8,nearest"), ("8 bits, at random", "uniform:8")):
        add(what, spec, quantise, "aminmax, quantize", lambda: y.add_(quantised.dequantize()), "y += dequantize", x.size)
    add("half", "half", lambda: t.half(), "half()", lambda: y.add_(half), "y += half", 2 * x.size)
    return pairs


def found(name):
    path = ctypes.util.find_library(name)
    if not path:
        raise OSError(f"lib{name} was not found")
    return ctypes.CDLL(path)


class Zstd:
    """Bytes through libzstd without matches, so that its Huffman code does all."""

    def __init__(self, symbols):
        import numpy

        self.lib = found("zstd")
        for function in ("ZSTD_compressBound", "ZSTD_compress2", "ZSTD_decompress", "ZSTD_CCtx_setParameter"):
            getattr(self.lib, function).restype = ctypes.c_size_t
        self.lib.ZSTD_createCCtx.restype = ctypes.c_void_p
        self.context = ctypes.c_void_p(self.lib.ZSTD_createCCtx())
        # The fastest strategy, and matches of at least 7 bytes, which symbols drawn at random do not have.
        for parameter, value in ((100, 1), (105, 7), (107, 1)):
            self.lib.ZSTD_CCtx_setParameter(self.context, parameter, value)
        self.symbols, self.back = symbols, numpy.empty_like(symbols)
        self.out = numpy.empty(self.lib.ZSTD_compressBound(ctypes.c_size_t(symbols.size)), numpy.uint8)
        self.size = 0

    def encode(self):
        self.size = self.lib.ZSTD_compress2(
            self.context, ctypes.c_void_p(self.out.ctypes.data), ctypes.c_size_t(self.out.size),
            ctypes.c_void_p(self.symbols.ctypes.data), ctypes.c_size_t(self.symbols.size),
        )  # fmt: skip

    def decode(self):
        self.lib.ZSTD_decompress(
            ctypes.c_void_p(self.back.ctypes.data), ctypes.c_size_t(self.back.size),
            ctypes.c_void_p(self.out.ctypes.data), ctypes.c_size_t(self.size),
        )  # fmt: skip


class StreamVByte:
    """Gaps of positions in whole bytes, the fastest code of integers that Debian has."""

    def __init__(self, positions):
        import numpy

        self.lib = found("streamvbyte")
        for function in ("streamvbyte_delta_encode", "streamvbyte_delta_decode"):
            getattr(self.lib, function).restype = ctypes.c_size_t
        self.positions, self.back = positions, numpy.empty_like(positions)
        self.out = numpy.empty(5 * positions.size + 64, numpy.uint8)
        self.size = 0

    def encode(self):
        self.size = self.lib.streamvbyte_delta_encode(
            ctypes.c_void_p(self.positions.ctypes.data), ctypes.c_uint32(self.positions.size), ctypes.c_void_p(self.out.ctypes.data),
            ctypes.c_uint32(0),
        )  # fmt: skip

    def decode(self):
        self.lib.streamvbyte_delta_decode(
            ctypes.c_void_p(self.out.ctypes.data), ctypes.c_void_p(self.back.ctypes.data), ctypes.c_uint32(self.positions.size),
            ctypes.c_uint32(0),
        )  # fmt: skip


def one_in_a_hundred(count):
    import numpy

    return numpy.flatnonzero(numpy.random.default_rng(7).random(count, numpy.float32) < 0.01).astype(numpy.uint32)


class Coded:
    """A code of ours by `laconic bench codecs`, and a peer's: rows of writing and reading, per number, as ours draws its own."""

    def __init__(self, what, code, kind, peer, text, numbers):
        self.code, self.kind, self.peer, self.numbers = code, kind, peer, numbers
        self.rows = [Row(f"{what}, {verb}", code, text) for verb in ("write", "read")]

    def note(self, codes):
        told = next(row for row in codes if row["code"] == self.code and row["input"] == self.kind)
        share = self.numbers / told["numbers"]
        self.rows[0].note(told["write_seconds"] * share, seconds(self.peer.encode))
        self.rows[1].note(told["read_seconds"] * share, seconds(self.peer.decode))
        for row in self.rows:
            row.bits = [told["bits_per_number"], 8 * self.peer.size / self.numbers]


def exponents(x):
    """What natural compression sends of the magnitudes, as `laconic bench codecs` has it."""
    import numpy

    return (x.view(numpy.uint32) >> 23 & 255).astype(numpy.uint8)


def powersgd_work(torch, rank, rows=2048, cols=4608):
    """What torch's hook computes of one matrix, without orthogonalising and communication."""
    m, out = torch.randn(1, rows, cols), torch.empty(1, rows, cols)
    p, q = torch.randn(1, rows, rank), torch.randn(1, cols, rank)

    def work():
        torch.bmm(m, q, out=p)
        torch.bmm(m.transpose(1, 2), p, out=q)
        torch.bmm(p, q.transpose(1, 2), out=out)

    return work


def program(*args):
    name = os.environ.get("LACONIC", os.path.join(ROOT, "build", "release", "cli", "laconic"))
    told = subprocess.run([name, "bench", *map(str, args), "--json"], capture_output=True, text=True)
    if told.returncode != 0:
        sys.exit(f"peers.py: {name} bench {args[0]} failed: {told.stderr.strip()}")
    return json.loads(told.stdout)


def torch_rows(x, notes):
    """Pairs of rows and work, PowerSGD's rows and work by rank, and torch's version."""
    try:
        import torch
    except ImportError as error:
        notes.append(f"{error}: nothing of torch is compared.")
        return [], {}, None
    torch.set_num_threads(1)
    ranks = {rank: (Row(f"PowerSGD products, rank {rank}", "bench low-rank", "bmm, as in the hook"), powersgd_work(torch, rank))
             for rank in (1, 4)}  # fmt: skip
    return contests(torch, x), ranks, torch.__version__


def coders(x, notes):
    made = []
    for make in (
        lambda: Coded("Huffman of exponents", "huffman", "exponents", Zstd(exponents(x)), "zstd, no matches", x.size),
        lambda: (lambda p: Coded("positions, 1 %", "rice", "1 % of positions", StreamVByte(p), "Stream VByte", p.size))(one_in_a_hundred(x.size)),
    ):
        try:
            made.append(make())
        except OSError as error:
            notes.append(f"{error}: it is not compared.")
    return made


def measure(args):
    try:
        import numpy
    except ImportError:
        sys.exit(f"peers.py: {sys.executable} has no numpy; allowed: a Python that has, as /usr/bin/python3 with Debian's python3-numpy")
    x = (numpy.random.default_rng(1).standard_normal(args.count, dtype=numpy.float32) * numpy.float32(0.01))
    notes = []
    pairs, ranks, version = torch_rows(x, notes)
    codes = coders(x, notes)
    for _ in range(args.rounds + 1):  # the first finds no memory yet; it is never the best
        for row, ours, theirs in pairs:
            row.note(seconds(ours), seconds(theirs))
        for told in program("low-rank", "--rank", "1,4", "--repeats", 2)["ranks"] if ranks else ():
            row, work = ranks[told["rank"]]
            row.note(told["seconds"], seconds(work))
        told = program("codecs", "--count", args.count, "--repeats", 1)["codes"] if codes else ()
        for code in codes:
            code.note(told)
    rows = [row for row, _, _ in pairs] + [row for row, _ in ranks.values()] + [row for code in codes for row in code.rows]
    return {"count": args.count, "rounds": args.rounds, "torch": version, "notes": notes, "peers": [row.told() for row in rows]}


def show(result):
    print(f"{result['count']:,} floats, one thread, torch {result['torch']}, best of {result['rounds']} rounds in turns\n")
    print(f"{'':<28} {'Laconic':<18} {'bits':>6} {'ms':>8}  {'instead':<20} {'bits':>6} {'ms':>8} {'times':>6}")
    for row in result["peers"]:
        bits = [f"{row[name]:.2f}" if name in row else "" for name in ("bits", "peer_bits")]
        print(f"{row['what']:<28} {row['ours']:<18} {bits[0]:>6} {row['seconds'] * 1e3:>8.2f}  "
              f"{row['theirs']:<20} {bits[1]:>6} {row['peer_seconds'] * 1e3:>8.2f} {row['times']:>6.1f}")  # fmt: skip
    for note in result["notes"]:
        print(note)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=25_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.count < 1000 or args.rounds < 1:
        parser.error("--count must be at least 1000 and --rounds at least 1")
    if any(os.environ.get(name) != value for name, value in KEEPS.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEPS})
    os.environ.setdefault("LACONIC_LIBRARY", os.path.join(ROOT, "build", "release", "liblaconic.so"))
    if not os.path.exists(os.environ["LACONIC_LIBRARY"]):
        sys.exit(f"peers.py: no library {os.environ['LACONIC_LIBRARY']}; build it, or name another by LACONIC_LIBRARY")
    result = measure(args)
    print(json.dumps(result, indent=1)) if args.json else show(result)


if __name__ == "__main__":
    main()
