"""The private parts of TRL that the trainers and `lm_head.py` use: if one changes, a test names it."""

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

SOURCE = inspect.getsource(GRPOTrainer)
HEAD = inspect.getsource(ChunkedLogProbFunction)


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


def test_the_loss_takes_its_forward_pass_from_one_call():
    loss = inspect.getsource(GRPOTrainer._compute_loss)
    assert loss.count("self._get_per_token_logps_and_entropies(") == 1
    assert "model(" not in loss, "the loss runs the model itself: replaying the forward pass misses that"


def test_the_forward_pass_gives_three_results_of_which_the_loss_takes_the_first_as_log_probabilities():
    forward = inspect.getsource(GRPOTrainer._get_per_token_logps_and_entropies)
    assert re.findall(r"\n +return (.*)\n", forward) == ["logps, entropies, aux_loss"]
    loss = inspect.getsource(GRPOTrainer._compute_loss)
    assert "per_token_logps, entropies, aux_loss = self._get_per_token_logps_and_entropies(" in loss


def test_a_training_step_prepares_its_inputs_and_takes_its_loss_in_one_context():
    """Gradients that are measured before a step are of the same micro-batches, and in the same number format."""
    step = inspect.getsource(Trainer.training_step)
    assert step.index("self._prepare_inputs(inputs)") < step.index("with self.compute_loss_context_manager():")
    assert callable(Trainer._get_learning_rate)


def test_a_step_counts_its_micro_batches_before_they_are_trained_on():
    """Transformers sets the count in the trainer, TRL divides the loss by it, and sums between blocks depend on it."""
    assert "self.current_gradient_accumulation_steps = len(batch_samples)" in inspect.getsource(Trainer)
    assert "normalizer = self.current_gradient_accumulation_steps if mode" in SOURCE


def test_prompts_become_tokens_in_one_place():
    generate = inspect.getsource(GRPOTrainer._generate)
    assert SOURCE.count("self._tokenize_prompts(") == 1
    assert "prompt_ids, images, multimodal_fields = self._tokenize_prompts(prompts)" in generate
    assert "apply_chat_template" not in generate


def test_rewards_are_gathered_before_advantages_and_advantages_sliced_after():
    assert "return rewards_per_func" in inspect.getsource(GRPOTrainer._calculate_rewards)
    assert re.search(r"rewards_per_func = gather\(rewards_per_func\)", SOURCE)
    assert re.search(r"self\.accelerator\.process_index \* len\(prompts\)", SOURCE)


@pytest.mark.parametrize(
    "attribute",
    [
        "reward_funcs",
        "reward_func_names",
        "reward_processing_classes",
        "eos_token_ids",
        "_tokenizer",
        "num_generations",
        "scale_rewards",
        "multi_objective_aggregation",
        "beta",
        "_entropy_bonus_enabled",
        "aux_loss_enabled",
        "_metrics",
        "_step",
        "_buffered_inputs",
        "num_iterations",
        "ref_model",
        "vllm_importance_sampling_mode",
    ],
)
def test_attributes_that_we_read_are_set(attribute):
    assert re.search(rf"self\.{attribute}\b[^\n]* =|self\.{attribute} =", SOURCE), (
        f"GRPOTrainer no longer sets {attribute}"
    )


def test_tensors_added_to_the_batch_are_shuffled_and_split_with_it():
    prepare = inspect.getsource(GRPOTrainer._prepare_inputs)
    assert "shuffle_sequence_dict" in prepare
    assert "split_tensor_dict" in prepare


def test_advantages_may_be_given_by_token():
    loss = inspect.getsource(GRPOTrainer._compute_loss)
    assert re.search(r"if advantages\.dim\(\) == 1:\s+advantages = advantages\.unsqueeze\(1\)", loss)


@pytest.mark.parametrize("method", ["get_off_policy_mask", "get_gamma_weights"])
def test_what_goes_by_the_sign_of_one_advantage_is_known(method):
    """Settings that use them are refused with placed advantages; the loss uses no other such function."""
    loss = inspect.getsource(GRPOTrainer._compute_loss)
    assert f"self.{method}(" in loss
    assert len(re.findall(r"advantages=advantages,", loss)) == 2


def test_losses_are_those_that_are_tested_to_be_linear_in_an_advantage_of_one_sign():
    """`tests/training/gradients/test_exact.py` goes through them."""
    loss = inspect.getsource(GRPOTrainer._compute_loss)
    named = set(re.findall(r'"(\w+)"', " ".join(re.findall(r"self\.loss_type (?:==|in) .*", loss))))
    assert named == {"grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo"}


def test_the_fused_head_is_one_function_looked_up_by_name():
    assert "_ChunkedLogProbFunction.apply(" in inspect.getsource(utils.add_fused_lm_head)
    assert utils._ChunkedLogProbFunction is ChunkedLogProbFunction
    assert callable(utils.maybe_gather_lm_head_ctx)


