"""What stood declared when runs began: a lost, edited or moved `study.json` says no more than the runs' own records."""

import json
import shutil

import pytest

from configs import changed, refusal
from reward_ablation.analysis.claims_text import withdrawn
from reward_ablation.analysis.study_file import as_its_runs_say, read_study
from reward_ablation.report.pages import ReportPages
from reward_ablation.start.decide import Decisions
from reward_ablation.start.declarations import Declarations, record_question
from reward_ablation.start.files import remove, unneeded
from reward_ablation.start.plan import plan_of
from reward_ablation.study.answers_record import read_record
from reward_ablation.study.declarations import declarations
from reward_ablation.study.looks import LooksPlan, recorded_looks
from reward_ablation.study.resolve import resolve
from reward_ablation.study.run_folder import HIDDEN_RECORD, RECORD
from reward_ablation.system.files import write_json

pytestmark = pytest.mark.usefixtures("clock")

FORMAT = {"metric": "format"}
BETTER = {"says": "b is better", "metric": "format", "arm": "b", "direction": "higher"}


class Folder:
    """A study's folder with made-up runs, whose attempts record what stands declared, as those of training do."""

    def __init__(self, config, root):
        self.config, self.root = config, root
        self.path = root / "results" / "study"
        self.file = self.path / "study.json"

    @property
    def study(self):
        return resolve(self.config, "study.yaml", self.root)

    def start(self, **changes) -> list[str]:
        """A start with changes of the config; its lines."""
        for path, value in changes.items():
            changed(self.config, path.replace("__", "/"), value)
        lines: list[str] = []
        record_question(self.study, True, True, lines.append)
        return lines

    def attempts(self, recorded=True) -> list[dict]:
        return [{"from_step": 0} | ({"declarations": declarations(self.file)} if recorded else {})]

    def run(self, recorded=True) -> None:
        """Finish those runs that are not there yet; without `recorded` as an earlier version did."""
        for run in self.study.runs:
            folder = self.path / "runs" / run
            if not folder.exists():
                for name in (HIDDEN_RECORD, RECORD):
                    write_json({"attempts": self.attempts(recorded)}, folder / name)

    def delete_all_output(self) -> None:
        """What `snakemake --delete-all-output` leaves of these files."""
        self.file.unlink()
        for record in self.path.glob(f"runs/*/seed*/{RECORD}"):
            record.unlink()

    def restore(self) -> None:
        """Jobs put the records of finished runs back."""
        for copy in self.path.glob(f"runs/*/seed*/{HIDDEN_RECORD}"):
            shutil.copyfile(copy, copy.with_name(RECORD))

    @property
    def said(self):
        """`study.json`, with its times as the tables, the summary and the page of claims take them."""
        return as_its_runs_say(read_study(self.file), self.path)

    @property
    def primary(self):
        """The time and number of runs that the summary gives for the primary question."""
        return self.said.primary.declared, self.said.primary.runs_then


@pytest.fixture
def folder(config, tmp_path):
    return Folder(config, tmp_path)


def test_earlier_runs_prove_nothing_of_a_question_that_later_runs_do_not_know(folder):
    folder.start()
    folder.run()
    folder.file.unlink()
    folder.start(primary=FORMAT, seeds=[0, 1, 2])
    folder.run()
    folder.file.unlink()
    folder.start(primary={})
    assert json.loads(folder.file.read_text())["primary"]["runs_then"] == 6


def test_runs_that_were_pruned_were_there(folder):
    folder.start()
    folder.run()
    changed(folder.config, "training/learning_rate", 2.0e-5)
    remove(folder.study, unneeded(folder.study), lambda line: None, costly=True)
    assert not [*folder.path.glob("runs/*/seed*")]
    [line] = folder.start(primary=FORMAT)
    assert "after 4 runs were there" in line


@pytest.mark.parametrize(
    ("written", "damage"),
    [
        ("", "Expecting value: line 1 column 1 (char 0)"),
        ('{"name": 5}', "not a mapping with the study's name"),
        ('{"name": "study", "claims": {"a": 1}}', "claims is no list"),
    ],
)
def test_a_damaged_study_json_is_one_line_that_names_it(folder, written, damage):
    folder.start()
    folder.file.write_text(written)
    start = f"results/study/study.json, the study's record of itself, is damaged ({damage}); delete it: "
    assert refusal(folder.config, folder.root).startswith(start)


def test_a_lost_study_json_gets_the_times_that_the_runs_carry(folder):
    folder.start(claims={"c": BETTER, "d": BETTER | {"direction": "lower"}})
    before = folder.file.read_bytes()
    folder.run()
    folder.delete_all_output()
    planned = Declarations(folder.study).primary_line(), Declarations(folder.study).claims_line()
    assert all("; declared " in line and line.endswith("Z, before the first run") for line in planned)
    assert folder.start() == []
    assert folder.file.read_bytes() == before
    folder.delete_all_output()
    folder.start(claims={"c": BETTER})
    folder.restore()
    assert (folder.said.claims[0].runs_then, folder.said.lost_claims) == (0, 1)
    assert withdrawn(folder.said) == ["Lost with an earlier study.json: 1 claim, declared when runs began"]


