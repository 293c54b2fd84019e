"""TRL's client of a vLLM server, with the key of the run's server.

Changes a part of TRL; `tests/training/test_trl.py` pins it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from reward_ablation.training.around.launch.key import header


@contextmanager
def client_with(key: str | None) -> Iterator[None]:
    """Have TRL make clients that show the key with each request, as long as the block lasts.

    Parameters
    ----------
    key : str or None
        None where the run has no server.
    """
    if key is None:
        yield
        return
    from trl.generation import vllm_generation

    shown = header(key)

    class ClientWithKey(vllm_generation.VLLMClient):
        """Shows the key from its first request on, which comes after this check."""

        def check_server(self, *arguments: Any, **options: Any) -> None:
            self.session.headers.update(shown)
            self.session.trust_env = False  # a user's .netrc would take the place of the header
            super().check_server(*arguments, **options)

    original = vllm_generation.VLLMClient
    vllm_generation.VLLMClient = ClientWithKey  # type: ignore[misc]
    try:
        yield
    finally:
        vllm_generation.VLLMClient = original  # type: ignore[misc]
