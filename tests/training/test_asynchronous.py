"""A run with a user's asynchronous function equals a run with a plain function of the same scores."""

from reward_ablation.study.reward_files import file_digest
from reward_ablation.system.files import sha256

OWN = """\
import asyncio

async def score(text):
    await asyncio.sleep(0.001)
    return len(text) / 100

async def awaited(completions, **columns):
    return await asyncio.gather(*map(score, completions))

def plain(completions, **columns):
    return [len(text) / 100 for text in completions]
"""


def test_an_asynchronous_function_trains_as_a_plain_one(train, tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OWN)
    weights = {"correctness": 0, "format": 0, "length": 1}
    runs = []
    for name in ("awaited", "plain"):
        component = {"function": f"{file}:{name}", "parameters": {}, "code": file_digest(file, tmp_path)}
        runs.append(train(name, components={"length": component}, weights=weights, training={"max_steps": 2}))
    assert sha256(runs[0] / "rollouts.parquet") == sha256(runs[1] / "rollouts.parquet")
