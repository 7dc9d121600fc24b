"""known-faults.toml: every entry needs a code, a fingerprint and the address of an issue."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.conformance.errors import FormatError, UsageError
from milepost.conformance.known_faults import KnownFault, read_known_faults

GOOD = '''
[[fault]]
code = "torn-hit"
fingerprint = "3f9c1a"
url = "https://github.com/acme/engine/issues/7"
'''


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "known-faults.toml"


def read(path: Path, text: str) -> tuple[KnownFault, ...]:
    path.write_text(text, encoding="utf-8")
    return read_known_faults(path)


def test_entries_are_read_in_order(written: Path) -> None:
    second = GOOD.replace("torn-hit", "promise:not-inert").replace("/7", "/8").replace("https", "http")
    assert read(written, GOOD + second) == (
        KnownFault("torn-hit", "3f9c1a", "https://github.com/acme/engine/issues/7"),
        KnownFault("promise:not-inert", "3f9c1a", "http://github.com/acme/engine/issues/8"),
    )


def test_a_promise_that_no_schedule_shows_goes_by_its_name(written: Path) -> None:
    [known] = read(written, GOOD.replace("torn-hit", "promise:deterministic").replace("3f9c1a", "deterministic"))
    assert (known.code, known.fingerprint) == ("promise:deterministic", "deterministic")


@pytest.mark.parametrize("text", ["", "# nothing is known yet\n"])
def test_a_file_without_entries_knows_nothing(written: Path, text: str) -> None:
    assert read(written, text) == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (GOOD.replace('code = "torn-hit"\n', ""), "fault 1: has no code"),
        (GOOD.replace('fingerprint = "3f9c1a"\n', ""), "fault 1: has no fingerprint"),
        ("[[fault]]\ncode = 'leak'\n", "fault 1: has no fingerprint and no url"),
        (GOOD + GOOD.replace("torn-hit", "torn"), "fault 2: unknown code 'torn'"),
        (GOOD.replace("torn-hit", "promise:inert"), "fault 1: unknown code 'promise:inert'"),
        (GOOD.replace("https://github.com/acme/engine/issues/7", "soon"), "fault 1: its url is not the address"),
        (GOOD.replace("https://github.com/acme/engine/issues/7", "https://x y"), "fault 1: its url is not the address"),
        (GOOD.replace('"3f9c1a"', "7"), "fault 1: expected code, fingerprint and url as text"),
        ("fault = ['torn-hit']\n", "fault 1: expected code, fingerprint and url as text"),
        ("fault = 'torn-hit'\n", r"expected \[\[fault\]\] entries and nothing else"),
        ("[[faults]]\ncode = 'leak'\n", r"expected \[\[fault\]\] entries and nothing else"),
        ("[[fault]\n", "is not TOML"),
        (GOOD.replace("torn-hit", "torn-hitt"), "unknown code 'torn-hitt'; did you mean torn-hit?"),
        (GOOD.replace("torn-hit", "deterministic"), "'deterministic'; did you mean promise:deterministic?"),
        (GOOD.replace("3f9c1a", "torn-hit-3f9c1a"), "fingerprint 'torn-hit-3f9c1a' is not what a report shows"),
        (GOOD + "owner = 'me'\n", "fault 1: 'owner' is none of code, fingerprint and url"),
        (GOOD + GOOD, "fault 2: torn-hit 3f9c1a is there already"),
    ],
)
def test_what_is_wrong_with_an_entry_is_said(written: Path, text: str, complaint: str) -> None:
    with pytest.raises(FormatError, match=complaint) as raised:
        read(written, text)
    assert raised.value.path == str(written) and raised.value.exit_code == 2


def test_a_mistake_in_the_toml_is_placed(written: Path) -> None:
    with pytest.raises(FormatError) as raised:
        read(written, GOOD + "code = \n")
    assert (raised.value.line, raised.value.column) == (6, 8)
    assert str(raised.value).startswith(f"{written}:6:8: is not TOML: ")


def test_a_file_that_is_no_text_is_told(written: Path) -> None:
    written.write_bytes(b"\xff\xfe")
    with pytest.raises(FormatError, match="is not UTF-8 text"):
        read_known_faults(written)


def test_a_file_that_is_not_there_is_the_callers_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_known_faults(tmp_path / "nothing.toml")
