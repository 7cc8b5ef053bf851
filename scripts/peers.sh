#!/usr/bin/env bash
# headwise beside PyTorch, ONNX Runtime and OpenVINO: installs what is missing, builds, checks and times them.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

cd -- "$repo_root"
results_dir=build/peers
venv=$results_dir/venv
export PYTHONPATH=$repo_root/scripts:$repo_root/examples/python

command -v python3 >/dev/null || install_packages python3
for option in "$@"; do
    if [[ $option == --help || $option == -h ]]; then exec python3 -B -m peers.options --help; fi
done
python3 -B -m peers.options "$@" || exit

# The first Python that the libraries have wheels for and that can make an environment with pip.
find_python() {
    local candidate
    for candidate in python3 /usr/bin/python3 python3.{14,13,12,11}; do
        if "$candidate" -c 'import sys, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null
        then
            say "$candidate"
            return
        fi
    done
    die "needs Python 3.11 to 3.14 with its venv module (Debian 12 or newer, Ubuntu 24.04 or newer: python3-venv)"
}

# In a virtual environment; again when the wanted versions change.
install_peers() {
    local wanted=scripts/requirements-peers.txt python
    if cmp -s -- "$wanted" "$venv/installed.txt"; then return; fi
    python=$(find_python)
    say "Installing the libraries to compare with into $venv"
    "$python" -m venv --clear "$venv" || die "$python cannot make a virtual environment in $venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$wanted" ||
        die "pip could not install $wanted. It needs a network or a local index (pip config), gigabytes of disk, and a
    processor and system that all four libraries have wheels for: x86-64 or AArch64 Linux with glibc 2.28 or newer"
    cp -- "$wanted" "$venv/installed.txt"
}

install_build_packages
install_packages python3-venv
mkdir -p -- "$results_dir"
install_peers
say "Building"
configure_preset shared || exit 1
build_preset shared "$(nproc)" --target headwise headwise_roofs || exit 1

exec "$venv/bin/python" -B -m peers --headwise build/shared/libheadwise.so \
    --roofs build/shared/bench/libheadwise_roofs.so --results "$results_dir/results.json" \
    --revision "$(source_revision)" -- "$@"
