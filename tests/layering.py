"""Checks that the include lines follow the order of the folders. Prints each line that does not.

    base < kernels < codecs < { operators, frame } < { layout, memory } < exchange < exchange/gossip
         < recipes < methods < transports < planner < { trainer, cli, python }

A folder may include itself and what stands to its left. Within braces frame may include operators,
memory layout, and cli trainer.
The headers for users, laconic/laconic.h and laconic_c.h, are for files at the root of laconic/ and
for the program.
"""

import re
import sys
from pathlib import Path

LIBRARY = (
    "base kernels codecs operators frame layout memory exchange exchange/gossip recipes"
    " methods transports planner".split()
)
ALLOWED = {folder: set(LIBRARY[: i + 1]) for i, folder in enumerate(LIBRARY)}
ALLOWED |= {folder: {*LIBRARY, folder} for folder in ("trainer", "cli", "python")}
ALLOWED["laconic"] = {*LIBRARY, "laconic"}  # files at the root of laconic/
ALLOWED["cli"] |= {"laconic", "trainer"}

TOPS = ("laconic", "cli", "python")
SOURCES = {".h", ".c", ".cpp", ".in"}
INCLUDE = re.compile(r'\s*#\s*include\s*(?:"([^"]+)"|<((?:laconic|cli)/[^>]+)>)')


def folder_of(path):
    """The folder of a file named from the project's root; 'laconic' for the root of the library."""
    parts = path.parts
    return "/".join(parts[1:-1]) if parts[0] == "laconic" and len(parts) > 2 else parts[0]


def problem(root, includer, included):
    if (root / includer).parent.joinpath(included).exists():
        return "is not named from the project's root"
    if included.parts[0] not in TOPS:
        return None  # written by the build
    source, target = folder_of(includer), folder_of(included)
    for folder in (source, target):
        if folder not in ALLOWED:
            return f"{folder} is not in the order of folders"
    if included.as_posix() == "laconic/version.h" or target in ALLOWED[source]:
        return None
    return f"{source} may not use {'the root of the library' if target == 'laconic' else target}"


def offences(root):
    files = [
        path
        for top in TOPS
        for path in sorted((root / top).rglob("*"))
        if path.suffix in SOURCES
    ]
    if not files:
        yield f"no sources below {root}"
    for path in files:
        includer = path.relative_to(root)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := INCLUDE.match(line):
                why = problem(root, includer, Path(match[1] or match[2]))
                if why:
                    yield f"{includer}:{number}: {line.strip()}: {why}"


def main():
    found = list(offences(Path(__file__).resolve().parent.parent))
    print("\n".join(found) or "every include follows the order of the folders")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
