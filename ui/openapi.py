"""OpenAPI: the description of the REST interface (3.1), made of the routes and of the types of their JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from ..cluster.access import Role
from .guard import CSRF_HEADER
from .model import Problem

if TYPE_CHECKING:
    from .routes import Route

_PARAMETER: Final = re.compile(r"\{(\w+)(?::[^{}]*)?\}")


def described(routes: Iterable[Route], version: str) -> dict[str, Any]:
    """The document for these routes; files of the page are left out."""
    shown = [route for route in routes if "/api/" in route.path]
    kinds = {_name(kind): kind for route in shown for kind in (route.gives, route.takes) if kind is not None}
    kinds[_name(Problem)] = Problem
    schemas: dict[str, Any] = {}
    for name, kind in sorted(kinds.items()):
        schema = TypeAdapter(kind).json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
        schemas.update(schema.pop("$defs", {}))
        schemas[name] = schema
    paths: dict[str, Any] = {}
    for route in shown:
        paths.setdefault(_PARAMETER.sub(r"{\1}", route.path), {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "aiostorm", "version": version, "description": "Running topologies: look, and control."},
        "servers": [{"url": "../.."}],  # from this document's address to the page's
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(route.path)
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": {"type": "integer", "minimum": 0}}
        for name in route.query
    ]
    if route.role is Role.OPERATOR:
        schema = {"type": "string", "const": "1"}
        parameters.append({"name": CSRF_HEADER, "in": "header", "required": True, "schema": schema})
    problem = {"description": "Refused.", "content": {"application/json": {"schema": _ref(Problem)}}}
    operation: dict[str, Any] = {
        "summary": route.help,
        "operationId": route.handler.__name__,
        "x-role": route.role.value,
        "parameters": parameters,
        "responses": {"200": {"description": "Done.", "content": _content(route)}, "default": problem},
    }
    if route.takes is not None:
        required = route.method == "PATCH" or route.handler.__name__ == "log_level"
        operation["requestBody"] = {
            "required": required,
            "content": {"application/json": {"schema": _ref(route.takes)}},
        }
    return operation


def _content(route: Route) -> dict[str, Any]:
    if route.gives is not None:
        return {"application/json": {"schema": _ref(route.gives)}}
    kind = "text/event-stream" if route.path.endswith("/stream") else "text/plain"
    return {kind: {"schema": {"type": "string"}}}


def _ref(kind: Any) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{_name(kind)}"}


def _name(kind: Any) -> str:
    return str(kind.__name__)
