"""The demo model: a folder that loads, a model that ends its completions, and the same bytes in each process."""

import os
import re
import subprocess
import sys

import pytest
import torch

from reward_ablation.config.sections.model import DemoModel
from reward_ablation.data.word_problems import generate, problems
from reward_ablation.models.demo import END, PROMPT, build
from reward_ablation.models.demo_teacher import examples
from reward_ablation.models.load import load_model
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.system.files import sha256

SHORT = DemoModel(samples=200, steps=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, before = tmp_path_factory.mktemp("demo"), torch.get_rng_state()
    build(SHORT, folder)
    assert torch.equal(torch.get_rng_state(), before)
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder):
    return load_tokenizer(folder)


def test_round_trip_and_one_token_a_word(tokenizer):
    for row in generate(200, seed=0, split="test"):
        prompt = PROMPT.format(question=row["question"])
        tokens = tokenizer(prompt + row["solution"])["input_ids"]
        assert tokenizer.decode(tokens) == prompt + row["solution"]
        assert len(tokens) == len(re.findall(r"\w+|#+|[^\w\s#]|\n", prompt + row["solution"]))
        apart = [*tokenizer(prompt)["input_ids"], *tokenizer(row["solution"] + END)["input_ids"]]
        assert apart == tokenizer(prompt + row["solution"] + END)["input_ids"]
    assert {len(tokenizer(f"= {number}")["input_ids"]) for number in range(100)} == {2}
    other = "Tab\t, {braces} & 12345 \\boxed{7}"  # printable ASCII that no problem has
    assert tokenizer.decode(tokenizer(other)["input_ids"]) == other
    # two bytes outside ASCII: seen, not dropped
    assert tokenizer.decode(tokenizer("Zoë")["input_ids"]) == "Zo<|unknown|><|unknown|>"


def test_same_spec_gives_the_same_bytes_in_another_process(folder, tmp_path):
    code = (
        "import sys; from pathlib import Path; from reward_ablation.models.demo import build;"
        "from reward_ablation.config.sections.model import DemoModel;"
        "build(DemoModel.model_validate_json(sys.argv[1]), Path(sys.argv[2]))"
    )
    # Another hash seed: the order of a set or of BPE's ties would show. Two threads: the build takes one all the same.
    environment = {**os.environ, "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", code, SHORT.model_dump_json(), str(tmp_path)], check=True, env=environment)
    names = sorted(path.name for path in folder.iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert {name: sha256(tmp_path / name) for name in names} == {name: sha256(folder / name) for name in names}


def test_teacher_is_sloppy_and_keeps_to_its_split():
    pairs = examples(3000, seed=0)
    gold = {row["question"]: row["answer"] for row in generate(3000, seed=0, split="warm_start")}
    right = [re.findall(r"\d+", solution)[-1] == gold[question] for question, solution in pairs]
    marked = [re.search(r"^#### \d+$", solution, re.MULTILINE) is not None for _, solution in pairs]
    # Right without confusion (.45) and, in the two-step templates (3 of 4), with both steps (.8): .45 * .85, and what
    # comes out right by chance (2 + 2 for 2 * 2).
    assert sum(right) / len(right) == pytest.approx(0.40, abs=0.04)
    assert sum(marked) / len(marked) == pytest.approx(0.30, abs=0.03)
    # more examples than questions come with new solutions
    questions = len(list(problems(0, "warm_start")))
    pairs = examples(questions + 100, seed=0)
    assert [question for question, _ in pairs[questions:]] == [question for question, _ in pairs[:100]]
    assert pairs[questions:] != pairs[:100]


@pytest.mark.slow
@pytest.mark.long
def test_warm_start_learns_the_teachers_ways(tmp_path):
    build(DemoModel(), tmp_path)
    tokenizer, model = load_tokenizer(tmp_path), load_model(tmp_path)
    rows = generate(200, seed=0, split="test")
    inputs = tokenizer([PROMPT.format(question=row["question"]) for row in rows], return_tensors="pt", padding=True)
    torch.manual_seed(0)
    tokens = model.generate(**inputs, do_sample=True, temperature=1.0, top_k=0, max_new_tokens=48)
    tokens = tokens[:, inputs["input_ids"].shape[1] :]
    assert (tokens == tokenizer.eos_token_id).any(dim=1).float().mean() > 0.95
    texts = tokenizer.batch_decode(tokens, skip_special_tokens=True)
    right = [re.findall(r"\d+", f"0 {text}")[-1] == row["answer"] for text, row in zip(texts, rows, strict=True)]
    marked = [re.search(r"^#### \d+$", text, re.MULTILINE) is not None for text in texts]
    assert 0.15 < sum(right) / len(right) < 0.45  # the teacher: 0.40
    assert 0.15 < sum(marked) / len(marked) < 0.45  # the teacher: 0.30


def test_the_model_is_as_small_as_the_docs_say_and_is_told_where_to_end(folder, tokenizer):
    model = load_model(folder)
    assert model.config.model_type == "qwen2"
    assert sum(weights.numel() for weights in model.parameters()) == 130_304
    settings = model.generation_config
    assert (settings.eos_token_id, settings.pad_token_id) == (tokenizer.eos_token_id, tokenizer.pad_token_id)
    assert settings.eos_token_id != settings.pad_token_id
