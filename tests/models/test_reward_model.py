"""A reward model's scores equal TRL's in batches of any size. Of long inputs, the end is scored."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from trl.trainer import grpo_trainer

from reward_ablation.models.reward_model import RewardModel, _check_length, host_reward_models
from reward_ablation.rewards.components.reward_model import RewardModelSettings, open_models_with, opened
from reward_ablation.rewards.load import load_component
from reward_ablation.system.errors import StudyError

from .reward_models import save_reward_model

QUESTIONS = ["What is 9 * 8?", "2 + 2?", "Name a prime.", "¿Qué?", "9 * 8?"]
COMPLETIONS = ["72", "It is 4. " * 9, "7", "", "so 72 eggs\n#### 72"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return save_reward_model(tmp_path_factory.mktemp("reward"))


@pytest.fixture(autouse=True)
def host():
    host_reward_models("cpu")
    yield
    open_models_with(None)


def scores(folder: Path, completions=COMPLETIONS, questions=QUESTIONS, **parameters) -> list[float]:
    """Scores by the component as the workflow loads it."""
    component = load_component("reward_model", {"model": str(folder), **parameters}, Path(), "rm")
    return component(completions, question=questions)


def by_trl(folder: Path, monkeypatch, prompts: list, completions: list) -> list[float]:
    """Scores by TRL's own code, with what `GRPOTrainer._calculate_rewards` needs of a trainer."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token  # these two lines are of TRL's __init__
    model.config.get_text_config().pad_token_id = tokenizer.pad_token_id
    trainer = object.__new__(grpo_trainer.GRPOTrainer)
    vars(trainer).update(
        accelerator=SimpleNamespace(device=torch.device("cpu"), is_main_process=False),
        args=SimpleNamespace(report_to=[]),
        reward_funcs=[model],
        reward_func_names=["rm"],
        reward_processing_classes=[tokenizer],
        chat_template_kwargs={},
        state=SimpleNamespace(global_step=0),
        **dict.fromkeys(("environments", "_log_completion_extra", "_log_metric")),
    )
    monkeypatch.setattr(grpo_trainer, "profiling_context", lambda *_: nullcontext())
    monkeypatch.setattr(grpo_trainer, "gather", lambda tensor: tensor)
    monkeypatch.setattr(transformers.Trainer, "_prepare_inputs", lambda self, inputs: inputs)
    inputs = [{"prompt": prompt} for prompt in prompts]
    return trainer._calculate_rewards(inputs, prompts, completions, [[0]] * len(prompts))[:, 0].tolist()


def test_neither_batch_nor_padding_changes_a_score(folder):
    alone = [scores(folder, [text], [question])[0] for text, question in zip(COMPLETIONS, QUESTIONS, strict=True)]
    assert scores(folder, batch_size=2) == pytest.approx(alone, abs=1e-6)
    assert scores(folder, COMPLETIONS[::-1], QUESTIONS[::-1], batch_size=2)[::-1] == pytest.approx(alone, abs=1e-6)


def test_a_long_input_loses_its_beginning_and_is_counted(folder):
    told = {}
    component = load_component("reward_model", {"model": str(folder), "max_length": 40}, Path(), "rm")
    texts = [f"{start}{'x' * 50} the end" for start in "ab"] + ["short"]
    found = component(texts, question=["?"] * 3, log_metric=lambda name, value: told.update({name: value}))
    assert found[0] == found[1]  # they differ in what is cut off
    assert told == {f"reward_model/cut/{folder}": pytest.approx(2 / 3)}
    ending = scores(folder, ["a" * 50 + " the end", "a" * 50 + " the enD"], ["?"] * 2, max_length=40)
    assert ending[0] != ending[1]


def test_the_special_tokens_of_an_encoder_are_never_cut(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=8, num_labels=1, max_position_embeddings=16, **shape)
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path)
    model = RewardModel(tmp_path, RewardModelSettings(str(tmp_path), max_length=4), torch.device("cpu"))
    tokens, cut = model._tokens(["a a a b c", "c"])
    assert cut == 1
    assert [model.tokenizer.convert_ids_to_tokens(row) for row in tokens] == [
        ["[CLS]", "b", "c", "[SEP]"],
        ["[CLS]", "c", "[SEP]"],
    ]


@pytest.mark.parametrize(("kind", "longest"), [("roberta", 18), ("esm", 19), ("bert", 20)])
def test_the_longest_input_is_what_the_table_of_positions_holds(kind, longest):
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    numbers = {"vocab_size": 9, "max_position_embeddings": 20, "pad_token_id": 1 if kind == "roberta" else 0}
    model = transformers.AutoModelForSequenceClassification.from_config(
        transformers.AutoConfig.for_model(kind, **shape, **numbers)
    )
    model(torch.full((1, longest), 7))
    with pytest.raises((IndexError, RuntimeError)):
        model(torch.full((1, longest + 1), 7))
    _check_length(model, RewardModelSettings("m", max_length=longest))
    with pytest.raises(StudyError, match=f"max_length: {longest + 1} is more than the {longest} positions of m"):
        _check_length(model, RewardModelSettings("m", max_length=longest + 1))


