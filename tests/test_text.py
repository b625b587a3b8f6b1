"""Texts of other people: parsed within limits, printed without harm."""

from __future__ import annotations

import json
import time

import pytest

from dura.text import MOST_DEPTH, MOST_TOML, SHOWN, parse_json, parse_toml, printable, shown


def test_terminal_controls_are_escaped_and_letters_are_not() -> None:
    assert printable("\x1b]0;owned\x07") == r"\u001b]0;owned\u0007"
    assert printable("a\x9b31mb\x7f\r") == r"a\u009b31mb\u007f\u000d"
    assert printable("abc\u202edcba\u2066") == r"abc\u202edcba\u2066"
    plain = "Zürich 東京 👩‍👧 नमस्ते\tשלום\n"
    assert printable(plain) == plain and printable("a\nb", lines=False) == r"a\u000ab"


def test_escaped_json_is_the_same_document() -> None:
    document = {"name": "a\x7f\x9b\u202e\n"}
    assert json.loads(printable(json.dumps(document, ensure_ascii=False))) == document


def test_values_in_sentences_are_short_and_on_one_line() -> None:
    assert shown(3) == "3" and shown("a\n\x1b") == r"'a\n\x1b'"
    assert len(shown(list(range(10**6)))) <= SHOWN + 1
    assert shown(16**20_000) == "a number with too many digits" == shown([16**20_000])


def test_json_depth_and_odd_texts() -> None:
    inner = b"[" * MOST_DEPTH + b"]" * MOST_DEPTH
    assert json.dumps(parse_json(inner)).encode() == inner
    with pytest.raises(ValueError, match="nested more than 32 deep"):
        parse_json(b"[" + inner + b", 1]")
    assert parse_json(b'"\\ud83d\\ude00 \\udcff"') == "😀 ?"  # a whole pair stays, a half cannot be written
    assert parse_json(b"1e999") == float("inf")  # schemas refuse it


LONG = ".".join(["a"] * 20_000)


@pytest.mark.parametrize(
    "text",
    [
        f"{LONG} = 1",
        f"[{LONG}]",
        f"x = {{{LONG} = 1}}",
        f"{LONG.replace('a', chr(34) + 'a b' + chr(34))} = 1",
        f"{LONG.replace('.', ' . ')} = 1",
        f"{LONG.replace('a', chr(39) * 2)} = 1",
    ],
)
def test_toml_keys_of_many_parts_are_refused_at_once(text: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match="a key has more than 32 parts"):
        parse_toml(text)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 5000,
        "x = " + "{a = " * 5000,
        "x = " + "[" * 40 + "]" * 40,
        "[a.b]\nx = " + "{a = " * 31 + "1" + "}" * 31,
    ],
)
def test_deep_toml_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="deep|Invalid|Unclosed"):
        parse_toml(text)


def test_long_toml_is_refused_and_ordinary_toml_is_not() -> None:
    with pytest.raises(ValueError, match="more than 1,048,576"):
        parse_toml("#" * (MOST_TOML + 1))
    began = time.process_time()
    for letters in ("a" * MOST_TOML, '"' * MOST_TOML, "a." * (MOST_TOML // 2), "." * MOST_TOML):
        with pytest.raises(ValueError):
            parse_toml(letters[: MOST_TOML - 1])
    assert time.process_time() - began < 10
    floats = ", ".join(f"{i / 7:.6f}" for i in range(500))
    assert len(parse_toml(f'x = [{floats}]\n[sweep.space]\n"model.rank" = [1.5, 2]\ny = "a.b.c"')["x"]) == 500
