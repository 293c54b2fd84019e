"""What comparisons of imported runs take for granted: no run counts twice, and runs differ in little else."""

import json
import re
from random import Random

import pytest

from reward_ablation.system.errors import StudyError

from .studies import imported, write_rows

WEIGHTS = {"full": {"a": 1.0, "b": 1.0}, "no_b": {"a": 1.0, "b": 0.0}}
MODELS = [(arm, seed) for arm in WEIGHTS for seed in (0, 1)]
COLUMNS = {"step": "step", "problem": "problem", "prompt": "problem", "completion": "completion"}


#: A run that was trained on a question of the evaluation.
PROMPT = {"problems": ("p", "Solve.  How many apples has Tom on day\n 2 of May?")}


def rows(seed, group=4, steps=(1, 2), problems="pq", first_again=False):
    draw = Random(seed)
    row = {"completion": "", "a": 0.0, "b": 0.0}
    return [
        {**row, "step": step, "problem": problem, "completion": f"{draw.random()}", "a": draw.random()}
        for step in steps
        for problem in [*problems, *problems[: first_again and step == steps[0]]]
        for _ in range(group)
    ]


def answers(model, gold="1", question="question", texts=None, ids=4, shift=0):
    text = "{of} {n}" if texts != "none" else None
    row = {"gold": gold}
    return [
        {**row, "id": n % ids, "q": f"{question} {(n + shift) % 4}", "ok": n % 2 == 0}
        | {"text": text and text.format(of=texts or model, n=n)}
        for n in range(4)
    ]


def study(root, runs=None, evaluation=None, sources=None, mode="greedy"):
    """The sentences of an import of two arms and seeds; `runs` and `evaluation` change the content of their files."""
    arms = {arm: {"weights": weights, "seeds": {}} for arm, weights in WEIGHTS.items()}
    named = {arm: {} for arm in arms}
    for number, (arm, seed) in enumerate(MODELS):
        changed = (runs or {}).get((arm, seed), {})
        write_rows(root / f"{arm}{seed}.jsonl", rows(**{"seed": number, **changed}))
        write_rows(root / f"a{arm}{seed}.jsonl", answers((arm, seed), **(evaluation or {}).get((arm, seed), {})))
        arms[arm]["seeds"][seed] = f"{arm}{seed}.jsonl"
        named[arm][seed] = f"a{arm}{seed}.jsonl"
    arms["full"]["seeds"].update((sources or {}).get("runs", {}))
    named["full"].update((sources or {}).get("evaluation", {}))
    columns = {"problem": "id", "question": "q", "gold": "gold", "correct": "ok", "completion": "text"}
    written = {
        "name": "mine",
        "arms": {"design": "imported", "runs": arms},
        "rollouts": {"format": "table", "columns": {**COLUMNS, "scores": {"a": "a", "b": "b"}}},
        "evaluation": {"format": "table", "mode": mode, "columns": columns, "runs": named},
    }
    return json.loads((imported(root, written) / "study.json").read_text())["imported"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The sentences where nothing differs."""
    return study(tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sources": {"runs": {1: "full0.jsonl"}}}, "arms.runs.full.seeds.1: the same file as arms.runs.full.seeds.0"),
        ({"runs": {("full", 1): {"seed": 0}}}, "arms.runs.full.seeds.1: has the same completions as seed 0"),
        ({"sources": {"evaluation": {1: "./afull0.jsonl"}}}, "evaluation.runs.full.1: the same file as evaluation.ru"),
        ({"evaluation": {("full", 1): {"gold": "2"}}}, "afull1.jsonl: the right answer to 0 is '2', and '1' in "),
        (
            {"evaluation": {each: {"gold": None, "question": f"asked {each}"} for each in MODELS}},
            "all questions have another text than in ",
        ),
        ({"evaluation": {("full", 1): {"shift": 1}}}, "afull1.jsonl: 0 is 'question 1', which has another id in "),
        ({"evaluation": {("full", 0): {"ids": 2}}}, "afull0.jsonl: 2 greedy answers to 0; give each question an id"),
        ({"runs": {("full", 1): {"group": 1}}}, "training is {'num_generations': 1}, and {'num_generations': 4} in"),
        ({"mode": "sampled", "evaluation": {("full", 0): {"ids": 2}}}, "afull0.jsonl: problem 0 has two questions,"),
    ],
)
def test_what_would_count_twice_or_compare_other_questions_is_refused(tmp_path, changes, words):
    with pytest.raises(StudyError, match=rf"^.*{re.escape(words)}.*\Z"):
        study(tmp_path, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"runs": {("no_b", 0): {"seed": 0}}}, "no_b seed 0 and full seed 0 have the same completions throughout."),
        ({"runs": {("full", 1): {"steps": (1,)}}}, "Runs end at different steps: 2 (full seed 0, no_b seeds 0 1), 1"),
        ({"runs": {("full", 1): {"first_again": True}}}, "full: 1 of 4 groups have a multiple of 4 completions: a"),
        ({"runs": {("full", 1): {"group": 8}}}, "Group sizes differ: 4 (full seed 0, no_b seeds 0 1), 8 (full seed 1)"),
        ({"runs": {each: {"steps": (2, 4)} for each in MODELS}}, "Steps with completions: 2 of 4 (full seeds 0 1, no_"),
        ({"runs": {("no_b", 1): {"problems": "pr"}}}, "Of 3 training problems 1 are in every run; "),
        ({"evaluation": {("full", 1): {"texts": ("full", 0)}}}, "full seed 1 and full seed 0 have the same answers th"),
        ({"evaluation": {("full", seed): {"texts": "none"} for seed in (0, 1)}}, "full seed 1 and full seed 0 have"),
        (
            {
                "evaluation": {each: {"question": "How many apples has Tom on day"} for each in MODELS},
                "runs": dict.fromkeys(MODELS, PROMPT),
            },
            "1 of 4 questions of the evaluation stand in prompts of the training",
        ),
        ({"evaluation": {("no_b", 1): {"question": "Q:"}}}, "4 of 4 questions have other texts in the answers of no_b"),
    ],
)
def test_what_differs_beside_weights_and_seeds_is_said(tmp_path, plain, changes, words):
    said = study(tmp_path, **changes)
    assert [line for line in said if line not in plain] == [line for line in said if line.startswith(words)]
    assert len(said) == len(plain) + 1
