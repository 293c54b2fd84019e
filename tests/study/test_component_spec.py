"""Parameters of components in specs: files count by their content, and some parameters do not count."""

import json
import shlex

import pytest

from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError

MINE = """\
from reward_ablation.rewards.parameters import FilePath, FolderPath, NotInSpec


def mine(completions, *, bonus: float, words: FilePath, attempts: NotInSpec[int] = 3, model: FolderPath | None = None):
    return [bonus for _ in completions]
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


def key_of(study):
    return study.keys["a"]


def test_what_decides_no_score_and_where_a_file_lies_move_no_key(study_of, tmp_path):
    key = key_of(study_of())
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "words.txt").write_text("a b")
    assert key_of(study_of(attempts=7)) == key
    assert key_of(study_of(words="elsewhere/words.txt")) == key
    assert key_of(study_of(words=str(tmp_path / "words.txt"))) == key
    assert key_of(study_of(bonus=2)) != key
    (tmp_path / "words.txt").write_text("a c")
    assert key_of(study_of()) != key


def test_a_folder_counts_by_its_content(study_of, tmp_path):
    keys = [key_of(study_of())]
    for folder, text in (("m1", "{}"), ("m2", "{}"), ("m3", "{ }")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text(text)
        keys.append(key_of(study_of(model=folder)))
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
    ("parameters", "message"),
    [
        ({"words": "gone.txt"}, r"components\.mine: words: gone\.txt: no such file; a relative path starts from"),
        ({"words": {"env": "WORDS"}}, r"components\.mine: words: give the path in the config"),
    ],
)
def test_a_missing_path_is_refused_in_one_line(study_of, monkeypatch, parameters, message):
    monkeypatch.delenv("WORDS", raising=False)
    with pytest.raises(StudyError, match=message) as refusal:
        study_of(**parameters)
    assert "\n" not in str(refusal.value)
