#!/usr/bin/env bash
# Shows what every head of a real model looks at in a sentence.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'TEXT'
usage: scripts/heads.sh [--model FOLDER] [SENTENCE...]

Runs the attention of every layer of all-MiniLM-L6-v2 on headwise, asks for the weights, and writes
build/heads/report.html: a map of each head, one head large, and what two heads can do that one cannot. Without a
SENTENCE it takes two examples. Installs what is missing (packages with apt, as root or through sudo; Python parts into
build/venv) and builds into build/release first.

  --model FOLDER  another BERT-style model: a folder with model.safetensors, config.json and tokenizer.json
  --help          this text

Exit status: 0 the page is written, 1 something failed, 2 wrong option or something cannot be installed.
TEXT
}

model=()
while [[ ${1:-} == -* ]]; do
    case $1 in
        --model) need_value "$@"; [[ -d $2 ]] || die "no such folder: $2"; model=(--model "$2"); shift 2 ;;
        -h | --help) usage; exit 0 ;;
        --) shift; break ;;
        *) die "unknown option '$1'; see --help" ;;
    esac
done

install_build_packages
install_report_parts
configure_preset release || exit 1
build_preset release "$(nproc)" --target headwise_shared || exit 1

folder=$repo_root/build/heads
mkdir -p -- "$folder"
write_attention_maps "$folder/attention.json" "${model[@]}" -- "$@" || exit 1
write_report "$folder" --attention "$folder/attention.json" || exit 1
say "build/heads/report.html, build/heads/figures/"
