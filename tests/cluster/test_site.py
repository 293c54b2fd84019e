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
        ({"train": "hours: 1.0e+308"}, "train.hours"),
        ({"train": "hours: 1\n  cpus: true"}, "train: cpus: True is a truth value"),
        ({"account": "sbatch: --array=1-3"}, "sbatch option --array may not be set"),
        ({"account": "site_options: [arra]"}, "site_options: arra: sbatch takes this for its own option --array"),
        ({"account": "site_options: [--auks]"}, "write it without --"),
        ({"account": "acount: mine"}, "unknown key 'acount'; did you mean account?"),
    ],
)
def test_a_mistake_is_told_with_the_file_and_the_key(tmp_path, change, told):
    lines = {"account": "account:", "train": "hours: 1"} | change
    path = tmp_path / "site.yaml"
    path.write_text(
        f"{lines['account']}\ntrain:\n  {lines['train']}\n  mem_gb: 1\nevaluate:\n  hours: 1\n  mem_gb: 1\n"
    )
    with pytest.raises(StudyError) as error:
        read_site(path)
    assert str(path) in str(error.value)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", [b"- a\n", b"a: [\n", b"account: M\xfcller\n", None])
def test_what_is_no_site_file_is_told_in_a_line(tmp_path, text):
    path = tmp_path / "site.yaml"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(StudyError) as error:
        read_site(path)
    assert "\n" not in str(error.value)


def test_the_environment_counts_where_the_file_is_silent(tmp_path, monkeypatch):
    """As `sbatch` does by itself."""
    for name, value in (("SBATCH_PARTITION", "gpu"), ("SBATCH_ACCOUNT", "lab"), ("SBATCH_QOS", "")):
        monkeypatch.setenv(name, value)
    read = read_site(SHIPPED)
    assert (read.account, read.partition, read.qos) == ("lab", "gpu", None)
    path = tmp_path / "site.yaml"
    path.write_text("partition: cpu\ntrain: {hours: 1, mem_gb: 1}\nevaluate: {hours: 1, mem_gb: 1}\n")
    assert read_site(path).partition == "cpu"