def test_an_unfinished_run_has_begun(folder):
    folder.start()
    run = folder.path / "runs" / next(iter(folder.study.runs))
    begun = folder.attempts()
    write_json(begun, run / ".work" / "attempts.json")
    folder.start(primary=FORMAT)
    recorded = json.loads(folder.file.read_text())["primary"]
    assert (recorded["runs_then"], len(recorded["earlier"])) == (1, 1)
    # The run is finished under the new question, but its first attempt stays the first.
    shutil.rmtree(run)
    write_json({"attempts": begun + folder.attempts()}, run / RECORD)
    folder.run()
    folder.file.unlink()
    folder.start()
    assert folder.primary[1] == 1


def test_a_question_that_is_put_back_has_its_former_time(folder):
    folder.start()
    folder.run()
    first = folder.primary
    folder.start(primary=FORMAT)
    assert folder.primary[1] == 4
    folder.run()  # runs of the second question count against the first one no more than against a claim put back
    assert folder.start(primary={}) == []
    assert folder.primary == first
    assert [each.metric for each in folder.said.primary.earlier] == ["format"]


def test_an_arm_is_its_spec_and_not_its_name(folder):
    folder.start()
    folder.run()
    first = folder.primary
    arms = folder.config["arms"]["arms"]
    arms["renamed"] = arms.pop("b")
    assert folder.start() == []
    write_json(Declarations(folder.study).content(), folder.file)  # as the job that describes the study does
    assert folder.primary == first
    assert [each.arm for each in folder.said.primary.contrasts] == ["renamed"]
    assert Declarations(folder.study).content()["added_arms"] == []
    arms["renamed"] = {"weights": {"format": 0.5}}
    [line] = folder.start()
    assert line.endswith("after 4 runs were there; other weights or settings: renamed")


def test_an_arm_that_is_added_to_declared_contrasts_is_exploratory(folder):
    folder.start()
    folder.run()
    first = folder.primary
    folder.config["arms"]["arms"]["c"] = {"weights": {"format": 3}}
    told = "b against a; declared 2026-01-31T01:00:00Z, before the first run; exploratory, as added after runs had "
    assert Declarations(folder.study).primary_line().endswith(f"{told}begun: c")
    assert folder.start() == []
    folder.run()
    assert folder.primary == first
    [line] = folder.start(primary={"contrasts": [{"arm": "b"}, {"arm": "c"}]})
    assert line.endswith("after 6 runs were there; added: c against a")


def test_arms_that_came_and_went_beside_the_declared_contrasts_are_told(folder):
    arms = folder.config["arms"]["arms"]
    arms["c"] = {"weights": {"format": 3}}
    folder.start(primary={"contrasts": [{"arm": "b"}]})
    arms["d"] = arms.pop("c")  # before any run
    folder.start()
    folder.run()
    arms["e"] = {"weights": {"format": 4}}
    for lost in (False, True):  # the runs tell which arms a lost `study.json` had
        folder.file.unlink(missing_ok=lost)
        content = Declarations(folder.study).content()
        assert (content["added_arms"], content["removed_arms"]) == (["e"], [])
    del arms["d"]
    assert Declarations(folder.study).content()["removed_arms"] == ["d"]


@pytest.mark.parametrize(
    ("lacking", "lost"), [(["measured"], True), (["arm_keys", "measured"], True), (["arm_keys", "measured"], False)]
)
def test_what_an_earlier_version_recorded_keeps_its_time(folder, lacking, lost):
    """Names of arms, or of what is measured, counted there. Runs have it on record, too, if `study.json` is lost."""
    folder.config |= {"primary": {"contrasts": [{"arm": "b"}]}, "seeds": {"looks": [2, 3]}}
    folder.start(claims={"c": BETTER})
    study, written = folder.study, json.loads(folder.file.read_text())
    by_names = "arm_keys" in lacking
    question = study.question.by_names(*lacking).key
    plan = study.looks.model_copy(update={"question": question, "by_names": by_names})
    parts = [written["primary"], written["claims"][0], written["sequential"]]
    for part in parts[:2]:
        for name in lacking:
            del part[name]
    parts[0]["digest"], parts[2]["question"] = question, question
    parts[2]["by_names"] = by_names
    write_json(written, folder.file)
    folder.run()
    if lost:
        folder.file.unlink()
    assert folder.start() == []
    now = json.loads(folder.file.read_text())
    for part, then in zip([now["primary"], now["claims"][0], now["sequential"]], parts, strict=True):
        assert (part["declared"], part["runs_then"]) == (then["declared"], 0)
    assert (folder.said.primary.digest, folder.said.sequential.key) == (question, plan.key)
    assert "withdrawn_claims" not in now


