"""docs/known-vulnerabilities.md: each case of others is in its table, and each test that it names exists."""

from __future__ import annotations

import ast
import re

import pytest

from .source import files, read, source

PAGE = "docs/known-vulnerabilities.md"

CASES = {
    *("CVE-2018-8008", "CVE-2018-11779", "CVE-2019-0202", "CVE-2021-38294", "CVE-2021-40865", "CVE-2023-43123"),
    *("CVE-2026-35337", "CVE-2026-35565", "CVE-2026-41081", "CVE-2026-84179"),
    *(f"CVE-2026-{number}" for number in range(82426, 82442)),
    *("storm#8987", "storm#8989", "storm#9004", "storm#9075"),
    *("CVE-2020-9480", "CVE-2021-38296", "CVE-2022-33891", "CVE-2023-32007", "CVE-2025-55039", "spark-bridge"),
    *("CVE-2020-17519", "CVE-2020-13927", "CVE-2021-42343", "CVE-2023-48022", "CVE-2025-62593", "CVE-2026-27482"),
    *("CVE-2024-28179", "CVE-2025-53393", "CVE-2026-21883", "CVE-2026-28277", "CVE-2026-54274", "bytewax#271"),
}
"""Storm's, those of its pull requests, Spark's, and those of other engines and libraries."""

_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def rows() -> list[list[str]]:
    """The cells of each row of the table."""
    lines = [line for line in read(PAGE).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def test_each_case_is_in_the_table_once() -> None:
    found = [case for row in rows() for case in row[0].split(", ")]
    assert sorted(found) == sorted(CASES)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_each_case_has_tests_and_they_exist(row: list[str]) -> None:
    case, happened, rule, tests = row
    named = _TEST.findall(tests)
    assert happened and rule and named, case  # noqa: PT018 - one message
    assert ", ".join(f"`{file}::{test}`" for file, test in named) == tests, f"{case}: tests are `FILE::FUNCTION`"
    for file, test in named:
        assert file in files(), f"{case}: there is no {file}"
        defined = source(file).tree.body
        there = {each.name for each in defined if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert test in there, f"{case}: {file} has no {test}"
