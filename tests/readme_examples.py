"""Compiles and runs the C and C++ programs that the documents show: readme_examples.py BUILD_FOLDER.

A block that begins with ```c or ```cpp and holds "int main" is compiled, linked with the build's library and run in an
empty folder; it must exit with 0. One marked as ```cpp operator is a compressor in one file: it is compiled as it is, loaded
beside the library, and must then keep the laws that laws_test runs over every operator. Other blocks are text.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ("README.md", "CONTRIBUTING.md")
COMPILERS = {"c": ["cc", "-std=c99", "-pedantic"], "cpp": ["c++", "-std=c++20"]}
BLOCK = re.compile(r"^```(c|cpp)\b[ \t]*([^\n]*)\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


def examples(document):
    """Every block to try: where it stands, its language, whether it is an operator, and its text."""
    text = (ROOT / document).read_text() if (ROOT / document).exists() else ""
    for block in BLOCK.finditer(text):
        language, marks, code = block.groups()
        operator = "operator" in marks.split()
        if operator or "int main" in code:
            line = text.count("\n", 0, block.start()) + 1
            yield f"{document}:{line}", language, operator, code


def command(language, build, code, program, operator):
    flags = ["-Wall", "-Wextra", "-Werror", f"-I{ROOT}", f"-I{build}/generated"]
    flags += ["-shared", "-fPIC"] if operator else []
    library = [f"-L{build}", f"-Wl,-rpath,{build}", "-llaconic"]
    return [*COMPILERS[language], *flags, "-o", str(program), str(code), *library]


def laws_of(operator, code, build):
    """The laws test with the operator in place, for the chains it gives as examples."""
    name = re.search(r'\.name = "(\w+)"', code)[1]
    return ["env", f"LD_PRELOAD={operator}", f"{build}/tests/operators_laws_test", f"--gtest_filter=*Laws*{name}*"]


def attempt(language, operator, code, build):
    """Nothing when the block works, else what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / f"example.{language}", Path(folder) / "example"
        source.write_text(code)
        use = laws_of(program, code, build) if operator else [str(program)]
        for step in (command(language, build, source, program, operator), use):
            done = subprocess.run(step, cwd=folder, capture_output=True, text=True, timeout=120)
            if done.returncode != 0 or "Running 0 tests" in done.stdout:
                return f"{Path(step[0]).name} exited with {done.returncode}\n{done.stdout}{done.stderr}"
    return None


def main():
    build = Path(sys.argv[1]).resolve()
    failed = passed = 0
    for document in DOCUMENTS:
        for place, language, operator, code in examples(document):
            trouble = attempt(language, operator, code, build)
            print(f"{place}: {trouble or 'works'}")
            passed, failed = passed + (not trouble), failed + bool(trouble)
    if not passed + failed:
        print("no programs in " + " and ".join(DOCUMENTS))
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
