"""Settings, and everything that was entered as one document."""

from __future__ import annotations

from typing import Any

from litestar import Request, get, patch, post
from litestar.params import FromQuery, JSONBody

from observant.observer.settings import SettingsChanges
from observant.service.access.check import identity_of
from observant.service.answers import Imported
from observant.service.api.routes import LARGEST_IMPORT, IdempotencyKey, once, specs_of
from observant.service.collection.export import CollectionDocument
from observant.service.forms import GivenCollection
from observant.service.summaries import SettingsView

spec = specs_of("settings")


@get("/settings", **spec("settings"))
def settings(collection: GivenCollection) -> SettingsView:
    """The settings in force."""
    return collection.settings.get()


@patch("/settings", **spec("change_settings"))
def change_settings(collection: GivenCollection, data: JSONBody[SettingsChanges]) -> SettingsView:
    """Change budget, objective, grace or retention; a running observer takes it up."""
    return collection.settings.change(data)


@get("/export", **spec("export"))
def export(
    request: Request[Any, Any, Any], collection: GivenCollection, secrets: FromQuery[bool] = False
) -> CollectionDocument:
    """Everything that was entered: sources, subscriptions, settings. Secrets need admin."""
    return collection.document.export(secrets=secrets, who=identity_of(request))


@post(
    "/import",
    request_max_body_size=LARGEST_IMPORT,
    **spec("import_document", status_code=200),
)
def import_document(
    request: Request[Any, Any, Any],
    collection: GivenCollection,
    data: JSONBody[CollectionDocument],
    idempotency_key: IdempotencyKey = None,
) -> Imported:
    """Take in what was exported. New sources are added, known ones described anew."""
    who = identity_of(request)
    return once(
        collection, who, idempotency_key, data, lambda: collection.document.import_(data), Imported
    )
