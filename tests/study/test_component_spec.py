"""Parameters of components in specs: files count by their content, and some parameters do not count."""

import json
import shlex

import pytest

from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError

MINE = """\
from reward_ablation.rewards.parameters import FilePath, FolderPath, NotInSpec
def mine(completions, *, bonus, words: FilePath, attempts: NotInSpec[int] = 3, model: FolderPath | None = None): ...
"""


@pytest.fixture
def study_of(config, tmp_path):
    """Resolves the config with a component of these parameters."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "words.txt").write_text("a b")
    config["arms"]["arms"]["a"]["weights"]["mine"] = 1

    def resolved(**parameters):
        parameters = {"bonus": 1, "words": "words.txt"} | parameters
        config["components"]["mine"] = {"function": "mine.py:mine", "parameters": parameters}
        return resolve(config, "study.yaml", tmp_path)

    return resolved


def test_what_decides_no_score_and_where_a_file_lies_move_no_key(study_of, tmp_path):
    key = study_of().keys["a"]
    assert study_of(attempts=7, words=str(tmp_path / "words.txt")).keys["a"] == key
    assert study_of(bonus=2).keys["a"] != key
    (tmp_path / "words.txt").write_text("a c")
    assert study_of().keys["a"] != key


def test_a_folder_counts_by_its_content(study_of, tmp_path):
    keys = [study_of().keys["a"]]
    for folder, text in (("m1", "{}"), ("m2", "{}"), ("m3", "{ }")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text(text)
        keys.append(study_of(model=folder).keys["a"])
    assert keys[1] == keys[2]
    assert len(set(keys)) == 3


def test_the_spec_and_the_options_together_have_all_parameters(study_of):
    study = study_of(attempts=7)
    run = next(iter(study.runs.values()))
    component = json.loads(run.spec)["components"]["mine"]
    assert component["parameters"] == {"bonus": 1}
    assert list(component["contents"]) == ["words"]
    words = shlex.split(run.options)
    assert words[0] == "--parameters"
    assert json.loads(words[1]) == {"mine": {"attempts": 7, "words": "words.txt"}}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("gone.txt", "words: gone.txt: no such file; a relative path starts from"),
        ({"env": "WORDS"}, "words: give the path in the config"),
    ],
)
def test_a_missing_path_is_refused_in_one_line(study_of, words, message):
    with pytest.raises(StudyError, match=rf"components\.mine: {message}") as refusal:
        study_of(words=words)
    assert "\n" not in str(refusal.value)
