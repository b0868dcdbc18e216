"""What `mkdocs build` does beside rendering docs/: pages for what they link to elsewhere, and GitHub's manners of Markdown.

Pages are written to be read in a repository. A site has other rules:

| in the repository | on the site |
|---|---|
| README.md, docs/README.md | the first page, and `contents.md` |
| a link to another page, as `../bench/results/peek.md` | a page below `project/`, with its own links, and so on |
| a link to a source file, as `../src/tidegate/context.py` | a page that shows it |
| a link to a folder | its README, or a list of what is in it |
| a fence that says ```` ```sh no-run: installs ```` | a fence of the language alone |
| a comment `<!-- python … -->` | nothing |

    site_name(Path("docs/spark.md"))                   'spark.md'
    site_name(Path("src/tidegate/context.py"))         'project/src/tidegate/context.py.md'
    moved("[x](../README.md#start)", Path("docs/faq.md"))    '[x](index.md#start)'

Nothing here imports mkdocs before it calls us, so that tests can ask without it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = Path("docs")
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)\s]+)(\))")
FENCES = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,})[^\n]*\n.*?^(?P=indent)(?P=fence)[ ]*$", re.MULTILINE | re.DOTALL
)
CODE = re.compile(r"`[^`\n]+`")
LANGUAGES = {".py": "python", ".css": "css", ".js": "js", ".toml": "toml", ".yml": "yaml"}
PICTURES = {".png", ".svg"}


def slug(heading: str, separator: str = "-") -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def site_name(path: Path) -> str:
    """What a file or folder of the repository is called among the pages of the site."""
    special = {"README.md": "index.md", "docs/README.md": "contents.md", "docs": "contents.md"}
    name = path.as_posix()
    if name in special:
        return special[name]
    if (ROOT / path).is_dir():
        return f"project/{name}/README.md"
    if path.is_relative_to(DOCS) and (path.suffix == ".md" or path.suffix in PICTURES):
        return path.relative_to(DOCS).as_posix()
    return f"project/{name}" if path.suffix in {".md", *PICTURES} else f"project/{name}.md"


def links(text: str, page: Path) -> Iterator[Path]:
    """The files and folders that a page links to, below the root of the repository."""
    for match in LINK.finditer(_without_code(text)):
        target = _target(match[2], page)
        if target is not None:
            yield target


def moved(text: str, page: Path) -> str:
    """A page with its links as they are on the site."""
    here = Path(site_name(page)).parent

    def link(match: re.Match[str]) -> str:
        target = _target(match[2], page)
        if target is None:
            return match[0]
        _, hash_, anchor = match[2].partition("#")
        return (
            f"{match[1]}{Path(os.path.relpath(site_name(target), here)).as_posix()}{hash_}{anchor}{match[3]}"
        )

    return _outside_code(text, lambda prose: LINK.sub(link, prose))


def _target(link: str, page: Path) -> Path | None:
    """Where a link of a page leads in the repository; None: elsewhere, or within the page."""
    path, _, _ = link.partition("#")
    if "://" in link or not path:
        return None
    return Path(os.path.normpath(page.parent / path))


def text_of(path: Path) -> str:
    """The Markdown of a page, a source file or a folder."""
    there = ROOT / path
    if there.is_dir():
        if (there / "README.md").exists():
            return (there / "README.md").read_text("utf-8")
        names = sorted(one.name for one in there.iterdir() if one.suffix == ".py")
        return f"# {path.as_posix()}/\n\n" + "".join(f"- [{name}]({there.name}/{name})\n" for name in names)
    text = there.read_text("utf-8")
    if path.suffix == ".md":
        return text
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"# {path.as_posix()}\n\n{fence}{LANGUAGES.get(path.suffix, 'text')}\n{text.rstrip()}\n{fence}\n"


def _page(path: Path) -> Path:
    """What links of a page start from: those of a folder's README from its folder."""
    return path / "README.md" if (ROOT / path / "README.md").exists() else path


def reached() -> list[Path]:
    """Everything outside of docs/ that its pages, and the pages that these lead to, link to."""
    start = [Path("README.md"), *(one.relative_to(ROOT) for one in sorted((ROOT / DOCS).glob("*.md")))]
    start += [Path(name) for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "examples")]
    found: dict[Path, None] = {}
    while start:
        path = start.pop()
        if path in found or (ROOT / path).suffix in PICTURES:
            found[path] = None
            continue
        found[path] = None
        start += list(links(text_of(path), _page(path)))
    return [one for one in found if site_name(one).startswith(("project/", "index.", "contents."))]


def rendered(text: str, page: Path) -> str:
    """A page as the site's Markdown wants it."""
    text = re.sub(r"<!-- .*?-->\n?", "", text, flags=re.DOTALL)
    text = re.sub(r"^( *`{3,})(\w+)[ ][^\n]*$", r"\1\2", text, flags=re.MULTILINE)
    if re.search(r"^1\. .*\n+   \S", text, re.MULTILINE):
        text = re.sub(r"^ {3,}(?=\S)", lambda indent: f" {indent[0]}", text, flags=re.MULTILINE)
    text = _outside_code(text, _spaced)
    return moved(text, page)


def _spaced(prose: str) -> str:
    """With an empty line before each list, and after an item of several lines, which GitHub does not need."""
    prose = re.sub(r"^( +\S.*)\n(?=\d+\. )", r"\1\n\n", prose, flags=re.MULTILINE)
    return re.sub(r"^(?!\s|[-*] |\d+\. |$)(.+)\n(?=[-*] |1\. )", r"\1\n\n", prose, flags=re.MULTILINE)


def _without_code(text: str) -> str:
    return CODE.sub("", FENCES.sub("", text))


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """With what stands between fences changed."""
    parts, last = [], 0
    for match in FENCES.finditer(text):
        parts += [change(text[last : match.start()]), match[0]]
        last = match.end()
    return "".join([*parts, change(text[last:])])


# ---------------------------------------------------------------- what mkdocs calls


def on_config(config: Any) -> Any:
    """Anchors are GitHub's."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds what is outside of docs/; README.md is the first page."""
    from mkdocs.structure.files import File

    files.remove(files.get_file_from_path("README.md"))
    for path in reached():
        name = site_name(path)
        picture = path.suffix in PICTURES
        given = {"abs_src_path": str(ROOT / path)} if picture else {"content": text_of(path)}
        file = File.generated(config, name, **given)
        file.repository_path = path  # for on_page_markdown
        files.append(file)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Each page in the manner of the site; source files are not searched."""
    path = getattr(page.file, "repository_path", DOCS / page.file.src_uri)
    if path.suffix != ".md" and not (ROOT / path / "README.md").exists():
        page.meta["search"] = {"exclude": True}
    return rendered(markdown, _page(path))
