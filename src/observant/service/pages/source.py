"""One source: its past, what is believed of it, its versions, its settings."""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from litestar import Response, get, post
from litestar.params import PathParameter

from observant.errors import InputError, ObservantError
from observant.language import N_
from observant.language import gettext as _
from observant.names import CHANGES, RENDER_MODES
from observant.observer.browser.chooser import nearest
from observant.observer.content import learned_noise
from observant.observer.content.rules import SELECTORS
from observant.observer.failures import failure, remedy
from observant.observer.transport.headers import header_lines
from observant.service import studies
from observant.service.answers import DiffAnswer, DiffPart, PreviewAnswer, SourceDetail
from observant.service.api.sources import image
from observant.service.collection import Collection
from observant.service.collection.edits import judged_by_text
from observant.service.collection.entries import PreviewRequest, SourceChanges
from observant.service.collection.signals import WORTHS
from observant.service.forms import Form, GivenCollection, GivenForm, number_in, tags_in, whole_in
from observant.service.pages.render import back_to, page
from observant.service.pages.routes import CANNOT, Asked, changing, reading
from observant.store.visit import Previous
from observant.times import utc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from observant.observer.browser.steps import StepPicture
    from observant.store import Version

Number = Annotated[int, PathParameter(ge=1, le=2**53)]
Digest = Annotated[str, PathParameter(max_length=64)]
_AROUND = 200
"""Characters of equal text that are shown around a difference."""
_VERSIONS = 50
_VISITS = 25
_PARTS = 20
_PREVIEW = 5000
"""Characters of text that are shown of what was chosen."""
_STEPS = ("steps", "sign_in")
LOOKS = ("side by side", "slider", "differences")
"""How two pictures of a page are shown."""


@get("/sources/{number:int}", **reading("source"))
def source(request: Asked, collection: GivenCollection, number: Number) -> Response[str]:
    """Everything about one source."""
    return _page(request, collection, number)


@post("/sources/{number:int}", **changing("update_source"))
def update(
    request: Asked, collection: GivenCollection, form: GivenForm, number: Number
) -> Response[Any]:
    """Describe a source anew."""
    collection.find(number)
    try:
        collection.sources.update(number, _changes(form))
    except CANNOT as error:
        return _edit(request, collection, number, form, problem=str(error))
    return back_to(request, f"/sources/{number}", "saved")


@get("/sources/{number:int}/edit", **reading("preview_source"))
def edit(request: Asked, collection: GivenCollection, number: Number) -> Response[str]:
    """Every setting of a source."""
    return _edit(request, collection, number)


@post("/sources/{number:int}/edit", **changing("preview_source"))
def preview(
    request: Asked, collection: GivenCollection, form: GivenForm, number: Number
) -> Response[str]:
    """What the settings of the form would give, beside the form; nothing is saved."""
    collection.find(number)
    seen, problem = None, ""
    try:
        seen = collection.sources.preview(PreviewRequest(source=number, changes=_changes(form)))
        problem = f"Nothing would be taken: {seen.problem}" if seen.problem else ""
    except (*CANNOT, ObservantError) as error:
        problem = str(error)
    return _edit(request, collection, number, form, seen=seen, problem=problem)


def _edit(
    request: Asked,
    collection: Collection,
    number: int,
    form: Form | None = None,
    *,
    seen: PreviewAnswer | None = None,
    problem: str = "",
) -> Response[str]:
    detail = collection.sources.get(number)
    row = detail.source
    own = _own(detail) | {
        "title": row.title,
        "tags": ", ".join(row.tags),
        "importance": f"{row.importance:g}",
        "url": row.url,
    }
    if form is not None:
        own = {name: form["settings" if name == "rest" else name] for name in own}
    usual = detail.in_force | detail.in_force.get("compare", {})
    return page(
        request,
        "edit.html",
        status=422 if problem else 200,
        detail=detail,
        row=row,
        own=own,
        usual={field.name: usual.get(field.name) for field in _ALL},
        groups=FIELDS,
        languages=SELECTORS[:4],
        preview=seen,
        problem=problem,
        text=seen.text[:_PREVIEW] if seen else "",
    )


@post("/sources/{number:int}/visit", **changing("check_source"))
def visit(request: Asked, collection: GivenCollection, number: Number) -> Response[Any]:
    """Visit a source now."""
    collection.find(number)
    try:
        found = collection.sources.check(number).visit
    except ObservantError as error:
        return _page(request, collection, number, problem=str(error))
    if found.outcome == "failed":  # a failure is no good news
        why = f"The visit failed: {failure(found.error, found.status)}."
        helps = remedy(found.error, found.status)
        return _page(
            request, collection, number, problem=f"{why} What helps: {helps}." if helps else why
        )
    return back_to(request, f"/sources/{number}", "visited")


