"""Layers of configuration: the content of a file, the environment or a command line, before it is checked.

    keywords ─┐
    file ─────┤─ Layer (key → value, source, line) ─ resolve ─▶ one value per field, extra keys, mistakes
    env ──────┤
    -c ───────╯

1. Reading a layer never raises; keys and values are checked when the layers are combined.
2. Values from the environment and the command line are YAML scalars: 5000 is a number, true a flag, null "not set".
3. In YAML, `topology:` may be a mapping: `topology: {workers: 3}` is `topology.workers: 3`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ..runtime import Given
from .config_keys import IGNORED_KEYS, is_ignored, nearest, plain
from .values import Setting

if TYPE_CHECKING:
    from yaml import Mark, Node

    from .values import SettingKey, Unchecked

ENV_PREFIX = "AIOSTORM_"


@dataclass(slots=True)
class Layer:
    """Keys and their values as given, with the source and (in a file) the line; and what could not be read."""

    values: dict[str, Setting] = field(default_factory=dict[str, Setting])
    sources: dict[str, str] = field(default_factory=dict[str, str])
    lines: dict[str, int] = field(default_factory=dict[str, int])
    problems: list[str] = field(default_factory=list[str])

    @classmethod
    def of(cls, values: Mapping[str, Setting], source: str) -> Layer:
        """A layer whose values all come from one source."""
        given: Unchecked = values
        if not isinstance(given, Mapping):
            return cls(
                problems=[f"settings ({source}) are {given!r:.100}; give a Config, or a mapping of keys to values"]
            )
        return cls(dict(values), dict.fromkeys(values, source))

    def location(self, key: str) -> str:
        """Where a key was given, for people."""
        line = self.lines.get(key)
        return self.sources[key] if line is None else f"{self.sources[key]}, line {line}"


@dataclass(slots=True)
class Resolved:
    """All layers combined: values by field, extra keys, and for each the source and the spelling."""

    values: dict[str, Setting] = field(default_factory=dict[str, Setting])
    extra: dict[str, Setting] = field(default_factory=dict[str, Setting])
    sources: dict[str, str] = field(default_factory=dict[str, str])
    written: dict[str, Given] = field(default_factory=dict[str, Given])
    problems: list[str] = field(default_factory=list[str])


def resolve(layers: Sequence[Layer], fields: Mapping[str, str], optional: frozenset[str]) -> Resolved:
    """Combine layers, later ones over earlier ones. `fields`: every name → its field; `optional`: may be None."""
    resolved = Resolved()
    for layer in layers:
        resolved.problems += layer.problems
        given: dict[str, str] = {}
        for key, value in layer.values.items():
            name = fields.get(key)
            if name is None:
                problem = _unknown(key, layer, fields)
                if problem is not None:
                    resolved.problems.append(problem)
                    continue
                resolved.extra[key] = value
            elif value is None and name not in optional:
                continue
            elif name in given and layer.values[given[name]] != value:
                resolved.problems.append(
                    f"{key} ({layer.location(key)}) and {given[name]} are one setting, given twice"
                )
                continue
            else:
                given[name] = key
                resolved.values[name] = value
            resolved.sources[name or key] = layer.sources[key]
            resolved.written[name or key] = Given(key, value, layer.location(key))
    return resolved


def _unknown(key: SettingKey, layer: Layer, fields: Mapping[str, str]) -> str | None:
    """What is wrong with an unknown key; None if it may be the user's own."""
    if not isinstance(key, str):
        return f"{key!r} ({layer.sources[key]}): a key is text, not {type(key).__name__}"
    if is_ignored(key):
        return None
    if key.startswith("topology."):
        like = nearest(key, [name for name in fields if "." in name] + sorted(IGNORED_KEYS))
    elif "." not in key and "-" not in key:
        # A key without dots may be the user's own, or a misspelt field: only a close match counts as one.
        like = nearest(key, [name for name in fields if "." not in name], cutoff=0.8)
        if like is None:
            return None
    else:
        return None
    hint = f"; did you mean {like}?" if like is not None else ""
    own = "" if key.startswith("topology.") else f" (a key of your own must not look like a setting: use my.{key})"
    return f"{key} ({layer.location(key)}): no such setting{hint}{own}"


