"""In float64, all that is measured equals separate passes of plain autograd through TRL's own loss, to rounding."""

import numpy as np
import pytest
import torch

from reward_ablation.training.core.gradients import recorder, step
from reward_ablation.training.core.gradients.projection import add_projection, offset_of
from reward_ablation.training.core.gradients.recorder import layer_of

from .conftest import COMPLETION, COMPONENTS, WEIGHTS, batch_of, remember

LIMIT = 1e-10
TRAINED = [name for name in COMPONENTS if WEIGHTS[name]]


def off_policy(pair, batch):
    """Log-probabilities of an older model: far enough that both ends clip, for some tokens of some completions."""
    with torch.no_grad():
        present, _, _ = pair.plain._get_per_token_logps_and_entropies(
            pair.plain.model,
            torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1),
            torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1),
            COMPLETION,
        )
    generator = torch.Generator().manual_seed(9)
    shift = 0.4 * torch.randn(present.shape, generator=generator, dtype=torch.float64)
    shift[0] = shift[5] = 0.0  # completions that no clipping touches
    batch["old_per_token_logps"] = present + shift
    batch["ref_per_token_logps"] = present + 0.1 * shift.flip(0)


def place(batch, placements):
    """Token weights of placements, and advantages by token where a trained component has one."""
    lengths = batch["completion_mask"].sum(1)
    tokens = torch.arange(COMPLETION)
    weights = {
        "all_tokens": batch["completion_mask"].double(),
        "last_token": (tokens == lengths[:, None] - 1) * lengths[:, None].double(),
        "answer_span": ((tokens > 0) & (tokens < 3) & (tokens < lengths[:, None])) * lengths[:, None] / 2.0,
    }
    batch.update({f"placement_{name}": weights[name] for name in set(placements.values()) - {"all_tokens"}})
    if {placements[name] for name in TRAINED} != {"all_tokens"}:
        columns = [batch["shares"][:, k, None] * weights[placements[name]] for k, name in enumerate(COMPONENTS)]
        batch["advantages"] = sum(column for column, name in zip(columns, COMPONENTS, strict=True) if WEIGHTS[name])
    return weights


def check(pair, batches, weights=None, placements=None):
    """Training gradient, inner products by layer, their parts' sum, and shares, against plain autograd."""
    ours, plain = pair.ours, pair.plain
    remember(ours, batches)
    trained = pair.step(ours, batches)
    reference = pair.step(plain, batches)
    largest = max(part.abs().max() for part in reference.values())
    assert largest > 0
    for name, part in reference.items():
        assert (trained[name] - part).abs().max() < LIMIT * largest, name

    def placed(batch, kind, k):
        if weights is None or placements[COMPONENTS[k]] == "all_tokens":
            return batch[kind][:, k]
        return batch[kind][:, k, None] * weights[placements[COMPONENTS[k]]]

    def share(k):
        """With the clipping of training, the loss is linear in an advantage that keeps its sign of training."""

        def along(direction):
            def advantages(batch):
                advantage, signs = placed(batch, "shares", k), torch.where(batch["advantages"] < 0, -1.0, 1.0)
                advantage = advantage[:, None] if advantage.dim() < signs.dim() else advantage
                return signs * (direction * signs * advantage).clamp(min=0)

            return pair.gradient(batches, advantages)

        with_sign, against = along(1.0), along(-1.0)
        return {name: with_sign[name] - against[name] for name in with_sign}

    alone = {
        ("alone", name): pair.gradient(batches, lambda batch, k=k: placed(batch, "alone", k))
        for k, name in enumerate(COMPONENTS)
    }
    shares = {("share", name): share(k) for k, name in enumerate(COMPONENTS) if WEIGHTS[name]}
    if plain.beta:
        zero = lambda batch: torch.zeros_like(batch["shares"][:, 0])  # noqa: E731
        shares["share", "kl"] = pair.gradient(batches, zero, kl=True)
    vectors = {**alone, **shares}
    tables = ours._gradients.tables(1, lambda part: part, lambda blocks: blocks)
    rows = tables["gradients"].to_pandas().set_index(["layer", "definition", "component_a", "component_b"])
    names = list(reference)
    layers = list(dict.fromkeys(map(layer_of, names)))
    for layer in ["all", *layers]:
        chosen = [name for name in names if layer in ("all", layer_of(name))]
        flat = {key: torch.cat([gradient[name].flatten() for name in chosen]) for key, gradient in vectors.items()}
        for (definition, first), a in flat.items():
            for (other, second), b in flat.items():
                if definition != other or (layer, definition, first, second) not in rows.index:
                    continue
                row = rows.loc[(layer, definition, first, second)]
                assert abs(row["dot"] - float(a @ b)) <= LIMIT * float(a.norm() * b.norm()), (layer, first, second)
                parts = row[["self", "same_prompt", "cross_prompt", "across_blocks"]].sum()
                assert parts == pytest.approx(row["cosine"], abs=1e-5)
    assert len(rows.loc["all"]) == 6 + len(shares) * (len(shares) + 1) // 2
    if not plain._entropy_bonus_enabled:
        total = sum(torch.cat([gradient[name].flatten() for name in names]) for gradient in shares.values())
        wanted = torch.cat([reference[name].flatten() for name in names])
        assert (total - wanted).norm() < LIMIT * wanted.norm()
    return tables


