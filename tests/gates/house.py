"""The rules of the house (DESIGN §3) as functions from source files to violations.

    tree = House.read(Path("src"))
    list(doors(tree))        # ['tidegate.query.late.staged_scan: imports the module tidegate.storage.part.pages …', …]

Each rule yields one line per violation that names the place. `test_house.py` asserts that the project has none, and plants a
violation of every rule to show that the rule finds it. `python -m tests.gates.house [room …]` prints the violations of some rooms.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

DOOR_NAMES = 25
"""Names that the door of a room offers at most: more of them and it hides nothing."""
FOLDER_MODULES = 15
"""Modules in a folder at most: a newcomer reads the list at a glance."""
SHARED_PREFIX = 3
"""Files of one folder that share the word before an underscore are a folder of their own."""
SUMMARY_LENGTH = 100
"""Characters of the first line of a docstring at most."""
VAGUE = re.compile(
    r"_*(told|made|found|kept|known|given|asked|seen|done|one|some|few|most|little|many|long|large|small|here|there|gone|wanted"
    r"|own|listed|settled|opened|closed|utils|helpers|misc|manager|base)_*",
    re.IGNORECASE,
)
"""Participles, pronouns and quantities that say nothing as the name of a module, function, class or constant."""
DIALECT = re.compile(r"\b(told|whoever|whatsoever|thereof|come by|were it|nought|betwixt)\b", re.IGNORECASE)
"""Words of prose that a reader of technical English stumbles over."""
CONTAINERS = re.compile(
    "dict|list|set|defaultdict|Counter|OrderedDict|deque|WeakKeyDictionary|WeakValueDictionary|WeakSet|LruCache|Random|count"
)
MUTATORS = re.compile(
    "append|add|update|setdefault|pop|popitem|clear|extend|remove|discard|insert|move_to_end|appendleft|get_or_compute"
)
REGISTRIES = frozenset(
    {
        "tidegate.expr.model.function.REGISTRY",
        "tidegate.ingest.upstreams.registry._CONNECTIONS",
        "tidegate.ingest.upstreams.registry._UPSTREAMS",
        "tidegate.spark.translate.value.TRANSLATORS",
        "tidegate.storage.location._MEMORY_DATABASES",  # `memory://name` is a database of the process
    }
)
"""Module-level state that is allowed: tables that declarations fill while modules are imported, and databases in memory."""
FOREIGN_MESSAGES = frozenset(
    {
        "tidegate.ingest.upstreams.files.location",  # obstore reports a forbidden listing as a generic error
        "tidegate.spark.task_errors",  # Spark passes on nothing but text; our note in it holds the error itself
    }
)
"""Modules that read messages of other libraries, where these offer neither a class nor a code."""


@dataclass(frozen=True)
class Module:
    """One source file: its dotted name, whether it is a package, and its syntax tree."""

    name: str
    is_package: bool
    tree: ast.Module

    @property
    def room(self) -> str:
        """The first name below the root package; empty for the root itself."""
        return self.name.split(".")[1] if "." in self.name else ""


@dataclass(frozen=True)
class House:
    """All modules by name."""

    modules: dict[str, Module]

    @classmethod
    def of(cls, sources: dict[str, str]) -> House:
        """The house of some source texts, by path such as `tidegate/query/sort.py`."""
        modules = {}
        for path, text in sources.items():
            parts = Path(path).with_suffix("").parts
            package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if package else parts)
            modules[name] = Module(name, package, ast.parse(text))
        return cls(modules)

    @classmethod
    def read(cls, root: Path) -> House:
        """The house of all Python files below a folder."""
        return cls.of(
            {str(path.relative_to(root)): path.read_text("utf-8") for path in sorted(root.rglob("*.py"))}
        )

    def is_room(self, name: str) -> bool:
        """Whether a first-level name is a package."""
        return (module := self.modules.get(f"tidegate.{name}")) is not None and module.is_package

    def door(self, package: str) -> list[str]:
        """The names in the `__all__` of a package."""
        for node in self.modules[package].tree.body:
            if isinstance(node, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
            ):
                return [str(value) for value in ast.literal_eval(node.value)]
        return []


Rule = Callable[[House], Iterator[str]]


def doors(house: House) -> Iterator[str]:
    """Across rooms only `from tidegate.<room>[.<subroom>] import Name`, and the door lists the name."""
    for module in house.modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    target = house.modules.get(alias.name)
                    if (
                        target is not None
                        and target.room not in ("", module.room)
                        and house.is_room(target.room)
                    ):
                        yield f"{module.name}:{node.lineno}: import {alias.name}: use from … import"
            elif isinstance(node, ast.ImportFrom) and node.module in house.modules:
                yield from _through_door(house, module, node, house.modules[node.module])


def _through_door(house: House, module: Module, node: ast.ImportFrom, target: Module) -> Iterator[str]:
    if target.room in ("", module.room) or not house.is_room(target.room):
        return
    names = ", ".join(alias.name for alias in node.names)
    if not target.is_package or target.name.count(".") > 2:
        yield f"{module.name}:{node.lineno}: from {target.name} import {names}: not a door"
        return
    offered = house.door(target.name)
    for alias in node.names:
        if alias.name not in offered:
            yield f"{module.name}:{node.lineno}: {alias.name} is not in the door of {target.name}"


def door_size(house: House) -> Iterator[str]:
    """A door offers at most `DOOR_NAMES` names."""
    for module in house.modules.values():
        if module.is_package and module.room and (size := len(house.door(module.name))) > DOOR_NAMES:
            yield f"{module.name}: its door has {size} names"


def folders(house: House) -> Iterator[str]:
    """At most `FOLDER_MODULES` modules in a folder; files that share a prefix are a folder."""
    inside = defaultdict(list)
    for module in house.modules.values():
        if not module.is_package and module.room:
            package, _, base = module.name.rpartition(".")
            inside[package].append(base)
    for package, names in inside.items():
        if len(names) > FOLDER_MODULES:
            yield f"{package} has {len(names)} modules"
        prefixes = Counter(name.split("_")[0] for name in names if "_" in name)
        for prefix, count in prefixes.items():
            if count + (prefix in names) >= SHARED_PREFIX:
                yield f"{package}: {count} files begin with {prefix}_"


def class_names(house: House) -> Iterator[str]:
    """A public class name is defined once."""
    homes = defaultdict(list)
    for module in house.modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module.name)
    for name, places in homes.items():
        if len(places) > 1:
            yield f"class {name} is defined in {', '.join(places)}"


def vague_names(house: House) -> Iterator[str]:
    """Modules, classes, functions, methods and constants have names that say something."""
    for module in house.modules.values():
        if VAGUE.fullmatch(module.name.rpartition(".")[2]):
            yield f"module {module.name}"
        for node in ast.walk(module.tree):
            named = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            if named and VAGUE.fullmatch(node.name):
                yield f"{module.name}:{node.lineno}: {node.name}"
        for name, line in _constants(module.tree):
            if VAGUE.fullmatch(name):
                yield f"{module.name}:{line}: {name}"


def _constants(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The names that are bound at the top of a module, with their lines."""
    for node in tree.body:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            for part in ast.walk(target):
                if isinstance(part, ast.Name):
                    yield part.id, node.lineno