@post("/sources/{number:int}/state", **changing("pause_source"))
def set_state(
    request: Asked, collection: GivenCollection, form: GivenForm, number: Number
) -> Response[Any]:
    """Pause a source, or go on with it."""
    (collection.sources.pause if form["state"] == "paused" else collection.sources.resume)(number)
    return back_to(request, f"/sources/{number}", "saved")


@get("/sources/{number:int}/picture", **reading("page_picture"))
def picture(collection: GivenCollection, number: Number) -> Response[bytes]:
    """The page of a source as a browser shows it."""
    found = collection.pictures.page(number)
    return Response(found.image, media_type="image/jpeg")


@get("/sources/{number:int}/choose", **reading("page_picture"))
def choose(request: Asked, collection: GivenCollection, number: Number) -> Response[str]:
    """Choose what is watched of a page by pointing at its picture."""
    row = collection.find(number)
    chosen = [css for css in request.query_params.getall("css", []) if css][:_PARTS]
    before = str(row.config.get("compare", {}).get("css") or "")
    seen, text, problem, proposal, was = None, "", "", "", ""
    try:
        seen = collection.pictures.page(number)
        if chosen or before:
            text = collection.pictures.chosen_text(number, ", ".join(chosen) or before)
        if chosen:
            was = collection.store.sources.previous(row.name).text or ""
    except ObservantError as error:
        problem = str(error)
        if seen is not None and before and not chosen:
            known = collection.store.sources.previous(row.name).text or ""
            near = nearest(seen.boxes, known)
            proposal = near.css if near else ""
    return page(
        request,
        "choose.html",
        row=collection.sources.row(number),
        picture=seen,
        boxes=[(box, _toggled(chosen, box.css)) for box in (seen.boxes if seen else ())],
        chosen=chosen,
        css=", ".join(chosen),
        before=before,
        text=text[:_PREVIEW],
        was=was[:_PREVIEW],
        judged=judged_by_text(collection, row, text) if chosen else [],
        proposal=proposal,
        problem=problem,
    )


@post("/sources/{number:int}/choose", **changing("update_source"))
def choose_it(
    request: Asked, collection: GivenCollection, form: GivenForm, number: Number
) -> Response[Any]:
    """Watch what was chosen."""
    own = collection.sources.get(number).settings
    rest = {k: v for k, v in own.get("compare", {}).items() if k not in SELECTORS}
    chosen = {"css": form["css"]} if form["css"] else {}
    return _saved(request, collection, number, own | {"compare": rest | chosen})


@get("/sources/{number:int}/steps", **reading("try_steps"))
def steps(request: Asked, collection: GivenCollection, number: Number) -> Response[str]:
    """Steps that are taken on a page before it is read."""
    asked = {name: request.query_params.get(name) for name in _STEPS}
    if all(text is None for text in asked.values()):
        own = collection.find(number).config
        return _steps_page(
            request, collection, number, {n: [*map(str, own.get(n, ()))] for n in _STEPS}
        )
    given = {name: _lines(text or "") for name, text in asked.items()}
    return _steps_page(request, collection, number, given)


def _steps_page(
    request: Asked,
    collection: Collection,
    number: int,
    given: dict[str, list[str]],
    taken: Sequence[StepPicture] | None = None,
    problem: str = "",
) -> Response[str]:
    return page(
        request,
        "steps.html",
        row=collection.sources.row(number),
        given={name: "\n".join(lines) for name, lines in given.items()},
        pictures=[(one.step, b64encode(one.image).decode(), one.problem) for one in taken or ()],
        tried=taken is not None,
        problem=problem,
    )


@post("/sources/{number:int}/steps", **changing("update_source"))
def take_steps(
    request: Asked, collection: GivenCollection, form: GivenForm, number: Number
) -> Response[Any]:
    """Try these steps now, or take them from now on.

    Steps click and fill in, with secrets: so a trial, too, is asked for by a form of ours.
    """
    given = {name: _lines(form[name]) for name in _STEPS}
    if form["try"]:
        try:
            tried = collection.pictures.try_steps(number, given["steps"], given["sign_in"])
        except ObservantError as error:
            tried = [], str(error)
        return _steps_page(request, collection, number, given, *tried)
    own = collection.sources.get(number).settings
    rest = {name: value for name, value in own.items() if name not in _STEPS}
    wanted = {name: lines for name, lines in given.items() if lines}
    return _saved(request, collection, number, rest | wanted)


@get("/sources/{number:int}/shots/{digest:str}", **reading("picture"))
def shot(collection: GivenCollection, number: Number, digest: Digest) -> Response[bytes]:
    """A picture of the page, as a version or a failed visit was seen."""
    return image(collection.pictures.get(number, digest))


def _lines(text: str) -> list[str]:
    return [line for one in text.splitlines() if (line := one.strip())]


