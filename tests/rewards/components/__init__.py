"""Tests of the components."""

#: For components with parameters that have no default.
EXAMPLE_PARAMETERS = {
    "reward_model": {"model": "models/taste"},
    "token_length": {"target": 40, "width": 20},
    "cosine_length": {"max_len": 100},
    "soft_overlong": {"max_completion_len": 100, "soft_punish_cache": 20},
}
