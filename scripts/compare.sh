#!/usr/bin/env bash
# Compares two runs of the sweep with Google Benchmark's own compare.py.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'TEXT'
usage: scripts/compare.sh [--kind NAME] [--all] OLD.json NEW.json

Compares two results.json of scripts/sweep.sh, benchmark by benchmark, with Google Benchmark's compare.py: the change of
the time ("Time", +0.10 is 10 % slower), and the p-value of the Mann-Whitney U test over the repetitions ("_pvalue";
below 0.05 the two runs differ by more than chance). Installs compare.py and SciPy with apt if they are missing.

  --kind NAME   only benchmarks of this kind: layer, operator, causal_operator, stage, staged_layer, fma_peak, ...
  --all         each repetition too, not only medians and p-values
  --help        this text

Only what both files have is compared. Take both on the same machine, at rest, with 9 repetitions or more.
Exit status: 0 compared, 1 the comparison failed, 2 wrong option or something cannot be installed.
TEXT
}

kind=
display=(--display_aggregates_only)
while [[ ${1:-} == -* ]]; do
    case $1 in
        --kind) need_value "$@"; kind=$2; shift 2 ;;
        --all) display=(); shift ;;
        -h | --help) usage; exit 0 ;;
        *) die "unknown option '$1'; see --help" ;;
    esac
done
[[ $# -eq 2 ]] || die "takes two files, got $#; see --help"
for file in "$@"; do [[ -f $file ]] || die "no such file: $file"; done
[[ -z $kind || $kind =~ ^[a-z_]+$ ]] || die "--kind must be a name such as layer, not '$kind'"

readonly compare=/usr/share/benchmark/compare.py
install_packages libbenchmark-tools python3-scipy
[[ -f $compare ]] || die "Google Benchmark's compare.py is not at $compare, where Debian's libbenchmark-tools has it"

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

# compare.py knows nothing of kinds; of the aggregates the median is enough.
/usr/bin/python3 - "$kind" "$work" "$@" <<'PYTHON' || exit 1
import json
import sys

kind, folder, *paths = sys.argv[1:]
runs = []
for path in paths:
    with open(path, encoding="utf-8") as file:
        runs.append(json.load(file))
wanted = [{entry["run_name"] for entry in run["benchmarks"] if kind in ("", entry.get("kind"))} for run in runs]
common = wanted[0] & wanted[1]
if not common:
    sys.exit(f"compare.sh: the two files have no benchmark{f' of kind {kind}' if kind else ''} in common")
for name, run in zip(("old", "new"), runs):
    run["benchmarks"] = [entry for entry in run["benchmarks"] if entry["run_name"] in common
                         and entry.get("aggregate_name", "median") == "median"]
    with open(f"{folder}/{name}.json", "w", encoding="utf-8") as file:
        json.dump(run, file)
PYTHON
color=()
[[ -t 1 ]] || color=(--no-color)
cd -- "$work"  # compare.py prints the names of its files
/usr/bin/python3 -B "$compare" "${color[@]}" "${display[@]}" benchmarks old.json new.json || exit 1
