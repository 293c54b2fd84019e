import re

import pytest

from reward_ablation.cluster.options import sbatch_options, unread_variables, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, []),
        ("--mail-type=FAIL\n--nice", ["--mail-type=FAIL", "--nice"]),  # a text of several lines in YAML
        ("--reservation=course -x n1,n2 -wn3", ["--reservation=course", "--exclude=n1,n2", "--nodelist=n3"]),
        ("-sx n1", ["--oversubscribe", "--exclude=n1"]),  # two short options in one word
        ("--mail-type=ALL --mail-type=FAIL", ["--mail-type=FAIL"]),  # the last one counts, as in sbatch
        ("--gres=lscratch:100,gpu_mps:1 --wckey='a b'", ["--gres=lscratch:100,gpu_mps:1", "--wckey=a b"]),
    ],
)
def test_what_leaves_a_submission_one_job_is_taken_by_its_full_name(text, words):
    assert words_of(sbatch_options(text)) == words


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("--array=1-2", "sbatch option --array may not be set; docs/slurm.md lists the options that may be set"),
        ("--arra 1-2", "--arra may not be set"),  # sbatch takes any beginning of a name
        ("-a1-2", "sbatch option -a (--array) may not be set"),
        ("-Qa1-2", "-Qa1-2 may not be set"),  # --quiet and --array in one word
        ("-sa1-2", "a1-2"),  # an option that is taken, and --array
        ("-t 60", "sbatch option -t (--time) is `hours` in the site file"),
        ("--container-image=x", "--container-image may not be set"),  # of a plugin, which no site file names
        ("--mail-typ=FAIL", "did you mean --mail-type?"),  # nor is the beginning of a name that is taken
        ("other.sh", "other.sh: not an option"),  # sbatch would run this script
        ("--mail-user", "expected one argument"),
        ("--gres=gpu:2", "GPUs are `launch.gpus` of the study"),  # would take the place of ours
        ("--gres=lscratch:1,gres/gpu:h100:2", "GPUs are `launch.gpus` of the study"),
        ("--mail-user='me", "No closing quotation"),
        ("--mail-user=a\0b", "NUL character"),
    ],
)
def test_what_changes_a_submission_is_refused_however_it_is_written(text, told):
    with pytest.raises(ValueError, match=re.escape(told)) as error:
        sbatch_options(text)
    assert "\n" not in str(error.value)


def test_options_of_plugins_are_taken_where_the_site_names_them_in_full():
    options = sbatch_options("--container-image a.sqsh --auks --my_option=1", ["container-image", "auks", "my_option"])
    assert words_of(options) == ["--container-image=a.sqsh", "--auks", "--my_option=1"]
    with pytest.raises(ValueError, match="--container-im may not be set"):
        sbatch_options("--container-im=x", ["container-image"])


def test_variables_that_change_a_submission_are_not_read():
    unread = ["SBATCH_ARRAY_INX", "SBATCH_OF_A_LATER_VERSION", "SLURM_CLUSTERS"]
    others = ("SBATCH_ACCOUNT", "SBATCH_PARTITION", "SBATCH_QOS", "SLURM_CONF", "PATH")
    assert unread_variables(dict.fromkeys([*others, *unread], "x")) == unread
