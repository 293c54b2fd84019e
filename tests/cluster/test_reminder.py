from reward_ablation.cluster.reminder import Reminder


def test_a_message_comes_once_and_again_after_a_while():
    times = iter([0.0, 20.0, 300.0, 301.0, 320.0])
    reminder = Reminder(300, lambda: next(times))
    assert [reminder.due() for _ in range(5)] == [True, False, False, True, False]


def test_what_begins_anew_is_told_at_once():
    reminder = Reminder(300, lambda: 0.0)
    assert reminder.due()
    assert not reminder.due()
    reminder.forget()
    assert reminder.due()
