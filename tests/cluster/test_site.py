from pathlib import Path

import pytest

from reward_ablation.cluster.site import read_site
from reward_ablation.system.errors import StudyError

SHIPPED = Path(__file__).parents[2] / "profiles" / "slurm" / "site.yaml"


def test_the_shipped_file_is_read():
    site = read_site(SHIPPED)
    assert site.partition is None
    assert site.gpus_by == "gpus"
    assert site.train.hours == 24
    assert site.evaluate.mem_gb == 32


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"train": "partitions: gpu"}, "train: unknown key 'partitions'; did you mean partition?"),
        ({"train": "hours: -1"}, "train.hours"),
        ({"gpus_by": "gpus_by: slots"}, "gpus_by"),
        ({"train": "hours: 1.0e+308"}, "train.hours"),
        ({"train": "hours: 1\n  cpus: true"}, "train: cpus: True is a truth value"),
        ({"account": "sbatch: --array=1-3"}, "sbatch option --array may not be set"),
        ({"account": "site_options: [arra]"}, "site_options: arra: sbatch takes this for its own option --array"),
        ({"account": "site_options: [container-i]"}, "its own option --container-id"),  # of Slurm 23.02 and later
        ({"account": "site_options: [--auks]"}, "write it without --"),
        ({"account": "site_options: ['']"}, "is not a long name of an option"),
        ({"account": "site_options: [auks]\nsbatch: --auks --array=1-3"}, "--array may not be set"),
        ({"account": "acount: mine"}, "unknown key 'acount'; did you mean account?"),
    ],
)
def test_a_mistake_is_told_with_the_file_and_the_key(tmp_path, change, told):
    lines = {"account": "account:", "gpus_by": "gpus_by: gpus", "train": "hours: 1"} | change
    path = tmp_path / "site.yaml"
    path.write_text(
        f"{lines['account']}\n{lines['gpus_by']}\ntrain:\n  {lines['train']}\n  mem_gb: 1\n"
        "evaluate:\n  hours: 1\n  mem_gb: 1\n"
    )
    with pytest.raises(StudyError) as error:
        read_site(path)
    assert str(path) in str(error.value)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", [b"", b"- a\n", b"a: [\n", b"account: M\xfcller\n", None])
def test_what_is_no_site_file_is_told_in_a_line(tmp_path, text):
    path = tmp_path / "site.yaml"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(StudyError) as error:
        read_site(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("variables", "site"),
    [
        (  # as `sbatch` does by itself
            {"SBATCH_PARTITION": "gpu", "SBATCH_ACCOUNT": "lab", "SBATCH_QOS": "long"},
            ("lab", "gpu", "long"),
        ),
        ({"SBATCH_PARTITION": ""}, (None, None, None)),  # set to nothing
    ],
)
def test_the_environment_counts_where_the_file_is_silent(monkeypatch, variables, site):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    read = read_site(SHIPPED)
    assert (read.account, read.partition, read.qos) == site


def test_the_file_wins_over_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("SBATCH_PARTITION", "gpu")
    path = tmp_path / "site.yaml"
    path.write_text("partition: cpu\ntrain: {hours: 1, mem_gb: 1}\nevaluate: {hours: 1, mem_gb: 1}\n")
    assert read_site(path).partition == "cpu"
