"""Pages: self-contained, escaped, and saying what the records say."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dura.reports.blocks import Block, Bullets, Code, Page, Section, Terms, Text, Tiles
from dura.reports.comparison import comparison_sheet
from dura.reports.html import page_html
from dura.reports.markdown import page_markdown
from dura.reports.page import read_sources, report, write_figures, write_html, write_markdown
from dura.reports.runs import read_run, read_runs
from dura.reports.single import in_short, warnings
from dura.sheets.sheet import Sheet
from dura.types import BadInput
from folders import CURVE, END, epoch, evaluation, metrics, run_folder

EVIL = "<script>alert('x')</script> & \"it\" `<b>` | **"
CATEGORIES = {"category": {"1-N": metrics(0.5, 10), "N-N": metrics(0.25, 30)}}


class Reader(HTMLParser):
    """Collects tags, attributes and text, and checks that tags are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def html_of(*paths: Path) -> tuple[str, Reader]:
    return html_page(report(*read_sources(paths)))


def html_page(page: Page) -> tuple[str, Reader]:
    text = page_html(page, "")
    reader = Reader(text)
    assert reader.open == []
    return text, reader


def test_the_page_of_a_run_says_what_its_records_say(tmp_path: Path) -> None:
    records = [*CURVE, {"kind": "notice", "text": "mind the gap"}, END, evaluation(0.34567, groups=CATEGORIES)]
    text, page = html_of(run_folder(tmp_path / "mine", records, {"regularizer.weight": 0.125}))
    assert page.texts[page.texts.index("test MRR") + 1] == "0.3457"
    assert page.texts[page.texts.index("best valid MRR") + 1 :][:2] == ["0.3500", "epoch 3"]
    assert page.texts[page.texts.index("time in steps") + 1] == "6.0 min"
    for said in (
        "complex of rank 8, regularizer dura, on tiny: 30 entities, 4 relations, facts 1,200 train / 20 valid / 20 test.",
        "dura (weight 0.125)",
        "finished, 4 of at most 100 epochs",
        "notice: mind the gap",
        "train+valid+test, filtered",
        "2 entities, in 1 ranked facts",
        "pessimistic 0.3357",
        "N-N 0.2500",
        "weight = 0.125",
        "digest of tiny",
    ):
        assert said in page.text, said
    assert text.count("<img ") == 5  # loss, penalty, valid metrics by epoch and by time, categories
    assert "have not been ranked" not in text


