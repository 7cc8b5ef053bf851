# Shared by the scripts in this folder; source it, do not run it.
# shellcheck shell=bash

repo_root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

# Exit status 2: the machine lacks something, or an option is wrong. 1 is for failed builds, tests and checks.
readonly exit_usage=2

say() { printf '%s\n' "$*"; }

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit "$exit_usage"
}

# need_value "$@": dies unless an option at $1 is followed by a value.
need_value() {
    [[ $# -ge 2 ]] || die "$1 needs a value; see --help"
}

# positive_integer OPTION VALUE
positive_integer() {
    [[ $2 =~ ^[1-9][0-9]{0,8}$ ]] || die "$1 must be a positive whole number, not '$2'"
}

# as_root COMMAND...: needs root or a sudo that asks for no password.
as_root() {
    if [[ $EUID -eq 0 ]]; then "$@"; else sudo -n "$@"; fi
}

can_be_root() {
    [[ $EUID -eq 0 ]] || sudo -n true 2>/dev/null
}

# A package is given by its name, or by its names in newer and older distributions: 'libcatch2-dev|catch2'.

# missing_packages PACKAGE...: prints those of which no name is installed.
missing_packages() {
    local package names
    for package in "$@"; do
        IFS='|' read -ra names <<<"$package"
        # dpkg-query fails where one of the names is unknown, and still prints the others.
        { dpkg-query -W -f '${db:Status-Status}\n' "${names[@]}" 2>/dev/null || true; } |
            grep -x installed >/dev/null || printf '%s\n' "$package"
    done
}

# known_names PACKAGE...: prints of each package the first name that apt knows.
known_names() {
    local package name names
    for package in "$@"; do
        IFS='|' read -ra names <<<"$package"
        for name in "${names[@]}"; do
            # What only other packages provide or mention has no record of its own.
            if [[ -n $(apt-cache show --no-all-versions "$name" 2>/dev/null) ]]; then break; fi
        done
        printf '%s\n' "$name"
    done
}

# install_packages PACKAGE...: installs what is missing; where that is not possible it says what to install and exits.
install_packages() {
    local missing names log status=0
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        say "No apt here, so nothing is installed. What Debian calls these must be there: $*"
        return
    fi
    mapfile -t missing < <(missing_packages "$@")
    [[ ${#missing[@]} -gt 0 ]] || return 0
    mapfile -t names < <(known_names "${missing[@]}")
    can_be_root || die "these packages are missing, and installing them needs root. Run:
    sudo apt-get update && sudo apt-get install ${names[*]}"
    say "Installing ${names[*]}"
    log=$(mktemp)
    {
        as_root apt-get update -q </dev/null && mapfile -t names < <(known_names "${missing[@]}") &&
            as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${names[@]}" \
                </dev/null
    } >"$log" 2>&1 || status=$?
    [[ $status -eq 0 ]] || tail -n 30 -- "$log" >&2
    rm -f -- "$log"
    [[ $status -eq 0 ]] || die "apt-get could not install: ${names[*]}"
}

# What a build of the library, its tests and its benchmarks needs, by Debian's and Ubuntu's names.
build_packages=(cmake ninja-build ccache libxsimd-dev libtbb-dev libbenchmark-dev 'libcatch2-dev|catch2'
    nlohmann-json3-dev libcli11-dev python3)

# install_build_packages: the above and a compiler (CXX if set, else g++).
install_build_packages() {
    if [[ -n ${CXX:-} ]]; then
        command -v "${CXX%% *}" >/dev/null || die "CXX is '$CXX', which is no program on this machine"
        install_packages "${build_packages[@]}"
    else
        install_packages g++ "${build_packages[@]}"
    fi
    find_cmake
}

# Sets `cmake` and `ctest` to the first of CMake on the PATH and in /usr/bin that is new enough: an old one from a
# Python environment often hides the distribution's.
find_cmake() {
    local candidate version
    for candidate in "$(command -v cmake || true)" /usr/bin/cmake; do
        [[ -x $candidate ]] || continue
        version=$("$candidate" --version 2>/dev/null | sed -n '1s/^cmake version //p')
        if [[ -n $version ]] && printf '3.25\n%s\n' "$version" | sort -C -V; then
            cmake=$candidate
            ctest=${candidate%/*}/ctest
            return
        fi
    done
    die "CMake 3.25 or newer is needed; found ${version:-none}. Debian 12 and Ubuntu 23.04 or newer have it,
    elsewhere: pip install cmake"
}

# configure_preset PRESET [CMAKE_OPTION...]: into build/PRESET.
configure_preset() {
    local preset=$1 make_program=()
    shift
    # A ninja from a Python environment that does not run must not stand in for the package's.
    ninja --version >/dev/null 2>&1 || make_program=(-D CMAKE_MAKE_PROGRAM=/usr/bin/ninja)
    (cd -- "$repo_root" && "$cmake" --preset "$preset" "${make_program[@]}" "$@") </dev/null
}

# build_preset PRESET JOBS [--target TARGET...]
build_preset() {
    local preset=$1 jobs=$2
    shift 2
    (cd -- "$repo_root" && "$cmake" --build --preset "$preset" --parallel "$jobs" "$@") </dev/null
}

source_revision() {
    git -C "$repo_root" describe --always --dirty --abbrev=12 2>/dev/null || printf 'unknown'
}

# install_python_parts REQUIREMENTS VENV [PIP_OPTION...]: what a file lists, in a virtual environment; again when the
# file changes.
install_python_parts() {
    local wanted=$1 venv=$2
    shift 2
    if cmp -s -- "$wanted" "$venv/installed.txt"; then return; fi
    install_packages python3-venv
    say "Installing Python parts into $venv"
    python3 -m venv --clear "$venv" || die "python3 cannot make a virtual environment in $venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$@" -r "$wanted" ||
        die "pip could not install what $wanted lists"
    cp -- "$wanted" "$venv/installed.txt"
}

# The report's Python parts, and the browser that its figure files are drawn with. Ubuntu's chromium is no package but a
# snap: there, and elsewhere, one that is installed is used, and without one the report has no figure files.
readonly report_venv=$repo_root/build/venv
install_report_parts() {
    install_python_parts "$repo_root/scripts/requirements-report.txt" "$report_venv" --no-deps
    if [[ -r /etc/os-release ]] && grep -qx 'ID=debian' /etc/os-release; then
        install_packages chromium fonts-dejavu-core
    fi
}

# write_attention_maps JSON [OPTION...]: what the heads of a real model look at; needs the target headwise_shared.
write_attention_maps() {
    local json=$1
    shift
    "$report_venv/bin/python" -B "$repo_root/examples/python/attention_maps.py" \
        --library "$repo_root/build/release/tests/c/libheadwise_shared.so" --json "$json" "$@"
}

# write_report FOLDER OPTION...: FOLDER/report.html and FOLDER/figures; see scripts/report.
write_report() {
    "$report_venv/bin/python" -B "$repo_root/scripts/report" "$@"
}
