# Set-up and building for ./run and ./test, which source this file. Both speak on stderr only, and
# read nothing from stdin: those belong to the program.
# shellcheck shell=bash

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
program=$root/build/release/cli/laconic
stamp=$root/build/release/.program-is-built # holds the time at which its build began

say() { printf 'laconic: %s\n' "$*" >&2; }

die() {
  say "$*"
  exit 1
}

# listed SECTION...: the packages of these sections of packages.txt, one per line.
listed() {
  local line section=
  while read -r line; do
    case $line in
      '' | '#'*) ;;
      '['*) section=${line//[][]/} ;;
      *) [[ " $* " != *" $section "* ]] || printf '%s\n' "$line" ;;
    esac
  done <"$root/packages.txt"
}

# Filters a list of packages down to those not installed; all of them where there is no dpkg.
not_installed() {
  local wanted package
  mapfile -t wanted
  local -A installed=()
  while read -r package; do
    installed[$package]=1
  done < <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null |
    sed -n 's/^installed //p')
  for package in "${wanted[@]}"; do
    [[ -n ${installed[$package]:-} ]] || printf '%s\n' "$package"
  done
}

# as_root COMMAND...: sudo may ask for a password only where somebody can type one.
as_root() {
  if [[ $(id -u) == 0 ]]; then
    "$@"
  elif [[ -t 2 ]]; then
    sudo "$@"
  else
    sudo -n "$@"
  fi
}

# install_packages SECTION...: installs what these sections list and the system lacks.
install_packages() {
  local missing log
  mapfile -t missing < <(listed "$@" | not_installed)
  ((${#missing[@]})) || return 0
  local packages="${missing[*]}"
  command -v apt-get >/dev/null ||
    die "these packages are missing, and there is no apt-get to install them: $packages"
  [[ $(id -u) == 0 ]] || command -v sudo >/dev/null ||
    die "these packages are missing, and installing them needs root: $packages"
  if ((${#missing[@]} == 1)); then
    say "installing $packages"
  else
    say "installing ${#missing[@]} packages: $packages"
  fi
  log=$(mktemp)
  # A package list that cannot be refreshed may still be good enough: the installation decides.
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 -qq)
  as_root "${apt[@]}" update </dev/null >"$log" 2>&1 || true
  as_root "${apt[@]}" install -y --no-install-recommends "${missing[@]}" \
    </dev/null >>"$log" 2>&1 || true
  mapfile -t missing < <(printf '%s\n' "${missing[@]}" | not_installed)
  if ((${#missing[@]})); then
    cat -- "$log" >&2
    rm -f -- "$log"
    die "these packages are missing and could not be installed: ${missing[*]}"
  fi
  rm -f -- "$log"
}

# Takes the lock that keeps two builds in one clone apart, until `unlock` or the process's end.
lock() {
  mkdir -p -- "$root/build"
  exec {lock_fd}>"$root/build/.lock"
  flock -n "$lock_fd" || {
    say "waiting for another build in this folder"
    flock "$lock_fd"
  }
}

unlock() { exec {lock_fd}>&-; }

# configure PRESET OPTION...: a build folder that was copied or moved from elsewhere is made anew.
configure() {
  local preset=$1 folder=$root/build/$1
  shift
  if [[ -e $folder/CMakeCache.txt ]] &&
    ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$folder/CMakeCache.txt"; then
    rm -rf -- "$folder"
  fi
  (cd -- "$root" && cmake --preset "$preset" "$@" </dev/null >&2)
}

# build PRESET TARGET...
build() {
  local preset=$1
  shift
  (cd -- "$root" && cmake --build --preset "$preset" --target "$@" </dev/null >&2)
}

# Whether the program was built here after the last change of anything it is made of. A file that
# went away shows as a change of its folder.
program_is_fresh() {
  [[ -x $program && -e $stamp && $(<"$stamp") == "$root" ]] || return 1
  local sources=("$root"/{CMakeLists.txt,CMakePresets.json,packages.txt,cmake,laconic,cli,web})
  [[ -z $(find "${sources[@]}" -newer "$stamp" -print -quit) ]]
}

# mark_program COMMAND...: runs a build that makes the program, and remembers when it began if it
# succeeds. Called under the lock.
mark_program() {
  local began=$root/build/.began # not in the build folder, which may be made anew
  rm -f -- "$stamp"
  printf '%s\n' "$root" >"$began"
  "$@" || return 1
  mv -- "$began" "$stamp"
}
