"""Placed advantages in training: gradients against losses written out by hand, and things that must not change."""

import json

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from reward_ablation.models.load import load_model
from reward_ablation.sampling.tokenizer import load_tokenizer

from .test_run import weights_of

REWARDS = """
import json, pathlib

def length(completions, completion_ids, *, file: str, **columns):
    pathlib.Path(file).write_text(json.dumps(completion_ids))  # text does not always tokenise back to itself
    return [max(0.0, 1 - abs(len(ids) - 10) / 10) for ids in completion_ids]

def letters(completions, **columns):
    return [len(text) % 7 / 6 for text in completions]  # differs within a group, as a tiny model's correctness does not
"""
LONGEST = 32  # tokens: some completions are cut off, some give an answer, some end without one
NAMES = ["correctness", "format", "length"]
PLACEMENTS = {"correctness": "answer_span", "format": "last_token", "length": "all_tokens"}


FORMAT = {"function": "answer_format", "parameters": {"format": "hash"}}


def component(answer_format, placement):
    return {"function": "correctness", "parameters": {"answer_format": answer_format}, "placement": placement}


@pytest.fixture
def placed_run(train, tmp_path):
    """One step with a component in each placement: `placed_run(**training)` gives the run and its completions' ids."""
    (tmp_path / "rewards.py").write_text(REWARDS)
    ids = tmp_path / "ids.json"

    def run(**training):
        folder = train(
            "run",
            components={
                "correctness": {
                    "function": f"{tmp_path}/rewards.py:letters",
                    "parameters": {},
                    "placement": PLACEMENTS["correctness"],
                },
                "format": {**FORMAT, "placement": PLACEMENTS["format"]},
                "length": {"function": f"{tmp_path}/rewards.py:length", "parameters": {"file": str(ids)}},
            },
            training={
                "max_steps": 1,
                "per_device_train_batch_size": 16,
                "max_completion_length": LONGEST,
                **training,
            },
        )
        return folder, json.loads(ids.read_text())

    return run


def hand_weights(name, ids, tokenizer):
    """Weights of a completion's tokens: the answer's are found by adding up what each token writes."""
    placement = PLACEMENTS[name]
    if placement == "all_tokens":
        return torch.ones(len(ids))
    written = [tokenizer.decode([token], skip_special_tokens=True) for token in ids]
    text = "".join(written)
    start = text.rfind("####")
    stop = len(text[: text.find("\n", start)]) if "\n" in text[start:] else len(text)
    chosen, place = [], 0
    for i, part in enumerate(written):
        if part and place + len(part) > start and place < stop:
            chosen.append(i)
        place += len(part)
    if placement == "last_token" or start < 0 or not text[start + 4 : stop].strip():
        chosen = [len(ids) - 1]
    weights = torch.zeros(len(ids))
    weights[chosen] = len(ids) / len(chosen)
    return weights


def hand_gradient(demo_model, problems, rollouts, completion_ids, advantages, loss_type=None, counted=None):
    """Gradient of a loss on policy, one completion at a time: -sum_i n_i sum_t A_it log p_it.

    `advantages` have one value per token of each completion; `counted` says which completions are not masked. The
    normaliser n_i is what defines TRL's loss types: one over all tokens of the batch (dapo, cispo), over the
    completion's tokens and the batch (grpo), over the batch (luspo).
    """
    tokenizer, model = load_tokenizer(demo_model), load_model(demo_model)
    questions = pd.read_parquet(problems).set_index("id").question
    counted = counted or [True] * len(completion_ids)
    tokens = sum(len(ids) for ids, is_counted in zip(completion_ids, counted, strict=True) if is_counted)
    loss = 0.0
    for problem, ids, values, is_counted in zip(rollouts.problem_id, completion_ids, advantages, counted, strict=True):
        prompt = tokenizer(questions[problem] + "\n")["input_ids"]
        logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
        logps = torch.log_softmax(logits, dim=-1)[range(len(ids)), ids]
        per_batch = {"grpo": len(ids), "luspo": 1}
        normaliser = len(rollouts) * per_batch[loss_type] if loss_type in per_batch else tokens
        loss = loss - is_counted * (values * logps).sum() / normaliser
    names = [name for name, _ in model.named_parameters()]
    return dict(zip(names, torch.autograd.grad(loss, list(model.parameters())), strict=True))