def test_the_page_needs_nothing_else_and_no_script(tmp_path: Path) -> None:
    text, page = html_of(run_folder(tmp_path / "run", [*CURVE, END, evaluation(0.3, groups=CATEGORIES)]))
    assert page.links
    assert all(link.startswith("data:image/svg+xml;base64,") for link in page.links)
    assert all(base64.b64decode(link.partition(",")[2]).startswith(b"<?xml") for link in page.links)
    assert "script" not in page.tags
    assert "link" not in page.tags
    assert not re.search(r"url\(|@import|https?://", text)
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_names_of_users_are_escaped_everywhere(tmp_path: Path) -> None:
    groups = {"relation": {EVIL: metrics(0.3)}, "category": {EVIL: metrics(0.3)}}
    records = [*CURVE, {"kind": "notice", "text": EVIL}, evaluation(0.3, groups=groups, filter=EVIL, candidates=EVIL)]
    settings = {"graph.source": EVIL, "graph.separator": "<"}
    one = run_folder(tmp_path / "<b>run & co", records, settings, graph=EVIL)
    two = run_folder(tmp_path / "<i>", records)
    (tmp_path / "s").mkdir()
    Sheet(EVIL, [{EVIL: EVIL}], [EVIL]).write(tmp_path / "s", "s")
    for sources in ([one, tmp_path / "s"], [one, two]):
        made = report(*read_sources(sources))
        _, page = html_page(made)
        assert set(page.tags) <= {
            *("html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "code", "div", "small", "b"),
            *("dl", "dt", "dd", "ul", "li", "pre", "figure", "img", "figcaption", "details", "summary", "section"),
            *("table", "thead", "tbody", "tr", "th", "td", "footer"),
        }
        assert EVIL.replace("`", "") in page.text.replace("`", "")
        markdown = page_markdown(made, "", "f")
        outside = re.sub(r"^```.*?^```$", "", markdown, flags=re.M | re.S)
        assert "<script>" not in outside


@given(st.text(max_size=30))
def test_any_text_is_shown_as_it_is(text: str) -> None:
    blocks: list[Block] = [Text(text), Bullets([text]), Terms([(text, text)]), Tiles([(text, text, text)]), Code(text)]
    page = Reader(page_html(Page(text, text, [Section(text, [*blocks, Sheet(text, [{"a": text}], [text])])]), text))
    assert page.open == []
    shown = "".join(page.texts).replace("`", "")
    clean = text.replace("`", "").replace("\r\n", "\n").replace("\r", "\n")
    assert shown.replace("\r\n", "\n").replace("\r", "\n").count(clean) >= 10


def test_a_run_that_was_not_evaluated_says_what_to_type(tmp_path: Path) -> None:
    path = run_folder(tmp_path / "not yet", CURVE)
    text, page = html_of(path)
    assert f"dura evaluate '{path}' --by category" in page.text
    assert "test MRR" not in page.text
    assert 'class="warning"' in text


def test_results_of_older_tables_are_marked(tmp_path: Path) -> None:
    (said,) = warnings(read_run(run_folder(tmp_path / "stale", [*CURVE, evaluation(0.3, epoch=2)])))
    assert isinstance(said, Text)
    assert said.text.startswith("The test results are those of epoch 2, but the best epoch is now 3. `dura evaluate ")
    for now in (3, None):
        assert warnings(read_run(run_folder(tmp_path / f"{now}", [*CURVE, evaluation(0.3, epoch=now)]))) == []


def test_a_saved_model_without_records_has_a_page(tmp_path: Path) -> None:
    _, page = html_of(run_folder(tmp_path / "saved", []))
    assert "a saved model, without records of its training" in page.text
    assert "The records hold no epoch." in page.text
    assert page.links == []


def test_a_run_without_validation_has_two_curves(tmp_path: Path) -> None:
    text, page = html_of(run_folder(tmp_path / "run", [{"kind": "start"}, epoch(1), epoch(2)]))
    assert text.count("<img ") == 2
    assert "best valid MRR" not in page.text


def test_numbers_that_were_not_finite_do_no_harm(tmp_path: Path) -> None:
    broken = {**epoch(2, 0.1), "loss": None, "valid": dict.fromkeys(("mrr", "hits@1", "hits@3", "hits@10"))}
    html_of(run_folder(tmp_path / "run", [{"kind": "start"}, epoch(1, 0.2), broken]))


def test_several_runs_are_compared_by_what_differs(tmp_path: Path) -> None:
    first = run_folder(tmp_path / "dura", [*CURVE, END, evaluation(0.34, groups=CATEGORIES)])
    second = run_folder(
        tmp_path / "none",
        [*CURVE[:3], END, evaluation(0.24, groups=CATEGORIES)],
        {"regularizer.name": "none", "training.epochs": 2, "training.seed": 7},
    )
    sheet = comparison_sheet(read_runs([first, second]))
    assert sheet.rows == [
        {"run": "dura", "test MRR": 0.34, "Hits@1": 0.34 - 0.1, "Hits@3": 0.34 + 0.05, "Hits@10": 0.34 + 0.1,
         "valid MRR": 0.35, "epochs": 4, "time": "6.0 min", "regularizer": "dura", "weight": "0.02",
         "training.epochs": 100, "seed": 0},
        {"run": "none", "test MRR": 0.24, "Hits@1": 0.24 - 0.1, "Hits@3": 0.24 + 0.05, "Hits@10": 0.24 + 0.1,
         "valid MRR": 0.3, "epochs": 2, "time": "3.0 min", "regularizer": "none", "weight": None,
         "training.epochs": 2, "seed": 7},
    ]  # fmt: skip
    text, page = html_of(first, second)
    assert page.text.startswith("2 runs compared 2 runs compared On tiny.")
    assert text.count("<img ") == 3  # valid MRR by epoch and by time, MRR by category
    assert 'class="warning"' not in text


def test_runs_that_cannot_be_compared_are_told_apart(tmp_path: Path) -> None:
    one = run_folder(tmp_path / "one", [*CURVE, evaluation(0.3, groups=CATEGORIES)])
    other = run_folder(tmp_path / "other", [*CURVE, evaluation(0.3, filter="static filter")], graph="big")
    missing = run_folder(tmp_path / "missing", CURVE)
    _, page = html_of(one, other, missing)
    assert "The runs are on different graphs" in page.text
    assert "The protocols differ in: known answers left out." in page.text
    assert "known answers left out one: train+valid+test, filtered; other: static filter" in page.text
    assert f"dura evaluate {missing} --by category" in page.text
    assert "MRR of the test facts by category (not evaluated by category: other, missing)" in page.text


def test_several_runs_show_their_protocol_once(tmp_path: Path) -> None:
    runs = [run_folder(tmp_path / name, [*CURVE, END, evaluation(0.3)]) for name in "abc"]
    _, page = html_of(*runs)
    assert page.text.count("known answers left out") == 1
    assert (
        "Protocol split test known answers left out train+valid+test, filtered sides both ranked all 30 entities "
        "headline realistic ties not seen in train 2 entities, in 1 ranked facts Side by side"
    ) in page.text
    assert "not ranked in the same way" not in page.text


def test_several_runs_say_in_what_their_protocols_differ(tmp_path: Path) -> None:
    ranked = {
        "a": evaluation(0.3),
        "b": evaluation(0.3, split="valid", sides="tail", times="points"),
        "c": evaluation(0.3, candidates="all 9 entities", ties="pessimistic"),
    }
    paths = [run_folder(tmp_path / name, [*CURVE, END, record]) for name, record in ranked.items()]
    _, page = html_of(*paths, run_folder(tmp_path / "d", CURVE))
    assert "The protocols differ in: split, sides, ranked, headline, times." in page.text
    for said in (
        "split a, c: test; b: valid known answers left out train+valid+test, filtered sides a, c: both; b: tail",
        "ranked a, b: all 30 entities; c: all 9 entities headline a, b: realistic ties; c: pessimistic ties",
        "times a, c: none; b: points",
    ):
        assert said in page.text, said


def test_the_same_records_give_the_same_page(tmp_path: Path) -> None:
    path = run_folder(tmp_path / "run", [*CURVE, END, evaluation(0.3, groups=CATEGORIES)])
    pages = [write_html(report([read_run(path)]), tmp_path / name / "r.html").read_bytes() for name in "ab"]
    assert pages[0] == pages[1]


def test_markdown_links_figures_that_are_there(tmp_path: Path) -> None:
    path = run_folder(tmp_path / "run", [*CURVE, END, evaluation(0.34567, groups=CATEGORIES)])
    page, out = report([read_run(path)]), tmp_path / "docs" / "report.md"
    drawn = write_figures(page, tmp_path / "my figures")
    text = write_markdown(page, out, tmp_path / "my figures").read_text("utf-8")
    linked = re.findall(r"\]\(([^)]+)\)", text)
    assert linked == [f"../my%20figures/{file.name}" for file in drawn]
    assert [file.name for file in drawn] == [
        "loss.svg", "penalty.svg", "valid.svg", "valid-mrr-by-time.svg", "test-category.svg",
    ]  # fmt: skip
    assert "| test | realistic | 0.3457 | 0.2457 | 0.3957 | 0.4457 | 12.3 | 0.9000 | 40 |" in text
    assert "| N-N | 0.2500 |" in text
    assert "```toml\nversion = 2\n" in text


def test_tables_of_studies_become_sections_with_their_figures(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    Sheet("Sparsity", [{"share": 0.5, "MRR": 0.25}], ["Of one run."]).write(folder, "sparsity")
    Sheet("Theory", [{"bound": 1.5}]).write(folder, "theory")
    (folder / "sparsity.png").write_bytes(b"\x89PNG")
    runs, exhibits = read_sources([folder])
    assert runs == []
    assert [(s.sheet.title, [f.kind for f in s.figures]) for s in exhibits] == [("Sparsity", ["png"]), ("Theory", [])]
    _, page = html_of(folder)
    assert page.links == ["data:image/png;base64," + base64.b64encode(b"\x89PNG").decode()]
    assert "Sparsity share MRR 0.5000 0.2500 Of one run." in page.text
    _, both = html_of(run_folder(tmp_path / "run"), folder / "theory.json", folder / "theory.json")
    assert both.text.count("Theory") == 1


def test_the_main_table_of_a_study_comes_before_its_others(tmp_path: Path) -> None:
    for stem in ("categories-sides", "categories"):
        Sheet(stem, [{"MRR": 0.25}]).write(tmp_path / "study", stem)
    assert [exhibit.sheet.title for exhibit in read_sources([tmp_path / "study"])[1]] == [
        "categories",
        "categories-sides",
    ]


def test_captions_name_the_runs_without_a_curve(tmp_path: Path) -> None:
    _, page = html_of(run_folder(tmp_path / "whole"), run_folder(tmp_path / "saved", [{"kind": "export"}]))
    assert "MRR on the valid facts by epoch; without a curve: saved" in page.text
    assert "over all sittings); without a curve: saved" in page.text


def test_tables_of_the_same_name_keep_their_own_figures(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        Sheet(f"Sparsity {name}", [{"MRR": 0.25}]).write(tmp_path / name, "loss")
        (tmp_path / name / "loss.svg").write_text(f"<svg>{name}</svg>")
    (tmp_path / "three" / "loss.svg").rename(tmp_path / "three" / "loss.png")
    run = run_folder(tmp_path / "run", [*CURVE[:2], END])
    page = report(*read_sources([run, *(tmp_path / name for name in ("one", "two", "three"))]))
    drawn = write_figures(page, tmp_path / "drawn")
    assert [file.name for file in drawn if "loss" in file.name] == ["loss.svg", "loss-2.svg", "loss-3.svg", "loss.png"]
    text = write_markdown(page, tmp_path / "page.md", tmp_path / "drawn").read_text("utf-8")
    for name, file in {"one": "loss-2.svg", "two": "loss-3.svg", "three": "loss.png"}.items():
        assert f"![Sparsity {name}](drawn/{file})" in text
        assert (tmp_path / "drawn" / file).read_text() == f"<svg>{name}</svg>"
    assert b"<?xml" in (tmp_path / "drawn" / "loss.svg").read_bytes()


def test_a_sweep_shows_the_figures_it_has(tmp_path: Path) -> None:
    Sheet("Sweep", [{"trial": 0, "valid MRR": 0.25}]).write(tmp_path / "sweep", "summary")
    for name in ("history.png", "slices.svg", "slices.png", "other.png"):
        (tmp_path / "sweep" / name).write_bytes(name.encode())
    for source in (tmp_path / "sweep", tmp_path / "sweep" / "summary.json"):
        _, (exhibit,) = read_sources([source])
        assert [(p.stem, p.kind, p.data) for p in exhibit.figures] == [
            ("history", "png", b"history.png"),
            ("slices", "svg", b"slices.svg"),
        ]
        _, page = html_of(source)
        assert "Valid MRR of each trial, in the order in which they began, and the best so far" in page.text
        assert len(page.links) == 2
    (tmp_path / "sweep" / "importance.png").write_bytes(b"i")
    _, (exhibit,) = read_sources([tmp_path / "sweep"])
    assert exhibit.figures[-1].caption == "Share of each setting in the variance of valid MRR"
    Sheet("Study", [{"MRR": 0.25}]).write(tmp_path / "sweep", "study")
    assert [len(s.figures) for s in read_sources([tmp_path / "sweep"])[1]] == [0, 3]


def test_what_is_neither_run_nor_table_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path, sentence in (
        (tmp_path / "empty", "is not a run folder"),
        (tmp_path / "nowhere", "there is no run folder"),
        (tmp_path / "nowhere.json", "there is no file .*nowhere.json; name the folder of a study"),
    ):
        with pytest.raises(BadInput, match=sentence):
            read_sources([path])
    with pytest.raises(BadInput, match="needs at least one run folder"):
        report([])


def test_a_model_without_a_rank_has_none_in_short(tmp_path: Path) -> None:
    path = run_folder(tmp_path / "run", settings={"model.name": "theirs"})
    assert in_short(read_run(path)).startswith("theirs, regularizer dura, ")
