"""Content-Security-Policy for Snakemake's report, which has none.

The Snakefile and the workflow of `preview` call `guard_report`; it acts where Snakemake was started with `--report`.

The report shows texts of models, data sets and strangers. They are escaped where they are written; with the policy, a
text that is not would still run no script, and the report asks no server for anything.
"""

from __future__ import annotations

import json
import secrets
import sys
from typing import Any

from jinja2 import PackageLoader

from reward_ablation.system.html_page import POLICY as POLICY_OF_PAGE

#: Snakemake's module that writes the report, and the tag of its template that the policy follows.
REPORTER, FIRST_TAG = "snakemake.report.html_reporter", '<meta charset="utf-8">'

#: Scripts run if they have the report's nonce, that is, if they stand in Snakemake's template. Vega, which draws the
#: report's rule graph, compiles its expressions, hence 'unsafe-eval'. `self` is for a report as a zip file.
POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: 'self'; "
    "font-src data:; frame-src data: 'self'; object-src data: 'self'; base-uri 'none'; form-action 'none'"
)


def guard_report() -> None:
    """Have the report of this process written with the policy. Does nothing where Snakemake writes no report."""
    if reporter := sys.modules.get(REPORTER):
        reporter.PackageLoader = PolicyLoader  # type: ignore[attr-defined]


class PolicyLoader(PackageLoader):
    """Loads Snakemake's template with the policy in its head, and a nonce in the tags of its scripts."""

    def get_source(self, environment: Any, template: str) -> Any:
        """The template's source; what is filled in later gets no nonce."""
        source, *rest = super().get_source(environment, template)
        nonce = secrets.token_urlsafe(16)
        tag = f'<meta http-equiv="Content-Security-Policy" content="{POLICY.format(nonce=nonce)}">'
        source = source.replace("<script", f'<script nonce="{nonce}"').replace(FIRST_TAG, FIRST_TAG + tag, 1)
        # The description includes the study's first page, whose own policy a browser would refuse there.
        environment.globals["policy_of_page"] = json.dumps(POLICY_OF_PAGE)[1:-1]
        return source.replace("{{workflow_desc}}", "{{workflow_desc|replace(policy_of_page, '')}}"), *rest