def flat(gradient):
    return torch.cat([part.flatten() for part in gradient.values()]).double()


SGD = {"optim": "sgd", "learning_rate": 100.0, "max_grad_norm": 1e9, "lr_scheduler_type": "constant"}


@pytest.mark.parametrize(
    "training",
    [
        *({"loss_type": loss_type} for loss_type in ("dapo", "grpo", "luspo")),
        # Its ratio weighs log-probabilities, has no gradient, and is cut at epsilon_high itself, not at one more.
        {"loss_type": "cispo", "epsilon_high": 5.0, "importance_sampling_level": "sequence"},
        {"mask_truncated_completions": True},
        {"gradient_accumulation_steps": 4, "per_device_train_batch_size": 4, "pad_to_multiple_of": 8},
    ],
    ids=str,
)
def test_training_takes_the_gradient_of_the_placed_advantages(placed_run, demo_model, problems, training):
    """One step of plain gradient descent moves the weights by the gradient of the loss written out."""
    run, completion_ids = placed_run(**training, **SGD)
    rollouts, tokenizer = pd.read_parquet(run / "rollouts.parquet"), load_tokenizer(demo_model)
    counted = None
    if "mask_truncated_completions" in training:
        assert 0 < rollouts.truncated.sum() < len(rollouts)
        counted = (~rollouts.truncated).tolist()
    advantages = [
        sum(row[f"advantage_{name}"] * hand_weights(name, ids, tokenizer) for name in NAMES)
        for (_, row), ids in zip(rollouts.iterrows(), completion_ids, strict=True)
    ]
    assert all((rollouts[f"advantage_{name}"] != 0).any() for name in NAMES)
    answered = [bool((hand_weights("correctness", ids, tokenizer)[:-1] != 0).any()) for ids in completion_ids]
    assert 2 < sum(answered) < len(answered) - 2
    # what the log says of a completion is the mean over its tokens
    assert [float(values.mean()) for values in advantages] == pytest.approx(rollouts.advantage.tolist(), abs=1e-5)
    gradient = hand_gradient(
        demo_model, problems, rollouts, completion_ids, advantages, training.get("loss_type"), counted
    )
    before, after = load_file(demo_model / "model.safetensors"), load_file(run / "model" / "model.safetensors")
    step = {name: (before[name] - after[name]) / SGD["learning_rate"] for name in gradient}
    difference = (flat(step) - flat(gradient)).norm() / flat(gradient).norm()
    assert difference < 1e-3


def placed_components(length="all_tokens"):
    return {
        "correctness": component("last_number", PLACEMENTS["correctness"]),
        "format": {**FORMAT, "placement": PLACEMENTS["format"]},
        "length": {"function": "token_length", "parameters": {"target": 20, "width": 20}, "placement": length},
    }


def test_a_tracked_component_changes_nothing_wherever_it_is_placed(train):
    weights = {"correctness": 1, "format": 0.5, "length": 0}
    components = {**placed_components(), "format": FORMAT}
    components["correctness"] = component("hash", "all_tokens")
    components["length"] = {"function": "constant", "parameters": {}}
    without = train("without", components=components, weights=weights)
    components["length"] = placed_components("answer_span")["length"]
    with_it = train("with_it", components=components, weights=weights)
    assert weights_of(with_it) == weights_of(without)
    same = ["step", "problem_id", "rollout", "completion", "total", "advantage", "score_format", "advantage_format"]
    pd.testing.assert_frame_equal(
        pd.read_parquet(with_it / "rollouts.parquet")[same], pd.read_parquet(without / "rollouts.parquet")[same]
    )
