"""HTML pages for the report, besides Snakemake's own."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

#: What a browser does for a page: it shows text, pictures within the page and styles. It runs no script, and asks no
#: server for anything, whatever a text of a model, of a data set or of a stranger contains.
POLICY = (
    """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; """
    """img-src data:; base-uri 'none'; form-action 'none'">"""
)

#: Template of a page with a heading, a sentence and a table, each already escaped.
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{heading}</title>
<style>
body {{ font: 14px sans-serif; margin: 1.5em; color: #222; background: white }}
table {{ border-collapse: collapse; display: block; overflow-x: auto }}
th, td {{ padding: 0.25em 1em 0.25em 0; text-align: left; border-bottom: 1px solid #ddd; vertical-align: top }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; background: #f6f6f6; padding: 0.7em }}
</style></head>
<body><h1>{heading}</h1>
<p>{sentence}.</p>
{table}
</body></html>
""".replace("<title>", f"{POLICY}\n<title>")


def page(heading: str, sentence: str, *parts: str) -> str:
    """An HTML page, from a heading and the sentence below it, both not yet escaped.

    The sentence has no full stop. `parts` are HTML of `section`, `text` and `table`.
    """
    return PAGE.format(heading=html.escape(heading), sentence=html.escape(sentence), table="\n".join(parts))


def section(heading: str) -> str:
    """A heading within a page."""
    return f"<h2>{html.escape(heading)}</h2>"


def text(words: str) -> str:
    """Preformatted text, such as a file or commands."""
    return f"<pre>{html.escape(words)}</pre>"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table. Cells are converted by `str`."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "\n".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
