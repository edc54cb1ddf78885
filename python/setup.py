"""Builds liblaconic with CMake and puts it in the package, with the libraries it needs beside it.

The wheel is for every Python 3 of this platform: there is a C interface, and no extension module.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from wheel.bdist_wheel import bdist_wheel

SOURCES = pathlib.Path(__file__).resolve().parent.parent
CARRIED = ("libhwy.so",)  # the rest of what the library needs is every system's


class BuildLibrary(build_py):
    def run(self) -> None:
        super().run()
        build = SOURCES / "build" / "python"
        self._compile(build)
        folder = pathlib.Path(self.build_lib) / "laconic_comm" / "lib"
        folder.mkdir(parents=True, exist_ok=True)
        library = folder / "liblaconic.so.0"
        shutil.copyfile(build / "liblaconic.so.0", library)
        subprocess.run(["strip", "--strip-unneeded", library], check=True)
        needed = subprocess.run(["ldd", build / "liblaconic.so.0"], check=True, capture_output=True, text=True)
        for name, path in re.findall(r"(\S+) => (/\S+)", needed.stdout):
            if name.startswith(CARRIED):
                shutil.copyfile(path, folder / name)

    @staticmethod
    def _compile(build: pathlib.Path) -> None:
        build.mkdir(parents=True, exist_ok=True)
        configure = ["cmake", "-S", str(SOURCES), "-B", str(build), "-G", "Ninja"]
        options = {
            "CMAKE_BUILD_TYPE": "Release",
            "CMAKE_CXX_FLAGS_RELEASE": "-O3",
            "LACONIC_CLI": "OFF",
            "LACONIC_TESTS": "OFF",
            "LACONIC_MPI": "OFF",
            "LACONIC_C_ONLY": "ON",
            # A padded run path would end in an empty entry, which means the current folder.
            "CMAKE_BUILD_WITH_INSTALL_RPATH": "ON",
            "CMAKE_INSTALL_RPATH": "$ORIGIN",
        }
        chosen = os.environ.get("CMAKE_ARGS", "").split()
        subprocess.run([*configure, *(f"-D{key}={value}" for key, value in options.items()), *chosen], check=True)
        subprocess.run(["cmake", "--build", str(build), "--target", "laconic"], check=True)


class OneWheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class Binary(Distribution):
    def has_ext_modules(self) -> bool:
        return True


setup(cmdclass={"build_py": BuildLibrary, "bdist_wheel": OneWheel}, distclass=Binary)