def file_layer(path: Path) -> Layer:
    """Read a YAML file. Mistakes are in `problems`, with file, line and column."""
    import yaml

    layer = Layer()
    source = f"file {path}"
    try:
        loader = yaml.SafeLoader(path.read_text("utf-8"))
        try:
            node = loader.get_single_node()
            keys = [key for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
            content: Unchecked = {}
            if node is not None:
                content = loader.construct_document(node)  # pyright: ignore[reportUnknownMemberType] - no hints
        finally:
            loader.dispose()
    except OSError as error:
        layer.problems.append(f"{source}: cannot be read: {error.strerror or error}")
    except UnicodeDecodeError as error:
        layer.problems.append(f"{source}: not UTF-8 text: {error}")
    except yaml.MarkedYAMLError as error:
        layer.problems.append(
            f"{source}{_location(error.problem_mark or error.context_mark)}: {error.problem or error}"
        )
    except yaml.YAMLError as error:
        layer.problems.append(f"{source}: {error}")
    else:
        if isinstance(content, dict):
            _fill(layer, source, cast("Mapping[SettingKey, Setting]", content), keys)
        elif content is not None:
            kind = {"list": "a list", "str": "text"}.get(type(content).__name__, type(content).__name__)
            layer.problems.append(f"{source}, line 1, column 1: expected 'key: value' lines, not {kind}")
    return layer


def _fill(layer: Layer, source: str, content: Mapping[SettingKey, Setting], keys: Sequence[Node]) -> None:
    """Fill a layer with a YAML mapping; `keys` are its keys as nodes, which know their lines."""
    lines: dict[str, int] = {}
    for key in keys:
        # YAML forbids duplicate keys; PyYAML silently takes the last one.
        if key.value in lines:
            layer.problems.append(f"{source}{_location(key.start_mark)}: {key.value!r} is given twice")
        lines[key.value] = key.start_mark.line + 1
    for key, value in content.items():
        for name, leaf in _flat(key, value):
            layer.values[name] = leaf
            layer.sources[name] = source
            if str(key) in lines:
                layer.lines[name] = lines[str(key)]


def _location(mark: Mark | None) -> str:
    return f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""


def _flat(key: SettingKey, value: Setting) -> list[tuple[SettingKey, Setting]]:
    """`topology: {max: {spout: {pending: 5}}}` as `topology.max.spout.pending: 5`; other keys as they are."""
    if not isinstance(value, dict) or not isinstance(key, str) or is_ignored(key):
        return [(key, value)]
    if key != "topology" and not key.startswith("topology."):
        return [(key, value)]
    inside = cast("Mapping[SettingKey, Setting]", value)
    return [leaf for inner, held in inside.items() for leaf in _flat(f"{key}.{inner}", held)]


def env_layer(env: Mapping[str, str], fields: Mapping[str, str]) -> Layer:
    """`AIOSTORM_TOPOLOGY__MAX_SPOUT_PENDING`, `AIOSTORM_MAX_SPOUT_PENDING`: names are compared without separators.

    An unknown `AIOSTORM_TOPOLOGY_…` is a problem; other names that start with AIOSTORM_ are left alone.
    """
    names = {plain(key): key for key in sorted(IGNORED_KEYS)}
    names |= {plain(f"topology {name}"): name for name in fields.values()} | {plain(key): key for key in fields}
    layer = Layer()
    for variable, text in env.items():
        if not variable.startswith(ENV_PREFIX):
            continue
        rest = variable.removeprefix(ENV_PREFIX)
        key = names.get(plain(rest))
        if key is not None:
            _add_text(layer, key, text, f"env {variable}", f"env {variable}")
        elif rest.startswith("TOPOLOGY_"):
            like = nearest(rest, fields.values())
            hint = f"; did you mean {ENV_PREFIX}TOPOLOGY__{like.upper()}?" if like is not None else ""
            layer.problems.append(f"env {variable}: no such setting{hint}")
    return layer


def override_layer(overrides: Sequence[str] | Mapping[str, Setting]) -> Layer:
    """`["topology.workers=3"]`, or a mapping. An item without "=" is a problem."""
    if isinstance(overrides, Mapping):
        return Layer.of(overrides, "-c")
    layer = Layer()
    for item in overrides:
        key, equals, text = item.partition("=")
        if equals and key.strip():
            _add_text(layer, key.strip(), text, "-c", f"-c {item!r}")
        else:
            layer.problems.append(f"-c {item!r}: expected KEY=VALUE, as in topology.max.spout.pending=500")
    return layer


def _add_text(layer: Layer, key: str, text: str, source: str, shown: str) -> None:
    """Add a value that is given as text: a YAML scalar."""
    import yaml

    try:
        layer.values[key] = yaml.safe_load(text)
        layer.sources[key] = source
    except yaml.YAMLError as error:
        why = getattr(error, "problem", None) or error
        layer.problems.append(f"{shown}: not a YAML value ({why}); put text with special characters in quotes")
