"""The private parts of TRL that the trainers, `lm_head.py` and `track` use: if one changes, a test names it."""

import inspect
import re

import pytest
from transformers import Trainer
from trl import GRPOTrainer
from trl.generation.vllm_client import VLLMClient
from trl.generation.vllm_generation import VLLMGeneration
from trl.trainer import grpo_trainer, utils

SOURCE = inspect.getsource(GRPOTrainer)
VLLM = inspect.getsource(VLLMGeneration)
SCORING = inspect.getsource(GRPOTrainer._generate_and_score_completions)
LOSS = inspect.getsource(GRPOTrainer._compute_loss)
TURN = inspect.getsource(GRPOTrainer._generate_single_turn)
PREPARE = inspect.getsource(GRPOTrainer._prepare_inputs)
FORWARD = "_get_per_token_logps_and_entropies"


OVERRIDDEN = {
    "_calculate_rewards": "inputs prompts completions completion_ids_list",
    "_generate_and_score_completions": "inputs",
    "_compute_loss": "model inputs",
    "_prepare_inputs": "generation_batch",
    "training_step": "model inputs num_items_in_batch",
    "_save_checkpoint": "model trial",
    "_generate": "prompts",
    "_tokenize_prompts": "prompts",
    "_get_train_sampler": "dataset",
}


@pytest.mark.parametrize("method", OVERRIDDEN)
def test_overridden_methods_take_the_same_arguments(method):
    assert [*inspect.signature(getattr(GRPOTrainer, method)).parameters] == ["self", *OVERRIDDEN[method].split()]


@pytest.mark.parametrize(
    ("where", "text"),
    [
        # Gradients that are measured before a step are of the same micro-batches; sums between blocks depend on their
        # number, which transformers sets in the trainer before the step.
        (inspect.getsource(Trainer), "self.current_gradient_accumulation_steps = len(batch_samples)"),
        (SOURCE, "normalizer = self.current_gradient_accumulation_steps if mode"),
        (LOSS, f"per_token_logps, entropies, aux_loss = self.{FORWARD}("),
        # Scores are gathered before advantages, and advantages sliced after.
        (SOURCE, "rewards_per_func = gather(rewards_per_func)"),
        (SOURCE, "self.accelerator.process_index * len(prompts)"),
        (inspect.getsource(grpo_trainer), "std_rewards + 1e-4"),
        # Tensors added to the batch are shuffled and split with it, and rollouts are kept as we save them.
        (PREPARE, "shuffle_sequence_dict"),
        (PREPARE, "if self._step % generate_every == 0 or self._buffered_inputs is None"),
        (PREPARE, "inputs = self._buffered_inputs[self._step % self.args.steps_per_generation]"),
        # The fused head is one function looked up by name, and keeps for its backward pass what we read.
        (inspect.getsource(utils.add_fused_lm_head), "_ChunkedLogProbFunction.apply("),
        (inspect.getsource(utils._ChunkedLogProbFunction), "ctx.save_for_backward(hidden, weight, bias, targets, log"),
        # Checkpoints lie where we seal them.
        (inspect.getsource(Trainer._save_checkpoint), 'f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"'),
        # vLLM is asked as we seed its requests, and sent weights as we merge them.
        (VLLM, "self.llm.generate(vllm_prompts, sampling_params=sampling_params"),
        (VLLM, "self.vllm_client.generate("),
        (VLLM, "group=self.tp_group"),
        (VLLM, "all_prompts[::num_generations]"),
        (VLLM, "self.vllm_client.update_named_params(self._weight_metadata, self._iter_named_params())"),
        (VLLM, "with self._dist.gather_params(list(model.parameters())):"),
        (VLLM, "self.vllm_client = VLLMClient("),
        # The sampling gap, and the mode of its correction.
        (SCORING, '"sampling/sampling_logp_difference/mean"'),
        (SCORING, 'output["sampling_per_token_logps"]'),
        (SCORING, 'output["old_per_token_logps"]'),
        (SCORING, 'output["importance_sampling_ratio"]'),
        (SCORING, 'sequence_level_is = self.vllm_importance_sampling_mode in ["sequence_mask", "sequence_truncate"]'),
        # transformers generates with the wrapped model, by the config that we make greedy.
        (inspect.getsource(Trainer.__init__), "self.model_wrapped = model"),
        (TURN, "**generate_inputs, generation_config=self.generation_config"),
    ],
    ids=lambda value: value if len(value) < 120 else "",
)
def test_code_that_we_rely_on_is_there(where, text):
    assert text in where


def test_the_loss_takes_its_forward_pass_from_one_call():
    assert LOSS.count(f"self.{FORWARD}(") == 1
    assert "model(" not in LOSS, "the loss runs the model itself: replaying the forward pass misses that"
    assert re.findall(r"\n +return (.*)\n", inspect.getsource(getattr(GRPOTrainer, FORWARD))) == [
        "logps, entropies, aux_loss"
    ]


def test_a_training_step_prepares_its_inputs_and_takes_its_loss_in_one_context():
    """Gradients that are measured before a step are in the same number format."""
    step = inspect.getsource(Trainer.training_step)
    assert step.index("self._prepare_inputs(inputs)") < step.index("with self.compute_loss_context_manager():")


def test_prompts_become_tokens_in_one_place():
    assert SOURCE.count("self._tokenize_prompts(") == 1
    assert "apply_chat_template" not in inspect.getsource(GRPOTrainer._generate)


def test_what_goes_by_the_sign_of_one_advantage_is_known():
    """Settings that use these functions are refused with placed advantages, which are given by token."""
    assert all(f"self.{method}(" in LOSS for method in ("get_off_policy_mask", "get_gamma_weights"))
    assert LOSS.count("advantages=advantages,") == 2
    assert re.search(r"if advantages\.dim\(\) == 1:\s+advantages = advantages\.unsqueeze\(1\)", LOSS)


def test_losses_are_those_that_are_tested_to_be_linear_in_an_advantage_of_one_sign():
    """`tests/training/gradients/test_exact.py` goes through them."""
    named = set(re.findall(r'"(\w+)"', " ".join(re.findall(r"self\.loss_type (?:==|in) .*", LOSS))))
    assert named == {"grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo"}


def test_the_client_of_a_server_asks_nothing_before_its_check_but_has_a_session():
    """The run's key is put into the session there."""
    init = inspect.getsource(VLLMClient.__init__)
    assert init.index("self.session = requests.Session()") < init.index("self.check_server(") < init.index("self._get(")
    rest = inspect.getsource(VLLMClient).replace(inspect.getsource(VLLMClient.check_server), "")
    assert not re.search(r"[^.]requests\.(get|post)\(", rest), "a request beside the session has no key"


def test_the_correction_of_vllms_probabilities_goes_by_tokens_or_by_completions():
    """The recorded share of corrected tokens takes modes by the beginning of their names."""
    modes = set(re.findall(r'"((?:token|sequence)_\w+)"', SCORING))
    assert modes >= {"token_truncate", "token_mask", "sequence_truncate", "sequence_mask"}


def test_the_model_that_generates_is_the_wrapped_one():
    assert re.search(r"unwrap_model_for_generation\(\s*self\.model_wrapped,", TURN)
