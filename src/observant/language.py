"""The language of what people read on pages: gettext catalogues, chosen for each request.

A catalogue is a file ``languages/CODE.po``, read as it is: whoever adds one adds a language. What
has no translation is shown in English, and so is all that programs read (API, JSON, `--json`).
"""

from __future__ import annotations

import gettext as standard
import json
from contextvars import ContextVar
from functools import cache

__all__ = [
    "N_",
    "code",
    "gettext",
    "languages",
    "localized",
    "messages_of",
    "ngettext",
    "preferred",
    "use",
]

_ENGLISH = "en"
_SIGNS = str.maketrans(",.", ".,")


class Catalogue(standard.NullTranslations):
    """The messages of one language."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__()
        self.code = code
        self.messages = messages_of(text)
        header = self.messages.get("", ("",))[0]
        fields = dict(line.partition(": ")[::2] for line in header.splitlines())
        self.name = fields.get("X-Name", code)
        self.decimal = fields.get("X-Decimal", ".")
        formula = fields.get("Plural-Forms", "plural=n != 1;").partition("plural=")[2]
        self._plural = standard.c2py(formula.strip().rstrip(";"))

    def gettext(self, message: str) -> str:
        return (self.messages.get(message) or ("",))[0] or message

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        forms = self.messages.get(msgid1, ())
        place = self._plural(int(n))
        return (place < len(forms) and forms[place]) or (msgid1 if n == 1 else msgid2)


def messages_of(text: str) -> dict[str, tuple[str, ...]]:
    r"""The messages of a catalogue: what is marked, and its translation in each number.

    >>> messages_of('msgid "a"\nmsgid_plural "b"\nmsgstr[0] "x"\nmsgstr[1] ""\n"y"\n')
    {'a': ('x', 'y')}
    """
    found: dict[str, tuple[str, ...]] = {}
    entry: list[tuple[str, str]] = []
    for line in (*text.splitlines(), "msgid"):
        word, _, quoted = line.strip().partition(" ")
        if word.startswith('"') and entry:
            name, before = entry[-1]
            entry[-1] = name, before + json.loads(line.strip())
        elif word.startswith("msg"):
            if word == "msgid":
                if entry:
                    told = tuple(part for name, part in entry if name.startswith("msgstr"))
                    found[entry[0][1]] = told
                entry = []
            entry.append((word, json.loads(quoted or '""')))
    return found


@cache
def _catalogues() -> dict[str, Catalogue]:
    from importlib.resources import files

    places = sorted(files("observant").joinpath("languages").iterdir(), key=lambda p: p.name)
    return {
        place.name.removesuffix(".po"): Catalogue(
            place.name.removesuffix(".po"), place.read_text("utf-8")
        )
        for place in places
        if place.name.endswith(".po")
    }


def languages() -> dict[str, str]:
    """The languages that there are, each by its own name.

    >>> languages()
    {'en': 'English', 'de': 'Deutsch', 'es': 'Español'}
    """
    return {_ENGLISH: "English"} | {code: found.name for code, found in _catalogues().items()}


_current: ContextVar[standard.NullTranslations] = ContextVar(
    "language",
    default=standard.NullTranslations(),  # noqa: B039 (it holds no state)
)


def use(language: str) -> None:
    """Speak this language from now on, in this context."""
    _current.set(_catalogues().get(language) or standard.NullTranslations())


def code() -> str:
    """The language that is spoken: de."""
    return getattr(_current.get(), "code", _ENGLISH)


def gettext(message: str) -> str:
    """A message in the language that is spoken."""
    return _current.get().gettext(message)


def ngettext(one: str, many: str, number: int) -> str:
    """A message that depends on a number."""
    return _current.get().ngettext(one, many, number)


def localized(number: str) -> str:
    """A number that is written as in English, with the signs of the language that is spoken."""
    if getattr(_current.get(), "decimal", ".") == ".":
        return number
    return number.translate(_SIGNS)


def N_(message: str) -> str:  # noqa: N802 (its name everywhere)
    """Mark a message that is translated where it is shown."""
    return message


def preferred(wishes: str) -> str:
    """The language that fits an Accept-Language header best.

    >>> preferred("fr, de-CH;q=0.8, en;q=0.5"), preferred("*"), preferred("xx;q=nonsense")
    ('de', 'en', 'en')
    """
    best, found = 0.0, _ENGLISH
    for part in wishes[:500].split(","):
        name, _, weight = part.strip().lower().partition(";q=")
        try:
            share = float(weight or 1.0)
        except ValueError:
            continue
        plain = name.partition("-")[0]
        if best < share <= 1.0 and plain in languages():
            best, found = share, plain
    return found
