"""Each instruction of IFEval, on texts that follow it and on texts that do not. The cases are made by hand."""

EGGS = {"keyword": "egg", "frequency": 2, "relation": "at least"}
FEW = {"num_sentences": 3, "relation": "less than"}
SECTIONS = {"section_spliter": "Section", "num_sections": 2}
CAPITALS = {"capital_frequency": 2, "capital_relation": "at least"}
NTH = {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Eggs"}

CASES = [
    ("keywords:existence", {"keywords": ["egg", "ham"]}, "Eggs and HAM.", True),  # in words, in any case
    ("keywords:existence", {"keywords": ["egg", "ham"]}, "Eggs.", False),
    ("keywords:frequency", EGGS, "Egg, eggs.", True),
    ("keywords:frequency", EGGS, "One egg.", False),
    ("keywords:forbidden_words", {"forbidden_words": ["egg"]}, "Eggs, eggplant and eggs.", True),  # whole words
    ("keywords:forbidden_words", {"forbidden_words": ["egg"]}, "An EGG, please.", False),
    ("keywords:letter_frequency", {"letter": "e", "let_frequency": 3, "let_relation": "at least"}, "EeE", True),
    ("keywords:letter_frequency", {"letter": "e", "let_frequency": 3, "let_relation": "less than"}, "EeE", False),
    ("length_constraints:number_words", {"num_words": 4, "relation": "at least"}, "A well-known egg.", True),
    ("length_constraints:number_words", {"num_words": 4, "relation": "less than"}, "A well-known egg.", False),
    ("length_constraints:number_sentences", FEW, "One. Two!", True),
    ("length_constraints:number_sentences", FEW, "One. Two! Three?", False),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "One.\n***\nTwo.", True),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "One.\n\nTwo.", False),
    ("length_constraints:nth_paragraph_first_word", NTH, "Ham.\n\n\"Eggs,\" she said.", True),
    ("length_constraints:nth_paragraph_first_word", NTH, "Ham.\n\nEggs.\n\nHam.", False),  # exactly two
    ("length_constraints:nth_paragraph_first_word", NTH, "Ham.\n\n\n\nEggs.", False),  # an empty one is the second
    ("length_constraints:nth_paragraph_first_word", NTH | {"first_word": "don't"}, "Ham.\n\nDon't!", True),  # ours
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[name] of [city [x]", True),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[name] of [city\nx]", False),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Yours\np. s. More eggs", True),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Yours, PS more eggs", False),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "Eggs:\n* one\n  - two\n**bold**", True),
    ("detectable_format:number_bullet_lists", {"num_bullets": 1}, "*", False),
    ("detectable_format:constrained_response", {}, "My answer is maybe.", True),
    ("detectable_format:constrained_response", {}, "Maybe.", False),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*one* and **two**", True),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*one* ** ** *\ntwo*", False),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "***one***", True),
    ("detectable_format:multiple_sections", SECTIONS, "Section 1\nSection2", True),
    ("detectable_format:multiple_sections", SECTIONS, "Section A\nSection B", False),
    ("detectable_format:json_format", {}, ' ```JSON\n{"eggs": [1, 2]}\n``` ', True),
    ("detectable_format:json_format", {}, '```jsoN\n{"eggs": [1, 2]}\n```', False),
    ("detectable_format:title", {}, "So:\n<<On eggs>>\nThey ...", True),
    ("detectable_format:title", {}, "<<On\neggs>>", False),
    ("detectable_format:title", {}, "<< >> 1 >> 0", True),  # up to the last bracket of the line
    ("combination:two_responses", {}, "Eggs.\n******\nHam.", True),
    ("combination:two_responses", {}, "Eggs.\n******\nEggs. ", False),
    ("combination:repeat_prompt", {"prompt_to_repeat": "How many eggs? "}, " how many eggs?\n72", True),
    ("combination:repeat_prompt", {"prompt_to_repeat": "How many eggs?"}, "72. How many eggs?", False),
    ("startend:end_checker", {"end_phrase": "Any questions?"}, 'So it is. "Any questions?" ', True),
    ("startend:end_checker", {"end_phrase": "Any questions?"}, "Any questions? No.", False),
    ("startend:quotation", {}, ' "Eggs." ', True),
    ("startend:quotation", {}, '"', False),
    ("change_case:capital_word_frequency", CAPITALS, "WELL-KNOWN I am", True),
    ("change_case:capital_word_frequency", CAPITALS, "It's A 72 Egg", False),
    ("change_case:english_capital", {}, "72 EGGS!", True),
    ("change_case:english_capital", {}, "72", False),
    ("change_case:english_lowercase", {}, "72 eggs!", True),
    ("change_case:english_lowercase", {}, "72 Eggs!", False),
    ("punctuation:no_comma", {}, "Eggs; ham.", True),
    ("punctuation:no_comma", {}, "Eggs, ham.", False),
]  # fmt: skip
