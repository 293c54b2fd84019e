"""Runs that differ in components of weight 0, or in names of components, are made from stored rollouts."""

import copy
import json
import shutil

import pyarrow.parquet as pq
import pytest

from reward_ablation.start.decide import Decisions
from reward_ablation.start.rescore import sources
from reward_ablation.study.resolve import resolve

from .conftest import Study, jobs_of, refusal, with_inputs_of

pytestmark = pytest.mark.slow

OWN = """
def vowels(completions, answer, **columns):
    open("called", "w").close()
    return [None if "1" in gold else sum(text.count(v) for v in "aeiou") / 7 for text, gold in zip(completions, answer)]
"""


@pytest.fixture
def study(finished, tmp_path):
    """A finished study, in which `format` is now called `fmt`, and two components are new, without a weight."""
    study = finished.copied(tmp_path / "own")
    (study.folder / "own.py").write_text(OWN)
    components, mixed = study.config["components"], study.config["arms"]["arms"]["mixed"]["weights"]
    components["fmt"], mixed["fmt"] = components.pop("format"), mixed.pop("format")
    brief = {"function": "token_length", "parameters": {"target": 9, "width": 9}}
    components |= {"vowels": {"function": "own.py:vowels"}, "brief": brief}
    return study


def found(study, config):
    """Where the missing runs of a config can come from."""
    decisions = Decisions(resolve(config, "config.yaml", study.folder))
    return sources(decisions.root, decisions)


def test_such_runs_are_what_training_would_have_made(study, finished, tmp_path):
    told = study.plan().replace("\n", " ")
    assert "4 of these runs need no training" in told
    assert "with scores of brief, vowels from the stored rollouts, add --adopt results/tiny" in told
    refused = study.command("plan", "--quick", "--adopt", "results/tiny")  # calls no file of rewards
    why = "nothing to take over; left 4 runs to score by files of rewards, which --quick does not call; leave out"
    assert why in refusal(refused)
    assert not (study.folder / "called").exists()
    taken = study.told("plan", "--adopt", "results/tiny")
    assert (study.folder / "called").exists()
    assert "took over 4 finished runs" in taken
    assert "0 of 4 runs to train" in taken
    assert "changed" not in taken  # the primary question is as it was declared
    assert not {"train", "evaluate", "fetch", "prepare"} & study.planned().keys()

    trained = with_inputs_of(finished, Study(tmp_path / "trained", study.config))
    shutil.copy(study.folder / "own.py", trained.folder)
    [made] = [path for path in study.results.glob("runs/mixed-*/seed1/run.json") if "rescored" in path.read_text()]
    name = f"results/tiny/{made.parent.relative_to(study.results)}"
    trained.make(f"{name}/run.json")
    fresh = trained.folder / name
    for file in ("rollouts.parquet", "model/model.safetensors", "sample_grams.parquet"):
        assert (made.parent / file).read_bytes() == (fresh / file).read_bytes(), file
    ours, theirs = (pq.read_table(folder / "metrics.parquet") for folder in (made.parent, fresh))
    assert ours.schema == theirs.schema
    for column in ours.column_names:
        assert ours[column].to_pylist() == pytest.approx(theirs[column].to_pylist(), rel=1e-6, nan_ok=True), column
    known = pq.read_table(made.parent / "gradients.parquet").to_pylist()
    both = pq.read_table(fresh / "gradients.parquet").to_pylist()
    new = {"brief", "vowels"}
    assert known == [row for row in both if not new & {row["component_a"], row["component_b"]}]

    words = study.make(*(f"results/tiny/tables/{name}.csv" for name in ("evaluation_by_run", "provenance")))
    assert not {"train", "evaluate"} & jobs_of(words).keys()
    assert '"scored afterwards","brief, vowels",' in (study.results / "tables/provenance.csv").read_text()

    # Another function without a weight is scored again.
    (study.folder / "own.py").write_text(OWN.replace("/ 7", "/ 8"))
    assert {tuple(source.scored) for source in found(study, study.config).values()} == {("brief", "vowels")}
    assert "took over 4" in study.told("plan", "--adopt", "results/tiny")


def changed(name, **values):
    return lambda config: config["components"].__setitem__(name, config["components"][name] | values)


def in_another_order(config):
    components, weights = config["components"], config["arms"]["arms"]["mixed"]["weights"]
    components["zero"], weights["zero"] = components.pop("fmt"), weights.pop("fmt")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(changed("correctness", parameters={"answer_format": "hash"}), id="trains on other scores"),
        pytest.param(lambda config: config["training"].update(learning_rate=2e-3), id="other training"),
        pytest.param(changed("vowels", function="diversity"), id="needs tokens"),
        pytest.param(changed("vowels", function="random"), id="draws"),
        pytest.param(changed("vowels", function="tokens.py:ids"), id="own function that needs tokens"),
        pytest.param(in_another_order, id="sums in another order"),
    ],
)
def test_what_the_stored_texts_do_not_tell_is_trained(study, change):
    (study.folder / "tokens.py").write_text("def ids(completions, **columns):\n    return columns['completion_ids']\n")
    config = copy.deepcopy(study.config)
    assert len(found(study, config)) == 4
    change(config)
    assert [name for name in found(study, config) if name.startswith("mixed")] == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda record: {**record, "code": "0" * 16},
        lambda record: {**record, "inputs": {**record["inputs"], "problems": "0" * 64}},
        lambda record: {**record, "files": {**record["files"], "../../../../own.py": "0" * 64}},
        lambda record: {**record, "sizes": {**record["sizes"], "rollouts.parquet": 1}},
    ],
    ids=["code", "inputs", "files", "sizes"],
)
def test_a_source_of_other_code_inputs_or_files_is_none(study, damage):
    for path in study.results.glob("runs/*/*/run.json"):
        path.write_text(json.dumps(damage(json.loads(path.read_text()))))
    assert found(study, study.config) == {}
