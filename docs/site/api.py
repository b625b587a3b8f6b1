"""API pages from docstrings. The sources are parsed, not imported: this takes a second and needs no torch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
ROOMS = [
    *("types", "registry", "config", "records", "tables", "data", "models", "objectives", "regularizers"),
    *("training", "evaluation", "inference", "analysis", "runs", "sweeps", "bridges"),
]
"""The rooms that people use and extend, from the lowest floor to the highest. Faces, reports and studies are not for calling."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def public(exclude: tuple[str, ...] = ("__version__",)) -> str:
    """The page of the names in `dura.__all__`."""
    package = module("dura")
    names = [name for name in ast.literal_eval(_assigned(package, "__all__")) if name not in exclude]
    homes = ast.literal_eval(_assigned(package, "_HOMES"))
    parts = ["# dura\n\n" + markdown(ast.get_docstring(package))]
    for name in sorted(names, key=str.lower):
        node = _whole(homes.get(name, "dura.types"), name)
        parts += [f"## {name}\n\n" + "".join(described(node, "dura."))]
    return "\n\n".join(parts)


def room(name: str) -> str:
    """The page of a room: what it holds, and its modules."""
    here = SOURCE / "dura" / name
    files = sorted(path for path in here.rglob("*.py") if not path.stem.startswith("_")) if here.is_dir() else []
    parts = [f"# dura.{name}\n\n" + markdown(ast.get_docstring(module(f"dura.{name}")))]
    if not files:
        parts += _members(f"dura.{name}", level=2)
    for path in files:
        dotted = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        short = dotted.removeprefix(f"dura.{name}.")
        parts += [f"## {short}\n\n" + markdown(ast.get_docstring(module(dotted))), *_members(dotted)]
    return "\n\n".join(parts)


def holds(name: str) -> str:
    """The first sentence of a room's docstring, without its name."""
    text = ast.get_docstring(module(f"dura.{name}")) or ""
    sentence = re.sub(r"\s+", " ", text.split("\n\n")[0]).partition(": ")[2] or text
    return markdown(re.split(r"(?<=\w)\. |; ", sentence)[0].rstrip("."))


@cache
def module(dotted: str) -> ast.Module:
    """The syntax tree of a module or package."""
    path = SOURCE.joinpath(*dotted.split("."))
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text("utf-8"))


def found(dotted: str, name: str) -> Function | ast.ClassDef:
    """The definition of a name, also where a package only hands it on."""
    for node in ast.walk(module(dotted)):
        if isinstance(node, Function | ast.ClassDef) and node.name == name:
            return node
        if isinstance(node, ast.ImportFrom) and node.module and any(alias.name == name for alias in node.names):
            return found(node.module, name)
    raise SystemExit(f"{name} is not defined in {dotted}")


def _whole(dotted: str, name: str) -> Function | ast.ClassDef:
    """The definition of a name. A class also holds what it inherits from classes of the same package."""
    node = found(dotted, name)
    if not isinstance(node, ast.ClassDef):
        return node
    ours = {
        alias.name: line.module
        for line in ast.walk(module(dotted))
        if isinstance(line, ast.ImportFrom) and line.module and line.module.startswith(f"{dotted.rpartition('.')[0]}.")
        for alias in line.names
    }
    parts = [_whole(ours[base.id], base.id) for base in node.bases if isinstance(base, ast.Name) and base.id in ours]
    inherited = [member for part in parts for member in part.body[1:]]  # without the docstring
    return ast.ClassDef(**{**dict(ast.iter_fields(node)), "body": [*node.body, *inherited]})


def _assigned(tree: ast.Module, name: str) -> ast.expr:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return node.value
    raise SystemExit(f"{name} is not assigned")


def _members(dotted: str, level: int = 3) -> Iterator[str]:
    """The public functions, classes and described constants of a module, as headings and lists: quick to build."""
    constants = []
    for node, after in _pairs(module(dotted).body):
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            yield f"{'#' * level} {node.name}\n\n" + "\n".join(_brief(node))
        elif constant := _attribute(node, after):
            constants.append(f"- `{constant[0]}`: {_within(constant[1])}")
    if constants:
        yield "**Values**\n\n" + "\n".join(constants)


def _brief(node: Function | ast.ClassDef) -> Iterator[str]:
    """A function, or a class with a list of what it holds."""
    yield f"```python\n{_head(node)}\n```\n\n{_text(node)}\n"
    for member, after in _pairs(node.body if isinstance(node, ast.ClassDef) else []):
        if isinstance(member, Function) and not member.name.startswith("_"):
            read = {_name(decorator) for decorator in member.decorator_list} & {"property", "cached_property"}
            shape = _returns(member, ": ") if read else signature(member)
            yield f"- `{member.name}{shape}`  \n  {_within(_text(member))}"
        elif attribute := _attribute(member, after):
            yield f"- `{attribute[0]}`  \n  {_within(attribute[1])}"


