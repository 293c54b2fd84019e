"""Mistakes of newcomers in the config: each is one line before any job. Those in files: `test_full_check`.

More mistakes have their line where they are found: in the tests of `config`, `study`, `data`, `models` and `rewards`.
"""

from pathlib import Path

import pytest

from configs import changed
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import one_line_errors

QWEN = {"source": "hub", "id": "Qwen/Qwen2.5-0.5B"}
REWARDS = """
def brevity(completions, *, limit: int, **columns): ...

def of_tests(completions, unit_tests): ...
"""
#: What is written where in a valid config, and the beginning of the line about it.
MISTAKES = [
    ("trainng", {}, "config: unknown key 'trainng'; did you mean training?"),
    ("seeds", 3, "seeds: 3 is not allowed; input should be a valid list"),
    ("model", "Qwen/Qwen2.5-0.5B", "model: 'Qwen/Qwen2.5-0.5B' is not a mapping of keys to values; write one, such as"),
    ("model", {**QWEN, "revision": "main"}, "model.revision: 'main' is not allowed; allowed: the full hash of a commi"),
    ("model", QWEN, "model.revision: missing; it has no default"),
    ("model", {"source": "local", "path": "my_modle"}, "model.path: my_modle: no config.json"),
    ("data/train", {"source": "gms8k"}, "data.train: source 'gms8k' is not allowed; "),
    ("data/train", {"source": "gsm8k", "split": "dev"}, "data.train.split: 'dev' "),
    ("data/train", {"source": "file", "path": "not_there.jsonl"}, "data: not_there.jsonl: no such file"),
    ("components/format", {"function": "fromat"}, "components.format: unknown function 'fromat'; functions here: "),
    ("arms/arms/b/weights", {"fromat": 1}, "arms.arms.b.weights: unknown component 'fromat'; "),
    ("training/learning_rate", "1e-6", "training: learning_rate: '1e-6' is not allowed; allowed: number, at least 0"),
    ("training/max_prompt_length", 512, "training: max_prompt_length: TRL 1.16.0 has no such setting any more; no "),
    ("training/use_vllm", True, "training: use_vllm: not to be set here; set launch.vllm.mode"),
    ("figures", {"problems": []}, "figures: problems: single problems have no figure any more; take the key out, and "),
    ("evaluation/answer_format", "box", "evaluation.answer_format: 'box' is not allowed; "),
    ("components/format", {"function": "mine.py:brevity"}, "components.format: mine.py:brevity: parameter 'limit' "),
    ("components/format", {"function": "mine.py:of_tests"}, "components.format: mine.py:of_tests: "),
    ("components/format", {"function": "mine.py:brevty"}, "components.format: mine.py:brevty: no function 'brevty'"),
    ("components/format", {"function": "broken.py:f"}, "components.format: broken.py:f: broken.py"),
]


@pytest.mark.parametrize(("path", "value", "line"), MISTAKES)
def test_a_mistake_in_the_config_is_one_line(config, tmp_path, monkeypatch, capsys, path, value, line):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(REWARDS)
    Path("broken.py").write_text("def f(completions, **columns):\n    return [float(1]\n")
    with pytest.raises(SystemExit) as end, one_line_errors():
        resolve(changed(config, path, value), "my_study.yaml", Path())
    assert end.value.code == 1
    [told] = capsys.readouterr().err.splitlines()
    assert told.startswith(f"error: my_study.yaml: {line}")