def _toggled(chosen: list[str], css: str) -> str:
    """The question that takes a part, or drops it if it was taken."""
    after = [one for one in chosen if one != css] if css in chosen else [*chosen, css]
    return urlencode([("css", one) for one in after])


@post("/sources/{number:int}/render", **changing("update_source"))
def render(
    request: Asked, collection: GivenCollection, form: GivenForm, number: Number
) -> Response[Any]:
    """Look at a source with a browser from now on, or without one."""
    own = collection.sources.get(number).settings
    return _saved(request, collection, number, own | {"render": form["render"]})


def _saved(
    request: Asked, collection: Collection, number: int, settings: dict[str, Any]
) -> Response[Any]:
    """The page of a source after these settings were entered, or with the reason against them."""
    try:
        collection.sources.update(number, SourceChanges(settings=settings))
    except CANNOT as error:
        return _page(request, collection, number, problem=str(error))
    return back_to(request, f"/sources/{number}", "saved")


@post("/sources/{number:int}/ignore", **changing("update_source"))
def ignore(
    request: Asked, collection: GivenCollection, form: GivenForm, number: Number
) -> Response[Any]:
    """Leave a text out from now on."""
    try:
        expression = form["expression"]
        collection.sources.ignore(number, form["text"], form["before"], expression=expression)
    except CANNOT as error:
        return _page(request, collection, number, problem=str(error))
    return back_to(request, f"/sources/{number}/edit", "ignored")


@post("/sources/{number:int}/remove", **changing("remove_source"))
def remove(
    request: Asked, collection: GivenCollection, form: GivenForm, number: Number
) -> Response[Any]:
    """Stop watching a source."""
    collection.sources.remove(number, forget=bool(form["forget"]))
    return back_to(request, "/sources", "removed")


def _page(
    request: Asked, collection: Collection, number: int, *, problem: str = ""
) -> Response[str]:
    params = request.query_params
    detail = collection.sources.get(number)
    before = whole_in(params, "before", 0)
    versions = collection.sources.versions(number, limit=_VERSIONS)
    by = params.get("by") or "auto"
    difference = None
    if len(versions) > 1:
        try:
            difference = collection.sources.diff(
                number, params.get("old") or None, params.get("new") or None, by=by
            )
        except InputError as error:
            problem = problem or str(error)
    shots = collection.pictures.list(number)
    failures = collection.pictures.list(number, 1, failures=True)
    looked, marks = _looked(params, shots), None
    if len(shots) > 1 and looked[2] == LOOKS[2]:
        with suppress(ObservantError):  # the pictures are shown without marks
            marks = collection.pictures.difference(number, *looked[:2])
    row = detail.source
    failed = bool(row.failed_in_row and failures and row.visited_at == utc(failures[0].at))
    return page(
        request,
        "source.html",
        status=422 if problem else 200,
        detail=detail,
        row=row,
        failed_shot=failures[0].digest.hex() if failed else "",
        shots=[(one.digest.hex(), utc(one.at)) for one in shots],
        looked=looked,
        marks=marks,
        looks=LOOKS,
        visits=collection.sources.visits(number, limit=_VISITS, after=before or None),
        before=before,
        signals=(said := collection.signals.of(row.name, _VISITS)),
        channels=[
            one
            for one in collection.signals.reliability()
            if (one.kind, one.group) in {(s.kind, s.listing or row.host) for s in said}
        ],
        worths={found: _(text) for found, text in WORTHS.items()},
        versions=versions,
        difference=difference,
        parts=_shortened(difference),
        by=by,
        verdict=_verdict(collection, number),
        noise=learned_noise(Previous(memory={"noise": detail.noise or {}}))[:_PARTS],
        problem=problem,
    )


def _looked(params: Mapping[str, str], shots: Sequence[Version]) -> tuple[str, str, str]:
    """Which two pictures of a page are shown, and how: the last two unless somebody has asked."""
    kept = [one.digest.hex() for one in shots]
    old, new = params.get("before_shot", ""), params.get("after_shot", "")
    old = old if old in kept else (kept[1:2] or [""])[0]
    new = new if new in kept else (kept[:1] or [""])[0]
    look = params.get("look", "")
    return old, new, look if look in LOOKS else LOOKS[0]


def _verdict(collection: Collection, number: int) -> str:
    found = studies.intervals(collection, collection.find(number), wait=0.0)
    if found.value is not None:
        return studies.verdict(found.value)
    return found.error or _("Whether it is Poisson is being computed")


class ShownPart(NamedTuple):
    """A stretch of a difference for the page."""

    kind: str
    old: str
    new: str
    path: str = ""
    skipped: int = 0


