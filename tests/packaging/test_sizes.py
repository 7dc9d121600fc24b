"""Files and functions stay small enough to be read in one go; the specification smallest of all."""

import ast
from pathlib import Path

FILE_LINES, SPEC_FILE_LINES, SPEC_LINES = 400, 200, 1_499
FUNCTION_LINES, SPEC_FUNCTION_LINES = 70, 30


def python_files(root: Path, folders: list[str]) -> list[Path]:
    return [file for folder in folders for file in sorted((root / folder).rglob("*.py"))]


def code_lines(source: str) -> int:
    """Lines that are neither blank, nor a comment, nor in a docstring: words of explanation are not what makes a
    specification long to audit."""
    explained: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            explained.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    stripped = [line.strip() for number, line in enumerate(source.splitlines(), start=1) if number not in explained]
    return sum(1 for line in stripped if line and not line.startswith("#"))


def long_files(root: Path, folders: list[str]) -> list[str]:
    """One line for each file of the product that is too long, and one for a specification that is."""
    found, spec_lines = [], 0
    for file in python_files(root, folders):
        source = file.read_text()
        lines = len(source.splitlines())
        in_spec = file.relative_to(root).parts[0] == "spec"
        spec_lines += code_lines(source) if in_spec else 0
        limit = SPEC_FILE_LINES if in_spec else FILE_LINES
        if lines > limit:
            found.append(f"{file.relative_to(root)}: {lines} lines, {limit} at most")
    if spec_lines > SPEC_LINES:
        found.append(f"spec: {spec_lines} lines of code, {SPEC_LINES} at most")
    return found


def long_functions(root: Path, folders: list[str]) -> list[str]:
    """One line for each function, method or nested function that is too long."""
    found = []
    for file in python_files(root, folders):
        limit = SPEC_FUNCTION_LINES if file.relative_to(root).parts[0] == "spec" else FUNCTION_LINES
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > limit:
                    found.append(f"{file.relative_to(root)}:{node.lineno} {node.name}: {lines} lines, {limit} at most")
    return found


def test_no_file_of_the_product_is_too_long(root: Path, folders: list[str]) -> None:
    assert long_files(root, ["src", *folders]) == []


def test_no_function_is_too_long(root: Path, folders: list[str]) -> None:
    assert long_functions(root, ["src", *folders, "tests"]) == []


def test_one_line_too_many_is_reported(tmp_path: Path) -> None:
    for folder, lines in {"spec": SPEC_FILE_LINES, "reference": FILE_LINES}.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "fits.py").write_text("pass\n" * lines)
        (tmp_path / folder / "long.py").write_text("pass\n" * (lines + 1))
    assert long_files(tmp_path, ["spec", "reference"]) == [
        "spec/long.py: 201 lines, 200 at most",
        "reference/long.py: 401 lines, 400 at most",
    ]


def test_a_specification_too_long_in_all_is_reported(tmp_path: Path) -> None:
    (tmp_path / "spec").mkdir()
    for number in range(15):
        text = '"""One.\n\nTwo."""\n# why\n\n' + "pass\n" * 100
        (tmp_path / "spec" / f"part_{number}.py").write_text(text)
    assert long_files(tmp_path, ["spec"]) == ["spec: 1500 lines of code, 1499 at most"]


def test_one_statement_too_many_in_a_function_is_reported(tmp_path: Path) -> None:
    for folder, lines in {"spec": SPEC_FUNCTION_LINES, "reference": FUNCTION_LINES}.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "fits.py").write_text("def fits():\n" + "    pass\n" * (lines - 1))
        (tmp_path / folder / "long.py").write_text("class A:\n  async def long(self):\n" + "    pass\n" * lines)
    assert long_functions(tmp_path, ["spec", "reference"]) == [
        "spec/long.py:2 long: 31 lines, 30 at most",
        "reference/long.py:2 long: 71 lines, 70 at most",
    ]
