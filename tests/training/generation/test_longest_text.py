"""The length that vLLM reserves for a prompt and its completion: enough, and not more."""

import json
import shutil

import pandas as pd
import pytest
from trl import GRPOConfig

from reward_ablation.config.trl_settings import COMPLETION_LENGTH
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.system.errors import StudyError
from reward_ablation.training.around.launch.vllm_server import longest_text

from ..conftest import job_of, spec_with


@pytest.fixture
def length(demo_model, problems, tmp_path):
    """`length(context, **changes of the spec)` of the text that vLLM reserves memory for; None: the model's context."""

    def of(context=None, **changes):
        model = shutil.copytree(demo_model, tmp_path / "small", dirs_exist_ok=True)
        if context:
            config = json.loads((model / "config.json").read_text())
            (model / "config.json").write_text(json.dumps({**config, "max_position_embeddings": context}))
        return longest_text(job_of(spec_with(**changes), problems.parent, model, problems))

    return of


@pytest.fixture
def lengths(demo_model, problems):
    """Tokens of the prompts, ascending."""
    questions = pd.read_parquet(problems).question
    return sorted(map(len, load_tokenizer(demo_model)([f"{question}\n" for question in questions])["input_ids"]))


def test_the_default_is_trls():
    assert GRPOConfig.__dataclass_fields__["max_completion_length"].default == COMPLETION_LENGTH


def test_the_longest_prompt_and_a_whole_completion_have_room_and_no_more_than_the_model_reads(length, lengths):
    longest = lengths[-1]
    assert length() == longest + 16
    assert length(training={"vllm_max_model_length": 200}) == 200
    with pytest.raises(StudyError, match=rf"training\.vllm_max_model_length: {longest + 15}, and the longest"):
        length(training={"vllm_max_model_length": longest + 15})
    with pytest.raises(StudyError, match=r"training\.vllm_max_model_length: 1000000, and the model reads \d+ tokens;"):
        length(training={"vllm_max_model_length": 10**6})
    with pytest.raises(StudyError, match=f"prompts do not fit into the model's context of {longest} tokens"):
        length(longest)


def test_prompts_that_are_too_long_are_left_out_if_the_study_says_so(length, lengths):
    dropping = {"data": {"too_long": "drop"}}
    assert length(lengths[-1] + 15, **dropping) == max(n for n in lengths if n < lengths[-1]) + 16
    with pytest.raises(StudyError, match=r"32 of 32 prompts do not fit .* context of 17 tokens"):
        length(17, **dropping)
