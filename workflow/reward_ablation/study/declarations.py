"""What a study has on record of its declarations: the primary question, claims, and looks.

`study.resolve` reads the record into the study, and each attempt of a run copies it (`training.around.attempts`).
`start.declarations` writes `study.json`; it is another module, since training may import nothing of `start`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from reward_ablation.study.answers_record import read_record
from reward_ablation.study.claims import ClaimsOnRecord, recorded_claims
from reward_ablation.study.looks import Sequential, recorded_looks
from reward_ablation.study.primary import Primary, recorded_primary


class OnRecord(NamedTuple):
    """What is on record: in `study.json` or, if that is lost, in the records of runs, which lack results of looks."""

    primary: Primary | None
    claims: ClaimsOnRecord
    looks: Sequential | None


def declarations(path: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """What a `study.json` declares, as an attempt records it; also what was replaced, which may be put back."""
    written = read_record(path)
    primary, claims, looks = recorded_primary(written), recorded_claims(written), recorded_looks(written)
    questions = [*primary.earlier, primary] if primary else []
    stood = {
        "primary": {each.digest: {**each.since, "arms": each.arms} for each in questions if each.declared},
        "claims": {each.key: each.since for each in [*claims.withdrawn_claims, *claims.claims]},
        "sequential": {each.key: each.since for each in ([*looks.earlier, looks] if looks else [])},
    }
    return {kind: since for kind, since in stood.items() if since}