def batches_of(pair, count=1, rows=6):
    words = len(pair.ours.processing_class)
    pad = pair.ours._tokenizer.pad_token_id
    batches = [batch_of(rows, words, seed, pad) for seed in range(2, 2 + count)]
    total = sum(batch["num_items_in_batch"] for batch in batches)
    for batch in batches:
        batch["num_items_in_batch"] = total
    return batches


#: Tied and untied heads, biases, head biases, norms of hidden states and of heads, transposed layers, soft caps; and
#: norms that no name tells of: torch.nn.RMSNorm, whose weight torch allows no copies of, and Cohere's dense ones.
MODELS = ["llama", "qwen2", "qwen3", "gpt2", "gemma2", "gemma3", "phi", "dropout", "torch's norm", "cohere"]
CHECKPOINTING = {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}}


@pytest.mark.parametrize(
    "changes",
    [
        *({"model": model} for model in MODELS),
        *({"loss_type": loss_type} for loss_type in ("bnpo", "dr_grpo", "luspo")),  # the others are off policy, below
        {"lora": {"r": 2, "lora_alpha": 4, "lora_dropout": 0.0, "target_modules": "all-linear"}},
        {"lora": {"r": 2, "lora_alpha": 4, "lora_dropout": 0.3, "target_modules": ["q_proj", "down_proj"]}},
        {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": True}},
        CHECKPOINTING,
    ],
    ids=str,
)
def test_models_losses_adapters_and_checkpointing(pair, changes):
    pair = pair(**changes)
    check(pair, batches_of(pair))


def test_tokens_packed_by_mask(pair, monkeypatch):
    """On a GPU, TRL scores only the tokens that count. The test uses its packing, with its kernels in torch."""
    monkeypatch.setattr("trl.trainer.utils._use_triton", lambda device: True)
    pair = pair()
    check(pair, batches_of(pair))


@pytest.mark.parametrize(
    "training",
    [
        *({"loss_type": loss_type} for loss_type in ("grpo", "dapo", "cispo", "sapo", "vespo")),
        {"loss_type": "grpo", "importance_sampling_level": "sequence"},
        {"loss_type": "dapo", "delta": 1.5},
        {"loss_type": "dapo", "off_policy_mask_threshold": 0.05},
        {"loss_type": "dapo", "top_entropy_quantile": 0.5},
        {"loss_type": "dapo", "beta": 0.1},
    ],
    ids=lambda training: "-".join(map(str, training.values())),
)
def test_rollouts_of_an_older_model(pair, training):
    """Clipping goes by the sign of each component's own advantage."""
    pair = pair(**training)
    [batch] = batches_of(pair)
    shares = batch["shares"][1:5, : len(TRAINED)]
    assert (shares.prod(1) < 0).any(), "no completion with shares of both signs that may be clipped"
    off_policy(pair, batch)
    tables = check(pair, [batch])
    families = set(tables["sample_gram_rows"]["family"].to_pylist())
    assert ("all_tokens/uneven" in families) == ("top_entropy_quantile" in training)
    assert ("all_tokens/-" in families) == (training["loss_type"] != "cispo")  # whose clip goes by no sign


@pytest.mark.parametrize("training", [{"beta": 0.2}, {"beta": 0.2, "entropy_coef": 0.1, **CHECKPOINTING}], ids=str)
def test_other_terms_of_the_loss(pair, training):
    pair = pair(**training)
    [batch] = batches_of(pair)
    generator = torch.Generator().manual_seed(2)
    batch["ref_per_token_logps"] = -3 + torch.randn(6, COMPLETION, generator=generator, dtype=torch.float64)
    check(pair, [batch])


@pytest.mark.parametrize(
    ("placements", "training"),
    [
        (("answer_span", "last_token", "all_tokens"), {}),
        (("answer_span", "last_token", "all_tokens"), {"num_iterations": 2, "beta": 0.2}),
        (("all_tokens", "all_tokens", "last_token"), {"num_iterations": 2}),  # a tracked component's placement
    ],
    ids=str,
)
def test_placements(pair, placements, training):
    placements = dict(zip(COMPONENTS, placements, strict=True))
    pair = pair(placements=placements, **training)
    [batch] = batches_of(pair)
    weights = place(batch, placements)
    off_policy(pair, batch)
    if "num_iterations" not in training:
        del batch["old_per_token_logps"]
    check(pair, [batch], weights, placements)


@pytest.mark.parametrize(("model", "rows"), [("llama", 4), ("qwen2", 4), ("llama", 6)])  # fewer than 5 vectors, or more
def test_several_micro_batches(pair, model, rows):
    """Terms between micro-batches are included. They are exact, because parameters of this size are kept whole."""
    pair = pair(model, gradient_accumulation_steps=3)
    tables = check(pair, batches_of(pair, 3, rows))
    rows = tables["gradients"].to_pandas().query("layer == 'all' and component_a != component_b")
    assert (rows.across_blocks.abs() > 1e-3).any()


def test_the_error_of_folded_sums_is_told(pair, monkeypatch):
    """Parameters beyond a limit are folded: here nearly all, to as few numbers as a large model's are a part of."""
    few = 101
    exact_pair = pair("qwen2", gradient_accumulation_steps=3)
    batches = batches_of(exact_pair, 3)
    exact = check(exact_pair, batches)["gradients"].to_pandas()
    assert (exact["folding_error"].dropna() == 0).all()
    for module in (recorder, step):
        monkeypatch.setattr(module, "SUMS", few)
    folded_pair = pair("qwen2", gradient_accumulation_steps=3)
    folded_pair.ours._completions = exact_pair.ours._completions
    folded_pair.step(folded_pair.ours, batches)
    folded = folded_pair.ours._gradients.tables(1, lambda part: part, lambda blocks: blocks)["gradients"].to_pandas()
    inexact = folded["layer"] != "norm"  # of 16 numbers, which are kept
    assert (folded.loc[inexact, "folding_error"] > 0).all()
    assert (folded.loc[~inexact, "folding_error"] == 0).all()
    assert folded.loc[~inexact, "dot"].to_numpy() == pytest.approx(exact.loc[~inexact, "dot"].to_numpy(), rel=1e-9)
    error = (folded["dot"] - exact["dot"])[inexact] / (folded["norm_a"] * folded["norm_b"])[inexact]
    in_errors = np.abs(error) / folded["folding_error"][inexact]
    assert 0.2 < np.sqrt(np.square(in_errors).mean()) < 1.2  # at most one standard error, and not next to nothing
    assert in_errors.max() < 4


def test_whole_gradients(pair):
    one = pair(whole_at=[1], gradient_accumulation_steps=2)
    batches = batches_of(one, 2)
    remember(one.ours, batches)
    one.step(one.ours, batches)
    for k in range(len(COMPONENTS)):
        wanted = one.gradient(batches, lambda batch, k=k: batch["alone"][:, k])
        for name, part in wanted.items():
            found = one.ours._gradients.whole[name][k].view(part.shape)
            assert (found - part).abs().max() < LIMIT * max(1e-3, float(part.abs().max())), name


def vectors(count, size, seed=0):
    return torch.randn(count, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("kind", ["dense", "outer products", "few large columns"])
def test_error_is_that_of_a_count_sketch(kind):
    """Root mean square error of an inner product below 1.5 |a||b| / sqrt(size), also for gradients of low rank."""
    errors = []
    for seed in range(40):
        values = vectors(2, 300 * 128, seed)
        if kind == "outer products":
            left, right = vectors(2, 300, seed), vectors(1, 128, seed + 1)
            values = (left[:, :, None] * right[:, None, :]).flatten(1)
        if kind == "few large columns":
            values.view(2, 300, 128)[:, :, :3] *= 30
        sums = torch.zeros(2, 509, dtype=torch.float64)
        for part in torch.arange(values.size(1)).chunk(seed % 3 + 1):
            add_projection(sums, values[:, part], int(part[0]), offset_of(f"weight {seed}"))
        norms = values.norm(dim=1)
        errors.append(float((sums[0] @ sums[1] - values[0] @ values[1]) / (norms[0] * norms[1])))
    errors = torch.tensor(errors)
    assert errors.square().mean().sqrt() < 1.5 / 509**0.5
    assert errors.mean().abs() < 3 * errors.std() / len(errors) ** 0.5
