"""Tests of the components."""

from pathlib import Path

JUDGE_TEMPLATE = str(Path(__file__).parents[3] / "config" / "templates" / "judge.txt")

#: For components with parameters that have no default.
EXAMPLE_PARAMETERS = {
    "reward_model": {"model": "models/taste"},
    "token_length": {"target": 40, "width": 20},
    "cosine_length": {"max_len": 100},
    "soft_overlong": {"max_completion_len": 100, "soft_punish_cache": 20},
    "judge": {"model": "judge", "template": JUDGE_TEMPLATE, "endpoint": "http://127.0.0.1:9/v1"},
}

#: A value of each further column of the data that a component asks for.
FURTHER_COLUMNS = {
    "unit_tests": ["assert f(9, 8) == 72"],
    "instructions": [
        {"id": "keywords:existence", "kwargs": {"keywords": ["egg", "ab"]}},
        {"id": "keywords:frequency", "kwargs": {"keyword": "aa", "frequency": 3, "relation": "at least"}},
        {"id": "keywords:forbidden_words", "kwargs": {"forbidden_words": ["a" * 40, "\\boxed{", "(a+)+$", "<"]}},
        {"id": "keywords:letter_frequency", "kwargs": {"letter": "a", "let_frequency": 3, "let_relation": "less than"}},
        {"id": "length_constraints:number_words", "kwargs": {"num_words": 9, "relation": "less than"}},
        {"id": "length_constraints:number_sentences", "kwargs": {"num_sentences": 2, "relation": "at least"}},
        {"id": "length_constraints:number_paragraphs", "kwargs": {"num_paragraphs": 2}},
        {
            "id": "length_constraints:nth_paragraph_first_word",
            "kwargs": {"num_paragraphs": 2, "nth_paragraph": 1, "first_word": "eggs"},
        },
        {"id": "detectable_content:number_placeholders", "kwargs": {"num_placeholders": 1}},
        {"id": "detectable_content:postscript", "kwargs": {"postscript_marker": "P.P.S"}},
        {"id": "detectable_content:postscript", "kwargs": {"postscript_marker": "a" * 40 + "!"}},
        {"id": "detectable_format:number_bullet_lists", "kwargs": {"num_bullets": 3}},
        {"id": "detectable_format:constrained_response", "kwargs": {}},
        {"id": "detectable_format:number_highlighted_sections", "kwargs": {"num_highlights": 1}},
        {"id": "detectable_format:multiple_sections", "kwargs": {"section_spliter": "Step", "num_sections": 1}},
        {"id": "detectable_format:json_format", "kwargs": {}},
        {"id": "detectable_format:title", "kwargs": {}},
        {"id": "combination:two_responses", "kwargs": {}},
        {"id": "combination:repeat_prompt", "kwargs": {"prompt_to_repeat": "9 * 8?"}},
        {"id": "startend:end_checker", "kwargs": {"end_phrase": "72"}},
        {"id": "startend:quotation", "kwargs": {}},
        {
            "id": "change_case:capital_word_frequency",
            "kwargs": {"capital_frequency": 1, "capital_relation": "at least"},
        },
        {"id": "change_case:english_capital", "kwargs": {}},
        {"id": "change_case:english_lowercase", "kwargs": {}},
        {"id": "punctuation:no_comma", "kwargs": {}},
    ],
}
