"""Sentences: what is wrong with a request, where, and what would be right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from dura.text import shown
from dura.web import requests as forms
from dura.web.requests import LONGEST, MOST, MOST_NAMES

QUESTION = '{"head": "Berlin", "relation": "located_in"}'
FACT = '{"head": "Berlin", "relation": "located_in", "tail": "Germany"}'
EXAMPLE = f'{{"questions": [{QUESTION}]}}'
"""A body that could be right, for sentences."""
FORMS: dict[str, tuple[type[BaseModel], str]] = {
    "/predict": (forms.OneQuestion, "/predict?head=Berlin&relation=located_in"),
    "/score": (forms.FactFields, "/score?head=Berlin&relation=located_in&tail=Germany"),
    "/explain": (forms.Explained, "/explain?head=Berlin&relation=located_in&tail=Germany"),
    "/neighbours": (forms.Near, "/neighbours?entity=Berlin"),
    "/entities": (forms.Searched, "/entities?query=berl"),
    "/facts": (forms.FactsAbout, "/facts?entity=Berlin"),
    "/suggestions": (forms.SuggestedFor, "/suggestions?entity=Berlin"),
    "/times": (forms.TimedFact, "/times?head=Ann&relation=visits&tail=Bob"),
    "ManyQuestions": (forms.ManyQuestions, EXAMPLE),
    "QuestionFields": (forms.QuestionFields, QUESTION),
    "ManyFacts": (forms.ManyFacts, f'{{"facts": [{FACT}]}}'),
    "FactFields": (forms.FactFields, FACT),
    "Decisions": (forms.Decisions, f'{{"decisions": [{FACT[:-1]}, "decision": "accept"}}]}}'),
}
"""The form of each address, and of each body by its name, with an example."""
_ITEMS = {"questions": "question", "facts": "fact", "decisions": "decision"}
_RANGES = {"offset": "0 to 1,000,000,000"}
_WANTED = {
    "string": "must be text",
    "bool": "must be true or false",
    "list": "must be a list of names",
    "float": "must be a number from 0 to 1",
    "finite_number": "must be a number from 0 to 1",
}
"""What would be right, by the beginning of pydantic's name for the error."""


def sentence(errors: Sequence[Mapping[str, Any]], form: str) -> str:
    """A sentence for the first of pydantic's errors. `form` is the address of a GET request, or the name of a body's form."""
    error = errors[0]
    place = tuple(error["loc"])
    fields, example = FORMS[form]
    kind, given, where = str(error["type"]), error["input"], _where(place, form)
    if kind == "json_invalid":
        return f"the body is not JSON: {error['ctx']['error']}"
    if kind == "missing":
        return f"{where} is missing; it is needed, such as {example}"
    if kind == "extra_forbidden":
        inner = forms.DecisionFields if len(place) > 1 else fields
        return f"{where} is not known; known are {', '.join(inner.model_fields)}"
    if kind == "string_too_long":
        return f"{where} has {len(given):,} characters; at most {LONGEST:,} are allowed"
    if kind in ("too_short", "too_long"):
        if place[0] not in _ITEMS:
            return f"{where} has {len(given):,} names; at most {MOST_NAMES:,} are allowed"
        return f"{where} has {len(given):,} {place[0]}; 1 to {MOST:,} are allowed in one request"
    return f"{where} {_right(error, kind, place, example)}, not {_given(given)}"


def _right(error: Mapping[str, Any], kind: str, place: tuple[int | str, ...], example: str) -> str:
    """What would be right in this place."""
    if kind.startswith("list") and place and place[-1] in _ITEMS:
        return f"must be a list of {place[-1]}"
    if kind.startswith(("int", "less_than", "greater_than")):
        most = MOST if place[-1] != "k" else error.get("ctx", {}).get("le", MOST)
        return f"must be a whole number from {_RANGES.get(str(place[-1]), f'1 to {most:,}')}"
    if kind == "literal_error":
        return f"must be {error['ctx']['expected']}"
    if kind.startswith("model"):
        return f"must be an object such as {FACT if place else example}"
    return next((words for begin, words in _WANTED.items() if kind.startswith(begin)), "is not valid")


def _where(place: tuple[int | str, ...], form: str) -> str:
    """A place in a request: `relation of decision 1` for ("decisions", 0, "relation")."""
    names = [shown(name)[1:-1] for name in place if isinstance(name, str)]
    numbers = [name + 1 for name in place if isinstance(name, int)]
    if not place:
        return {"QuestionFields": "the question", "FactFields": "the fact"}.get(form, "the body")
    if not numbers:
        return names[-1]
    if names[0] not in _ITEMS:
        return f"name {numbers[0]} of {names[0]}"
    item = f"{_ITEMS[names[0]]} {numbers[0]}"
    return f"{names[-1]} of {item}" if len(names) > 1 else item


def _given(value: object) -> str:
    """A value as JSON writes it."""
    if isinstance(value, Mapping | list):
        return "an object" if isinstance(value, Mapping) else "a list"
    return (
        {True: "true", False: "false", None: "null"}[value]
        if value is None or isinstance(value, bool)
        else shown(value)
    )
