#!/usr/bin/python3
"""Measures and writes the tables of docs/performance.md, each between its own two marks.

    bench/tables.py                      all that the page has, some minutes on an idle machine
    bench/tables.py codecs low-rank      some of them
    bench/tables.py --program PATH       by another build than build/release
    bench/tables.py --count 20000 --rounds 1 --page copy.md
                                         a quick try, into a copy of the page

A table stands between <!-- table NAME --> and <!-- end NAME -->; what stands outside is left alone. Plots lie beside the page.
"""

import argparse
import json
import os
import re
import subprocess
import sys

import curve
from pages import between, table

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PAGE = os.path.join(ROOT, "docs", "performance.md")
USUAL = ["natural", "sign", "half", "uniform", "bucket:512+qsgd:4,max", "terngrad", "grid", "natural+entropy", "threshold:0.0257",
         "topk:0.01", "sbc:0.01", "stc:0.01", "randomk:0.01", "chunk+binned"]  # fmt: skip
SPARSE = ["threshold:0.0257", "adaptive", "topk:0.001", "topk:0.01", "stc:0.001", "stc:0.01", "sbc:0.001", "sbc:0.01",
          "randomk:0.01", "chunk+binned"]  # fmt: skip
INPUTS = ["normal", "equal", "zeros", "sorted", "spike", "denormal", "mixed"]
SIZES = [1000, 4000, 16_000, 64_000, 1_000_000, 100_000_000]
MOST_ENCODE, MOST_ADD = 3, 2  # memcpys, beyond which a chain is told of
DRAWN = ["natural", "uniform", "grid", "topk:0.01", "randomk:0.01", "chunk+binned"]


class Bench:
    """The program, and how much it is to measure."""

    def __init__(self, args):
        self.program, self.count, self.rounds, self.page = args.program, args.count, args.rounds, args.page

    def __call__(self, *args, threads=1):
        command = [self.program, "--threads", str(threads), "bench", *map(str, args), "--json"]
        told = subprocess.run(command, capture_output=True, text=True)
        if told.returncode != 0:
            sys.exit(f"tables.py: {' '.join(command)} failed: {told.stderr.strip()}")
        return json.loads(told.stdout)

    def operators(self, specs, *args, threads=1):
        size = [] if "--counts" in args else ["--count", self.count]
        return self("operators", *ops(specs), "--repeats", self.rounds, *size, *args, threads=threads)


def ops(specs):
    return [word for spec in specs for word in ("--op", spec)]


def of_memory(told):
    copy = told["memcpy_seconds"]
    return (f"{told['count'] / 1e6:g} million entries, cpu `{told.get('cpu', '')}`, best of {told.get('repeats', '')}: memcpy {copy * 1e3:.1f} ms "
            f"(the middle round {100 * told['memcpy_spread']:.0f} % more), reading {told['read_seconds'] / copy:.2f} of it, mixing two arrays "
            f"into a third {told['mix_seconds'] / copy:.2f}.")  # fmt: skip


def speed_rows(told):
    for row in told["operators"]:
        yield [f"`{row['spec']}`", f"{row['bits_per_entry']:.3f}", f"{row['encode_over_memcpy']:.2f}",
               f"{100 * row['encode_share_of_floor']:.0f} %", f"{row['feedback_over_memcpy']:.2f}", f"{row['add_over_memcpy']:.2f}",
               f"{row['touch_over_memcpy']:.2f}" if "touch_over_memcpy" in row else "",
               f"{row['encode_seconds'] / told['count'] * 1e9:.2f}", f"{row['add_seconds'] / told['count'] * 1e9:.2f}"]  # fmt: skip


def operators(bench):
    dense = [spec for spec in USUAL if spec not in SPARSE]
    for title, specs in (("Operators that send every entry", dense), ("Operators that send some of them", SPARSE)):
        told = bench.operators(specs)
        yield f"{title}. {of_memory(told)}"
        yield ""
        head = ["operator", "bits", "encode", "of the floor", "with feedback", "add", "touch", "encode ns", "add ns"]
        yield from table(head, speed_rows(told))
        yield ""


def slowest(bench):
    told = bench.operators([])  # all that are registered
    all_rows = told["operators"]
    slow = [row for row in all_rows if row["encode_over_memcpy"] > MOST_ENCODE or row["add_over_memcpy"] > MOST_ADD]
    slow.sort(key=lambda row: -max(row["encode_over_memcpy"] / MOST_ENCODE, row["add_over_memcpy"] / MOST_ADD))
    yield (f"Of {len(all_rows)} registered chains these {len(slow)} take more than {MOST_ENCODE} memcpys to encode or more than {MOST_ADD} to add. "
           f"{of_memory(told)}")  # fmt: skip
    yield ""
    rows = ([f"`{row['spec']}`", f"{row['bits_per_entry']:.3f}", f"{row['encode_over_memcpy']:.2f}", f"{row['feedback_over_memcpy']:.2f}",
             f"{row['add_over_memcpy']:.2f}"] for row in slow)  # fmt: skip
    yield from table(["operator", "bits", "encode", "with feedback", "add"], rows)


def inputs(bench):
    times = {name: bench.operators(USUAL, "--input", name) for name in INPUTS}

    def cell(i, row, name):
        other = times[name]["operators"][i]
        ratios = " / ".join(f"{other[verb] / row[verb]:.2f}" for verb in ("encode_seconds", "add_seconds"))
        return f"{ratios} ({other['bits_per_entry']:.2g})"

    rows = ([f"`{row['spec']}` ({row['bits_per_entry']:.2g})", *(cell(i, row, name) for name in INPUTS[1:])]
            for i, row in enumerate(times["normal"]["operators"]))  # fmt: skip
    yield f"{times['normal']['count'] / 1e6:g} million entries: encode / add, in times of what normal entries take, and bits per entry."
    yield ""
    yield from table(["operator", *INPUTS[1:]], rows)


