"""HTML pages for the report, besides Snakemake's own. All text is escaped by the templates.

The commands of tables, the summary and the report's pages write such pages, for example of claims and examples.
`report.policy`, `report.overview` and `watch` use only its POLICY or TEMPLATES.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jinja2 import Environment
from markupsafe import Markup

#: Has a browser show text, pictures within the page and styles alone. It runs no script and asks no server for
#: anything, whatever a text of a model, of a data set or of a stranger contains.
POLICY = Markup(
    """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; """
    """img-src data:; base-uri 'none'; form-action 'none'">"""
)

#: Makes templates that escape what is filled in, except `Markup`.
TEMPLATES = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)

PAGE = TEMPLATES.from_string("""\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">{{ policy }}
<title>{{ heading }}</title>
<style>
body { font: 14px sans-serif; margin: 1.5em; color: #222; background: white; overflow-wrap: break-word }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { padding: 0.25em 1em 0.25em 0; text-align: left; border-bottom: 1px solid #ddd; vertical-align: top }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f6f6f6; padding: 0.7em }
</style></head>
<body><h1>{{ heading }}</h1>
<p>{{ sentence }}.</p>
{% for part in parts %}
{{ part }}
{% endfor %}
</body></html>
""")

TABLE = TEMPLATES.from_string("""\
<table>
<thead><tr>{% for name in columns %}<th>{{ name }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in rows %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</tbody>
</table>""")


def page(heading: str, sentence: str, *parts: Markup) -> str:
    """An HTML page with a heading and a sentence below it, given without its full stop."""
    return PAGE.render(policy=POLICY, heading=heading, sentence=sentence, parts=parts)


def section(heading: str) -> Markup:
    """A heading within a page."""
    return Markup("<h2>{}</h2>").format(heading)


def text(words: str) -> Markup:
    """Preformatted text, such as a file or commands."""
    return Markup("<pre>{}</pre>").format(words)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """An HTML table. Cells are converted by `str`."""
    return Markup(TABLE.render(columns=columns, rows=rows))
