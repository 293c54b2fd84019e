"""GPU memory of reward models: named in the plan, and compared with the memory of scoring on a CPU."""

from __future__ import annotations

import json
import weakref

import pytest

from configs import changed
from models.reward_models import save_reward_model
from reward_ablation.start import memory
from reward_ablation.start.memory import GIB
from reward_ablation.start.reward_model_memory import scoring
from reward_ablation.study.resolve import resolve

from .test_memory import QWEN, QWEN_CONFIG


@pytest.fixture
def study(config, tmp_path):
    """A study on GPUs whose arm b is scored by a local reward model and by one from the hub."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(QWEN_CONFIG))
    save_reward_model(tmp_path / "rm", hidden_size=64, intermediate_size=128)
    config["model"] = {"source": "local", "path": "model"}
    config["launch"] = {"gpus": 1, "resources": {}}
    parameters = {"model": "rm", "batch_size": 4, "max_length": 100_000, "dtype": "float32"}
    hub = {"model": "some/rm", "revision": "a" * 40}
    for name, values in (("taste", parameters), ("style", hub)):
        component = {"function": "reward_model", "parameters": values, "scored": "where_trained"}
        changed(config, f"components/{name}", component)
        changed(config, f"arms/arms/b/weights/{name}", 1)
    return resolve(config, "study.yaml", tmp_path)


def test_the_plan_names_each_reward_model_and_counts_it(study):
    runs = {run.arm: run for run in study.runs.values()}
    lines = memory.memory_lines(study, runs.values(), here=False, site=None)
    parameters = 258 * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 128 + 2 * 64) + 64 + 64
    # Tokens of a batch, by four hidden sizes, a row of the mask, and eight times the queries.
    own = 4 * parameters + 4 * 100_000 * 4 * (4 * 64 + 100_000 + 8 * 64)
    total = (memory.peak(QWEN["0.5B"], memory.memory_settings(runs["b"])) + 1.1 * own) / GIB
    assert [line for line in lines if "arm b" in line] == [
        f"GPU memory, arm b: about {total:.0f} GiB on each GPU, for prompts of 256 tokens"
    ]
    assert lines[-2:] == [
        f"GPU memory, reward model taste: {own / GIB:.1f} GiB of it",
        "GPU memory, reward model style: in addition to the above, known once the model is fetched",
    ]
    [alone] = memory.memory_lines(study, [runs["a"]], here=False, site=None)
    assert (
        alone
        == f"GPU memory: about {memory.peak(QWEN['0.5B'], memory.memory_settings(runs['a'])) / GIB:.1f} GiB on "
        + ("each GPU, for prompts of 256 tokens")
    )


@pytest.mark.slow
@pytest.mark.parametrize("intermediate", [64, 512])
def test_scoring_holds_what_is_estimated(tmp_path, intermediate):
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    from reward_ablation.models.reward_model import RewardModel
    from reward_ablation.rewards.components.reward_model import RewardModelSettings

    class Peak(TorchDispatchMode):
        """The most bytes that storages made in here hold at once."""

        held = most = 0

        def __init__(self):
            super().__init__()
            self.known: set[int] = set()

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            output = function(*args, **(kwargs or {}))
            for tensor in tree_leaves(output):
                if isinstance(tensor, torch.Tensor):
                    self.add(tensor.untyped_storage())
            return output

        def add(self, storage):
            key, size = storage._cdata, storage.nbytes()
            if key not in self.known:
                self.known.add(key)
                self.held += size
                self.most = max(self.most, self.held)
                weakref.finalize(storage, self.drop, key, size)

        def drop(self, key, size):
            self.known.discard(key)
            self.held -= size

    folder = save_reward_model(tmp_path, hidden_size=128, intermediate_size=intermediate)
    model = RewardModel(folder, RewardModelSettings(str(folder)), torch.device("cpu"))
    with Peak() as peak:
        model._scores([[5] * 256, *[[5] * 200] * 7])
    shape = memory.read_shape(folder / "config.json")
    assert shape is not None
    estimate = scoring(shape, rows=8, length=256, width=4)
    assert peak.most == pytest.approx(estimate, rel=0.15)