def mutable_state(house: House) -> Iterator[str]:
    """No module-level state that changes, but registries."""
    for module in house.modules.values():
        changed = _changed_names(module.tree)
        for node in module.tree.body:
            if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
                continue
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if not isinstance(target, ast.Name) or f"{module.name}.{target.id}" in REGISTRIES:
                continue
            if _is_empty_container(node.value) or (target.id in changed and _is_container(node.value)):
                yield f"{module.name}:{node.lineno}: {target.id} is mutable state of a module"
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Global):
                yield f"{module.name}:{node.lineno}: global {', '.join(node.names)}"


def _is_container(value: ast.expr) -> bool:
    return isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp) or (
        isinstance(value, ast.Call) and CONTAINERS.fullmatch(_called(value)) is not None
    )


def _is_empty_container(value: ast.expr) -> bool:
    match value:
        case ast.Dict(keys=[]) | ast.List(elts=[]):
            return True
        case ast.Call(args=[], keywords=[]):
            return CONTAINERS.fullmatch(_called(value)) is not None
        case ast.Call():
            return _called(value) not in ("dict", "list", "set") and _is_container(value)
    return False


def _called(call: ast.Call) -> str:
    function = call.func.value if isinstance(call.func, ast.Subscript) else call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _changed_names(tree: ast.Module) -> set[str]:
    """Names on which a function calls a mutating method, or assigns or deletes an item."""
    names = set()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if MUTATORS.fullmatch(
                    method
                ):
                    names.add(name)
                case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                    names.add(name)
    return names


