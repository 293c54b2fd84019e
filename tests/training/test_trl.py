"""The private parts of TRL that the trainers, `lm_head.py` and `track` use: if one changes, a test names it."""

import inspect
import re

import pytest
from transformers import Trainer
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, rotate_checkpoints
from trl import GRPOTrainer
from trl.generation.vllm_client import VLLMClient
from trl.generation.vllm_generation import VLLMGeneration
from trl.kernels.chunked_logprob import ChunkedLogProbFunction
from trl.trainer import grpo_trainer, utils

from reward_ablation.training.core.advantages import EPSILON

SOURCE = inspect.getsource(GRPOTrainer)
HEAD = inspect.getsource(ChunkedLogProbFunction)
VLLM = inspect.getsource(VLLMGeneration)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("_calculate_rewards", ["self", "inputs", "prompts", "completions", "completion_ids_list"]),
        ("_generate_and_score_completions", ["self", "inputs"]),
        ("_compute_loss", ["self", "model", "inputs"]),
        ("_prepare_inputs", ["self", "generation_batch"]),
        ("training_step", ["self", "model", "inputs", "num_items_in_batch"]),
        ("_save_checkpoint", ["self", "model", "trial"]),
        ("_generate", ["self", "prompts"]),
        ("_tokenize_prompts", ["self", "prompts"]),
        ("_get_train_sampler", ["self", "dataset"]),
        (
            "_get_per_token_logps_and_entropies",
            [
                *("self", "model", "input_ids", "attention_mask", "logits_to_keep", "batch_size"),
                *("compute_entropy", "compute_aux_loss", "pixel_values", "image_grid_thw", "num_images"),
                *("pixel_attention_mask", "spatial_shapes", "num_tiles", "image_sizes", "token_type_ids"),
                *("mm_token_type_ids", "image_position_ids"),
            ],
        ),
    ],
)
def test_overridden_methods_take_the_same_arguments(method, arguments):
    assert list(inspect.signature(getattr(GRPOTrainer, method)).parameters) == arguments


def source(*names: str) -> str:
    """Source of methods of GRPOTrainer, one after the other."""
    return "\n".join(inspect.getsource(getattr(GRPOTrainer, name)) for name in names)


SCORING, LOSS, FORWARD = "_generate_and_score_completions", "_compute_loss", "_get_per_token_logps_and_entropies"
TURN, PREPARE = "_generate_single_turn", "_prepare_inputs"


@pytest.mark.parametrize(
    ("where", "text"),
    [
        # Gradients that are measured before a step are of the same micro-batches; sums between blocks depend on their
        # number, which transformers sets in the trainer before the step.
        (inspect.getsource(Trainer), "self.current_gradient_accumulation_steps = len(batch_samples)"),
        (SOURCE, "normalizer = self.current_gradient_accumulation_steps if mode"),
        (source(LOSS), f"per_token_logps, entropies, aux_loss = self.{FORWARD}("),
        (source("_generate"), "prompt_ids, images, multimodal_fields = self._tokenize_prompts(prompts)"),
        # Scores are gathered before advantages, and advantages sliced after.
        (source("_calculate_rewards"), "return rewards_per_func"),
        (SOURCE, "rewards_per_func = gather(rewards_per_func)"),
        (SOURCE, "self.accelerator.process_index * len(prompts)"),
        # `track` wraps both methods in the trainer itself, and takes the advantages from what the second one returns.
        (source(PREPARE), "self._generate_and_score_completions(generation_batch)"),
        (source(SCORING), "self._calculate_rewards(inputs, prompts, completions, completion_ids_list)"),
        (source(SCORING), '"advantages": advantages,'),
        # Tensors added to the batch are shuffled and split with it, and rollouts are kept as we save them.
        (source(PREPARE), "shuffle_sequence_dict"),
        (source(PREPARE), "generate_every = self.args.steps_per_generation * self.num_iterations"),
        (source(PREPARE), "if self._step % generate_every == 0 or self._buffered_inputs is None"),
        (source(PREPARE), "split_tensor_dict(generation_batch, self.args.steps_per_generation)"),
        (source(PREPARE), "inputs = self._buffered_inputs[self._step % self.args.steps_per_generation]"),
        (inspect.getsource(utils.RepeatSampler), "torch.randperm(self.num_samples, generator=self.generator)"),
        # The fused head is one function looked up by name, and keeps for its backward pass what we read.
        (inspect.getsource(utils.add_fused_lm_head), "_ChunkedLogProbFunction.apply("),
        (HEAD, "ctx.save_for_backward(hidden, weight, bias, targets, log_z,"),
        (HEAD, "ctx.compute_dtype = compute_dtype"),
        (HEAD, "ctx.kernel_args = kernel_args"),
        *((HEAD, f'"{name}":') for name in ("logit_scale", "softcap", "inv_t", "HAS_SOFTCAP")),
        # Checkpoints lie where we seal them, and old ones are ours to remove.
        (inspect.getsource(Trainer._save_checkpoint), 'f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"'),
        (inspect.getsource(rotate_checkpoints), "if save_total_limit is None"),
        (inspect.getsource(grpo_trainer), "std_rewards + 1e-4"),
        # vLLM is asked as we seed its requests, and sent weights as we merge them.
        (VLLM, "self.llm.generate(vllm_prompts, sampling_params=sampling_params"),
        (VLLM, "self.vllm_client.generate("),
        (VLLM, "group=self.tp_group"),
        (VLLM, "all_prompts[::num_generations]"),
        (VLLM, "in self._iter_named_params()"),
        (VLLM, "self.vllm_client.update_named_params(self._weight_metadata, self._iter_named_params())"),
        (VLLM, "with self._dist.gather_params(list(model.parameters())):"),
        (VLLM, "self.vllm_client = VLLMClient("),
        # The sampling gap, and the mode of its correction.
        (source(SCORING), '"sampling/sampling_logp_difference/mean"'),
        (source(SCORING), 'output["sampling_per_token_logps"]'),
        (source(SCORING), 'output["old_per_token_logps"]'),
        (source(SCORING), 'output["importance_sampling_ratio"]'),
        (source(SCORING), '"completion_mask": completion_mask'),
        (
            source(SCORING),
            'sequence_level_is = self.vllm_importance_sampling_mode in ["sequence_mask", "sequence_truncate"]',
        ),
        # transformers generates with the wrapped model, by the config that we make greedy.
        (inspect.getsource(Trainer.__init__), "self.model_wrapped = model"),
        (source(TURN), "**generate_inputs, generation_config=self.generation_config"),
    ],
    ids=lambda value: value if len(value) < 120 else "",
)
def test_code_that_we_rely_on_is_there(where, text):
    assert text in where


