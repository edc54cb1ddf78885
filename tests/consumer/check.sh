#!/usr/bin/env bash
# Installs a build into a temporary folder and uses it as others would: check.sh BUILD_FOLDER.
# Prints one line per check and closes with "N passed, M failed".
set -euo pipefail
build=$(cd -- "$1" && pwd -P)
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
sources=$(cd -- "$here/../.." && pwd -P)
# shellcheck source=scripts/checks.sh
source "$sources/scripts/checks.sh"

installs() {
  cmake --install "$build" --prefix "$work/prefix"
}

# Every header of the sources is there, and each compiles alone, the C one also as C99.
has_all_headers() {
  local header status=0
  while IFS= read -r header; do
    [[ -e $work/prefix/include/$header ]] || {
      echo "missing: $header"
      status=1
    }
  done < <(cd -- "$sources" && find laconic -name '*.h' ! -path 'laconic/trainer/*' ! -name c_guard.h ! -name c_method.h ! -name mpi_wire.h ! -name 'sockets_lin*.h' ! -name sockets_mail.h)
  # shellcheck disable=SC2016  # expanded by the inner shell
  (cd -- "$work/prefix/include" && find laconic -name '*.h' -print0) |
    xargs -0 -n 1 -P "$(nproc)" sh -c 'echo "#include <$2>" |
      c++ -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I"$1" -x c++ -' \
      sh "$work/prefix/include" ||
    status=1
  cc -std=c99 -pedantic -Wall -Wextra -Werror -fsyntax-only -I"$work/prefix/include" -x c - \
    <<<'#include <laconic/laconic_c.h>' || status=1
  return "$status"
}

by_cmake() {
  cp -r -- "$here" "$work/cmake" &&
    cmake -S "$work/cmake" -B "$work/cmake/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" &&
    cmake --build "$work/cmake/build" &&
    "$work/cmake/build/consumer" &&
    "$work/cmake/build/consumer_c"
}

# The compiler opened no file of the source tree or its build, and the program loads the installed
# library.
sees_only_the_installation() {
  ! ninja -C "$work/cmake/build" -t deps | grep -F -e "$sources/" -e "$build/" &&
    ldd "$work/cmake/build/consumer" | grep -F "$work/prefix/"
}

by_pkg_config() (
  PKG_CONFIG_PATH=$(dirname -- "$(find "$work/prefix" -name laconic.pc)")
  export PKG_CONFIG_PATH
  flags="$(pkg-config --cflags --libs laconic) -Wl,-rpath,$(pkg-config --variable=libdir laconic)"
  mkdir -p -- "$work/pkg" && cp -- "$here"/main.* "$work/pkg" && cd -- "$work/pkg" || exit 1
  # shellcheck disable=SC2086  # several flags
  c++ -std=c++20 main.cpp $flags -o consumer && ./consumer &&
    cc -std=c99 main.c $flags -o consumer_c && ./consumer_c
)

runs_the_program() {
  [[ ! -e $build/cli/laconic ]] || "$work/prefix/bin/laconic" --version
}

check "cmake --install" installs
check "the installed headers are complete" has_all_headers
check "find_package(Laconic)" by_cmake
check "nothing of the source tree is seen" sees_only_the_installation
check "pkg-config laconic" by_pkg_config
check "the installed program" runs_the_program
echo "$passed passed, $failed failed"
((failed == 0))
