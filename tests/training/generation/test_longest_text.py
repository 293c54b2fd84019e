"""The length that vLLM reserves for a prompt and its completion: enough, and not more."""

import json
import shutil

import pandas as pd
import pytest
from trl import GRPOConfig

from reward_ablation.config.trl_settings import COMPLETION_LENGTH
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.spec.run import RunSpec
from reward_ablation.system.errors import StudyError
from reward_ablation.training.around.job import TrainingJob
from reward_ablation.training.around.launch.vllm_server import longest_text
from reward_ablation.training.core.problems import training_problems

from ..conftest import spec_with


@pytest.fixture
def length(demo_model, problems):
    """`length(model, **changes of the spec)` of the text that vLLM reserves memory for."""

    def of(model=demo_model, **changes):
        return longest_text(TrainingJob(RunSpec.read(spec_with(**changes)), "code", model, problems, problems.parent))

    return of


@pytest.fixture
def reading(demo_model, tmp_path):
    """`reading(tokens)` is the demo model with another context."""

    def make(tokens):
        small = shutil.copytree(demo_model, tmp_path / "small", dirs_exist_ok=True)
        config = json.loads((small / "config.json").read_text())
        (small / "config.json").write_text(json.dumps({**config, "max_position_embeddings": tokens}))
        return small

    return make


@pytest.fixture
def lengths(demo_model, problems):
    """Tokens of the prompts by problem."""
    tokenizer, whole = load_tokenizer(demo_model), pd.read_parquet(problems)
    tokens = tokenizer([f"{question}\n" for question in whole.question])["input_ids"]
    return dict(zip(whole.id, map(len, tokens), strict=True))


def test_the_default_is_trls():
    assert GRPOConfig.__dataclass_fields__["max_completion_length"].default == COMPLETION_LENGTH


def test_the_longest_prompt_and_a_whole_completion_have_room_and_no_more_than_the_model_reads(length, reading, lengths):
    longest = max(lengths.values())
    assert length() == longest + 16
    assert length(training={"vllm_max_model_length": 200}) == 200
    with pytest.raises(StudyError, match=rf"training\.vllm_max_model_length: {longest + 15}, and the longest"):
        length(training={"vllm_max_model_length": longest + 15})
    with pytest.raises(StudyError, match=r"training\.vllm_max_model_length: 1000000, and the model reads \d+ tokens;"):
        length(training={"vllm_max_model_length": 10**6})
    with pytest.raises(StudyError, match=f"prompts do not fit into the model's context of {longest} tokens"):
        length(reading(longest))


def test_prompts_that_are_too_long_are_left_out_if_the_study_says_so(demo_model, problems, length, reading, lengths):
    longest = max(lengths.values())
    short = {problem: tokens for problem, tokens in lengths.items() if tokens < longest}
    dropping = {"data": {"too_long": "drop"}}
    small = reading(longest + 15)
    rows, left = training_problems(RunSpec.read(spec_with(**dropping)), small, load_tokenizer(small), problems, 16)
    assert [row["problem_id"] for row in rows] == list(short)
    assert left == max(short.values())
    assert length(small, **dropping) == left + 16
    with pytest.raises(
        StudyError, match=rf"{len(lengths)} of {len(lengths)} prompts do not fit .* context of 17 tokens"
    ):
        length(reading(17), **dropping)
