#!/usr/bin/env bash
# Resolve pyproject.toml into the two locks (`make lock`). The GPU lock is resolved first, because
# vLLM and DeepSpeed allow least; the CPU lock takes its versions and leaves out what only CUDA needs.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-uv}
resolve=("$uv" pip compile pyproject.toml --universal --python-version 3.11 --override envs/overrides.txt
    --no-annotate --no-header --quiet --extra dev)
header() {
    printf '# Made by envs/lock.sh from pyproject.toml: %s. Complete: install with --no-deps.\n' "$1"
}
resolved=$(mktemp)
trap 'rm -f "$resolved"' EXIT
"${resolve[@]}" --extra gpu >"$resolved"
{ header "torch 2.13.0 with CUDA, vLLM, DeepSpeed"; cat "$resolved"; } >envs/gpu.txt
"${resolve[@]}" --constraint envs/gpu.txt >"$resolved"
{ header "no CUDA packages"; grep -vE '^(nvidia-|cuda-|triton==)' "$resolved"; } >envs/cpu.txt
# DeepSpeed for the tests on a CPU is installed beside that lock's packages: where it is among them, every run
# imports it.
{ header "DeepSpeed and what it needs beside cpu.txt"
    grep -E '^(deepspeed|einops|hjson|msgpack|ninja|py-cpuinfo)==' envs/gpu.txt; } >envs/deepspeed.txt
