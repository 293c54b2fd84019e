import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from reward_ablation.analysis.registry import TABLES
from reward_ablation.figures.catalogue import APPENDIX, FIGURES, PAGES, figures_of, module_of, pages_of, tables_of

CAPTIONS = Path(__file__).parents[2] / "workflow" / "report"


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_has_a_function_of_its_tables_and_a_caption(name):
    entry = FIGURES[name]
    function = getattr(import_module(f"reward_ablation.{module_of(name)}"), name)
    assert len(inspect.signature(function).parameters) == len(entry.tables) + 1
    unknown = set(entry.tables) - {*TABLES}
    assert not unknown, f"{name} is drawn from {unknown}: no such table in analysis/registry.py"
    assert len((CAPTIONS / f"{name}.rst").read_text().split()) > 20


def test_figures_of_tables_on_request_are_in_studies_that_ask_for_these_tables_alone():
    assert len({entry.title for entry in FIGURES.values()}) == len(FIGURES)
    assert tables_of("cost") + tables_of("evaluation") == ["cost.csv", "evaluation_by_arm.parquet"]
    on_request = ["method_weights", "methods_offline"]
    assert [name for name in FIGURES if name not in figures_of(())] == on_request
    assert [name for name in APPENDIX if name not in pages_of(["claims"], appendix=True)] == on_request
    assert pages_of([]) == PAGES
    assert {*FIGURES} == {*PAGES, *APPENDIX, "cost"}
    assert figures_of(["combination", "claims"]) == FIGURES


def test_a_start_of_the_workflow_loads_no_drawing():
    code = (
        "import sys; import reward_ablation.figures.catalogue; "
        "print({'pandas', 'pyarrow', 'numpy', 'matplotlib'} & {*sys.modules})"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
