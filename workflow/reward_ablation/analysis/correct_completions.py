"""Which component says whether an answer is right, and from which score on."""

from __future__ import annotations

from reward_ablation.analysis.study_file import StudyFile

#: Functions that score the answer alone, and the score of a right one; `three_way_verifier` has it as a parameter.
RIGHT_ANSWER = {"correctness": 1.0, "boxed_answer": 1.0, "signed_answer": 1.0, "three_way_verifier": 1.0}


def correctness_component(study: StudyFile) -> tuple[str, float] | None:
    """Name of the first component that scores the answer alone, and the score of a right answer.

    The functions are looked for in the order of `RIGHT_ANSWER`. A component that mixes correctness with something
    else, such as `cosine_length` or `final_line`, is none. None where the study has no such component.
    """
    components = study.runs[0].spec.components if study.runs else {}
    for function, right in RIGHT_ANSWER.items():
        for name, component in components.items():
            if component.function == function and name in study.components:
                return name, float(component.parameters.get("correct", right))
    return None