def summaries(house: House) -> Iterator[str]:
    """The first line of a docstring has under `SUMMARY_LENGTH` characters, ends with a period, and is plain English."""
    for module in house.modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text is None:
                    continue
                place = f"{module.name}:{getattr(node, 'lineno', 1)}"
                first = text.split("\n")[0]
                if len(first) >= SUMMARY_LENGTH:
                    yield f"{place}: the first line of its docstring has {len(first)} characters"
                if not first.endswith((".", ":", "?", "!", "`")):
                    yield f"{place}: the first line of its docstring does not end: {first}"
                if word := DIALECT.search(text):
                    yield f"{place}: its docstring says {word[0]!r}"


def message_text(house: House) -> Iterator[str]:
    """No decision by the text of a message: errors carry a code and a subject."""
    for module in house.modules.values():
        if module.name in FOREIGN_MESSAGES:
            continue
        for node in ast.walk(module.tree):
            match node:
                case ast.Compare(
                    left=left, ops=[ast.In() | ast.NotIn() | ast.Eq() | ast.NotEq()], comparators=[right]
                ):
                    decided = _is_message(left) or _is_message(right)
                case ast.Call(
                    func=ast.Attribute(
                        value=value, attr="startswith" | "endswith" | "find" | "partition" | "split"
                    )
                ):
                    decided = _is_message(value)
                case ast.Call(
                    func=ast.Attribute(attr="search" | "match" | "fullmatch" | "findall"), args=arguments
                ):
                    decided = any(map(_is_message, arguments))
                case _:
                    decided = False
            if decided:
                yield f"{module.name}:{getattr(node, 'lineno', 0)}: decides by the text of a message"


def _is_message(node: ast.expr) -> bool:
    """Whether an expression is the text of an error."""
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr="message"):
            return _is_error(name)
        case ast.Call(func=ast.Name(id="str" | "repr"), args=[ast.Name(id=name)]):
            return _is_error(name)
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="args")):
            return _is_error(name)
        case ast.Call(func=ast.Attribute(value=inner, attr="lower" | "strip" | "casefold")):
            return _is_message(inner)
    return False


def _is_error(name: str) -> bool:
    return (
        bool(re.search(r"err|exc|fault|failure|cause|refus|problem|trouble|why", name, re.IGNORECASE))
        or name == "e"
    )


RULES: tuple[Rule, ...] = (
    doors,
    door_size,
    folders,
    class_names,
    vague_names,
    mutable_state,
    summaries,
    message_text,
)


def main(rooms: list[str]) -> None:
    """Prints the violations of some rooms, or counts them for all."""
    house = House.read(Path(__file__).parents[2] / "src")
    for rule in RULES:
        lines = [
            line for line in rule(house) if not rooms or any(f"tidegate.{room}" in line for room in rooms)
        ]
        print(f"{rule.__name__}: {len(lines)}")
        for line in lines:
            print("   ", line)


if __name__ == "__main__":
    main(sys.argv[1:])
