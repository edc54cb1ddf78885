#!/usr/bin/python3
"""Measures and writes the tables of docs/performance.md, each between its own two marks.

    bench/tables.py                      all that the page has, some minutes on an idle machine
    bench/tables.py codecs low-rank      some of them
    bench/tables.py --program PATH       by another build than build/release

A table stands between <!-- table NAME --> and <!-- end NAME -->; what stands outside is left alone.
"""

import argparse
import json
import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PAGE = os.path.join(ROOT, "docs", "performance.md")
USUAL = ["natural", "sign", "half", "uniform", "bucket:512+qsgd:4,max", "terngrad", "grid", "natural+entropy", "threshold:0.0257",
         "topk:0.01", "sbc:0.01", "stc:0.01", "randomk:0.01", "chunk+binned"]  # fmt: skip
SPARSE = ["threshold:0.0257", "adaptive", "topk:0.001", "topk:0.01", "stc:0.001", "stc:0.01", "sbc:0.001", "sbc:0.01",
          "randomk:0.01", "chunk+binned"]  # fmt: skip
INPUTS = ["normal", "equal", "zeros", "sorted", "spike", "denormal", "mixed"]


def bench(program, *args):
    command = [program, "bench", *map(str, args), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def ops(specs):
    return [word for spec in specs for word in ("--op", spec)]


def lines(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def of_memory(told):
    copy = told["memcpy_seconds"]
    return (f"{told['count'] / 1e6:g} million entries, cpu `{told.get('cpu', '')}`, best of {told.get('repeats', '')}: memcpy {copy * 1e3:.1f} ms "
            f"(the middle round {100 * told['memcpy_spread']:.0f} % more), reading {told['read_seconds'] / copy:.2f} of it, mixing two arrays "
            f"into a third {told['mix_seconds'] / copy:.2f}.")  # fmt: skip


def speed_rows(told):
    for row in told["operators"]:
        yield [f"`{row['spec']}`", f"{row['bits_per_entry']:.3f}", f"{row['encode_over_memcpy']:.2f}",
               f"{100 * row['encode_share_of_floor']:.0f} %", f"{row['feedback_over_memcpy']:.2f}", f"{row['add_over_memcpy']:.2f}",
               f"{row['encode_seconds'] / told['count'] * 1e9:.2f}", f"{row['add_seconds'] / told['count'] * 1e9:.2f}"]  # fmt: skip


def operators(program):
    dense = [spec for spec in USUAL if spec not in SPARSE]
    for title, specs in (("Operators that send every entry", dense), ("Operators that send some of them", SPARSE)):
        told = bench(program, "operators", *ops(specs), "--repeats", 5)
        yield f"{title}. {of_memory(told)}"
        yield ""
        head = ["operator", "bits", "encode", "of the floor", "with feedback", "add", "encode ns", "add ns"]
        yield from lines(head, speed_rows(told))
        yield ""


def inputs(program):
    times = {name: bench(program, "operators", *ops(USUAL), "--input", name, "--repeats", 5) for name in INPUTS}
    usual = times["normal"]["operators"]
    rows = ([f"`{row['spec']}`", *(f"{times[name]['operators'][i]['encode_seconds'] / row['encode_seconds']:.2f} / "
                                   f"{times[name]['operators'][i]['add_seconds'] / row['add_seconds']:.2f}" for name in INPUTS[1:])]
            for i, row in enumerate(usual))  # fmt: skip
    yield from lines(["operator", *INPUTS[1:]], rows)


def threads(program):
    one, two = (bench(program, "--threads", n, "operators", *ops(USUAL), "--repeats", 5)["operators"] for n in (1, 2))
    rows = ([f"`{a['spec']}`", *(f"{a[verb] / b[verb]:.2f}" for verb in ("encode_seconds", "feedback_seconds", "add_seconds"))]
            for a, b in zip(one, two))  # fmt: skip
    yield from lines(["operator", "encode", "with feedback", "add"], rows)


def sizes(program):
    counts = [1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000]
    told = bench(program, "operators", *ops(USUAL), "--counts", ",".join(map(str, counts)), "--repeats", 3)["curve"]

    def cells(pick):
        return [pick(point, point["count"] * 1e-9) for point in told]

    rows = [["memcpy", *cells(lambda point, n: f"{point['memcpy_seconds'] / n:.2f}")]]
    for i, row in enumerate(told[0]["operators"]):
        rows.append([f"`{row['spec']}`", *cells(lambda point, n: f"{point['operators'][i]['encode_seconds'] / n:.2f} / "
                                                                 f"{point['operators'][i]['add_seconds'] / n:.2f}")])  # fmt: skip
    yield from lines(["ns per entry, encode / add", *(f"{count:,}" for count in counts)], rows)


def codecs(program):
    told = bench(program, "codecs")
    rows = ([row["code"], row["input"], f"{row['numbers'] / row['write_seconds'] / 1e6:.0f}",
             f"{row['numbers'] / row['read_seconds'] / 1e6:.0f}", f"{row['bits_per_number']:.3f}",
             f"{row['entropy']:.3f}" if row["entropy"] else ""] for row in told["codes"])  # fmt: skip
    yield from lines(["code", "input", "written, M/s", "read, M/s", "bits each", "entropy"], rows)


def low_rank(program):
    told = bench(program, "low-rank")
    rows = []
    for row in told["ranks"]:
        for product in [*row["products"], {**row, "product": "all"}]:
            blas = product["openblas"]
            rows.append([str(row["rank"]), product["product"], f"{product['seconds'] * 1e3:.2f}",
                         f"{blas * 1e3:.2f}" if blas else "", f"{product['seconds'] / blas:.2f}" if blas else ""])  # fmt: skip
    yield from lines(["rank", "product", "ms", "OpenBLAS, ms", "ratio"], rows)


def peers(program):
    command = [sys.executable, os.path.join(ROOT, "bench", "peers.py"), "--json"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "LACONIC": program}).stdout)
    rows = ([row["what"], f"`{row['ours']}`", f"{row['seconds'] * 1e3:.1f}", row["theirs"], f"{row['peer_seconds'] * 1e3:.1f}",
             f"{row['times']:.1f}"] for row in told["peers"])  # fmt: skip
    yield f"torch {told['torch']}, best of {told['rounds']} rounds. {' '.join(told['notes'])}".rstrip()
    yield ""
    yield from lines(["what", "Laconic", "ms", "instead", "ms", "times"], rows)


TABLES = {"operators": operators, "inputs": inputs, "threads": threads, "sizes": sizes, "codecs": codecs, "low-rank": low_rank, "peers": peers}


def replaced(page, name, table):
    begin, end = f"<!-- table {name} -->\n", f"<!-- end {name} -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(page):
        sys.exit(f"tables.py: docs/performance.md has no table '{name}'")
    return pattern.sub(lambda _: begin + "\n".join(table).strip() + "\n" + end, page)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="TABLE", help=" ".join(TABLES))
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "cli", "laconic"))
    args = parser.parse_args()
    for name in args.names:
        if name not in TABLES:
            parser.error(f"no table '{name}'; known: {' '.join(TABLES)}")
    with open(PAGE, encoding="utf-8") as file:
        there = re.findall(r"<!-- table (\S+) -->", file.read())
    for name in args.names or there:
        table = list(TABLES[name](args.program))
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(replaced(page, name, table))


if __name__ == "__main__":
    main()
