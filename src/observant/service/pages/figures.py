# ruff: noqa: TC001, TC002 (Litestar looks at the types of a handler)
"""Figures by name: for the script of the page, and to keep as CSV, JSON, SVG or PNG."""

from __future__ import annotations

import msgspec
from litestar import Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

from observant.errors import InputError, PendingError, UnknownSourceError
from observant.service.charts import CHARTS, FORMATS, drawn, rendered
from observant.service.given import GivenCollection
from observant.service.pages.routes import Asked, reading


@get("/charts/{file:str}", **reading("figure"))
def figure(request: Asked, collection: GivenCollection, file: FromPath[str]) -> Response[bytes]:
    """A figure: Vega-Lite (json), its numbers (csv), or a picture (svg, png).

    While its numbers are being computed, the answer to json is 202: ask again soon.
    """
    name, _, ending = file.rpartition(".")
    if name not in CHARTS or ending not in FORMATS:
        raise NotFoundException("there is no such figure")
    params = dict(request.query_params.items())
    if ending != "json":
        headers = {"Content-Disposition": f'inline; filename="{name}.{ending}"'}
        return Response(
            rendered(collection, name, params, ending),
            media_type=FORMATS[ending],
            headers=headers,
        )
    status = 200
    try:
        found = drawn(collection, name, params)
    except PendingError as error:
        found, status = msgspec.json.encode({"pending": str(error)}), 202
    except UnknownSourceError:
        raise
    except InputError as error:
        found = msgspec.json.encode({"missing": error.message})
    return Response(found, status_code=status, media_type=FORMATS["json"])