@pytest.mark.parametrize(
    ("recorded", "runs", "words"),
    [(True, 4, "after 4 runs were there"), (False, None, "not known whether before the first run")],
)
def test_runs_that_are_put_aside_for_a_declaration(folder, recorded, runs, words):
    folder.start()
    folder.run(recorded=recorded)
    (folder.path / "runs").rename(folder.root / "aside")
    folder.file.unlink()
    folder.start(primary=FORMAT)
    (folder.root / "aside").rename(folder.path / "runs")
    assert folder.primary[1] == runs
    assert plan_of(Decisions(folder.study)).declared[0].endswith(f", {words}")
    ReportPages(folder.config, folder.study).write(folder.root, folder.file)
    assert f", {words}" in (folder.root / "arms.html").read_text()


def test_a_study_of_an_earlier_version_keeps_what_its_study_json_says(folder):
    folder.start(claims={"c": BETTER})
    written = json.loads(folder.file.read_text())
    for part in (written["primary"], *written["claims"]):
        del part["in_runs"]
    write_json(written, folder.file)
    folder.run(recorded=False)
    assert folder.start(seeds=[0, 1, 2]) == []
    folder.run()  # two runs by this version, under the same question
    assert [folder.primary[1], folder.said.claims[0].runs_then] == [0, 0]
    folder.start(primary=FORMAT)  # what is declared later is known by the runs that were there
    assert folder.primary[1] == 6


def test_a_study_json_that_was_edited_does_not_outweigh_the_runs(folder):
    folder.start(claims={"c": BETTER})
    folder.run()
    folder.start(primary=FORMAT, claims={"c": BETTER | {"direction": "lower"}}, seeds=[0, 1, 2])
    declared = json.loads(folder.file.read_text())["primary"]["declared"]
    folder.run()
    edited = json.loads(folder.file.read_text())
    for part in (edited["primary"], edited["claims"][0]):
        part |= {"runs_then": 0, "declared": "2020-01-01T00:00:00Z"}
    write_json(edited, folder.file)
    assert folder.primary == (declared, 4)
    assert folder.said.claims[0].runs_then == 4
    question = {"metric": "accuracy_strict", "contrasts": [{"arm": "a", "against": "b"}]}
    write_json(edited | {"primary": edited["primary"] | question}, folder.file)  # with the digest as it was
    assert folder.primary[1] == 6
    folder.config["seeds"] = [2]  # the runs of this seed alone: theirs is what stood when they began
    write_json(edited | {"runs": [run for run in edited["runs"] if run["seed"] == 2]}, folder.file)
    assert folder.primary == (declared, 4)


def test_a_plan_of_looks_has_its_time_from_the_runs(folder):
    folder.config["primary"] = {"contrasts": [{"arm": "b"}]}
    folder.start(seeds={"looks": [2, 3], "stop": "obrien_fleming"})
    before = recorded_looks(read_record(folder.file))
    folder.run()
    folder.delete_all_output()
    folder.start()
    assert recorded_looks(read_record(folder.file)) == before
    folder.delete_all_output()
    folder.start(seeds={"looks": [2, 4], "stop": "obrien_fleming"})
    folder.restore()
    assert folder.said.sequential.runs_then == 4
    assert Declarations(folder.study).looks_line().endswith(", after 4 runs were there")


def test_keys_that_runs_carry_do_not_move(folder):
    """A new field of a question, a claim or a plan must not change the keys that finished runs have on record."""
    folder.config |= {"primary": {"contrasts": [{"arm": "b"}]}, "claims": {"c": BETTER}}
    study = folder.study
    arms = {"a": "00000000", "b": "11111111"}
    plan = {"looks": [2, 3], "stop": "pocock", "margin": None, "level": 0.05, "evaluation": "22222222", "arms": arms}
    measured = {"dataset": "33333333", "metric": "44444444"}
    assert study.question.with_keys(arms, measured).keys == ["96265bdf", "8bc85440", "1d6dbc7f"]
    claim = study.claims[0]
    by_version = ({}, {}), (arms, {}), (arms, measured)
    claims = [claim.model_copy(update={"arm_keys": of, "measured": what}).key for of, what in by_version]
    assert claims == ["7d99fb62", "2ee8c12b", "1af192d9"]
    assert LooksPlan(question="1d6dbc7f", **plan).key == "b5676243"
    assert LooksPlan(question="8bc85440", by_names=False, **plan).key == "2fb3a101"


@pytest.mark.parametrize("content", ["[{", "{}", '{"attempts": [{"from_step": 2}]}'])
def test_records_that_say_nothing_prove_nothing(folder, content):
    folder.start()
    folder.run()
    for name in (RECORD, HIDDEN_RECORD):
        for record in folder.path.glob(f"runs/*/seed*/{name}"):
            record.write_text(content)
    assert folder.primary[1] is None
