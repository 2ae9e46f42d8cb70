"""Imports point one way: configs <- tasks <- rewards <- eval <- train; scripts may use all."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ["configs", "tasks", "rewards", "eval", "train", "scripts"]


def imported(path: Path) -> set[str]:
    """First parts of every module that a file imports, at the top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def test_imports_point_one_way() -> None:
    checked = 0
    for level, layer in enumerate(LAYERS):
        above = set(LAYERS[level + 1 :])
        for path in (ROOT / layer).rglob("*.py"):
            assert not imported(path) & above, f"{path} imports a layer above {layer}"
            checked += 1
    assert checked > 20
