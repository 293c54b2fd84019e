"""JSON columns reach reward functions as decoded values that no two calls share."""

from reward_ablation.config.sections import data
from reward_ablation.rewards.arguments import OF_PROBLEMS, OF_TRAINER
from reward_ablation.rewards.columns import with_values


def test_each_call_gets_values_of_its_own():
    def first(completions, **columns):
        for tests in columns["tests"]:
            tests.append("changed")
        return [float(len(tests)) for tests in columns["tests"]]

    texts = {"tests": ['["a"]', '["a", "b"]'], "other": ['["a"]', "x"]}
    function = with_values(first, ["tests"])
    assert function.__name__ == "first"
    assert function(completions=["x", "y"], **texts) == [2.0, 3.0]
    assert function(completions=["x", "y"], **texts) == [2.0, 3.0]


def test_null_is_none_and_other_columns_stay_texts():
    given = {}
    function = with_values(lambda completions, **columns: given.update(columns), ["tests"])
    function(completions=["x", "y"], tests=[None, '{"a": [1, 2.5, null]}'], answer=["[1]", "2"])
    assert given == {"tests": [None, {"a": [1, 2.5, None]}], "answer": ["[1]", "2"]}


def test_names_that_the_config_knows_are_those_of_the_trainer_and_of_problems():
    assert {*OF_TRAINER} <= {*data.TAKEN_COLUMNS}
    assert {*OF_PROBLEMS} <= {*data.TAKEN_COLUMNS, *data.OF_FILES}