@pytest.mark.parametrize(
    ("settings", "activation"),
    [({}, lambda logits: logits.softmax(-1)), ({"problem_type": "multi_label_classification"}, torch.sigmoid)],
)
def test_of_several_labels_one_is_the_score(tmp_path, settings, activation):
    names = {0: "rude", 1: "plain", 2: "kind"}
    labels = {"id2label": names, "label2id": {name: index for index, name in names.items()}}
    several = save_reward_model(tmp_path, **labels, **settings)
    messages = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]
    tokens = transformers.AutoTokenizer.from_pretrained(several).apply_chat_template(
        messages, return_tensors="pt", return_dict=True
    )
    with torch.no_grad():
        logits = transformers.AutoModelForSequenceClassification.from_pretrained(several)(
            input_ids=tokens["input_ids"]
        ).logits
    expected = [activation(logits)[0, 2].item()]
    for label in ("kind", 2):
        assert scores(several, ["4"], ["2 + 2?"], label=label) == pytest.approx(expected, abs=1e-6)
    with pytest.raises(StudyError, match=r"label: missing; .* has 3 labels: 0 \(rude\), 1 \(plain\), 2 \(kind\)"):
        scores(several)
    with pytest.raises(StudyError, match="label: 'good' is no label of"):
        scores(several, label="good")


def test_loading_and_scoring_leave_the_random_numbers_and_the_defaults(folder):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = scores(folder)
        assert torch.is_autocast_enabled("cpu")
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() == torch.float32
    assert inside == scores(folder)
    model = opened(RewardModelSettings(str(folder)))
    assert opened(RewardModelSettings(str(folder))) is model  # loaded once for the same settings
    assert all(not part.requires_grad for part in model.model.parameters())


def test_a_fetched_model_is_read_from_its_folder(folder):
    commit = "a" * 40
    expected = scores(folder)
    host_reward_models("cpu", {f"some/model@{commit}": folder})
    component = load_component("reward_model", {"model": "some/model", "revision": commit}, Path(), "rm")
    assert component(COMPLETIONS, question=QUESTIONS) == expected
    with pytest.raises(StudyError, match="there is no folder with this model here"):
        load_component("reward_model", {"model": "other/model", "revision": commit}, Path())(["x"], question=["y"])


@pytest.mark.parametrize(
    ("settings", "parameters", "message"),
    [
        ({"vocab_size": 200}, {}, "its tokenizer has the token number 257, and the model has 200 embeddings"),
        ({"max_position_embeddings": 64}, {}, "max_length: 2048 is more than the 64 positions of"),
        ({}, {"label": 0}, "has one label, whose logit is the score; leave label out"),
        ({}, {"revision": "main"}, "revision: 'main' is no commit"),
    ],
)
def test_a_model_that_does_not_go_with_its_parameters_is_refused(tmp_path, settings, parameters, message):
    other = save_reward_model(tmp_path, **settings)
    with pytest.raises(StudyError, match=message):
        scores(other, **parameters)


CHATS = [[{"role": "user", "content": text}] for text in QUESTIONS]


ANSWERS = [[{"role": "assistant", "content": text}] for text in COMPLETIONS]


def test_scores_are_those_of_trl_by_the_models_template_and_for_plain_text(folder, tmp_path, monkeypatch):
    expected = by_trl(folder, monkeypatch, CHATS, ANSWERS)
    assert len(set(expected)) == len(expected)
    assert scores(folder) == pytest.approx(expected, abs=1e-6)
    assert scores(folder, ANSWERS) == scores(folder)
    plain = save_reward_model(tmp_path / "plain", template=None)
    expected = by_trl(plain, monkeypatch, [f"{text}\n" for text in QUESTIONS], COMPLETIONS)
    assert scores(plain) == pytest.approx(expected, abs=1e-6)
    # A pad token is made of the end token as TRL does, so that the score stands at the last token that is no end token.
    other = save_reward_model(tmp_path / "other")
    settings = other / "tokenizer_config.json"
    settings.write_text(settings.read_text().replace('"pad_token": "<pad>"', '"pad_token": null'))
    assert scores(other) == pytest.approx(by_trl(other, monkeypatch, CHATS, ANSWERS), abs=1e-6)
    assert scores(other) != pytest.approx(scores(folder), abs=1e-6)


def test_weights_that_are_no_numbers_and_a_causal_model_end_in_one_line(tmp_path, tiny_model):
    other = save_reward_model(tmp_path)
    weights = load_file(other / "model.safetensors")
    weights["score.weight"][:] = float("nan")
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(StudyError, match=r"components.rm: .* the score is nan"):
        scores(other)
    with pytest.raises(StudyError, match=r"has no weights score\.weight, which a sequence classifier has"):
        scores(tiny_model)
