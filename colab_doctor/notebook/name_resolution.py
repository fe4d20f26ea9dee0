"""The qualified names that code uses, and whether a version check or `try` guards them.

Names are compared fully qualified: `tf.Session` is `tensorflow.Session` after `import tensorflow as tf`,
and something else after `import tensorflow.compat.v1 as tf`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

#: What short names stand for where a notebook does not say so.
_USUAL = {
    "jnp": "jax.numpy",
    "keras": "keras",
    "np": "numpy",
    "pl": "pytorch_lightning",
    "plt": "matplotlib.pyplot",
    "tf": "tensorflow",
    "torch": "torch",
    "jax": "jax",
    "xm": "torch_xla.core.xla_model",
    "xmp": "torch_xla.distributed.xla_multiprocessing",
}
#: Exceptions whose handler says: this name may be absent; those that say so only of an import.
_ABSENT = {"ImportError", "ModuleNotFoundError", "AttributeError", "NameError", "KeyError"}
_ANYTHING = {"Exception", "BaseException"}
#: Words in a condition that ask for a version, a module or a variable before using it.
_ASKED = re.compile(
    r"(?<![a-z])version|hasattr|find_spec|environ|getenv|importlib|\bmodules\b|(?<!cuda\.)\bis_\w*available"
)


@dataclass(frozen=True)
class Use:
    """One use of a name: `kind` is "name", "call", "call_as", "method", "keyword", "variable", "hook" or
    "string".

    What `name` holds depends on `kind`: for "name", "call" (a call that names no local device), "hook" and
    "string" the qualified name, such as "torch.load"; for "keyword" "torch.load:weights_only"; for "call_as"
    the call with its arguments; for "method" the bare name; for "variable" an environment variable.
    `guarded`: code around it handles its absence.
    """

    kind: str
    name: str
    line: int
    guarded: bool


def aliases(trees: Iterable[ast.AST]) -> dict[str, str]:
    """Return what each imported name stands for, with the usual short ones where none is imported.

    `trees` are syntax trees of all cells of a notebook.

    >>> aliases([ast.parse("import tensorflow.compat.v1 as tf")])["tf"]
    'tensorflow.compat.v1'
    """
    found: dict[str, str] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    first = alias.name.partition(".")[0]
                    found[alias.asname or first] = alias.name if alias.asname else first
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    found = {**_USUAL, **found}
    for tree in trees:
        for node in ast.walk(tree):  # keras = tf.keras
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute):
                address = _Reader(found, {}).qualified_name(node.value)
                found |= {
                    to.id: address for to in node.targets if isinstance(to, ast.Name) and address
                }
    return found


def own_names(trees: Iterable[ast.AST], known: dict[str, str]) -> set[str]:
    """Return what a notebook defines itself: methods of its classes, and names that it puts into modules.

    `trees` and `known` are as in `aliases` and `uses`.

    >>> own_names([ast.parse("np.float = float")], {"np": "numpy"})
    {'numpy.float'}
    >>> own_names([ast.parse("class A:\\n async def predict(self): pass")], {})
    {'predict'}
    """
    reader, found = _Reader(known, {}), set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.ClassDef):
            found |= {
                one.name
                for one in node.body
                if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            }
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(reader.qualified_name(node))
    return found - {""}


def assignments(trees: Iterable[ast.AST]) -> dict[str, str]:
    """Return what variables stand for that are assigned one text, as its `repr`, or one call, as "name()".

    `trees` are syntax trees of all cells of a notebook.

    >>> assignments([ast.parse("path = 'a.ckpt'; model = Sequential()")])
    {'path': "'a.ckpt'", 'model': 'Sequential()'}
    """
    found: dict[str, str] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                value, name = node.value, node.targets[0].id
                text = _constant(value, {})
                if isinstance(value, ast.Call):
                    text = f"{ast.unparse(value.func)}()"
                found[name] = text if found.get(name, text) == text else "…"
    return found


def uses(
    tree: ast.AST, known: dict[str, str], assigned: dict[str, str] | None = None
) -> Iterator[Use]:
    """Yield every use in a syntax tree; `known` is from `aliases`, `assigned` from `assignments`."""
    reader = _Reader(known, assigned or {})
    reader.visit(tree)
    yield from reader.found


def _constant(node: ast.AST, assigned: dict[str, str]) -> str:
    """A constant as its `repr`; of a text that is put together, its end; "…" for all else."""
    if isinstance(node, ast.Constant):
        return repr(node.value)[:300]
    if isinstance(node, ast.Name):
        return assigned.get(node.id, "…")
    last: ast.AST | None = None
    if isinstance(node, ast.BinOp):  # a + b, f"{a}b", join(a, b)
        last = node.right
    elif isinstance(node, ast.JoinedStr | ast.Call):
        last = next(reversed(node.values if isinstance(node, ast.JoinedStr) else node.args), None)
    if isinstance(last, ast.Constant) and isinstance(last.value, str):
        return repr(f"…{last.value}")[:300]
    return "…"


class _Reader(ast.NodeVisitor):
    def __init__(self, known: dict[str, str], assigned: dict[str, str]) -> None:
        self.known, self.assigned = known, assigned
        self.found: list[Use] = []
        self.guards = 0

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add("name", alias.name, alias)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module and not node.level:
            for alias in node.names:
                self._add("name", f"{node.module}.{alias.name}", alias)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        address = self.qualified_name(node)
        if address:
            self._add("name", address, node)
        else:
            self.generic_visit(node)
        self._add("method", node.attr, node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and "." in self.known.get(node.id, ""):
            self._add("name", self.known[node.id], node)

    def visit_Call(self, node: ast.Call) -> None:
        address = self.qualified_name(node.func) or (
            node.func.attr if isinstance(node.func, ast.Attribute) else ""
        )
        for keyword in node.keywords:
            if keyword.arg and address:
                self._add("keyword", f"{address}:{keyword.arg}", keyword)
        if address and "local" not in ast.unparse(node):
            self._add("call", address, node)
        self._call_as(node)
        self.generic_visit(node)

    def _call_as(self, node: ast.Call) -> None:
        """A call with its constant arguments, the variable before the dot as what made it."""
        head, dot, tail = ast.unparse(node.func)[:200].partition(".")
        made = self.assigned.get(head, "")
        head = made if made.endswith("()") else head
        whole = re.sub(r"^\w+", lambda name: self.known.get(name[0], name[0]), head) + dot + tail
        listed = [*enumerate(node.args), *((one.arg, one.value) for one in node.keywords)]
        given = ", ".join(f"{name}={_constant(value, self.assigned)}" for name, value in listed)
        self._add("call_as", f"{whole}({given})", node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self.qualified_name(node.value) == "os.environ":
            self._variable(node.slice, node)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if any(self.qualified_name(other) == "os.environ" for other in node.comparators):
            self._variable(node.left, node)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and len(node.value) < 500:
            self._add("string", node.value, node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._add("hook", node.name, node)
        self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> None:
        imports = any(isinstance(part, ast.Import | ast.ImportFrom) for part in node.body)
        asked = _ABSENT | _ANYTHING if imports else _ABSENT
        asks = any(_caught(handler) & asked for handler in node.handlers)
        self.guards += asks
        for part in (*node.body, *node.handlers, *node.orelse):
            self.visit(part)
        self.guards -= asks
        for part in node.finalbody:
            self.visit(part)

    def visit_TryStar(self, node: Any) -> None:
        self.visit_Try(node)

    def visit_With(self, node: ast.With) -> None:
        contexts = (ast.unparse(item.context_expr) for item in node.items)
        self._visit_guarded(node, any("suppress(" in context for context in contexts))

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit_If(node)

    def visit_If(self, node: ast.If | ast.IfExp) -> None:
        test = ast.unparse(node.test)
        looks = bool(_ASKED.search(test)) and " not in os.environ" not in test
        self._visit_guarded(node, looks or test in ("False", "0"))

    def _visit_guarded(self, node: ast.AST, asks: bool) -> None:
        self.guards += asks
        self.generic_visit(node)
        self.guards -= asks

    def qualified_name(self, node: ast.AST) -> str:
        """The qualified name of a dotted expression; "" where its first part is not imported."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        first = self.known.get(node.id, "os" if node.id == "os" else "")
        address = ".".join([first, *reversed(parts)]) if first else ""
        return address.replace("tensorflow.compat.v2", "tensorflow", 1)

    def _variable(self, node: ast.AST, place: ast.expr) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            self._add("variable", node.value, place)

    def _add(
        self, kind: str, name: str, node: ast.stmt | ast.expr | ast.alias | ast.keyword
    ) -> None:
        self.found.append(Use(kind, name, node.lineno, self.guards > 0))


def _caught(handler: ast.ExceptHandler) -> set[str]:
    """The names of the exceptions that a handler takes; a bare one takes all."""
    if handler.type is None:
        return {"BaseException"}
    listed = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {ast.unparse(one).rpartition(".")[2] for one in listed}
