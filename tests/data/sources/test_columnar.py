"""Parquet and Arrow files, written by pyarrow and polars."""

from __future__ import annotations

import datetime as dt
import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.feather as pf  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dura.data.readers import ReadOptions
from dura.data.sheet import Sheet
from dura.data.sources.claims import arrow_claim, parquet_claim
from dura.data.sources.columnar import read_arrow, read_parquet
from dura.types import BadInput

OPTIONS = ReadOptions()
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


def stream(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


def feather(table: pa.Table, path: Path) -> None:
    pf.write_feather(table, path, compression="zstd")


Write = Callable[[pa.Table, Path], None]
KINDS: dict[str, tuple[Write, str, Callable[[Path, ReadOptions], Sheet]]] = {
    "parquet": (pq.write_table, "a.parquet", read_parquet),
    "feather": (feather, "a.feather", read_arrow),
    "stream": (stream, "a.arrow", read_arrow),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_type_becomes_text(kind: str, tmp_path: Path) -> None:
    write, name, read = KINDS[kind]
    day = dt.datetime(2020, 1, 2)  # noqa: DTZ001
    table = pa.table(
        {
            "text": pa.array(["a", None]),
            "whole": [1, 2**62],
            "gap": pa.array([7.0, None]),
            "part": [2.5, float("nan")],
            "date": [day.date(), day.date()],
            "midnight": [day, day],
            "moment": [day, day + dt.timedelta(hours=3, minutes=4, seconds=5, microseconds=600)],
            "zone": pa.array([day, day], pa.timestamp("us", "Europe/Paris")),
            "category": pa.array(["x", "y"]).dictionary_encode(),
            "truth": [True, False],
            "list": [[1], [2]],
            "bytes": [b"x", b"y"],
        }
    )
    write(table, tmp_path / name)
    sheet = read(tmp_path / name, OPTIONS)
    assert sheet.rows.rows() == [
        (
            "a",
            "1",
            "7",
            "2.5",
            "2020-01-02",
            "2020-01-02",
            "2020-01-02T00:00:00",
            "2020-01-02T01:00:00+01:00",
            "x",
            "true",
        ),
        (
            None,
            str(2**62),
            None,
            None,
            "2020-01-02",
            "2020-01-02",
            "2020-01-02T03:04:05.000600",
            "2020-01-02T01:00:00+01:00",
            "y",
            "false",
        ),
    ]
    assert sheet.titles == tuple(table.column_names[:-2])
    assert sheet.numbers is not None and sheet.numbers.to_list() == [1, 2]
    assert sheet.notes == ["columns 'list', 'bytes' not used: lists, objects and bytes are not names"]


@pytest.mark.parametrize("kind", KINDS)
@given(rows=st.lists(st.tuples(NAMES, NAMES, NAMES), min_size=1, max_size=5))
def test_names_come_back(kind: str, rows: list[tuple[str, str, str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    write, name, read = KINDS[kind]
    path = tmp_path_factory.mktemp("back") / name
    write(pa.table(dict(zip("hrt", map(list, zip(*rows, strict=True)), strict=True))), path)
    assert read(path, OPTIONS).rows.rows() == rows


def test_compressed_around(tmp_path: Path) -> None:
    pl.DataFrame({"h": ["a"], "r": ["b"], "t": ["c"]}).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    assert read_parquet(tmp_path / "a.parquet.gz", OPTIONS).rows.rows() == [("a", "b", "c")]


@pytest.mark.parametrize("kind", KINDS)
def test_any_cut_or_changed_byte_is_one_sentence(kind: str, tmp_path: Path) -> None:
    write, name, read = KINDS[kind]
    write(pa.table({"h": ["a", "b"] * 20, "r": ["c", "d"] * 20, "t": [1, 2] * 20}), tmp_path / name)
    data = (tmp_path / name).read_bytes()
    for at in range(0, len(data), 7):
        for broken in (data[:at], data[:at] + b"\xff" + data[at + 1 :]):
            (tmp_path / name).write_bytes(broken)
            try:
                read(tmp_path / name, OPTIONS)
            except BadInput as error:
                assert "\n" not in str(error)


def test_other_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"head,relation,tail\n")
    with pytest.raises(BadInput, match="is not a Parquet file: it does not begin with PAR1"):
        read_parquet(tmp_path / "a.parquet", OPTIONS)
    (tmp_path / "a.feather").write_bytes(b"FEA1" + b"\0" * 50)
    with pytest.raises(BadInput, match="Feather file of version 1, which is not read; write it again as version 2"):
        read_arrow(tmp_path / "a.feather", OPTIONS)


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_a_small_file_that_asks_for_much_memory_is_refused(kind: str, tmp_path: Path) -> None:
    _, name, read = KINDS[kind]
    table = pa.table({"h": ["a" * 50_000_000], "r": ["b"], "t": ["c"]})
    if kind == "parquet":
        pq.write_table(table, tmp_path / name, compression="zstd", use_dictionary=False, write_statistics=False)
    else:
        feather(table, tmp_path / name)
    assert (tmp_path / name).stat().st_size < 100_000
    with pytest.raises(BadInput, match=r"needs 0\.1 GB when it is unpacked, more than 0\.01 GB; .* --most-gb 1$"):
        read(tmp_path / name, ReadOptions(most_gb=0.01))
    assert len(read(tmp_path / name, OPTIONS)) == 1


def test_many_equal_rows_in_a_few_bytes_are_refused(tmp_path: Path) -> None:
    pl.DataFrame({"h": ["a"], "r": ["b"], "t": ["c"]}).select(pl.all().repeat_by(2_000_000).explode()).write_parquet(
        tmp_path / "a.parquet"
    )
    assert (tmp_path / "a.parquet").stat().st_size < 100_000
    with pytest.raises(BadInput, match="more than 0.05 GB"):
        read_parquet(tmp_path / "a.parquet", ReadOptions(most_gb=0.05))


def test_claims_are_near_the_truth(tmp_path: Path) -> None:
    table = pa.table({"h": [f"name {at}" for at in range(10_000)], "n": list(range(10_000))})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1000, data_page_size=1000)
    feather(table, tmp_path / "a.feather")
    stream(table, tmp_path / "a.arrow")
    for name, claim in (("a.parquet", parquet_claim), ("a.feather", arrow_claim), ("a.arrow", arrow_claim)):
        with (tmp_path / name).open("rb") as file:
            assert table.nbytes < claim(file) < 6 * table.nbytes


def test_a_description_with_a_false_length_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"h": ["a"]}), tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(data[:-8] + struct.pack("<I", 2**31) + b"PAR1")
    with pytest.raises(BadInput, match="is damaged or cut short .it has no end.; get it again"):
        read_parquet(tmp_path / "a.parquet", OPTIONS)


def test_too_many_columns(tmp_path: Path) -> None:
    pl.DataFrame({str(at): ["x"] for at in range(10_001)}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(BadInput, match="10,001 columns, more than 10,000; write the columns of facts only"):
        read_parquet(tmp_path / "a.parquet", OPTIONS)
