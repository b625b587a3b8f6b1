"""Names from strangers: code, quotes, marks of direction and endless labels do nothing and break nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from browsers import DESK, PHONE, Service, visit
from pages import HOSTILE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow


def harmless(page: Page, width: int) -> None:
    assert page.evaluate("window.harmed") is None
    assert page.locator("main img, main script").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    longest = page.evaluate(
        "Math.max(...[...document.querySelectorAll('main bdi, main text')].map(e => e.textContent.length))"
    )
    assert longest <= 600
    assert page.evaluate("document.title.length") < 100
    assert page.evaluate("getComputedStyle(document.querySelector('main')).direction") == "ltr"


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_hostile_names_do_nothing(browser: Browser, strange_page: Service, size: dict[str, int]) -> None:
    with visit(browser, strange_page, viewport=size) as seen:
        harmless(seen.open(), size["width"])
        for name in ("plain", "long", "other 1", *HOSTILE):
            page = seen.open("entity", name=name)
            page.locator(".answer, .nothing").first.wait_for()
            harmless(page, size["width"])
        for view in ("neighbourhood", "map"):
            harmless(seen.open(view, name="plain"), size["width"])
        harmless(seen.open("fact", head="plain", relation=HOSTILE[0], tail=HOSTILE[1]), size["width"])
        harmless(seen.open("model"), size["width"])


def test_names_are_shown_as_they_are(browser: Browser, strange_page: Service) -> None:
    with visit(browser, strange_page) as seen:
        page = seen.open("entity", name=HOSTILE[0])
        assert page.locator("main h1").inner_text() == HOSTILE[0]
        page.get_by_role("combobox").fill("endless")
        option = page.get_by_role("option").filter(has_text="endless").first
        option.wait_for()
        box = option.bounding_box()
        assert box is not None
        assert box["height"] < 80
        page.get_by_role("combobox").fill(HOSTILE[1])
        page.get_by_role("option").filter(has_text="onerror").first.click()
        page.locator(".answer").first.wait_for()
        assert page.locator("main h1").inner_text() == HOSTILE[1]
        assert page.evaluate("window.harmed") is None


def test_scores_without_probabilities(browser: Browser, strange_page: Service) -> None:
    with visit(browser, strange_page) as seen:
        page = seen.open("entity", name="plain")
        page.locator(".answer").first.wait_for()
        assert "dura calibrate" in page.locator(".missing-part .note").inner_text()
        assert page.locator(".chance.plain").count() > 0
        assert page.locator(".answer .bar").count() == 0
