"""The settings of the supervised start by TRL's SFT: which of them a study may set."""

from __future__ import annotations

from reward_ablation.config.trl_settings import RESERVED, TrlSettings

_ONE_PROCESS = "the start is trained in one process, on launch.gpus: 0 or one GPU"
_OWN_TOKENS = "demonstrations are tokenised as GRPO's prompts are"

SETTINGS = TrlSettings(
    config="SFTConfig",
    file="sft_settings.json",
    reserved={
        **RESERVED,
        "seed": "write it under sft.seed",
        "data_seed": "write it under sft.seed",
        "remove_unused_columns": "the model takes token ids and labels alone",
        "eval_packing": RESERVED["eval_strategy"],
        **dict.fromkeys(
            ("report_to", "run_name", "project", "trackio_bucket_id", "trackio_space_id", "trackio_static_space_id"),
            RESERVED["disable_tqdm"],
        ),
        "hub_private_repo": RESERVED["push_to_hub"],
        **dict.fromkeys(("dataset_text_field", "dataset_kwargs", "dataset_num_proc"), _OWN_TOKENS),
        "assistant_only_loss": f"{_OWN_TOKENS}; the loss is on completions, with completion_only_loss: false on all",
        **dict.fromkeys(("eos_token", "pad_token", "chat_template_path"), "they are the model's, as GRPO takes them"),
        **dict.fromkeys(("deepspeed", "fsdp", "fsdp_config", "accelerator_config", "parallelism_config"), _ONE_PROCESS),
    },
    choices={"loss_type": ["nll", "dft"], "packing_strategy": ["bfd", "bfd_split", "wrapped"]},
)
