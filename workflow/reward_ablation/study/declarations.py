"""What a study has on record of its declarations: the primary question, claims, and looks.

`study.resolve` reads the record into the study, and each attempt of a run copies it (`training.around.attempts`).
`start.declarations` writes `study.json`; it is another module, since training may import nothing of `start`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from reward_ablation.study.answers_record import read_record
from reward_ablation.study.claims import ClaimsOnRecord, DeclaredClaim, recorded_claims
from reward_ablation.study.looks import Declared as DeclaredLooks
from reward_ablation.study.looks import Sequential, recorded_looks
from reward_ablation.study.primary import Primary, recorded_primary


class OnRecord(NamedTuple):
    """What is on record: in `study.json` or, if that is lost, in the records of runs. These do not have the looks."""

    primary: Primary | None
    claims: ClaimsOnRecord
    looks: Sequential | None


def declarations(path: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """What a `study.json` declares, as an attempt records it; also what was replaced, which may be put back."""
    written = read_record(path)
    primary, claims, looks = recorded_primary(written), recorded_claims(written), recorded_looks(written)
    questions = [*primary.earlier, primary] if primary else []
    stood = {each.digest: each.since for each in questions if each.declared}
    return {
        **({"primary": stood} if stood else {}),
        **_by_key("claims", [*claims.withdrawn_claims, *claims.claims]),
        **_by_key("sequential", [*looks.earlier, looks] if looks else []),
    }


def _by_key(kind: str, statements: Iterable[DeclaredClaim | DeclaredLooks]) -> dict[str, dict[str, dict[str, Any]]]:
    found = {each.key: each.since for each in statements}
    return {kind: found} if found else {}
