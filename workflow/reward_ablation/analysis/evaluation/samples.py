"""What several samples of a question tell: pass@k and the majority of n."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import gammaln


def sizes(samples: int) -> list[int]:
    """The k of pass@k for n samples: powers of two below n, and n."""
    return [2**power for power in range(samples.bit_length()) if 2**power < samples] + [samples]


def pass_at(right: np.ndarray, samples: int, size: int) -> np.ndarray:
    """Chance that one of k samples is right, estimated from n of which c are: 1 - C(n - c, k) / C(n, k).

    Unbiased (Chen et al., "Evaluating Large Language Models Trained on Code", 2021, arXiv 2107.03374, equation 1).
    `right` has c for each question, `samples` is n, and `size` is k.
    """
    wrong = samples - np.arange(samples + 1)
    # Logarithms: the coefficients themselves overflow from about a thousand samples on.
    none = np.where(wrong >= size, np.exp(_log_comb(np.maximum(wrong, size), size) - _log_comb(samples, size)), 0.0)
    return np.asarray(np.clip(1 - none, 0.0, 1.0)[right])


def _log_comb(total: np.ndarray | int, chosen: int) -> np.ndarray:
    return gammaln(total + 1) - gammaln(chosen + 1) - gammaln(total - chosen + 1)


def majority_right(question: np.ndarray, answer: pd.Series, right: np.ndarray) -> np.ndarray:
    """Whether the answer that most samples of a question gave is right (self-consistency; Wang et al. 2022).

    All right answers count as one answer, however they are written, and wrong answers as the same where they are
    written the same. A sample without an answer has no vote. Where answers tie, each has an equal share of the
    question.

    Parameters
    ----------
    question : array of int
        Number of each sample's question, from 0.
    answer : Series of str
        Extracted answers; null where there was none.
    right : array of bool

    Returns
    -------
    (questions,) array in [0, 1]; 0 where no sample has an answer.
    """
    questions = int(question.max()) + 1
    written = pd.factorize(answer)[0]  # -1: none
    kind = np.where(right, 0, written + 1)
    votes = right | (written >= 0)
    kinds = int(kind.max()) + 1
    key, count = np.unique(question[votes].astype(np.int64) * kinds + kind[votes], return_counts=True)
    of_question, of_kind = key // kinds, key % kinds
    most = np.zeros(questions, dtype=np.int64)
    np.maximum.at(most, of_question, count)
    first = count == most[of_question]
    tied = np.bincount(of_question[first], minlength=questions)
    won = np.bincount(of_question[first & (of_kind == 0)], minlength=questions)
    return won / np.maximum(tied, 1)
