import pytest
from matplotlib.colors import to_hex

from reward_ablation.analysis.tables import write_csv
from reward_ablation.figures.cost import cost, unit_of
from reward_ablation.figures.style import arm_looks
from reward_ablation.report.cost.columns import read_cost
from reward_ablation.system.errors import StudyError


@pytest.fixture
def table(made_up):
    """Costs of four arms and of all runs, the arms' with 1, 2, 3 and 4 hours of GPUs."""
    hours = [1.0, 2.0, 3.0, 4.0, 10.0]
    table = made_up("four arms").tables["cost"]
    return table.assign(gpu_hours=hours, gpu_hours_lost=0.0, gpu_hours_of_jobs=float("nan"), cpu_hours=hours)


def test_bars_are_the_hours_of_each_arm_in_its_colour(made_up, table):
    study = made_up("four arms").study
    panel = cost(table, study).axes[0]
    assert [bar.get_width() for bar in panel.patches] == [1, 2, 3, 4]
    assert [label.get_text() for label in panel.get_yticklabels()] == study.arm_names
    expected = [look.colour for look in arm_looks(study).values()]
    assert [to_hex(bar.get_facecolor()).upper() for bar in panel.patches] == expected
    assert panel.get_xlabel() == "GPU hours"


def test_lost_hours_and_other_clocks_are_shown_where_known(made_up, table):
    study = made_up("four arms").study
    table = table.assign(gpu_hours_lost=0.5, gpu_hours_accounted=[1.5, 2.5, 3.5, 4.5, 12.0])
    figure = cost(table, study)
    assert [bar.get_width() for bar in figure.axes[0].patches][4:] == [0.5] * 4
    assert list(figure.axes[0].get_lines()[0].get_xdata()) == [1.5, 2.5, 3.5, 4.5]
    assert "8 runs in all: measured" in " ".join(figure.legends[0].get_title().get_text().split())
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["the runs' own clocks", "of these, lost", "Slurm's accounting"]


def test_hours_are_of_what_the_study_used(table):
    assert unit_of(table) == "gpu"
    assert unit_of(table.assign(gpu_hours=0.0)) == "cpu"
    assert unit_of(table.assign(gpu_hours=0.0, cpu_hours=float("nan"))) == "wall"


@pytest.mark.parametrize("share", [0, 0.7])
def test_a_damaged_table_is_told_in_one_line(table, tmp_path, share):
    write_csv(table, tmp_path / "cost.csv")
    whole = (tmp_path / "cost.csv").read_bytes()
    (tmp_path / "cost.csv").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(StudyError, match="truncated or changed"):
        read_cost(tmp_path / "cost.csv")
