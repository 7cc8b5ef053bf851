#!/usr/bin/env bash
# Installs what is missing, builds a preset, runs its tests.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'TEXT'
usage: scripts/test.sh [--preset NAME] [--jobs N] [--filter REGEX]

Installs the packages that are missing (with apt, as root or through sudo), builds into build/NAME and runs all tests.

  --preset NAME   release (default), debug, asan, tsan or aarch64 (cross build, tests run under qemu)
  --jobs N        parallel compilations and tests (default: number of processors)
  --filter REGEX  only the tests whose ctest name matches
  --help          this text

asan and tsan are built with clang 19; asan ends with the fuzzers, tsan runs the tests of threads only.

HEADWISE_WERROR=ON in the environment makes warnings errors; CXX chooses the compiler of a new build folder (release
and debug). HEADWISE_FUZZ_SECONDS is how long the fuzzers run (default: 60).
Exit status: 0 all passed, 1 a build or a test failed, 2 wrong option or something cannot be installed.
TEXT
}

preset=release
jobs=$(nproc)
filter=
while [[ $# -gt 0 ]]; do
    case $1 in
        --preset) need_value "$@"; preset=$2; shift 2 ;;
        --jobs) need_value "$@"; positive_integer "$1" "$2"; jobs=$2; shift 2 ;;
        --filter) need_value "$@"; filter=$2; shift 2 ;;
        -h | --help) usage; exit 0 ;;
        *) die "unknown option '$1'; see --help" ;;
    esac
done

install_build_packages
case $preset in
    release | debug) ;;
    asan | tsan) install_packages clang-19 libclang-rt-19-dev llvm-19 ;;  # llvm: stack traces with names
    aarch64)
        install_packages g++-aarch64-linux-gnu qemu-user
        "$repo_root/scripts/arm64_sysroot.sh"
        ;;
    *) die "--preset must be release, debug, asan, tsan or aarch64, not '$preset'" ;;
esac

options=()
for option in HEADWISE_WERROR HEADWISE_FUZZ_SECONDS; do
    [[ -z ${!option:-} ]] || options+=(-D "$option=${!option}")
done
configure_preset "$preset" "${options[@]}" || exit 1
build_preset "$preset" "$jobs" || exit 1

cd -- "$repo_root"
"$ctest" --preset "$preset" --parallel "$jobs" ${filter:+--tests-regex "$filter"} </dev/null || exit 1
