#!/usr/bin/env bash
# The main job: installs what is missing, builds, verifies, counts, measures, reports.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'TEXT'
usage: scripts/sweep.sh [--full] [--n LIST] [--d-model LIST] [--heads LIST] [--threads LIST] [--target LIST]

Finds out what multi-head attention costs on this machine over n, d_model and the number of heads: verifies every shape
against the naive reference on every instruction set of this processor, checks the counts of work as exact integers,
measures, and writes build/sweep/results.json, build/sweep/report.html and its figures as PNG and SVG files. Installs
what is missing (packages with apt, as root or through sudo; Python parts into build/venv) and builds into build/release
first.

  --n LIST        numbers of tokens (default 128,512,1024)
  --d-model LIST  widths of the layer (default 256,512)
  --heads LIST    numbers of heads, each a divisor of each width (default 1,2,4,8,16)
  --threads LIST  numbers of threads, or all (default 1,all)
  --target LIST   instruction sets, such as sse2,avx2, or all (default). Those named are all measured with every
                  --threads; else only the best one is measured with more than one
  --full          n from 128 to 16384, d_model from 256 to 2048: takes hours. The default takes at most 5 minutes on two
                  cores, installing and building not counted
  --help          this text

LIST is separated by commas: --heads 1,4,16.
Exit status: 0 all is verified and exact, 1 a check or the build failed, 2 wrong option or something is missing that
cannot be installed.
TEXT
}

# number_list OPTION VALUE and word_list OPTION VALUE: die unless VALUE is such a list. The program knows the bounds;
# what is plainly wrong should not wait for the build.
number_list() {
    [[ $2 =~ ^[1-9][0-9]{0,8}(,[1-9][0-9]{0,8})*$ ]] ||
        die "$1 must be positive whole numbers separated by commas, not '$2'"
}
word_list() {
    [[ $2 =~ ^[a-z0-9]+(,[a-z0-9]+)*$ ]] || die "$1 must be a list separated by commas, not '$2'; see --help"
}

sweep_options=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --n | --d-model | --heads) need_value "$@"; number_list "$1" "$2"; sweep_options+=("$1" "$2"); shift 2 ;;
        --threads | --target) need_value "$@"; word_list "$1" "$2"; sweep_options+=("$1" "$2"); shift 2 ;;
        --full) sweep_options+=("$1"); shift ;;
        -h | --help) usage; exit 0 ;;
        *) die "unknown option '$1'; see --help" ;;
    esac
done

cd -- "$repo_root"
results_dir=build/sweep

interrupted() {
    rm -f -- "$results_dir"/*.part
    say "Interrupted. Results that were in $results_dir before are unchanged." >&2
    exit 130
}
trap interrupted INT TERM

install_build_packages
mkdir -p -- "$results_dir"
install_report_parts
say "Building"
# Only what runs here: the tests take longer to compile than all else.
configure_preset release || exit 1
build_preset release "$(nproc)" --target headwise_sweep headwise_cases headwise_shared || exit 1

say "Verifying the real layer"
real_layer_log=$results_dir/real_layer.txt
real_layer_status=0
build/release/bin/headwise_cases tests/cases/real >"$real_layer_log" 2>&1 || real_layer_status=$?
cat -- "$real_layer_log"

sweep_status=0
build/release/bin/headwise_sweep "${sweep_options[@]}" --json "$results_dir/results.json" \
    --revision "$(source_revision)" --real-layer-log "$real_layer_log" --real-layer-status "$real_layer_status" \
    >"$results_dir/summary.txt.part" || sweep_status=$?
if [[ $sweep_status -ne 0 && ! -s $results_dir/summary.txt.part ]]; then
    rm -f -- "$results_dir"/*.part
    exit "$sweep_status"
fi
mv -- "$results_dir/summary.txt.part" "$results_dir/summary.txt"
say "Writing the report"
{
    write_attention_maps "$results_dir/attention.json" &&
        write_report "$results_dir" --results "$results_dir/results.json" --attention "$results_dir/attention.json"
} || sweep_status=1

cat -- "$results_dir/summary.txt"
say
say "$results_dir/results.json, $results_dir/report.html, $results_dir/figures/"
exit "$sweep_status"
