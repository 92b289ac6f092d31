"""What the site (mkdocs.yml) has in addition to the pages of this folder, and what its links need.

1. Pages of the API: the public names, one page for each package that they come from, by the imports of
   `aiostorm/__init__.py`; and two packages that are public as a whole. mkdocstrings fills them from docstrings.
2. Pages of the examples, and of the Markdown files at the top of the repository.
3. A link that leads out of docs/ leads to one of those pages; if there is none, it becomes text that names the file,
   since the site does not know where the repository is published.

mkdocs calls the functions whose names begin with `on_`.
"""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PUBLIC_PACKAGES = ("testing", "spark")
"""Users import them by name: all that their `__all__` lists is public."""

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
CODE = re.compile(r"^(`{3,}).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def front_names() -> dict[str, list[str]]:
    """The names that `import aiostorm` gives, by the package that they come from."""
    tree = ast.parse((ROOT / "aiostorm" / "__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module]
    return {node.module or "": sorted(alias.name for alias in node.names) for node in imports}


def listed_names(package: str) -> list[str]:
    """What a package's `__all__` lists."""
    tree = ast.parse((ROOT / "aiostorm" / package / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == "__all__" for to in node.targets):
            return sorted(ast.literal_eval(node.value))
    raise LookupError(f"aiostorm/{package}/__init__.py has no __all__")


def api_pages() -> dict[str, str]:
    """Path and text of each page of the API."""
    names = {package: [f"aiostorm.{name}" for name in found] for package, found in sorted(front_names().items())}
    names |= {package: [f"aiostorm.{package}.{name}" for name in listed_names(package)] for package in PUBLIC_PACKAGES}
    pages = {}
    for package, found in names.items():
        start = "aiostorm" if package not in PUBLIC_PACKAGES else f"aiostorm.{package}"
        text = f"# {package}\n\nImported from `{start}`.\n\n" + "".join(f"::: {name}\n\n" for name in found)
        pages[f"reference/api/{package}.md"] = text
    return pages


def example_pages() -> dict[str, str]:
    """Path and text of each example's page."""
    pages = {}
    for path in sorted((ROOT / "examples").rglob("*.py")):
        name, code = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        pages[name.removesuffix(".py") + ".md"] = f'# {path.stem}\n\n````python title="{name}"\n{code}````\n'
    return pages


def project_pages() -> dict[str, str]:
    """Path and text of the Markdown files at the top of the repository."""
    return {f"project/{path.stem.lower()}.md": path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("*.md"))}


def place_of(path: str) -> str | None:
    """Where in the site a file of the repository is, if it is there."""
    if path == "docs":
        return "README.md"
    if path.startswith("docs/") and (ROOT / path).is_file():
        return path.removeprefix("docs/")
    if path.startswith("examples/") and path.endswith(".py"):
        return path.removesuffix(".py") + ".md"
    if "/" not in path and path.endswith(".md"):
        return f"project/{Path(path).stem.lower()}.md"
    return None


def stands_in(page: str) -> str:
    """The folder of the repository that the links of a page start from."""
    top = posixpath.dirname(page)
    return "." if top == "project" else posixpath.normpath(posixpath.join("docs", top))


def relinked(text: str, page: str) -> str:
    """A page's text with links that lead somewhere in the site; `page` is its path there."""

    def link(found: re.Match[str]) -> str:
        image, shown, target = found.groups()
        path, mark, anchor = target.partition("#")
        if not path or "://" in target or target.startswith("mailto:"):
            return found[0]
        file = posixpath.normpath(posixpath.join(stands_in(page), path))
        place = place_of(file)
        if place is not None:
            return f"{image}[{shown}]({posixpath.relpath(place, posixpath.dirname(page) or '.')}{mark}{anchor})"
        plain = shown.strip("`")
        return f"`{file}`" if file.endswith(plain) else f"{shown} (`{file}`)"

    parts, end = [], 0
    for code in CODE.finditer(text):
        if _in_link(text, code.start()):  # [`name`](target): the name is no code that hides a link
            continue
        parts += [LINK.sub(link, text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, LINK.sub(link, text[end:])])


def _in_link(text: str, at: int) -> bool:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return bool(re.search(r"\[[^\]]*$", line)) and not text.startswith("```", at)


# -- called by mkdocs --------------------------------------------------------------------------------------------------


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the two lists of the navigation that are generated."""
    _fill(config.nav or [], "API", [{Path(path).stem: path} for path in api_pages()])
    _fill(config.nav or [], "Examples", [{_title(path): path} for path in example_pages()])
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are generated."""
    for path, text in (api_pages() | example_pages() | project_pages()).items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Lead links that leave docs/ to where the site has the file."""
    path = page.file.src_uri
    return markdown if path.startswith(("examples/", "reference/api/")) else relinked(markdown, path)


def _title(path: str) -> str:
    return path.removeprefix("examples/").removesuffix(".md").replace("_", " ").replace("/", ": ")


def _fill(nav: list[Any], title: str, items: list[Any]) -> None:
    for item in nav:
        for name, below in item.items():
            if name == title:
                item[name] = items
            elif isinstance(below, list):
                _fill(below, title, items)
