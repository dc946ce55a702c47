"""Bring the catalogues of translations in line with the texts that are marked.

    python docs/languages.py                 # after a text was marked or changed
    python docs/languages.py fr Français     # to begin another language

Texts without a translation are added as such, and what nobody marks any more is dropped.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

from observant.language import messages_of
from observant.names import TOPICS
from observant.service.pages.render import environment

PACKAGE = Path(__file__).parents[1] / "src" / "observant"
CATALOGUES = PACKAGE / "languages"
MARKS = {"_", "N_", "gettext", "ngettext"}
HEADER = "Language: {code}\nX-Name: {name}\nX-Decimal: .\nContent-Type: text/plain; charset=utf-8\n"
PLURAL = "Plural-Forms: nplurals=2; plural=n != 1;\n"


def marked() -> dict[str, str | None]:
    """Every marked text, with its plural if it has one, in the order of the files."""
    found: dict[str, str | None] = {}
    templates = environment()
    for file in sorted(PACKAGE.joinpath("service/pages/templates").glob("*.html")):
        for _, _, message in templates.extract_translations(file.read_text("utf-8")):
            parts = [message] if isinstance(message, str) else [m for m in message if m]
            found[parts[0]] = parts[1] if len(parts) > 1 else None
    for file in sorted(PACKAGE.rglob("*.py")):
        text = file.read_text("utf-8")
        if "from observant.language import" in text:
            found |= dict(_calls(ast.parse(text)))
    return found | dict.fromkeys(TOPICS.values())


def _calls(module: ast.Module) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MARKS:
            texts = [a.value for a in node.args if isinstance(a, ast.Constant)]
            plain = [text for text in texts if isinstance(text, str)]
            if plain:
                found.append((plain[0], plain[1] if node.func.id == "ngettext" else None))
    return found


def renewed(text: str, wanted: dict[str, str | None]) -> str:
    """A catalogue with what is marked now, and the translations that it has."""
    known = messages_of(text)
    blocks = [_block("", None, known.get("", ("",)))]
    blocks += [_block(one, many, known.get(one, ())) for one, many in wanted.items()]
    return "\n".join(blocks)


def _block(one: str, many: str | None, told: tuple[str, ...]) -> str:
    lines = [f"msgid {_quoted(one)}"]
    if many is None:
        lines.append(f"msgstr {_quoted(told[0] if told else '')}")
    else:
        lines.append(f"msgid_plural {_quoted(many)}")
        lines += [f"msgstr[{n}] {_quoted(text)}" for n, text in enumerate(told or ("", ""))]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def main() -> None:
    if len(sys.argv) > 1:
        code, name = sys.argv[1:]
        header = HEADER.format(code=code, name=name) + PLURAL
        (CATALOGUES / f"{code}.po").write_text(_block("", None, (header,)), "utf-8")
    wanted = marked()
    for file in sorted(CATALOGUES.glob("*.po")):
        file.write_text(renewed(file.read_text("utf-8"), wanted), "utf-8")
        told = messages_of(file.read_text("utf-8"))
        missing = [text for text, forms in told.items() if not all(forms)]
        print(f"{file.name}: {len(wanted)} texts, {len(missing)} without a translation")  # noqa: T201
        for text in missing:
            print(f"  {text}")  # noqa: T201


if __name__ == "__main__":
    main()
