from pathlib import Path

from reward_ablation.cluster.job_names import comment, digest_of, job_name, params_in, prefix, then_in
from reward_ablation.cluster.slurm import SlurmJob, live_jobs, run_jobs

RUN = "mixed-1a2b3c4d/seed0"


def job(number: str, name: str, state: str = "RUNNING") -> SlurmJob:
    return SlurmJob(number, name, state, "None", "", None, None)


def test_studies_of_one_name_in_two_folders_are_two(tmp_path):
    one, other = prefix("demo", tmp_path / "one"), prefix("demo", tmp_path / "other")
    assert one != other
    assert one == prefix("demo", tmp_path / "other" / ".." / "one")


def test_a_name_tells_the_study_the_rule_and_the_run():
    name = job_name("demo-1f2e3d", "train", RUN)
    assert name == "demo-1f2e3d.train.mixed-1a2b3c4d_seed0"


def test_live_jobs_of_the_study_alone():
    mine = prefix("demo", Path("results"))
    jobs = [
        job("1", job_name(mine, "train", RUN)),
        job("2", job_name(mine, "train", "other-1a2b3c4d/seed0"), "CANCELLED"),
        job("3", job_name(prefix("demo", Path("elsewhere")), "train", RUN)),
        job("4", f"{mine}x.train.more"),
        job("5", "shell"),
    ]
    assert [found.id for found in live_jobs(mine, jobs).values()] == ["1"]
    assert {run: found.id for run, found in run_jobs(mine, [RUN, "other-1a2b3c4d/seed0"], jobs).items()} == {RUN: "1"}


def test_params_are_found_again_in_the_comment():
    digest = digest_of(['{"seed": 0}', "6200ff6c"])
    assert params_in(comment(f"train {RUN}", digest, {})) == digest
    assert params_in(f"train {RUN} params={digest}") == digest, "of an earlier version"
    assert digest != digest_of(['{"seed": 1}', "6200ff6c"])
    assert params_in("a comment of somebody else's") != digest


def test_the_jobs_that_follow_are_found_again_in_the_comment():
    names = [job_name("demo-1f2e3d", "evaluate", f"{RUN}_{data}") for data in ("one", "two", "three")]
    said = comment(f"train {RUN}", "abc", {names[0]: "123", names[1]: "456"})
    assert params_in(said) == "abc"
    assert then_in(said, names) == {names[0]: "123", names[1]: "456"}
    assert then_in(said, names[1:]) == {names[1]: "456"}
    assert then_in(f"train {RUN} params=abc", names) == {}
    assert then_in("somebody's then=own comment", names) == {}
