"""The reference of the API as a page, made from the OpenAPI document of this very service."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from litestar import Response, get

from observant.service.access.rights import RULES
from observant.service.pages.render import page
from observant.service.pages.routes import Asked, reading

_SCHEMAS = "#/components/schemas/"
_NEEDS = {"nothing": "nobody has to sign in", "read": "may read"}
_NEEDS |= {"write": "may change things", "admin": "may administer"}


class Piece(NamedTuple):
    """A part of a type in words; `schema` is where it is described, if it has a name."""

    text: str
    schema: str = ""


class ReferenceField(NamedTuple):
    """A parameter of an operation, or a field of a schema."""

    name: str
    kind: list[Piece]
    where: str = ""
    required: bool = False
    default: str = ""
    description: str = ""


class Operation(NamedTuple):
    """One operation of the API."""

    name: str
    method: str
    path: str
    description: list[str]
    needs: str
    parameters: list[ReferenceField]
    body: list[Piece]
    answer: list[Piece]
    example: str


@get("/reference", **reading("reference"))
def reference(request: Asked) -> Response[str]:
    """Every operation of the API with its parameters, its answer and an example."""
    document = request.app.openapi_schema.to_schema()
    schemas = document["components"]["schemas"]
    base = str(request.base_url).rstrip("/")
    topics: dict[str, list[Operation]] = {}
    for path, methods in document["paths"].items():
        for method, found in methods.items():
            topic = (found.get("tags") or ["more"])[0]
            made = _operation(method, path, found, schemas, base)
            topics.setdefault(topic, []).append(made)
    return page(
        request,
        "reference.html",
        topics=topics,
        schemas={name: _fields(schema) for name, schema in sorted(schemas.items())},
        version=document["info"]["version"],
        description=document["info"]["description"],
    )


def _operation(
    method: str, path: str, found: dict[str, Any], schemas: dict[str, Any], base: str
) -> Operation:
    body = _content(found.get("requestBody") or {})
    good = [answer for status, answer in found["responses"].items() if status < "300"]
    return Operation(
        name=found["operationId"],
        method=method.upper(),
        path=path,
        description=(found.get("description") or "").split("\n\n"),
        needs=_NEEDS[RULES.get(found["operationId"], "read")],
        parameters=[
            ReferenceField(
                name=one["name"],
                kind=_kind(one.get("schema", {})),
                where=one["in"],
                required=one.get("required", False),
                default=_default(one.get("schema", {})),
                description=one.get("description") or "",
            )
            for one in found.get("parameters", ())
        ],
        body=_kind(body) if body else [],
        answer=_kind(_content(good[0])) if good and good[0].get("content") else [],
        example=_example(method, path, body, schemas, base),
    )


def _content(described: dict[str, Any]) -> dict[str, Any]:
    """The schema of a body or an answer."""
    contents = list((described.get("content") or {}).values())
    found: dict[str, Any] = contents[0].get("schema", {}) if contents else {}
    return found


def _fields(schema: dict[str, Any]) -> list[ReferenceField]:
    required = schema.get("required", ())
    return [
        ReferenceField(
            name=name,
            kind=_kind(one),
            required=name in required,
            default=_default(one),
            description=one.get("description") or "",
        )
        for name, one in schema.get("properties", {}).items()
    ]


def _default(schema: dict[str, Any]) -> str:
    return json.dumps(schema["default"], ensure_ascii=False) if "default" in schema else ""


def _kind(schema: dict[str, Any]) -> list[Piece]:
    """A type in words.

    >>> [piece.text for piece in _kind({"type": "array", "items": {"type": "string"}})]
    ['list of ', 'string']
    >>> _kind({"oneOf": [{"$ref": "#/components/schemas/Added"}, {"type": "null"}]})[0].schema
    'Added'
    """
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_SCHEMAS)
        return [Piece(name, name)]
    choices = [one for one in schema.get("oneOf") or schema.get("anyOf") or () if one]
    if choices:
        parts = [_kind(one) for one in choices]
        return [p for k, part in enumerate(parts) for p in ([Piece(" or ")] if k else []) + part]
    if "enum" in schema:
        return [Piece(" | ".join(json.dumps(value) for value in schema["enum"]))]
    kind = schema.get("type", "any")
    if kind == "array":
        return [Piece("list of "), *_kind(schema.get("items") or {})]
    if kind == "object" and schema.get("additionalProperties"):
        return [Piece("object of "), *_kind(schema["additionalProperties"])]
    names = [kind] if isinstance(kind, str) else list(kind)
    text = " or ".join(names)
    return [Piece(f"{text} ({schema['format']})" if schema.get("format") else text)]


def _example(
    method: str, path: str, body: dict[str, Any], schemas: dict[str, Any], base: str
) -> str:
    """A command that can be typed."""
    words = ["curl", '-H "Authorization: Bearer $OBSERVANT_TOKEN"']
    if method != "get":
        words.append(f"-X {method.upper()}")
    if body:
        value = json.dumps(_value(body, schemas), ensure_ascii=False)
        words += ["-H 'Content-Type: application/json'", f"-d '{value}'"]
    return " ".join([*words, f"'{base}{path}'"])


_VALUES = {"string": "…", "integer": 1, "number": 1.0, "boolean": True, "null": None}


def _value(schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """A value of this type, with what must be given."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].removeprefix(_SCHEMAS)]
    choices = [one for one in schema.get("oneOf") or schema.get("anyOf") or () if one]
    if choices:
        return _value(choices[0], schemas)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    if kind == "array":
        return [_value(schema.get("items") or {}, schemas)]
    if kind == "object":
        given = schema.get("properties", {})
        return {name: _value(given[name], schemas) for name in schema.get("required", ())}
    return _VALUES[kind if isinstance(kind, str) else kind[0]]
