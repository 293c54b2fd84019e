"""JSON columns reach reward functions as decoded values that no two calls share."""

from reward_ablation.config.sections import data
from reward_ablation.rewards.arguments import OF_PROBLEMS, OF_TRAINER
from reward_ablation.rewards.columns import with_values


def test_each_call_gets_values_of_its_own_and_other_columns_stay_texts():
    given = []

    def first(completions, **columns):
        given.append(repr(columns))
        columns["tests"][1]["a"].append("changed")

    function = with_values(first, ["tests"])
    assert function.__name__ == "first"
    for _ in range(2):
        function(completions=["x", "y"], tests=[None, '{"a": [1, 2.5, null]}'], answer=["[1]", "2"])
    assert given == [repr({"tests": [None, {"a": [1, 2.5, None]}], "answer": ["[1]", "2"]})] * 2


def test_names_that_the_config_knows_are_those_of_the_trainer_and_of_problems():
    assert {*OF_TRAINER} <= {*data.TAKEN_COLUMNS}
    assert {*OF_PROBLEMS} <= {*data.TAKEN_COLUMNS, *data.OF_FILES}
