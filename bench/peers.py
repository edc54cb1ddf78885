#!/usr/bin/python3
"""What users would take instead, beside Laconic: torch's top-k, quantisers, half() and PowerSGD products, zstd's Huffman.

    bench/peers.py                       25 million floats, one thread each
    bench/peers.py --count 1000000 --rounds 3 --json

All take turns in one process, round by round, on one array of normal numbers of deviation 0.01, and the best round counts. PowerSGD's
products are those of torch.distributed's hook, and ours by `laconic bench low-rank`, run between torch's rounds. malloc keeps freed
blocks, for all alike: without that, most of torch's time is the kernel handing out pages. Needs Debian's python3-torch, a built
liblaconic (LACONIC_LIBRARY) and program (LACONIC); libzstd where it is found.
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
    """Rows of (what, ours, our work, theirs, their work)."""
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

    rows = []

    def add(what, spec, encode, encode_text, decode, decode_text):
        ours = Ours(spec, x)
        rows.append((f"{what}, encode", spec, ours.encode, encode_text, encode))
        rows.append((f"{what}, add", spec, ours.decode, decode_text, decode))

    for share in (0.001, 0.01):
        k = max(int(share * x.size), 1)
        add(f"top {share:g}", f"topk:{share}", lambda k=k: chosen(k), "topk of abs, gather",
            lambda kept=chosen(k): y.index_add_(0, *kept), "index_add_")  # fmt: skip
    for spec in ("uniform:8,nearest", "uniform:8"):
        add("8 bits", spec, quantise, "aminmax, quantize", lambda: y.add_(quantised.dequantize()), "y += dequantize")
    add("half", "half", lambda: t.half(), "half()", lambda: y.add_(half), "y += half")
    return rows


class Zstd:
    """Bytes through libzstd without matches, so that its Huffman code does all."""

    def __init__(self, symbols):
        import numpy

        name = ctypes.util.find_library("zstd")
        if not name:
            raise OSError("libzstd was not found")
        self.lib = ctypes.CDLL(name)
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


def exponents(x):
    """What natural compression sends of the magnitudes, as `laconic bench codecs` has it."""
    import numpy

    return (x.view(numpy.uint32) >> 23 & 255).astype(numpy.uint8)


def powersgd_work(torch, rank, rows=2048, cols=4608):
    """What torch's hook computes of one matrix, without orthogonalising and communication."""
    m = torch.randn(rows, cols)
    p, q, out = torch.randn(rows, rank), torch.randn(cols, rank), torch.empty(rows, cols)

    def work():
        torch.matmul(m, q, out=p)
        torch.matmul(m.t(), p, out=q)
        torch.matmul(p, q.t(), out=out)

    return work


def program(*args):
    name = os.environ.get("LACONIC", os.path.join(ROOT, "build", "release", "cli", "laconic"))
    told = subprocess.run([name, "bench", *map(str, args), "--json"], check=True, capture_output=True, text=True)
    return json.loads(told.stdout)


class Row:
    def __init__(self, what, ours, theirs):
        self.what, self.ours, self.theirs = what, ours, theirs
        self.seconds = [float("inf"), float("inf")]

    def note(self, ours, theirs):
        self.seconds = [min(self.seconds[0], ours), min(self.seconds[1], theirs)]

    def told(self):
        ours, theirs = self.seconds
        return {"what": self.what, "ours": self.ours, "theirs": self.theirs, "seconds": ours, "peer_seconds": theirs,
                "times": theirs / ours}  # fmt: skip


def measure(args):
    import numpy
    import torch

    torch.set_num_threads(1)
    x = (numpy.random.default_rng(1).standard_normal(args.count, dtype=numpy.float32) * numpy.float32(0.01))
    pairs = contests(torch, x)
    rows = [Row(what, ours, theirs) for what, ours, _, theirs, _ in pairs]
    ranks = {rank: (Row(f"PowerSGD products, rank {rank}", "bench low-rank", "matmul"), powersgd_work(torch, rank)) for rank in (1, 4)}
    notes, zstd = [], None
    try:
        zstd = Zstd(exponents(x))
    except OSError as error:
        notes.append(f"{error}: its Huffman code is not compared")
    coders = [Row(f"Huffman of exponents, {verb}", "bench codecs", "zstd, no matches") for verb in ("encode", "decode")]
    for _ in range(args.rounds + 1):  # the first finds no memory yet; it is never the best
        for row, (_, _, ours, _, theirs) in zip(rows, pairs):
            row.note(seconds(ours), seconds(theirs))
        products = program("low-rank", "--rank", "1,4", "--repeats", 2)
        for told in products["ranks"]:
            row, work = ranks[told["rank"]]
            row.note(told["seconds"], seconds(work))
        if zstd:
            told = next(c for c in program("codecs", "--count", args.count, "--repeats", 1)["codes"] if c["code"] == "huffman")
            coders[0].note(told["write_seconds"], seconds(zstd.encode))
            coders[1].note(told["read_seconds"], seconds(zstd.decode))
    rows += [row for row, _ in ranks.values()] + (coders if zstd else [])
    return {"count": args.count, "rounds": args.rounds, "torch": torch.__version__, "notes": notes, "peers": [row.told() for row in rows]}


def show(result):
    print(f"{result['count']:,} floats, one thread, torch {result['torch']}, best of {result['rounds']} rounds in turns\n")
    print(f"{'':<28} {'Laconic':<20} {'ms':>8}  {'instead':<22} {'ms':>8} {'times':>6}")
    for row in result["peers"]:
        print(f"{row['what']:<28} {row['ours']:<20} {row['seconds'] * 1e3:>8.2f}  "
              f"{row['theirs']:<22} {row['peer_seconds'] * 1e3:>8.2f} {row['times']:>6.1f}")  # fmt: skip
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
    result = measure(args)
    print(json.dumps(result, indent=1)) if args.json else show(result)


if __name__ == "__main__":
    main()