def _shortened(difference: DiffAnswer | None) -> list[ShownPart]:
    """The difference with long equal stretches cut down to what is around the changes."""
    if difference is None:
        return []
    parts: list[ShownPart] = []
    last = len(difference.parts) - 1
    for place, part in enumerate(difference.parts):
        if part.kind != "equal" or len(part.new) <= 3 * _AROUND:
            parts.append(_part(part))
            continue
        head = part.new[:_AROUND] if place else ""
        tail = part.new[-_AROUND:] if place != last else ""
        parts.append(ShownPart("equal", "", head))
        parts.append(ShownPart("equal", "", "", skipped=len(part.new) - len(head) - len(tail)))
        parts.append(ShownPart("equal", "", tail))
    return parts


def _part(part: DiffPart) -> ShownPart:
    return ShownPart(part.kind, part.old, part.new, part.path)


class SettingField(NamedTuple):
    """A setting in the form."""

    name: str
    label: str
    hint: str = ""
    lines: bool = False
    """Several, one on each line."""
    choices: tuple[str, ...] = ()


FIELDS = {
    N_("What is watched"): (
        SettingField(
            "regex", N_("Regular expression"), N_("keeps what it matches, after the selector")
        ),
        SettingField("drop", N_("Leave out, by CSS selector"), N_("one per line"), lines=True),
        SettingField(
            "ignore", N_("Ignore text, by regular expression"), N_("one per line"), lines=True
        ),
        SettingField("render", N_("Browser"), choices=RENDER_MODES),
    ),
    N_("What counts, and what is reported"): (
        SettingField("change", N_("What counts as a change"), choices=CHANGES),
        SettingField("threshold", N_("Least magnitude"), N_("from 0 to 1")),
        SettingField(
            "masks",
            N_("Cover in pictures"),
            N_("CSS, or x y width height; one per line"),
            lines=True,
        ),
        SettingField("confirm", N_("Further visits that must confirm it")),
        SettingField(
            "conditions", N_("Tell when"), N_("such as: below 50; one per line"), lines=True
        ),
    ),
    N_("When it is visited"): (
        SettingField("min_period", N_("Shortest period")),
        SettingField("max_period", N_("Longest period")),
        SettingField("grace", N_("Grace β")),
        SettingField(
            "active", N_("Hours"), N_("such as: mon-fri 08:00-18:00; one per line"), lines=True
        ),
        SettingField("timezone", N_("Time zone of these hours")),
    ),
}
"""The settings that have a field of their own; the others are JSON."""
_COMPARED = frozenset(
    {"regex", "drop", "ignore", "change", "threshold", "masks", "confirm", "conditions"}
)
_NUMBERS = {"threshold": float, "confirm": int}
_ALL = tuple(field for group in FIELDS.values() for field in group)


def _own(detail: SourceDetail) -> dict[str, str]:
    """Its own settings as the form shows them."""
    rest = dict(detail.settings)
    compare = dict(rest.pop("compare", {}))
    texts = {}
    for field in _ALL:
        value = (compare if field.name in _COMPARED else rest).pop(field.name, "")
        texts[field.name] = "\n".join(map(str, value)) if field.lines else str(value)
    language = next((name for name in SELECTORS[:4] if compare.get(name)), "css")
    texts |= {"language": language, "selector": str(compare.pop(language, "") or "")}
    headers = rest.pop("headers", {})
    texts["headers"] = "\n".join(f"{name}: {value}" for name, value in headers.items())
    texts["robots"] = "" if rest.pop("robots", True) else "no"
    rest |= {"compare": compare} if compare else {}
    return texts | {"rest": json.dumps(rest, indent=2, ensure_ascii=False) if rest else ""}


def _changes(form: Form) -> SourceChanges:
    try:
        settings = json.loads(form["settings"] or "{}")
    except ValueError as error:
        raise InputError(f"the other settings are not JSON: {error}") from None
    if not isinstance(settings, dict):
        raise InputError("the other settings are one JSON object, such as {}")
    compare = settings.get("compare") or {}
    if not isinstance(compare, dict):
        raise InputError("compare is a JSON object")
    for field in _ALL:
        lines = [line.strip() for line in form[field.name].splitlines() if line.strip()]
        if lines:
            value: Any = lines if field.lines else lines[0]
            if field.name in _NUMBERS:
                value = _NUMBERS[field.name](number_in(form, field.name, 0.0))
            (compare if field.name in _COMPARED else settings)[field.name] = value
    if form["selector"]:
        compare[form.get("language", "css")] = form["selector"]
    settings |= {"compare": compare} if compare else {}
    if form["robots"]:
        settings["robots"] = False
    if form["headers"]:
        settings["headers"] = header_lines(form["headers"].splitlines())
    given = {
        "title": form["title"],
        "tags": tags_in(form["tags"]),
        "importance": number_in(form, "importance", 1.0),
        "settings": settings,
    }
    return msgspec.convert(given | ({"url": form["url"]} if form["url"] else {}), SourceChanges)
