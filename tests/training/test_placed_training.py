"""A placed step's gradient against a loss written out, and predictions from stored files against training."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from reward_ablation.analysis.gradients.measured_steps import leave_one_out_scores
from reward_ablation.analysis.gradients.methods_offline import method_of_arm, methods_offline, read_history, replay
from reward_ablation.analysis.gradients.what_if import read_measured_step, what_if
from reward_ablation.models.load import load_model
from reward_ablation.sampling.tokenizer import load_tokenizer

from .test_combination import STATES, combine

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


ASKED = {"correctness": 1.0, "format": 0.5, "length": 0.0}
OTHER = {"correctness": -0.5, "format": 2.0, "length": 1.0}
#: Settings of some arms, and a run that TRL combines.
ARMS = {
    "static": {"components": combine("upgrad")["components"]},
    **{method: combine(method, **STATES[method]) for method in ("upgrad", "lagrangian")},
}


@pytest.mark.parametrize("training", [{"beta": 0.1}, {"num_generations": 1}], ids=str)
def test_other_weights_are_answered_as_training_with_them_measures(one_step, training):
    """The first step's rollouts are the same for all weights: its measured shares are what was asked for."""
    asked, _ = one_step("asked", weights=ASKED, max_completion_length=24, **training)
    trained, _ = one_step("trained", weights=OTHER, max_completion_length=24, **training)
    answer = what_if(OTHER, read_measured_step(asked, 1)).similarity
    measured = pd.read_parquet(trained / "gradients.parquet").query("definition == 'share'")
    both = answer.merge(measured, on=["layer", "component_a", "component_b"], suffixes=("", "_measured"))
    assert len(both) == len(answer[~answer["component_a"].eq("total") & ~answer["component_b"].eq("total")])
    assert (both["cosine"] - both["cosine_measured"]).abs().max() < 2e-3
    assert ((both["dot"] - both["dot_measured"]).abs() / (both["norm_a"] * both["norm_b"])).max() < 2e-3


def test_a_small_step_has_the_effect_that_was_foretold(one_step, demo_model, problems):
    """Training with other weights moves each component's expected score as the first run's files say."""
    plain = {**SGD, "loss_type": "grpo", "max_completion_length": 24}
    asked, _ = one_step("asked", weights=ASKED, **{**plain, "learning_rate": 1e-9})
    effect = what_if(OTHER, read_measured_step(asked, 1)).effect.query("layer == 'all'").set_index("component").effect
    rate = 3e-3
    trained, completion_ids = one_step("trained", weights=OTHER, **{**plain, "learning_rate": rate})
    rollouts, tokenizer = pd.read_parquet(trained / "rollouts.parquet"), load_tokenizer(demo_model)
    questions = pd.read_parquet(problems).set_index("id").question[rollouts.problem_id]
    before, after = [], []
    for folder, values in ((demo_model, before), (trained / "model", after)):
        model = load_model(folder)
        with torch.no_grad():
            for question, ids in zip(questions, completion_ids, strict=True):
                values.append(log_probabilities(model, tokenizer, question, ids).sum().item())
    scores = rollouts[[f"score_{name}" for name in OTHER]].to_numpy()
    likelier = np.exp(np.subtract(after, before)) - 1
    change = (leave_one_out_scores(scores, 4) * likelier[:, None]).mean(axis=0)
    expected = effect[list(OTHER)].to_numpy()
    assert change / rate == pytest.approx(expected, rel=0.03, abs=0.03 * np.abs(expected).max())


@pytest.mark.parametrize("arm", ARMS)
def test_the_offline_step_of_a_runs_method_is_the_step_that_was_trained(trained, arm):
    run = trained(**ARMS[arm])
    history = read_history(run)
    own = methods_offline(run, {"own": method_of_arm(history.spec)}).estimates.set_index("quantity")["estimate"]
    assert own["cosine"] == pytest.approx(1.0, abs=1e-3)
    assert own["length"] == pytest.approx(1.0, abs=1e-3)
    assert own["gain"].to_numpy() == pytest.approx(np.zeros(3), abs=1e-3)
    if arm != "static":
        replayed = replay(history, method_of_arm(history.spec))
        logged = pd.read_parquet(run / "weights.parquet")
        offline = [replayed.weights[row.step][history.components.index(row.component)] for row in logged.itertuples()]
        np.testing.assert_allclose(offline, logged["weight"], rtol=1e-4)
        assert logged.groupby("component")["weight"].nunique().max() > 1
