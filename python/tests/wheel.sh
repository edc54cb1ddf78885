#!/usr/bin/env bash
# Builds the wheel, looks at what it carries, installs it into an environment of its own and uses it.
# Prints one line per check and closes with "N passed, M failed".
set -euo pipefail
sources=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=scripts/checks.sh
source "$sources/../scripts/checks.sh"
unset LACONIC_LIBRARY PYTHONPATH

# What is packed is looked at, not timed.
builds() {
  export CMAKE_ARGS=-DCMAKE_CXX_FLAGS_RELEASE=-O1
  /usr/bin/python3 -m venv --system-site-packages "$work/venv" &&
    "$work/venv/bin/pip" wheel "$sources" --no-build-isolation --no-deps --no-index -w "$work"
}

# One wheel for every Python 3, of the usual size.
has_its_name() {
  wheel=$(echo "$work"/*.whl)
  [[ $(basename -- "$wheel") == laconic_comm-*-py3-none-linux_*.whl ]] &&
    (($(stat -c %s "$wheel") < 3000000))
}

installs() {
  "$work/venv/bin/pip" install --no-index --no-deps "$work"/*.whl || return
  lib=$(cd "$work" && venv/bin/python -c 'import laconic_comm, os; print(os.path.dirname(laconic_comm.__file__))')/lib
  ls -l "$lib"
}

exports_c_alone() {
  nm -D --defined-only "$lib/liblaconic.so.0" >"$work/symbols"
  grep -q ' T laconic_method_create$' "$work/symbols" && ! grep -v ' T laconic_' "$work/symbols"
}

finds_its_libraries() {
  readelf -d "$lib/liblaconic.so.0" | tee "$work/dynamic"
  ldd "$lib/liblaconic.so.0" | tee "$work/needed"
  # shellcheck disable=SC2016  # it stands there in these letters
  grep -qF 'runpath: [$ORIGIN]' "$work/dynamic" && ! grep -qi 'mpi' "$work/dynamic" &&
    grep -qF "$lib/libhwy.so" "$work/needed"
}

works() { (cd "$work" && venv/bin/python -m laconic_comm.check); }

is_typed() { [[ -e $lib/../py.typed ]]; }

check "the wheel is built from Debian's packages alone" builds
check "it is for every Python 3" has_its_name
check "it is installed" installs
check "the library exports the C interface alone" exports_c_alone
check "it finds its libraries beside itself" finds_its_libraries
check "it says that it is typed" is_typed
check "it works on this machine" works
echo "$passed passed, $failed failed"
((failed == 0))