def _head(node: Function | ast.ClassDef) -> str:
    """A definition's first line, without `self`."""
    if not isinstance(node, ast.ClassDef):
        return f"def {node.name}{signature(node)}"
    bases = f"({', '.join(ast.unparse(base) for base in node.bases)})" if node.bases else ""
    made = next((m for m in node.body if isinstance(m, Function) and m.name == "__init__"), None)
    call = signature(made, result=False) if made else f"({_fields(node)})"
    return f"class {node.name}{bases}" + ("" if call == "()" else f"\n{node.name}{call}")


def _within(text: str) -> str:
    """Text as a part of a list item."""
    return text.replace("\n", "\n  ")


def described(node: Function | ast.ClassDef, owner: str) -> Iterator[str]:
    """Directives of Sphinx's Python domain for a function, or for a class with what it holds; `owner` stands before the name."""
    if not isinstance(node, ast.ClassDef):
        words = {_name(decorator) for decorator in node.decorator_list}
        if words & {"property", "cached_property"}:
            yield _directive("property", f"{owner}{node.name}{_returns(node, ': ')}", _text(node))
        elif not words & {"overload", "setter"}:
            yield _directive("function" if owner else "method", f"{owner}{node.name}{signature(node)}", _text(node))
        return
    inner = []
    for member, after in _pairs(node.body):
        if isinstance(member, Function) and not member.name.startswith("_"):
            inner += list(described(member, ""))
        elif attribute := _attribute(member, after):
            inner.append(_directive("attribute", *attribute))
    made = next((m for m in node.body if isinstance(m, Function) and m.name == "__init__"), None)
    call = signature(made, result=False) if made else f"({_fields(node)})"
    yield _directive("class", f"{owner}{node.name}{call}", _text(node) + "\n\n" + "".join(inner), depth=4)


def signature(node: Function, *, result: bool = True) -> str:
    """The parameters with types and defaults, and what is returned; without self."""
    arguments = node.args
    for group in (arguments.posonlyargs, arguments.args):
        group[:] = [given for given in group if given.arg not in ("self", "cls")]
    return f"({ast.unparse(arguments)})" + (_returns(node, " -> ") if result else "")


def _returns(node: Function, sign: str) -> str:
    return sign + ast.unparse(node.returns) if node.returns else ""


def _fields(node: ast.ClassDef) -> str:
    """The fields of a dataclass, as its constructor takes them."""
    if not any(_name(decorator) == "dataclass" for decorator in node.decorator_list):
        return ""
    fields = [
        n
        for n in node.body
        if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name) and "ClassVar" not in ast.unparse(n)
    ]
    shown = [re.sub(r"= field\(.*default.*\)", "= ...", ast.unparse(n)) for n in fields]
    return ", ".join(field for field in shown if not field.startswith("_"))


def _name(decorator: ast.expr) -> str:
    call = decorator.func if isinstance(decorator, ast.Call) else decorator
    return call.attr if isinstance(call, ast.Attribute) else ast.unparse(call)


def _pairs(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, ast.stmt | None]]:
    return zip(body, [*body[1:], None], strict=False)  # an empty body has no pairs


def _attribute(node: ast.stmt, after: ast.stmt | None) -> tuple[str, str] | None:
    """The name and the text of an assignment that a docstring follows."""
    if not (
        isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
    ):
        return None
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    names = [ast.unparse(target).strip("()") for target in targets]
    if not names or names[0].startswith("_"):
        return None
    return names[0].split(",")[0], markdown(after.value.value)


def _text(node: Function | ast.ClassDef) -> str:
    return markdown(ast.get_docstring(node))


def markdown(text: str | None) -> str:
    """A docstring as Markdown: examples and deeper lines in a block of code, and a `<` that means itself."""
    lines: list[str] = []
    block = ""  # the kind of the block that is open; "fence" is one of the docstring's own
    for line in (text or "").splitlines():
        if line.startswith("```") and block in ("", "fence"):
            block = "" if block else "fence"
            lines.append(line)
            continue
        deeper = line.startswith("  ") or not line.strip()
        if (block == "pycon" and not line.strip()) or (block == "text" and not deeper):
            lines.append("```")
            block = ""
        if not block and (kind := _kind(line, lines[-1] if lines else "")):
            lines.append(f"```{kind}")
            block = kind
        lines.append(line if block else re.sub(r"(`[^`]*`)|<(?=\w)", lambda m: m[1] or r"\<", line))
    return "\n".join([*lines, *["```"] * (block in ("pycon", "text"))])


def _kind(line: str, before: str) -> str:
    """The kind of block that begins with this line, if one does; what is indented below an item of a list belongs to it."""
    item = re.match(r" *([-*]|\d+\.) |  \S", before)
    return "pycon" if line.startswith(">>> ") else "text" if line.startswith("  ") and not item else ""


def _directive(kind: str, head: str, text: str, depth: int = 3) -> str:
    """A directive; the outer one has the longer fence. Line breaks in a signature would end it."""
    fence = ":" * (depth + 1)
    return f"{fence}{{py:{kind}}} {' '.join(head.split())}\n{text}\n{fence}\n\n"
