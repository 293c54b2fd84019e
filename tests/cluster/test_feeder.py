"""The order of submissions at Slurm's limit on jobs."""

from threading import Thread
from types import SimpleNamespace

from snakemake_executor_plugin_slurm_study.feeder import Feeder


def job(name: str, priority: int):
    return SimpleNamespace(name=name, priority=priority)


def test_the_highest_priority_goes_first_also_where_it_came_last():
    feeder = Feeder(60)
    feeder.add([job("train 1", 2), job("train 2", 1), job("train 3", 2)])
    assert feeder.next().name == "train 1"
    feeder.add([job("evaluate", 9)])
    assert [feeder.next().name for _ in range(3)] == ["evaluate", "train 3", "train 2"]


def test_a_refused_job_goes_first_of_its_priority_when_there_is_room_again():
    feeder, given = Feeder(60), []
    feeder.add([job("one", 1), job("two", 1)])
    feeder.refuse(feeder.next(), "AssocMaxSubmitJobLimit")
    assert feeder.limit == "AssocMaxSubmitJobLimit"
    feeder.open()
    assert feeder.limit is None
    assert feeder.next().name == "one"
    thread = Thread(target=lambda: given.append(feeder.next()))
    thread.start()
    thread.join(0.1)
    assert not given, "one by one from now on"
    feeder.settle()
    thread.join(10)
    assert [each.name for each in given] == ["two"]


def test_after_a_while_a_job_goes_though_none_of_ours_has_ended():
    times = iter([0.0, 61.0])
    feeder = Feeder(60, lambda: next(times))
    feeder.add([job("one", 1)])
    feeder.refuse(feeder.next(), "limit")
    assert feeder.next().name == "one"


def test_nothing_goes_until_a_job_has_ended():
    feeder, given = Feeder(1000), []
    feeder.add([job("one", 1)])
    feeder.refuse(feeder.next(), "limit")
    thread = Thread(target=lambda: given.append(feeder.next()))
    thread.start()
    thread.join(0.1)
    assert not given
    feeder.open()
    thread.join(10)
    assert [each.name for each in given] == ["one"]


def test_a_stop_ends_the_wait():
    feeder = Feeder(60)
    feeder.stop()
    assert feeder.next() is None
