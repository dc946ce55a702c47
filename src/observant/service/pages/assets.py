"""Files that pages load: our own style and script, and Vega from the installed vl-convert.

A file's name holds a hash of what is in it, so a browser may keep it for ever.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import sys
from contextlib import suppress
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import msgspec
from litestar import Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

from observant.errors import InputError, PendingError, UnknownSourceError
from observant.formats import write_lines
from observant.service.access.rights import rule
from observant.service.charts import CHARTS, FORMATS, drawn, rendered
from observant.service.forms import GivenCollection
from observant.service.pages.routes import Asked, reading

_OWN = {
    "app.css": "text/css; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_VEGA = "vega.js"
_STATIC = files("observant.service.pages").joinpath("static")
_FOR_EVER = "public, max-age=31536000, immutable"


@functools.cache
def asset(name: str) -> str:
    """The name under which a file is served.

    >>> asset("app.css").startswith("app."), asset("app.css").endswith(".css")
    (True, True)
    """
    # Making the bundle takes seconds; its version says as much as its content.
    seen = version("vl-convert-python").encode() if name == _VEGA else _content(name)
    stem, _, ending = name.rpartition(".")
    return f"{stem}.{hashlib.sha256(seen).hexdigest()[:12]}.{ending}"


@functools.cache
def _content(name: str) -> bytes:
    return _bundle() if name == _VEGA else _STATIC.joinpath(name).read_bytes()


def _bundle() -> bytes:
    """Vega in one file; kept as Python keeps its bytecode, since making it takes seconds."""
    kept = Path(str(_STATIC.joinpath("__pycache__", asset(_VEGA))))
    with suppress(OSError):
        return kept.read_bytes()
    import vl_convert

    made = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    if not sys.dont_write_bytecode:
        with suppress(OSError, InputError):
            kept.parent.mkdir(exist_ok=True)
            write_lines([made], kept)
    return f"{made}\n".encode()


@functools.cache
def _packed(name: str) -> bytes:
    return gzip.compress(_content(name), 9, mtime=0)


@get(
    "/static/{name:str}",
    opt=rule("static"),
    include_in_schema=False,
    sync_to_thread=True,
)
def static(name: FromPath[str], request: Request) -> Response[bytes]:  # type: ignore[type-arg]
    """A file that pages load."""
    known = {asset(own): own for own in (*_OWN, _VEGA)}
    if name not in known:
        raise NotFoundException("there is no such file")
    own = known[name]
    packed = "gzip" in request.headers.get("accept-encoding", "")
    headers = {"Cache-Control": _FOR_EVER, "Vary": "Accept-Encoding"}
    return Response(
        _packed(own) if packed else _content(own),
        media_type=_OWN.get(own, "text/javascript; charset=utf-8"),
        headers=headers | ({"Content-Encoding": "gzip"} if packed else {}),
    )


# -- Figures by name: for the script of the page, and to keep as CSV, JSON, SVG or PNG ------------


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
