"""Sources: listing, adding, changing, visiting now, and what their visits found."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated, Any, Literal

from litestar import MediaType, Request, Response, delete, get, patch, post
from litestar.params import Body, FromQuery, JSONBody, PathParameter, QueryParameter

from observant.names import Sort
from observant.observer.content.pictures import image_type
from observant.service.access.check import identity_of
from observant.service.answers import (
    Added,
    AddressItem,
    BulkAnswer,
    ChannelItem,
    CheckAnswer,
    DiffAnswer,
    HubItem,
    Imported,
    PreviewAnswer,
    SignalItem,
    Signalled,
    SourceDetail,
    SourcePage,
    SourceRow,
    VersionItem,
    VisitPage,
)
from observant.service.api.routes import (
    LARGEST_IMPORT,
    After,
    IdempotencyKey,
    Limit,
    Moment,
    SourceId,
    Text,
    once,
    specs_of,
)
from observant.service.collection import (
    BulkChange,
    NewSource,
    SourceChanges,
    SourceQuery,
)
from observant.service.collection.entries import (
    MOST_SIGNALS,
    MOST_SOURCES,
    AddressRequest,
    NewSignal,
    PreviewRequest,
    StepsRequest,
)
from observant.service.forms import GivenCollection
from observant.service.summaries import PagePictureAnswer, PictureDiff, StepShown, StepTrial

spec = specs_of("sources")

Digest = Annotated[
    str, PathParameter(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of a version's content.")
]
OtherDigest = Annotated[str | None, QueryParameter(pattern=r"^[0-9a-f]{64}$")]
_POLICY = "content-security-policy"
SNAPSHOT_HEADERS = {
    _POLICY: "default-src 'none'; sandbox",
    "content-disposition": 'attachment; filename="snapshot.txt"',
}


@get("/sources", **spec("list_sources"))
def list_sources(
    collection: GivenCollection,
    search: Text = None,
    tag: Text = None,
    host: Text = None,
    source_state: Annotated[
        Literal["active", "paused", "gone"] | None, QueryParameter(name="state")
    ] = None,
    kind: Text = None,
    sort: FromQuery[Sort] = "name",
    descending: FromQuery[bool] = False,
    limit: Limit = 100,
    offset: Annotated[int, QueryParameter(ge=0, le=10_000_000)] = 0,
    after: Annotated[
        str | None, QueryParameter(max_length=4000, pattern=r"^[A-Za-z0-9_-]*$")
    ] = None,
) -> SourcePage:
    """One page of sources. `search` is words that must all occur in name or title."""
    return collection.sources.list(
        SourceQuery(
            search=search,
            tag=tag,
            host=host,
            state=source_state,
            kind=kind,
            sort=sort,
            descending=descending,
            limit=limit,
            offset=offset,
            after=after or None,
        )
    )


@post("/sources", **spec("add_source"))
def add_source(
    collection: GivenCollection, data: JSONBody[NewSource], update: FromQuery[bool] = False
) -> Response[Added]:
    """Watch a source: 201 if it is new, 200 if it was there already.

    Then `changes` are what was entered differently, and they are made if it is to `update`.
    """
    added = collection.sources.add(data, update=update)
    return Response(added, status_code=201 if added.new else 200)


@post(
    "/sources/import",
    request_max_body_size=LARGEST_IMPORT,
    **spec("import_sources", status_code=200),
)
def import_sources(
    request: Request[Any, Any, Any],
    collection: GivenCollection,
    data: Annotated[list[NewSource], Body(max_items=MOST_SOURCES)],
    update: FromQuery[bool] = False,
    idempotency_key: IdempotencyKey = None,
) -> Imported:
    """Watch many sources. Bad ones are refused one by one; known ones keep all they have, unless
    they are to `update`.
    """

    def work() -> Imported:
        return collection.sources.add_many(data, update=update)

    return once(collection, identity_of(request), idempotency_key, data, work, Imported)


@post("/sources/bulk", **spec("change_sources", status_code=200))
def change_sources(collection: GivenCollection, data: JSONBody[BulkChange]) -> BulkAnswer:
    """Pause, resume, tag, untag, weigh, edit or remove many sources at once."""
    return collection.sources.bulk(data)


@post("/sources/preview", **spec("preview_source", status_code=200))
def preview_source(collection: GivenCollection, data: JSONBody[PreviewRequest]) -> PreviewAnswer:
    """What a page would give under other settings: now, and at the versions that are kept."""
    return collection.sources.preview(data)


@post("/sources/recognise", **spec("recognise_sources", status_code=200))
def recognise_sources(
    collection: GivenCollection, data: JSONBody[AddressRequest]
) -> list[AddressItem]:
    """Look at addresses before they are watched: page, feed, sitemap, JSON, PDF, empty shell?"""
    return collection.sources.recognise(data.urls)


@get("/sources/{source_id:int}", **spec("source"))
def source(collection: GivenCollection, source_id: SourceId) -> SourceDetail:
    """Everything about one source but its visits."""
    return collection.sources.get(source_id)


@patch("/sources/{source_id:int}", **spec("update_source"))
def update_source(
    collection: GivenCollection, source_id: SourceId, data: JSONBody[SourceChanges]
) -> SourceRow:
    """Change what somebody entered of a source; what is not given stays."""
    return collection.sources.update(source_id, data)


@delete("/sources/{source_id:int}", **spec("remove_source"))
def remove_source(
    collection: GivenCollection, source_id: SourceId, forget: FromQuery[bool] = False
) -> None:
    """Stop watching a source. `forget` deletes its visits and versions as well."""
    collection.sources.remove(source_id, forget=forget)


@post("/sources/{source_id:int}/pause", **spec("pause_source", status_code=200))
def pause_source(collection: GivenCollection, source_id: SourceId) -> SourceRow:
    """Stop visiting a source for a while. What is known of it stays."""
    return collection.sources.pause(source_id)


@post("/sources/{source_id:int}/resume", **spec("resume_source", status_code=200))
def resume_source(collection: GivenCollection, source_id: SourceId) -> SourceRow:
    """Go on visiting a source."""
    return collection.sources.resume(source_id)


@post("/sources/{source_id:int}/check", **spec("check_source", status_code=200))
def check_source(collection: GivenCollection, source_id: SourceId) -> CheckAnswer:
    """Visit a source now, due or not, and tell what was found."""
    return collection.sources.check(source_id)


@get("/sources/{source_id:int}/visits", **spec("source_visits"))
def source_visits(
    collection: GivenCollection,
    source_id: SourceId,
    since: Moment = None,
    until: Moment = None,
    changed: FromQuery[bool | None] = None,
    limit: Limit = 100,
    after: After = None,
) -> VisitPage:
    """Visits of a source, newest first."""
    return collection.sources.visits(
        source_id, since=since, until=until, changed=changed, limit=limit, after=after
    )


@get("/sources/{source_id:int}/signals", **spec("source_signals"))
def source_signals(
    collection: GivenCollection, source_id: SourceId, limit: Limit = 100
) -> list[SignalItem]:
    """What was said of a source between visits, newest first."""
    name = collection.store.sources.numbered(source_id).name
    return collection.signals.of(name, limit)


@get("/signals", **spec("signals"))
def signals(collection: GivenCollection) -> list[ChannelItem]:
    """How far the signals of each kind about each host are believed; liars first."""
    return collection.signals.reliability()


@get("/websub", **spec("websub"))
def websub(collection: GivenCollection) -> list[HubItem]:
    """Sources that name a hub (WebSub), and whether it tells of their changes."""
    return collection.signals.hubs()


@post("/signals", **spec("signal", status_code=200))
def signal(
    request: Request[Any, Any, Any],
    collection: GivenCollection,
    data: Annotated[list[NewSignal], Body(max_items=MOST_SIGNALS)],
) -> Signalled:
    """These sources may have changed. How far that is believed is learned from what visits find."""
    return collection.signals.add(data, sender=f"token:{identity_of(request).name}")


@get("/sources/{source_id:int}/versions", **spec("source_versions"))
def source_versions(
    collection: GivenCollection, source_id: SourceId, limit: Limit = 100
) -> list[VersionItem]:
    """Kept versions of a source, newest first."""
    return collection.sources.versions(source_id, limit=limit)


@get(
    "/sources/{source_id:int}/versions/{digest:str}",
    **spec("snapshot", media_type=MediaType.TEXT),
)
def snapshot(collection: GivenCollection, source_id: SourceId, digest: Digest) -> Response[bytes]:
    """The content of a version, as text to be downloaded: never as a page of ours."""
    return Response(
        collection.sources.snapshot(source_id, digest),
        media_type=MediaType.TEXT,
        headers=SNAPSHOT_HEADERS,
    )


@get("/sources/{source_id:int}/pictures", **spec("pictures"))
def pictures(
    collection: GivenCollection, source_id: SourceId, limit: Limit = 100
) -> list[VersionItem]:
    """Kept pictures, newest first: of the versions of a page or an image, and of failed visits."""
    return [
        VersionItem.of(one) for one in collection.pictures.list(source_id, limit, failures=True)
    ]


@get("/sources/{source_id:int}/pictures/{digest:str}", **spec("picture", media_type="image/*"))
def picture(collection: GivenCollection, source_id: SourceId, digest: Digest) -> Response[bytes]:
    """A kept picture of a page, or of an image as it was: JPEG, PNG, GIF or WebP."""
    return image(collection.pictures.get(source_id, digest))


def image(content: bytes) -> Response[bytes]:
    """A picture by the type that its bytes have; whatever else it may be, it can do nothing."""
    kind = image_type(content) or "application/octet-stream"
    return Response(content, media_type=kind, headers={_POLICY: SNAPSHOT_HEADERS[_POLICY]})


@get("/sources/{source_id:int}/pictures/diff", **spec("picture_diff"))
def picture_diff(
    collection: GivenCollection,
    source_id: SourceId,
    old: OtherDigest = None,
    new: OtherDigest = None,
) -> PictureDiff:
    """Where two kept pictures of a page differ; by default the last two."""
    return collection.pictures.diff(source_id, old, new)


@post("/sources/{source_id:int}/picture", **spec("page_picture", status_code=200))
def page_picture(collection: GivenCollection, source_id: SourceId) -> PagePictureAnswer:
    """The page as a browser shows it now, with boxes to choose from and their selectors."""
    seen = collection.pictures.page(source_id)
    return PagePictureAnswer(
        image=b64encode(seen.image).decode(),
        width=seen.width,
        height=seen.height,
        boxes=seen.boxes,
    )


@post("/sources/{source_id:int}/steps", **spec("try_steps", status_code=200))
def try_steps(
    collection: GivenCollection, source_id: SourceId, data: JSONBody[StepsRequest]
) -> StepTrial:
    """Take steps on the page now, with a picture after each; nothing is saved."""
    taken, problem = collection.pictures.try_steps(source_id, data.steps, data.sign_in)
    shown = [
        StepShown(step=one.step, image=b64encode(one.image).decode(), problem=one.problem)
        for one in taken
    ]
    return StepTrial(steps=shown, problem=problem)


@get("/sources/{source_id:int}/diff", **spec("diff"))
def diff(
    collection: GivenCollection,
    source_id: SourceId,
    old: OtherDigest = None,
    new: OtherDigest = None,
    by: FromQuery[Literal["auto", "lines", "words", "json"]] = "auto",
) -> DiffAnswer:
    """What changed between two kept versions; by default the last two."""
    return collection.sources.diff(source_id, old, new, by=by)
