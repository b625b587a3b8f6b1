"""Facts with times on the page: the slider, and the strip that shows when a fact is likely."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from browsers import Service, visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow


def test_slider_asks_at_its_time(browser: Browser, dated_page: Service) -> None:
    times = dated_page.get("/about")["times"]
    with visit(browser, dated_page) as seen:
        page = seen.open("entity", name="person_1")
        page.locator(".answer").first.wait_for()
        slider = page.get_by_role("slider")
        assert page.locator("output").inner_text() == times[-1]
        with page.expect_response(lambda answer: f"time={times[12]}" in answer.url):
            slider.fill("12")
        page.wait_for_url(re.compile(f"time={times[12]}"))
        assert slider.get_attribute("aria-valuetext") == times[12]
        best = dated_page.get("/suggestions", entity="person_1", k=3, limit=24, time=times[12])["relations"][0]
        page.locator(".busy").wait_for(state="detached")
        names = page.locator(".missing-part .group").first.locator(".answer .entity").all_inner_texts()
        assert names == [answer["entity"].replace("_", " ") for answer in best["answers"]]
        with page.expect_response(lambda answer: f"time={times[13]}" in answer.url):
            page.get_by_role("button", name="Later").click()


def test_strip_shows_when_a_fact_is_likely(browser: Browser, dated_page: Service) -> None:
    fact = {"head": "person_1", "relation": "visits", "tail": "place_2"}
    moments = dated_page.get("/times", **fact)["times"]
    with visit(browser, dated_page) as seen:
        page = seen.open("fact", **fact, time=moments[0]["time"])
        page.locator(".strip").wait_for()
        assert page.locator(".strip .likely").count() == len(moments) == 60
        assert page.locator(".strip circle.known").count() == sum(moment["known"] for moment in moments)
        best = max(moments, key=lambda moment: moment["share"])
        heights = page.locator(".strip .likely").evaluate_all("bars => bars.map(bar => +bar.getAttribute('height'))")
        assert heights.index(max(heights)) == moments.index(best)
        assert f"Most likely at {best['time']}" in page.locator(".strip figcaption").inner_text()
        page.locator(".strip .likely").nth(30).click(force=True)
        page.wait_for_url(re.compile(f"time={moments[30]['time']}"))
