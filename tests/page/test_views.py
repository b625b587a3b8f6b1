"""What people do on the page, in a real browser against a live service on UMLS."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING

import pytest

from browsers import PHONE, Service, visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow
FACT = {"head": "virus", "relation": "causes", "tail": "congenital_abnormality"}
VIEWS: dict[str, dict[str, str]] = {
    "": {},
    "entity": {"name": "virus"},
    "fact": FACT,
    "neighbourhood": {"name": "virus"},
    "map": {"name": "virus"},
    "decisions": {},
    "model": {},
}


def heading(page: Page) -> str:
    return page.locator("main h1").inner_text()


def test_search_leads_to_known_and_missing_facts(browser: Browser, umls_page: Service) -> None:
    with visit(browser, umls_page) as seen:
        page = seen.open()
        page.get_by_role("combobox").fill("vir")
        page.get_by_role("option", name="virus").click()
        page.locator(".answer").first.wait_for()
        assert heading(page) == "virus"
        best = umls_page.get("/suggestions", entity="virus", k=3, limit=24)["relations"][0]
        group = page.locator(".missing-part .group").first
        assert group.locator("h3 bdi").last.inner_text() == best["relation"].replace("_", " ")
        names = [answer["entity"].replace("_", " ") for answer in best["answers"]]
        assert group.locator(".answer .entity").all_inner_texts() == names
        shown = group.locator(".chance .number").first.inner_text()
        assert float(shown.strip("<>%")) == pytest.approx(100 * best["answers"][0]["probability"], abs=0.6)
        known = umls_page.get("/facts", entity="virus")
        assert f"{known['total']} known facts" in page.locator(".under").inner_text()
        first = known["facts"][0]
        other = first["tail"] if first["head"] == "virus" else first["head"]
        assert page.locator(".known li .entity").first.inner_text() == other.replace("_", " ")


def test_accept_is_stored_and_undone(browser: Browser, umls_page: Service) -> None:
    file = umls_page.run / "reviews.csv"
    with visit(browser, umls_page) as seen:
        page = seen.open("entity", name="fungus")
        row = page.locator(".answer").first
        row.get_by_role("button", name=re.compile("^Accept")).click()
        row.get_by_text("Accepted").wait_for()
        (decision,) = [one for one in umls_page.get("/reviews")["decisions"] if "fungus" in (one["head"], one["tail"])]
        assert decision["decision"] == "accept"
        with file.open() as lines:
            kept = list(csv.DictReader(lines))[-1]
        assert {key: kept[key] for key in ("head", "relation", "tail", "decision")} == {
            key: decision[key] for key in ("head", "relation", "tail", "decision")
        }
        row.get_by_role("button", name=re.compile("^Undo")).click()
        row.get_by_role("button", name=re.compile("^Reject")).click()
        row.get_by_text("Rejected").wait_for()
        assert [one["decision"] for one in umls_page.get("/reviews")["decisions"]] == ["reject"]
        page = seen.open("decisions")
        listed = page.locator(".decision-list li")
        assert listed.count() == 1
        listed.get_by_role("button", name=re.compile("^Undo")).click()
        listed.get_by_role("button", name=re.compile("^Accept")).wait_for()
        assert umls_page.get("/reviews")["decisions"] == []
        with file.open() as lines:
            assert [line["decision"] for line in csv.DictReader(lines)][-2:] == ["reject", "withdraw"]


def test_reasons_are_drawn_and_listed(browser: Browser, umls_page: Service) -> None:
    why = umls_page.get("/explain", **FACT, k=5)
    with visit(browser, umls_page) as seen:
        page = seen.open("fact", **FACT)
        assert heading(page) == "virus causes congenital abnormality"
        boxes = page.locator(".drawing .box text").all_text_contents()
        assert len(boxes) >= 3
        assert "virus" in boxes
        assert page.locator(".effect").count() == len(why["facts"]) + len(why["against"])
        assert page.locator(".rule").count() == len(why["rules"])
        page.locator(".effect a").first.click()
        page.wait_for_url(re.compile("head=.*relation="))


def test_neighbourhood_is_walked_and_dragged(browser: Browser, umls_page: Service) -> None:
    with visit(browser, umls_page) as seen:
        page = seen.open("neighbourhood", name="virus")
        node = page.locator(".node:not(.centre)").first
        other = (node.locator("text").text_content() or "").rstrip("…")
        before, box = node.get_attribute("transform"), node.locator(".disc").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 5, box["y"] + 5)
        page.mouse.down()
        page.mouse.move(box["x"] + 60, box["y"] + 80, steps=6)
        page.mouse.up()
        assert node.get_attribute("transform") != before
        assert heading(page) == "virus"  # to drag is not to walk
        node.locator(".disc").click()
        page.locator(".node.centre text", has_text=other).wait_for()
        page.locator(".trail").get_by_role("link", name="virus").click()
        page.locator(".node.centre text", has_text="virus").wait_for()
        assert page.locator(".edge.known").count() >= 5
        assert page.locator(".edge.predicted").count() >= 3


def test_map_finds_zooms_and_chooses(browser: Browser, umls_page: Service) -> None:
    with visit(browser, umls_page) as seen:
        page = seen.open("map")
        page.get_by_role("combobox").fill("fungus")
        page.get_by_role("option", name="fungus").click()
        page.locator(".map-card h2", has_text="fungus").wait_for()
        near = umls_page.get("/neighbours", entity="fungus", k=6)["neighbours"]
        page.locator(".map-card li").last.wait_for()
        shown = page.locator(".map-card li .entity").all_inner_texts()
        assert shown == [one["entity"].replace("_", " ") for one in near]
        stage, picture = page.get_by_role("application"), page.locator("canvas")
        before = picture.screenshot()
        stage.focus()
        page.keyboard.press("+")
        page.wait_for_timeout(100)
        nearer = picture.screenshot()
        assert nearer != before
        page.mouse.move(700, 500)
        page.mouse.wheel(0, -400)
        page.wait_for_timeout(100)
        assert picture.screenshot() != nearer
        # The chosen entity is in the middle after the search: a click there chooses it again after the card is closed.
        page = seen.open("map", name="virus")
        page.get_by_role("button", name="Close").click()
        box = stage.bounding_box()
        assert box is not None
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.locator(".map-card h2").wait_for()


def test_keyboard_alone(browser: Browser, umls_page: Service) -> None:
    with visit(browser, umls_page) as seen:
        page = seen.open()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to content"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "content"
        page.keyboard.press("/")
        page.keyboard.type("bact")
        page.get_by_role("option", name="bacterium").wait_for()
        assert page.get_by_role("combobox").get_attribute("aria-activedescendant")
        page.keyboard.press("Enter")
        page.locator(".answer").first.wait_for()
        assert page.evaluate("document.activeElement.tagName + document.activeElement.textContent") == "H1bacterium"
        for _ in range(12):
            page.keyboard.press("Tab")
            if (page.evaluate("document.activeElement.ariaLabel") or "").startswith("Accept"):
                break
        page.keyboard.press("Enter")
        page.locator(".answer").first.get_by_text("Accepted").wait_for()
        assert "Accepted" in page.locator("[aria-live=polite]").inner_text()
        page.locator(".answer").first.get_by_role("button", name=re.compile("^Undo")).press("Enter")
        page.locator(".answer").first.get_by_role("button", name=re.compile("^Accept")).wait_for()
        page.keyboard.press("/")
        page.keyboard.type("vir")
        page.get_by_role("option").first.wait_for()
        page.keyboard.press("Escape")
        assert page.get_by_role("combobox").get_attribute("aria-expanded") == "false"


def test_phone_has_no_sideways_scrolling(browser: Browser, umls_page: Service) -> None:
    with visit(browser, umls_page, viewport=PHONE, has_touch=True) as seen:
        for view, given in VIEWS.items():
            page = seen.open(view, **given)
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], view
            assert page.locator("main h1").count() == 1


def test_dark_follows_the_system_and_can_be_chosen(browser: Browser, umls_page: Service) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    with visit(browser, umls_page, color_scheme="dark") as seen:
        page = seen.open()
        dark = page.evaluate(colour)
        assert max(map(int, re.findall(r"\d+", dark))) < 60
        page.get_by_role("button", name="Light colours").click()
        assert min(map(int, re.findall(r"\d+", page.evaluate(colour)))) > 200
        page.reload()
        page.get_by_role("button", name="Dark colours").click()
        assert page.evaluate(colour) == dark


def test_unknown_entity_is_a_sentence(browser: Browser, umls_page: Service) -> None:
    with visit(browser, umls_page) as seen:
        page = seen.open("entity", name="nobody knows this")
        assert "nobody knows this" in page.get_by_role("alert").inner_text()
        assert heading(seen.open("nonsense")) == "There is no such view"


def test_token_is_asked_for_and_nothing_is_decided_read_only(browser: Browser, umls_page: Service) -> None:
    secret = umls_page.run.parent / "token.txt"
    secret.write_text("open-sesame-1234567890")
    secret.chmod(0o600)
    service = Service(umls_page.run, "--token-file", str(secret), "--read-only")
    try:
        with visit(browser, service) as seen:
            page = seen.page
            page.goto(f"{service.address}/#/entity?name=virus")
            for token in ("wrong", "open-sesame-1234567890"):
                page.get_by_role("dialog").wait_for()
                page.get_by_role("textbox", name="Token").fill(token)
                page.keyboard.press("Enter")
                page.wait_for_timeout(200)
            page.locator(".answer").first.wait_for()
            assert page.get_by_role("button", name=re.compile("^Accept")).count() == 0
            page.reload()  # the token is kept for this window
            page.locator(".answer").first.wait_for()
    finally:
        service.end()
