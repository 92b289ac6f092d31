"""OpenAPI: the document of routes that were made up, compared as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aiostorm.cluster.access import Role
from aiostorm.ui.commands import COMMANDS
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


CSRF = {"name": "X-Aiostorm", "in": "header", "required": True, "schema": {"type": "string", "const": "1"}}


ROUTES = [
    Route("GET", "/index.html", Role.PUBLIC, look, "A file."),
    Route("GET", "/api/v1/things/{name}/{part:.+}", Role.VIEWER, look, "Look.", gives=Given, query=("from", "to")),
    Route("POST", "/api/v1/things/{name}/{part:.+}", Role.OPERATOR, change, "Change.", gives=Given, takes=Taken),
    Route("PATCH", "/api/v1/things", Role.OPERATOR, change, "Patch.", takes=Taken),
    Route("POST", "/api/v1/levels", Role.OPERATOR, log_level, "Set.", takes=Taken),
    Route("GET", "/api/v1/things/stream", Role.VIEWER, look, "Listen."),
]
NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
PART = {**NAME, "name": "part"}
NUMBER = {"in": "query", "required": False, "schema": {"type": "integer", "minimum": 0}}
GIVEN = {"application/json": {"schema": {"$ref": "#/components/schemas/Given"}}}
TAKEN = {"application/json": {"schema": {"$ref": "#/components/schemas/Taken"}}}
TEXT = {"text/plain": {"schema": {"type": "string"}}}


def operation(summary: str, called: str, role: str, parameters: list[Any], content: dict[str, Any]) -> dict[str, Any]:
    return {
        "summary": summary,
        "operationId": called,
        "x-role": role,
        "parameters": parameters,
        "responses": {"200": {"description": "Done.", "content": content}, "default": PROBLEM},
    }


PATHS = {
    "/api/v1/things/{name}/{part}": {
        "get": operation(
            "Look.", "look", "viewer", [NAME, PART, {"name": "from", **NUMBER}, {"name": "to", **NUMBER}], GIVEN
        ),
        "post": {
            **operation("Change.", "change", "operator", [NAME, PART, CSRF], GIVEN),
            "requestBody": {"required": False, "content": TAKEN},
        },
    },
    "/api/v1/things": {
        "patch": {
            **operation("Patch.", "change", "operator", [CSRF], TEXT),
            "requestBody": {"required": True, "content": TAKEN},
        }
    },
    "/api/v1/levels": {
        "post": {
            **operation("Set.", "log_level", "operator", [CSRF], TEXT),
            "requestBody": {"required": True, "content": TAKEN},
        }
    },
    "/api/v1/things/stream": {
        "get": operation("Listen.", "look", "viewer", [], {"text/event-stream": {"schema": {"type": "string"}}})
    },
}


def test_the_document_of_some_routes() -> None:
    found = described(ROUTES, "1.2.3")
    schemas = found["components"].pop("schemas")
    assert found == {
        "openapi": "3.1.0",
        "info": {"title": "aiostorm", "version": "1.2.3", "description": "Running topologies: look, and control."},
        "servers": [{"url": "../.."}],
        "paths": PATHS,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }
    assert list(schemas) == ["Given", "Inner", "Problem", "Taken"]
    assert schemas["Given"]["properties"] == {"inner": {"$ref": "#/components/schemas/Inner"}}
    assert schemas["Inner"]["properties"]["n"]["type"] == "integer"
    assert "$defs" not in schemas["Given"]


def test_the_document_says_what_a_rebalance_takes() -> None:
    found = described(COMMANDS, "1.2.3")
    order = found["paths"]["/api/v1/topologies/{name}/rebalance"]["post"]
    assert order["x-role"] == "operator"
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/RebalanceOrder"}}}}
    assert order["requestBody"] == {"required": False, **body}
    schema = found["components"]["schemas"]["RebalanceOrder"]
    assert schema["additionalProperties"] is False
    assert list(schema["properties"]) == ["workers", "parallelism", "pins", "drain_s"]
    assert "required" not in schema
    assert schema["properties"]["parallelism"]["additionalProperties"] == {"type": "integer"}
    labels = schema["properties"]["pins"]["additionalProperties"]["anyOf"]
    assert labels == [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]
