"""Templates without logic: ``{{name}}`` stands for a value, and nothing else stands for anything.

Values come from strangers: titles, addresses, text of pages. A value is put in once and never read
as a template again, it is escaped for the place it goes to, and it is bounded in length.
"""

from __future__ import annotations

import difflib
import html
import re
from typing import TYPE_CHECKING, Literal

from observant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LARGEST", "TOKENS", "check_template", "render"]

TOKENS = {
    "id": "the id of the event",
    "topic": "its kind: changed, gone, new-result, …",
    "what": "what that means, in words",
    "name": "the title of the source, or its name if it has none",
    "title": "the title of the source, or of the result",
    "source": "the name of the source",
    "url": "its address, or that of the result",
    "host": "its host",
    "tags": "its tags",
    "at": "when, in the time zone of the subscription",
    "magnitude": "how much changed, in percent",
    "reason": "why this counted, in one sentence",
    "added": "text that came",
    "removed": "text that went",
    "query": "the standing query of a result",
    "rank": "the place of a result",
    "error": "why visits fail",
    "failures": "how many failed in a row",
    "since": "since when it has been failing, gone or silent",
    "count": "how many events the message has",
    "subscription": "the name of the subscription",
}
"""Every name that a template can use, and what it stands for."""

LARGEST = 20_000
"""Characters of a rendered text; what is longer is cut."""
LONGEST_TEMPLATE = 10_000
_LONGEST_VALUE = 2_000
_TOKEN = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_BREAKS = re.compile(r"[\s\x85]+")

Place = Literal["text", "line", "html"]


def check_template(template: str, what: str = "template") -> None:
    """Complain about a template that would not say what its author means."""
    if len(template) > LONGEST_TEMPLATE:
        raise InputError(f"{what}: longer than {LONGEST_TEMPLATE:,} characters")
    for match in re.finditer(r"\{\{(.*?)(?:\}\}|$)", template, re.DOTALL):
        name = match[1].strip()
        if name not in TOKENS:
            near = difflib.get_close_matches(name, TOKENS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(TOKENS)}"
            raise InputError(f"{what}: there is no {{{{{name[:40]}}}}}; {hint}")


def render(template: str, values: Mapping[str, object], place: Place = "text") -> str:
    """Put values into a template. A line in which all values are empty is left out.

    >>> render("{{title}} changed by {{magnitude}}", {"title": "{{id}}", "magnitude": "8 %"})
    '{{id}} changed by 8 %'
    >>> render("<b>{{title}}</b>", {"title": "<script>"}, "html")
    '<b>&lt;script&gt;</b>'
    >>> render("Hello\\n+ {{added}}\\n- {{removed}}", {"added": "more"})
    'Hello\\n+ more'
    """
    lines = []
    for line in template.split("\n"):
        names = _TOKEN.findall(line)
        if names and not any(_shown(values.get(name), place) for name in names):
            continue
        lines.append(_TOKEN.sub(lambda match: _shown(values.get(match[1]), place), line))
    text = "\n".join(lines)
    if place == "line":
        text = _BREAKS.sub(" ", text).strip()
    longest = 200 if place == "line" else LARGEST
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _shown(value: object, place: Place) -> str:
    if value is None:
        return ""
    text = _CONTROL.sub("", str(value)[:_LONGEST_VALUE]).strip()
    if place == "line":
        return _BREAKS.sub(" ", text)
    if place == "html":
        return html.escape(text, quote=True)
    return text