def test_the_loss_takes_its_forward_pass_from_one_call():
    assert source(LOSS).count(f"self.{FORWARD}(") == 1
    assert "model(" not in source(LOSS), "the loss runs the model itself: replaying the forward pass misses that"
    assert re.findall(r"\n +return (.*)\n", source(FORWARD)) == ["logps, entropies, aux_loss"]


def test_a_training_step_prepares_its_inputs_and_takes_its_loss_in_one_context():
    """Gradients that are measured before a step are in the same number format."""
    step = inspect.getsource(Trainer.training_step)
    assert step.index("self._prepare_inputs(inputs)") < step.index("with self.compute_loss_context_manager():")
    assert callable(Trainer._get_learning_rate)


def test_prompts_become_tokens_in_one_place():
    assert SOURCE.count("self._tokenize_prompts(") == 1
    assert "apply_chat_template" not in source("_generate")


def test_attributes_that_we_read_are_set():
    read = "reward_funcs reward_func_names reward_weights reward_processing_classes eos_token_ids _tokenizer ref_model"
    read += " num_generations scale_rewards multi_objective_aggregation beta _entropy_bonus_enabled aux_loss_enabled"
    read += " _metrics _step _buffered_inputs num_iterations vllm_importance_sampling_mode"
    missing = [name for name in read.split() if not re.search(rf"self\.{name}\b[^\n]* =", SOURCE)]
    assert not missing, f"GRPOTrainer no longer sets {missing}"


def test_advantages_may_be_given_by_token():
    assert re.search(r"if advantages\.dim\(\) == 1:\s+advantages = advantages\.unsqueeze\(1\)", source(LOSS))


@pytest.mark.parametrize("method", ["get_off_policy_mask", "get_gamma_weights"])
def test_what_goes_by_the_sign_of_one_advantage_is_known(method):
    """Settings that use them are refused with placed advantages; the loss uses no other such function."""
    assert f"self.{method}(" in source(LOSS)
    assert source(LOSS).count("advantages=advantages,") == 2


def test_losses_are_those_that_are_tested_to_be_linear_in_an_advantage_of_one_sign():
    """`tests/training/gradients/test_exact.py` goes through them."""
    named = set(re.findall(r'"(\w+)"', " ".join(re.findall(r"self\.loss_type (?:==|in) .*", source(LOSS)))))
    assert named == {"grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo"}


def test_the_fused_head_is_the_class_that_we_replace():
    assert utils._ChunkedLogProbFunction is ChunkedLogProbFunction
    assert callable(utils.maybe_gather_lm_head_ctx)
    arguments = list(inspect.signature(ChunkedLogProbFunction.forward).parameters)
    assert arguments[1:5] == ["hidden", "weight", "bias", "targets"]
    assert len(arguments) == 10, "the backward pass returns one gradient for each argument"


def test_the_order_of_the_data_is_drawn_once_an_epoch():
    assert inspect.getsource(utils.RepeatSampler.__iter__).count("generator") == 2


def test_checkpoints_lie_where_we_seal_them():
    save = inspect.getsource(Trainer._save_checkpoint)
    assert PREFIX_CHECKPOINT_DIR == "checkpoint"
    assert re.search(r"rotate_checkpoints\([^)]*save_total_limit=self.args.save_total_limit", save, re.DOTALL)


def test_epsilon_of_the_advantages_is_trls():
    assert EPSILON == 1e-4


def test_the_client_of_a_server_asks_nothing_before_its_check_but_has_a_session():
    """The run's key is put into the session there."""
    init = inspect.getsource(VLLMClient.__init__)
    assert init.index("self.session = requests.Session()") < init.index("self.check_server(")
    assert init.index("self.check_server(") < init.index("self._get(")
    rest = inspect.getsource(VLLMClient).replace(inspect.getsource(VLLMClient.check_server), "")
    assert not re.search(r"[^.]requests\.(get|post)\(", rest), "a request beside the session has no key"


def test_the_correction_of_vllms_probabilities_goes_by_tokens_or_by_completions():
    """The recorded share of corrected tokens takes modes by the beginning of their names."""
    modes = set(re.findall(r'"((?:token|sequence)_\w+)"', source(SCORING)))
    assert modes >= {"token_truncate", "token_mask", "sequence_truncate", "sequence_mask"}


def test_the_model_that_generates_is_the_wrapped_one():
    assert re.search(r"unwrap_model_for_generation\(\s*self\.model_wrapped,", source(TURN))
    assert list(inspect.signature(GRPOTrainer._generate_single_turn).parameters)[:2] == ["self", "prompt_ids"]
