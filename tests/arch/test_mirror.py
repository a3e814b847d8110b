"""Each module has its unit test where the module's own name leads: tests/unit/<room>/test_<module>.py."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE, TESTS = ROOT / "meshnet", ROOT / "tests"

ELSEWHERE = {
    "kernel/legacy_child.py": "netns/test_xtables_contract.py",
    "kernel/links.py": "netns/test_namespaces.py",
    "kernel/mounts.py": "e2e/test_alone.py",
    "lab/keeper.py": "e2e/test_lab.py",
    "lab/launch.py": "e2e/test_alone.py",
    "lab/runner.py": "e2e/test_lab.py",
    "lab/steps.py": "e2e/test_lab.py",
    "lab/topology.py": "e2e/test_lab.py",
    "lab/world.py": "e2e/test_lab.py",
    "probe/host.py": "netns/test_trace.py",
    "sidecar/__main__.py": "netns/test_sidecar.py",
    "sidecar/privilege.py": "netns/test_sidecar.py",
    "sidecar/proxy.py": "netns/test_sidecar.py",
    "testing/fixtures.py": "e2e/test_wheel.py",
}
"""What does nothing but ask the kernel or start processes: replaced, nothing of it would be left. By the test that runs
it with both."""

MODULES = [str(path.relative_to(PACKAGE)) for path in sorted(PACKAGE.rglob("*.py")) if path.name != "__init__.py"]


def decides(path: Path) -> bool:
    """Whether a module has a function of its own; values, names and the shapes of others decide nothing."""
    tree = ast.parse(path.read_text())
    shapes = {
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).partition("[")[0] == "Protocol" for base in node.bases)
        for part in ast.walk(node)
    }
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return any(isinstance(node, functions) and node not in shapes for node in ast.walk(tree))


def mirror(module: str) -> Path:
    """Of __main__ it is test_main."""
    path = Path(module)
    return TESTS / "unit" / path.parent / f"test_{path.stem.strip('_')}.py"


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_its_unit_test(module: str) -> None:
    if module in ELSEWHERE:
        assert not mirror(module).exists(), "it has one by now: take it out of the list"
        assert (TESTS / ELSEWHERE[module]).exists()
    elif decides(PACKAGE / module):
        assert mirror(module).exists(), f"{module} lacks {mirror(module).relative_to(ROOT)}"


def test_the_list_names_modules_that_are_there() -> None:
    assert set(ELSEWHERE) <= set(MODULES)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A = 1", False),
        ("class A:\n    b: int", False),
        ("class A(Protocol):\n    def b(self) -> int: ...", False),
        ("class A(Protocol[T]):\n    def b(self) -> T: ...", False),
        ("def a(): pass", True),
        ("class A(Protocol):\n    def b(self): ...\nclass C:\n    def d(self): ...", True),
        ("if x:\n    async def a(): pass", True),
    ],
)
def test_what_decides(tmp_path: Path, text: str, found: bool) -> None:
    (tmp_path / "a.py").write_text(text)
    assert decides(tmp_path / "a.py") is found
