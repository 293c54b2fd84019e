"""Placed advantages in training: a step's gradient against a loss written out by hand."""

import json

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from reward_ablation.models.load import load_model
from reward_ablation.sampling.tokenizer import load_tokenizer

REWARDS = """
import json, pathlib

def length(completions, completion_ids, *, file: str, **columns):
    pathlib.Path(file).write_text(json.dumps(completion_ids))  # text does not always tokenise back to itself
    return [max(0.0, 1 - abs(len(ids) - 10) / 10) for ids in completion_ids]

def letters(completions, **columns):
    return [len(text) % 7 / 6 for text in completions]  # differs within a group, as a tiny model's correctness does not
"""
PLACEMENTS = {"correctness": "answer_span", "format": "last_token", "length": "all_tokens"}
SGD = {"optim": "sgd", "learning_rate": 100.0, "max_grad_norm": 1e9, "lr_scheduler_type": "constant"}


@pytest.fixture
def one_step(train, tmp_path):
    """One step on 16 completions: `one_step(name, placements, weights, **training)` gives the run, and their tokens.

    `correctness` and `length` are functions of `REWARDS`.
    """
    (tmp_path / "rewards.py").write_text(REWARDS)
    ids = tmp_path / "ids.json"

    def run(name, placements=None, weights=None, **training):
        components = {
            "correctness": {"function": f"{tmp_path}/rewards.py:letters", "parameters": {}},
            "format": {"function": "answer_format", "parameters": {"format": "hash"}},
            "length": {"function": f"{tmp_path}/rewards.py:length", "parameters": {"file": str(ids)}},
        }
        for component, placement in (placements or {}).items():
            components[component]["placement"] = placement
        training = {"max_steps": 1, "per_device_train_batch_size": 16, **training}
        folder = train(name, components=components, weights=weights or {}, training=training)
        return folder, json.loads(ids.read_text())

    return run


def hand_weights(placement, ids, tokenizer):
    """Weights of a completion's tokens: the answer's are found by adding up what each token writes."""
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


def log_probabilities(model, tokenizer, question, ids):
    """Of a completion's tokens, by a plain forward pass."""
    prompt = tokenizer(question + "\n")["input_ids"]
    logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1].double()
    return torch.log_softmax(logits, dim=-1)[range(len(ids)), ids]


@pytest.mark.parametrize(
    "training",
    [
        {"loss_type": "dapo"},
        {"loss_type": "luspo"},
        # Its ratio weighs log-probabilities, has no gradient, and is cut at epsilon_high itself, not at one more.
        {"loss_type": "cispo", "epsilon_high": 5.0, "importance_sampling_level": "sequence"},
        {"mask_truncated_completions": True},
        {"gradient_accumulation_steps": 4, "per_device_train_batch_size": 4, "pad_to_multiple_of": 8},
    ],
    ids=str,
)
def test_training_takes_the_gradient_of_the_placed_advantages(one_step, demo_model, problems, training):
    """One step of plain gradient descent moves the weights by the gradient of the loss written out.

    The loss is -sum_i n sum_t A_it log p_it, with one n over all tokens of the batch, or over completions (luspo).
    """
    run, completion_ids = one_step("run", PLACEMENTS, max_completion_length=32, **training, **SGD)
    rollouts, tokenizer = pd.read_parquet(run / "rollouts.parquet"), load_tokenizer(demo_model)
    kept = ~rollouts.truncated if "mask_truncated_completions" in training else rollouts.tokens > 0
    assert kept.all() == ("mask_truncated_completions" not in training)
    advantages = [
        sum(row[f"advantage_{name}"] * hand_weights(of, ids, tokenizer) for name, of in PLACEMENTS.items())
        for (_, row), ids in zip(rollouts.iterrows(), completion_ids, strict=True)
    ]
    assert all((rollouts[f"advantage_{name}"] != 0).any() for name in PLACEMENTS)
    answered = [bool((hand_weights("answer_span", ids, tokenizer)[:-1] != 0).any()) for ids in completion_ids]
    assert 2 < sum(answered) < len(answered) - 2
    # what the log says of a completion is the mean over its tokens
    assert [float(values.mean()) for values in advantages] == pytest.approx(rollouts.advantage.tolist(), abs=1e-5)
    model, questions = load_model(demo_model), pd.read_parquet(problems).set_index("id").question
    loss = -sum(
        is_kept * (values * log_probabilities(model, tokenizer, questions[problem], ids)).sum()
        for problem, ids, values, is_kept in zip(rollouts.problem_id, completion_ids, advantages, kept, strict=True)
    ) / (len(rollouts) if training.get("loss_type") == "luspo" else rollouts.tokens[kept].sum())
    loss.backward()
    before, after = load_file(demo_model / "model.safetensors"), load_file(run / "model" / "model.safetensors")
    step, gradient = [], []
    for name, parameter in model.named_parameters():
        step.append(((before[name] - after[name]) / SGD["learning_rate"]).flatten())
        gradient.append(parameter.grad.flatten())
    assert (torch.cat(step) - torch.cat(gradient)).norm() < 1e-3 * torch.cat(gradient).norm()
