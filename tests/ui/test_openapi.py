"""OpenAPI: the document of routes that were made up, compared as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aiostorm.ui.guard import Role
from aiostorm.ui.openapi import described
from aiostorm.ui.routes import Route


@dataclass(frozen=True)
class Inner:
    n: int


@dataclass(frozen=True)
class Given:
    inner: Inner


@dataclass(frozen=True)
class Taken:
    word: str


async def look(request: Any) -> Any:
    """A handler."""


async def change(request: Any) -> Any:
    """Another."""


async def log_level(request: Any) -> Any:
    """One whose body is required."""


PROBLEM = {
    "description": "Refused.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def answered(content: dict[str, Any]) -> dict[str, Any]:
    return {"200": {"description": "Done.", "content": content}, "default": PROBLEM}


CSRF = {"name": "X-Aiostorm", "in": "header", "required": True, "schema": {"type": "string", "const": "1"}}


def test_the_document_of_some_routes() -> None:
    routes = [
        Route("GET", "/index.html", Role.PUBLIC, look, "A file."),
        Route("GET", "/api/v1/things/{name}/{part:.+}", Role.VIEWER, look, "Look.", gives=Given, query=("from", "to")),
        Route("POST", "/api/v1/things/{name}/{part:.+}", Role.OPERATOR, change, "Change.", gives=Given, takes=Taken),
        Route("PATCH", "/api/v1/things", Role.OPERATOR, change, "Patch.", takes=Taken),
        Route("POST", "/api/v1/levels", Role.OPERATOR, log_level, "Set.", takes=Taken),
        Route("GET", "/api/v1/things/stream", Role.VIEWER, look, "Listen."),
    ]
    path = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    part = {**path, "name": "part"}
    number = {"in": "query", "required": False, "schema": {"type": "integer", "minimum": 0}}
    given = {"application/json": {"schema": {"$ref": "#/components/schemas/Given"}}}
    taken = {"application/json": {"schema": {"$ref": "#/components/schemas/Taken"}}}
    text = {"text/plain": {"schema": {"type": "string"}}}
    found = described(routes, "1.2.3")
    schemas = found["components"].pop("schemas")
    assert found == {
        "openapi": "3.1.0",
        "info": {"title": "aiostorm", "version": "1.2.3", "description": "Running topologies: look, and control."},
        "servers": [{"url": "../.."}],
        "paths": {
            "/api/v1/things/{name}/{part}": {
                "get": {
                    "summary": "Look.",
                    "operationId": "look",
                    "x-role": "viewer",
                    "parameters": [path, part, {"name": "from", **number}, {"name": "to", **number}],
                    "responses": answered(given),
                },
                "post": {
                    "summary": "Change.",
                    "operationId": "change",
                    "x-role": "operator",
                    "parameters": [path, part, CSRF],
                    "responses": answered(given),
                    "requestBody": {"required": False, "content": taken},
                },
            },
            "/api/v1/things": {
                "patch": {
                    "summary": "Patch.",
                    "operationId": "change",
                    "x-role": "operator",
                    "parameters": [CSRF],
                    "responses": answered(text),
                    "requestBody": {"required": True, "content": taken},
                }
            },
            "/api/v1/levels": {
                "post": {
                    "summary": "Set.",
                    "operationId": "log_level",
                    "x-role": "operator",
                    "parameters": [CSRF],
                    "responses": answered(text),
                    "requestBody": {"required": True, "content": taken},
                }
            },
            "/api/v1/things/stream": {
                "get": {
                    "summary": "Listen.",
                    "operationId": "look",
                    "x-role": "viewer",
                    "parameters": [],
                    "responses": answered({"text/event-stream": {"schema": {"type": "string"}}}),
                }
            },
        },
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }
    assert list(schemas) == ["Given", "Inner", "Problem", "Taken"]
    assert schemas["Given"]["properties"] == {"inner": {"$ref": "#/components/schemas/Inner"}}
    assert schemas["Inner"]["properties"]["n"]["type"] == "integer"
    assert "$defs" not in schemas["Given"]
