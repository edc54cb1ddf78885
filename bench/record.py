#!/usr/bin/python3
"""Measures training on hosts with shaped links, and writes the record of it in docs/performance.md.

    bench/record.py                        all that is missing, then the tables and plots; hours
    bench/record.py shaped guard           some parts of it: shaped, guard, change, loss, growth, torch
    bench/record.py torch --text input.txt --cifar cifar-10-batches-bin        with losses on Tiny Shakespeare and CIFAR-10
    bench/record.py shaped --for 100       no cell begins that would end later than 100 seconds from now
    bench/record.py --cells '*100mbit*'    cells whose names fit
    bench/record.py --list                 what is there and what is missing, and what that takes
    bench/record.py --tiny --folder /tmp/x every cell in a few steps, to see that it runs; its figures say nothing
    bench/record.py --write                only the page, from what is there

A cell is one run of some processes, its result a file in --folder: whatever is there is not measured again, so a run that was
interrupted goes on where it was. build/record is for one's own machine; bench/measured/record has the cells that docs/performance.md
shows. A table none of whose cells is there stays as it is. Needs root for shaped hosts (bench/hosts.py) and a release build.
"""

import argparse
import fnmatch
import json
import os
import sys
import time

import hosts as shaped
import record_page
from record_cells import PARTS, cells_of
from record_torch import path_of

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def measured(options, cells):
    """What is there, by the cell's name."""
    results = {}
    for cell in cells:
        if os.path.exists(path_of(options, cell.name)):
            with open(path_of(options, cell.name)) as file:
                results[cell.name] = json.load(file)
    return results


def measure(options, cell):
    result = cell.run(options)
    result["at"] = time.strftime("%Y-%m-%d")
    part = path_of(options, cell.name) + ".part"
    with open(part, "w") as file:
        json.dump(result, file)
    os.replace(part, path_of(options, cell.name))


def left_of(cells):
    minutes = sum(cell.seconds for cell in cells) / 60
    return f"about {minutes:.0f} minutes" if minutes < 100 else f"about {minutes / 60:.1f} hours"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"of {' '.join(PARTS)}; all if none is named")
    parser.add_argument("--cells", default="*", metavar="PATTERN", help="of cells' names, as in '*100mbit*'")
    parser.add_argument("--for", dest="seconds", type=float, default=0, help="seconds in which all must have ended; 0: no limit")
    parser.add_argument("--list", action="store_true", help="what is there and what is missing")
    parser.add_argument("--write", action="store_true", help="only write the page")
    parser.add_argument("--tiny", action="store_true", help="a few steps of each cell; --folder must be another than that of the record")
    parser.add_argument("--cifar", help="folder of CIFAR-10's binary batches, for losses of the ResNet")
    parser.add_argument("--text", help="Tiny Shakespeare's input.txt, for losses of the GPT")
    parser.add_argument("--folder", default=os.path.join(ROOT, "build", "record"), help="of results (build/record)")
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "cli", "laconic"))
    options = parser.parse_args()
    for part in options.parts:
        if part not in PARTS:
            parser.error(f"no part '{part}'; known: {' '.join(PARTS)}")
    if options.tiny and options.folder == parser.get_default("folder"):
        parser.error("--tiny leaves figures that say nothing; allowed: with a --folder of its own")
    if not options.list and not os.path.exists(options.program):
        parser.error(f"no program '{options.program}'; allowed: what a release build has made, or another by --program")
    os.makedirs(options.folder, exist_ok=True)
    shaped.stop_on_signals()
    begin = time.monotonic()
    cells = [cell for cell in cells_of(options.parts or PARTS) if fnmatch.fnmatch(cell.name, options.cells)]
    missing = [cell for cell in cells if not os.path.exists(path_of(options, cell.name))]
    able = [cell for cell in missing if not cell.needs or getattr(options, cell.needs)]
    if options.list:
        for cell in cells:
            state = "there" if cell not in missing else "missing" if cell in able else f"--{cell.needs}"
            print(f"{state:8} {cell.seconds:5.0f} s  {cell.name}")
        print(f"{len(missing)} of {len(cells)} are missing, {left_of(able)} for those that can be measured", file=sys.stderr)
        return 0
    try:
        for number, cell in enumerate([] if options.write else able):
            if options.seconds and time.monotonic() - begin + cell.seconds > options.seconds:
                continue
            print(f"{number + 1} of {len(able)}, {left_of(able[number:])}: {cell.name}", file=sys.stderr, flush=True)
            measure(options, cell)
            missing = [other for other in missing if other is not cell]
    except shaped.Trouble as trouble:
        print(f"record: {trouble}", file=sys.stderr)
        return 1
    print(f"record: {len(cells) - len(missing)} of {len(cells)} cells are there", file=sys.stderr)
    if options.write or (not missing and not options.tiny):
        every = cells_of(PARTS)
        record_page.write(measured(options, every), options.program, [cell.name for cell in every])
    return 0


if __name__ == "__main__":
    sys.exit(main())
