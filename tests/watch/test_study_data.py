"""What the page gets as JSON: only what is new, and texts that can be seen."""

import json

import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.figures.style import COLOURS
from reward_ablation.system.errors import StudyError
from reward_ablation.watch import study_data
from reward_ablation.watch.study_data import visible

from .made_up_watch import HOSTILE, lines_of, live_file, rows_of, watch_of, with_completions


def test_an_answer_has_only_what_is_new(tmp_path):
    watch = watch_of(MadeUpStudy(), tmp_path)
    first = watch.answer(0)
    assert first["about"]["series"] == ["total reward", "correctness", "format", "length", "tokens"]
    assert [arm["colour"] for arm in first["about"]["arms"]] == COLOURS[:4]
    assert first["about"]["arms"][3]["weights"] == "correctness 0.34, format 0.33, length 0.33"
    assert (first["next"], len(first["points"])) == (8 * 6, 8 * 6)
    run, step, *means = first["points"][0]
    assert (run, step, len(means)) == (0, 1, 5)
    later = watch.answer(first["next"])
    assert (later["points"], "about" in later, later["states"][0][0]) == ([], False, "done")
    live_file(watch.rollouts[2].result.parent).write_bytes(lines_of(rows_of(1)))
    newest = watch.answer(first["next"])
    assert newest["points"] == [[2], [2, 1, 0.375, 1.667, None, None, 11.5]]
    assert newest["epoch"] == first["epoch"]


def test_states_that_cannot_be_read_now_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(study_data, "KEPT_SECONDS", -1)
    watch = watch_of(MadeUpStudy(seeds=(0,)), tmp_path)
    watch.answer(0)

    def fail():
        raise StudyError("a run removed its folder")

    watch.read_states = fail
    assert watch.answer(0)["counts"] == "all done"


def test_completions_have_their_prompt_and_gold(tmp_path):
    watch = watch_of(MadeUpStudy(seeds=(0,), rollouts=8, problems=2), tmp_path)
    with_completions(watch, "four")
    watch.look()
    known, unknown = watch.rows(0, 1)["rows"][0], watch.rows(0, 1)["rows"][7]
    assert known[2] == "four"
    assert known[3].startswith("How many?")
    assert (known[4], unknown[3:]) == ("4", ["", ""])
    live_file(watch.rollouts[1].result.parent).write_bytes(lines_of(rows_of(1, completion=HOSTILE)))
    watch.look()
    values, cut, text, prompt, gold = watch.rows(1, 1)["rows"][3]
    assert (values, cut, prompt, gold) == ([0.75, 3.0, None, None, 13.0], True, "How?", "4")
    assert text == visible(HOSTILE, 1000)
    assert watch.rows(1, 9) == {"all": 0, "rows": []}


def test_of_many_completions_some_are_chosen_evenly(tmp_path):
    watch = watch_of(MadeUpStudy(seeds=(0,), rollouts=10), tmp_path)
    watch.look()
    everything, some = watch.rows(0, 2), watch.rows(0, 2, most=4)
    assert (everything["all"], some["all"], len(everything["rows"])) == (10, 10, 10)
    assert some["rows"] == [everything["rows"][place] for place in (0, 2, 5, 7)]


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("a\tb\nπ 日本 🙂 é\u00a0", 99, "a\tb\nπ 日本 🙂 é\u00a0"),
        ("\u202eexe.txt\u202c", 99, "<U+202E>exe.txt<U+202C>"),
        ("\x1b[31m\x00\r\x7f", 99, "<U+001B>[31m<U+0000><U+000D><U+007F>"),
        ("\ud800 \ue000 \u200b \ufeff \u2028", 99, "<U+D800> <U+E000> <U+200B> <U+FEFF> <U+2028>"),
        ("abcdefg", 6, "abcdef [cut: 6 of 7 characters are shown]"),
        (None, 9, ""),
    ],
)
def test_invisible_characters_are_written_out(text, most, shown):
    assert visible(text, most) == shown
    json.dumps(shown).encode()
