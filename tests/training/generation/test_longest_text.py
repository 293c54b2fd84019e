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


def length(spec, model, problems):
    return longest_text(TrainingJob(spec, "code", model, problems, problems.parent))


@pytest.fixture
def longest(demo_model, problems):
    """Tokens of the longest prompt."""
    tokenizer = load_tokenizer(demo_model)
    return max(len(tokenizer(question + "\n")["input_ids"]) for question in pd.read_parquet(problems).question)


def test_the_default_is_trls():
    assert GRPOConfig.__dataclass_fields__["max_completion_length"].default == COMPLETION_LENGTH


def test_the_longest_prompt_and_a_whole_completion_have_room(demo_model, problems, longest):
    assert length(RunSpec.read(spec_with()), demo_model, problems) == longest + 16
    spec = RunSpec.read(spec_with(training={"vllm_max_model_length": 200}))
    assert length(spec, demo_model, problems) == 200


def test_less_room_than_that_is_refused(demo_model, problems, longest, tmp_path):
    spec = RunSpec.read(spec_with(training={"vllm_max_model_length": longest + 15}))
    with pytest.raises(StudyError, match=rf"training\.vllm_max_model_length: {longest + 15}, and the longest"):
        length(spec, demo_model, problems)
    small = shutil.copytree(demo_model, tmp_path / "small")
    config = json.loads((small / "config.json").read_text())
    (small / "config.json").write_text(json.dumps({**config, "max_position_embeddings": longest}))
    with pytest.raises(StudyError, match=f"prompts do not fit into the model's context of {longest} tokens"):
        length(RunSpec.read(spec_with()), small, problems)


def test_more_room_than_the_model_reads_is_refused(demo_model, problems):
    spec = RunSpec.read(spec_with(training={"vllm_max_model_length": 10**6}))
    with pytest.raises(StudyError, match=r"training\.vllm_max_model_length: 1000000, and the model reads \d+ tokens;"):
        length(spec, demo_model, problems)


def test_prompts_that_are_too_long_are_left_out_if_the_study_says_so(demo_model, problems, longest, tmp_path):
    tokenizer = load_tokenizer(demo_model)
    small = shutil.copytree(demo_model, tmp_path / "small")
    config = json.loads((small / "config.json").read_text())
    (small / "config.json").write_text(json.dumps({**config, "max_position_embeddings": longest + 15}))
    spec = RunSpec.read(spec_with(data={"too_long": "drop"}))
    rows, left = training_problems(spec, small, tokenizer, problems, 16)
    whole = pd.read_parquet(problems)
    lengths = [len(tokenizer(question + "\n")["input_ids"]) for question in whole.question]
    assert [row["problem_id"] for row in rows] == [
        problem for problem, length in zip(whole.id, lengths, strict=True) if length < longest
    ]
    assert left == max(length for length in lengths if length < longest)
    assert length(spec, small, problems) == left + 16
    (small / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 17}))
    with pytest.raises(StudyError, match=rf"{len(whole)} of {len(whole)} prompts do not fit .* context of 17 tokens"):
        training_problems(spec, small, tokenizer, problems, 16)