def threads(bench):
    one, two = (bench.operators(USUAL, threads=n)["operators"] for n in (1, 2))
    rows = ([f"`{a['spec']}`", *(f"{a[verb] / b[verb]:.2f}" for verb in ("encode_seconds", "feedback_seconds", "add_seconds"))]
            for a, b in zip(one, two))  # fmt: skip
    yield from table(["operator", "encode", "with feedback", "add"], rows)


def sizes(bench):
    counts = [count for count in SIZES if count <= 4 * bench.count]
    told = bench.operators(USUAL, "--counts", ",".join(map(str, counts)))["curve"]

    def nanoseconds(pick):
        return [pick(point) / point["count"] * 1e9 for point in told]

    copies = nanoseconds(lambda point: point["memcpy_seconds"])
    drawn, rows = [("memcpy", copies)], [["memcpy", *(f"{value:.2f}" for value in copies)]]
    for i, row in enumerate(told[0]["operators"]):
        encode, add = (nanoseconds(lambda point: point["operators"][i][verb]) for verb in ("encode_seconds", "add_seconds"))
        rows.append([f"`{row['spec']}`", *(f"{a:.2f} / {b:.2f}" for a, b in zip(encode, add))])
        if row["spec"] in DRAWN:
            drawn.append((row["spec"], encode))
    name = "performance-sizes.svg"
    with open(os.path.join(os.path.dirname(bench.page), name), "w", encoding="utf-8") as file:
        file.write(curve.svg("encoding, ns per entry, by the number of entries", counts, drawn))
    yield from table(["ns per entry, encode / add", *(f"{count:,}" for count in counts)], rows)
    yield ""
    yield f"![ns per entry by size]({name})"


def codecs(bench):
    told = bench("codecs", "--count", bench.count, "--repeats", bench.rounds)
    rows = ([row["code"], row["input"], f"{row['numbers'] / row['write_seconds'] / 1e6:.0f}",
             f"{row['numbers'] / row['read_seconds'] / 1e6:.0f}", f"{row['bits_per_number']:.3f}",
             f"{row['entropy']:.3f}" if row["entropy"] else ""] for row in told["codes"])  # fmt: skip
    yield from table(["code", "input", "written, M/s", "read, M/s", "bits each", "entropy"], rows)


def low_rank(bench):
    told = bench("low-rank", "--repeats", bench.rounds)
    rows = []
    for row in told["ranks"]:
        for product in [*row["products"], {**row, "product": "all"}]:
            blas = product["openblas"]
            rows.append([str(row["rank"]), product["product"], f"{product['seconds'] * 1e3:.2f}",
                         f"{blas * 1e3:.2f}" if blas else "", f"{product['seconds'] / blas:.2f}" if blas else ""])  # fmt: skip
    yield from table(["rank", "product", "ms", "OpenBLAS, ms", "ratio"], rows)


def peers(bench):
    command = [sys.executable, os.path.join(ROOT, "bench", "peers.py"), "--json", "--count", str(bench.count), "--rounds", str(bench.rounds)]
    told = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LACONIC": bench.program})
    if told.returncode != 0:
        sys.exit(f"tables.py: bench/peers.py failed: {told.stderr.strip()}")
    told = json.loads(told.stdout)

    def bits(row, name):
        return f"{row[name]:.2f}" if name in row else ""

    rows = ([row["what"], f"`{row['ours']}`", bits(row, "bits"), f"{row['seconds'] * 1e3:.2f}", row["theirs"], bits(row, "peer_bits"),
             f"{row['peer_seconds'] * 1e3:.2f}", f"{row['times']:.1f}"] for row in told["peers"])  # fmt: skip
    of_torch = f"torch {told['torch']}, " if told["torch"] else ""
    yield f"{told['count'] / 1e6:g} million floats, one thread, {of_torch}best of {told['rounds']} rounds in turns. {' '.join(told['notes'])}".rstrip()
    yield ""
    yield from table(["what", "Laconic", "bits", "ms", "instead", "bits", "ms", "times"], rows)


TABLES = {"operators": operators, "slowest": slowest, "inputs": inputs, "threads": threads, "sizes": sizes, "codecs": codecs, "low-rank": low_rank, "peers": peers}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="TABLE", help=" ".join(TABLES))
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "cli", "laconic"))
    parser.add_argument("--count", type=int, default=25_000_000, help="entries of the arrays")
    parser.add_argument("--rounds", type=int, default=5, help="of which the best counts")
    parser.add_argument("--page", default=PAGE)
    args = parser.parse_args()
    if args.count < 1000 or args.rounds < 1:
        parser.error("--count must be at least 1000 and --rounds at least 1")
    for name in args.names:
        if name not in TABLES:
            parser.error(f"no table '{name}'; known: {' '.join(TABLES)}")
    with open(args.page, encoding="utf-8") as file:
        there = re.findall(r"<!-- table (\S+) -->", file.read())
    for name in args.names or there:
        text = "\n".join(TABLES[name](Bench(args)))
        with open(args.page, encoding="utf-8") as file:
            page = between(file.read(), f"table {name}", text)
        if page is None:
            sys.exit(f"tables.py: the page has no table '{name}'")
        with open(args.page, "w", encoding="utf-8") as file:
            file.write(page)


if __name__ == "__main__":
    main()
