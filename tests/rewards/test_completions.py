"""Both forms of completion that TRL passes."""

from reward_ablation.rewards.completions import completion_texts


def test_completion_texts_reads_both_forms():
    chat = [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert completion_texts(["a", chat, "", []]) == ["a", "a\nb", "", ""]
