"""A chat template puts into the prompt what the study writes, or the model is refused at fetch."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
import trl
from tokenizers.processors import TemplateProcessing

from reward_ablation.config.sections.data import Prompt
from reward_ablation.models.__main__ import main
from reward_ablation.models.check import check_sequence_classifier
from reward_ablation.models.prompt import check_prompt, tell_prompt_end
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.system.errors import StudyError

from .reward_models import save_reward_model

EVERY = "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}<assistant>"
USERS = "{% for message in messages if message.role == 'user' %}<{{ message.content }}>{% endfor %}"
TWICE = EVERY + "{{ messages[-1].content }}"
BACKWARD = EVERY.replace("in messages", "in messages | reverse")
DEFAULT = "you are kind <{{ messages[-1].content }}>"  # instead of the system text
ALONE = "<{{ messages[0].content }}>"
REFUSING = "{{ raise_exception('System role not supported') }}"


def of_trl(name):
    """The chat template of a known model, as TRL ships it."""
    return (Path(trl.__file__).parent / "chat_templates" / f"{name}.jinja").read_text()


KNOWN = ("qwen2_5", "qwen3", "llama3_1", "gemma3", "gptoss", "deepseekv3", "phi3_5", "llama3_2")


@pytest.mark.parametrize(
    ("template", "system", "message"),
    [
        *((of_trl(name), "be brief", None) for name in KNOWN),
        (of_trl("smolvlm"), None, r"drops the question; '.*User: <end_of_utterance>.*; take a model with anoth"),
        (EVERY, None, None),
        (USERS, "be brief", r"drops the system text \(prompt.system\); '<questionzyx>' is what it makes of a chat;"),
        (DEFAULT, "be brief", r"drops the system text .*'you are kind <questionzyx>'"),
        (ALONE, "be brief", r"drops the question; '<systemzyx>'"),
        (TWICE, None, r"repeats the question; '<user>questionzyx<assistant>questionzyx'"),
        (BACKWARD, "be brief", r"reorders system text .* and question; '<user>questionzyx<system>systemz"),
        (REFUSING, "be brief", r"refuses the prompts \(System role not supported\)"),
        (None, None, r"prompt.chat: the model's tokenizer has no chat template; set chat: false"),
    ],
)
def test_each_part_of_a_prompt_occurs_once_and_in_order(model_copy, template, system, message):
    if template:
        (model_copy / "chat_template.jinja").write_text(template)
    message = message and message.replace("questionzyx", "(Please: )?questionzyx( Thanks.)?")
    with pytest.raises(StudyError, match=message) if message else nullcontext() as caught:
        check_prompt(model_copy, "copy", Prompt(system=system, template="Please: {question} Thanks."), {})
    assert message is None or str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (EVERY + "{{ [1, 2] | random }}", "uses Jinja's random, so that prompts change by chance"),
        (EVERY + "{{ [range(9999)] | map('ran' ~ 'dom') | first }}" * 3, "makes another text of the same chat each"),
    ],
)
def test_a_template_that_draws_is_refused(model_copy, template, message):
    check_prompt(model_copy, "copy", Prompt(chat=False, template="Q: {question}"), {})  # needs no chat template
    (model_copy / "chat_template.jinja").write_text(template)
    with pytest.raises(StudyError, match=message):
        check_prompt(model_copy, "copy", Prompt(), {})


def test_fetch_checks_the_study_s_prompt(model_copy, tmp_path, capsys):
    """It also warns of a chat that ends in the end token."""
    (model_copy / "chat_template.jinja").write_text(USERS + "<end>")

    def fetch(system):
        prompt = json.dumps({**Prompt(system=system).model_dump(), "chat_template_kwargs": {}})
        spec, output = json.dumps({"source": "local", "path": str(model_copy)}), tmp_path / f"{system}" / "model.json"
        main(["--spec", spec, "--prompt", prompt, "--output", str(output)])

    fetch(None)
    warning = f"warning: {model_copy}: the chat template ends the prompt with the end token"
    assert warning in capsys.readouterr().out
    with pytest.raises(StudyError, match="the chat template drops the system text"):
        fetch("be brief")
    assert not (tmp_path / "be brief").exists()


def test_the_template_of_a_reward_model_keeps_question_and_completion(tmp_path):
    whole = save_reward_model(tmp_path / "whole")
    check_sequence_classifier(whole, "whole")
    without = save_reward_model(tmp_path / "without", ALONE)
    with pytest.raises(StudyError, match=r"^without: the chat template drops the completion; '<questionzyx>' is what"):
        check_sequence_classifier(without, "without")


@pytest.mark.parametrize(
    ("end", "told"), [("<think>\n", True), ("", False), ("<think>\n\n</think>\n\n", False), ("</think><think>", True)]
)
def test_what_the_end_of_a_prompt_does_is_told(model_copy, capsys, end, told):
    (model_copy / "chat_template.jinja").write_text(EVERY + end)
    tell_prompt_end(model_copy, "copy", Prompt(), {})
    assert ("warning: copy: the chat template opens <think> in the prompt; a " in capsys.readouterr().out) == told
    tokenizer = load_tokenizer(model_copy)
    ending = TemplateProcessing(single="$A <end>", special_tokens=[("<end>", tokenizer.eos_token_id)])
    tokenizer.backend_tokenizer.post_processor = ending
    tokenizer.save_pretrained(model_copy)
    tell_prompt_end(model_copy, "copy", Prompt(chat=False), {})
    assert capsys.readouterr().out == "copy: the tokenizer appends '<end>' to a text; prompts are used without it\n"
