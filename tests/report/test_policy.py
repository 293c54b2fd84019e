"""The template of Snakemake's report with its policy; `tests/workflow/test_report.py` has a browser obey the policy."""

import json
import re
from pathlib import Path

from jinja2 import Environment
from snakemake.report import html_reporter

from reward_ablation.report.policy import FIRST_TAG, PolicyLoader, guard_report
from reward_ablation.system.html_page import POLICY


def rendered(description: str = "") -> str:
    """The report without results, but with a description that includes the study's first page."""
    environment = Environment(loader=PolicyLoader("snakemake", "report/html_reporter/template"))
    environment.filters["get_resource_as_string"] = lambda name: ""
    packages = type("Packages", (dict,), {"get_json": lambda self: "{}"})()
    for name in ("tailwindcss", "prop-types", "vega", "vega-lite", "vega-embed"):
        packages[name] = {"source": ""}
    packages["react"] = {"sources": {"main": "", "dom": ""}}
    template = environment.get_template("index.html.jinja2")
    return template.render(packages=packages, workflow_desc=json.dumps(description), results='"<script>"')


def test_the_policy_comes_before_all_scripts_and_names_their_nonce():
    first, second = rendered(), rendered()
    head = first.partition("<script")[0]
    [nonce] = re.findall(r"script-src 'nonce-([\w-]{20,})'", head)
    assert FIRST_TAG in head
    tags = re.findall(r"<script[^>]*>", first)
    assert len([tag for tag in tags if f'nonce="{nonce}"' in tag]) == len(tags) - 1 > 20
    assert 'results = "<script>"' in first  # what is filled in has no nonce
    assert nonce not in second
    # The first page brings no policy of its own.
    text = rendered(f'<html lang="en">\n<meta charset="utf-8">\n{POLICY}\n<main>"a"</main>')
    assert text.count("http-equiv") == 1
    assert r"<main>\"a\"</main>" in text


def test_snakemakes_reporter_loads_its_template_by_the_name_that_is_replaced(monkeypatch):
    monkeypatch.setattr(html_reporter, "PackageLoader", html_reporter.PackageLoader)
    guard_report()
    assert html_reporter.PackageLoader is PolicyLoader
    settings = html_reporter.ReportSettings(path=Path("report.html"))
    reporter = object.__new__(html_reporter.Reporter)
    reporter.settings = settings
    reporter.__post_init__()
    assert isinstance(reporter.env.loader, PolicyLoader)