def test_the_fused_head_keeps_for_its_backward_pass_what_we_read():
    assert "ctx.save_for_backward(hidden, weight, bias, targets, log_z," in HEAD
    assert "ctx.compute_dtype = compute_dtype" in HEAD
    assert "ctx.kernel_args = kernel_args" in HEAD
    assert all(f'"{name}":' in HEAD for name in ("logit_scale", "softcap", "inv_t", "HAS_SOFTCAP"))
    arguments = list(inspect.signature(ChunkedLogProbFunction.forward).parameters)
    assert arguments[1:5] == ["hidden", "weight", "bias", "targets"]
    assert len(arguments) == 10, "the backward pass returns one gradient for each argument"


def test_rollouts_are_kept_for_later_steps_as_we_save_them():
    prepare = inspect.getsource(GRPOTrainer._prepare_inputs)
    assert "generate_every = self.args.steps_per_generation * self.num_iterations" in prepare
    assert "if self._step % generate_every == 0 or self._buffered_inputs is None" in prepare
    assert "split_tensor_dict(generation_batch, self.args.steps_per_generation)" in prepare
    assert "inputs = self._buffered_inputs[self._step % self.args.steps_per_generation]" in prepare


def test_the_order_of_the_data_is_drawn_once_an_epoch():
    order = inspect.getsource(utils.RepeatSampler.__iter__)
    assert order.count("generator") == 2
    assert "torch.randperm(self.num_samples, generator=self.generator)" in order


def test_checkpoints_lie_where_we_seal_them():
    save = inspect.getsource(Trainer._save_checkpoint)
    assert 'f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"' in save
    assert PREFIX_CHECKPOINT_DIR == "checkpoint"
    assert re.search(r"rotate_checkpoints\([^)]*save_total_limit=self.args.save_total_limit", save, re.DOTALL)
    assert "if save_total_limit is None" in inspect.getsource(rotate_checkpoints)


def test_epsilon_of_the_advantages_is_ours():
    from reward_ablation.training.core.advantages import EPSILON

    assert EPSILON == 1e-4
    assert re.search(r"std_rewards \+ 1e-4", inspect.getsource(grpo_trainer))


@pytest.mark.parametrize(
    ("method", "line"),
    [
        ("generate", "self.llm.generate(vllm_prompts, sampling_params=sampling_params"),
        ("generate", "self.vllm_client.generate("),
        ("generate", "group=self.tp_group"),
        ("generate", "all_prompts[::num_generations]"),
        ("sync_weights", "in self._iter_named_params()"),
        ("sync_weights", "self.vllm_client.update_named_params(self._weight_metadata, self._iter_named_params())"),
        ("_iter_named_params", "with self._dist.gather_params(list(model.parameters())):"),
    ],
)
def test_vllm_is_asked_as_we_seed_it_and_sent_weights_as_we_merge_them(method, line):
    assert line in inspect.getsource(getattr(VLLMGeneration, method))


def test_the_client_of_a_server_asks_nothing_before_its_check_but_has_a_session():
    """The run's key is put into the session there."""
    assert "self.vllm_client = VLLMClient(" in inspect.getsource(VLLMGeneration._init_vllm)
    init = inspect.getsource(VLLMClient.__init__)
    assert init.index("self.session = requests.Session()") < init.index("self.check_server(")
    assert init.index("self.check_server(") < init.index("self._get(")
    rest = inspect.getsource(VLLMClient).replace(inspect.getsource(VLLMClient.check_server), "")
    assert not re.search(r"[^.]requests\.(get|post)\(", rest), "a request beside the session has no key"


def test_the_correction_of_vllms_probabilities_goes_by_tokens_or_by_completions():
    """The recorded share of corrected tokens takes modes by the beginning of their names."""
    generate = inspect.getsource(GRPOTrainer._generate_and_score_completions)
    modes = set(re.findall(r'"((?:token|sequence)_\w+)"', generate))
    assert modes >= {"token_truncate", "token_mask", "sequence_truncate", "sequence_mask"}
    assert (
        'sequence_level_is = self.vllm_importance_sampling_mode in ["sequence_mask", "sequence_truncate"]' in generate
    )


def test_the_model_that_generates_is_the_wrapped_one():
    assert "self.model_wrapped = model" in inspect.getsource(Trainer.__init__)
    generate = inspect.getsource(GRPOTrainer._generate_single_turn)
    unwrapped = r"unwrap_model_for_generation\(\s*self\.model_wrapped,"
    assert re.search(unwrapped, generate)


def test_transformers_is_asked_by_the_config_that_we_make_greedy():
    generate = inspect.getsource(GRPOTrainer._generate_single_turn)
    assert "**generate_inputs, generation_config=self.generation_config" in generate
    assert list(inspect.signature(GRPOTrainer._generate_single_turn).parameters)[:2] == ["self", "prompt_ids"]


@pytest.mark.parametrize(
    "name",
    [
        '"sampling/sampling_logp_difference/mean"',
        'output["sampling_per_token_logps"]',
        'output["old_per_token_logps"]',
        'output["importance_sampling_ratio"]',
        '"completion_mask": completion_mask',
    ],
)
def test_what_the_sampling_gap_is_taken_of(name):
    assert name in inspect.getsource(GRPOTrainer._generate_and_score_completions)
