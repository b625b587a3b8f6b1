"""Feed readers with mutated files and look for tracebacks and growing memory.

    python benchmarks/fuzz.py --inputs 1000000                  # all formats in turn
    python benchmarks/fuzz.py --inputs 20000 --formats csv ttl

atheris (libFuzzer) mutates the inputs, guided by the branches that they reach in dura's own code. It is no dependency of dura:
`pip install atheris`. Each format runs in a process of its own with a ceiling of memory. Whatever a reader raises, other than
BadInput, is a finding: it ends the process, and the input is kept in the folder. The result is a JSON document with the number of
inputs, those that were read as facts, those that were refused, and the peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

SEEDS: dict[str, list[bytes]] = {
    "tsv": [b"a\tr\tb\nb\tr\tc\n", b"head\trelation\ttail\tdate\na\tr\tb\t06.05.2014\n", b"\xef\xbb\xbfa\tr\tb\r\n"],
    "csv": [
        b'head,relation,tail,note\na,r,b,"x\ny"\n"c ""d""",r,e,z\n',
        b"a;r;b\n",
        b"from_id,edge_type,to_id\n1,2,3\n",
    ],
    "jsonl": [b'{"head": "a", "relation": "r", "tail": "b"}\n', b'["a", "r", "b"]\n', b'{"type":"node","id":"1"}\n'],
    "nt": [b"<http://a/b> <http://a/r> <http://a/c> .\n", b'_:x <http://a/l> "text"@en .\n'],
    "nq": [b"<http://a/b> <http://a/r> <http://a/c> <http://a/g> .\n"],
    "ttl": [b"@prefix a: <http://a/> .\na:b a:r a:c, a:d ; a:s [ a:t a:e ] .\n"],
    "trig": [b"@prefix a: <http://a/> .\na:g { a:b a:r a:c . }\n"],
    "rdf": [
        (
            b'<?xml version="1.0"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:a="http://a/">'
            b'<rdf:Description rdf:about="http://a/b"><a:r rdf:resource="http://a/c"/></rdf:Description></rdf:RDF>'
        )
    ],
    "parquet": [],
    "arrow": [],
}
"""Format -> the inputs to begin with. Those of binary formats are made."""
COMPRESSED = (".gz", ".zst", ".bz2", ".xz", ".zip")
CEILING_MB = 3000


def seeds(name: str, folder: Path) -> Path:
    """A folder with the inputs to begin with, plain and compressed."""
    import bz2
    import gzip
    import io
    import lzma
    import zipfile

    import polars as pl
    import zstandard

    corpus = folder / "corpus"
    corpus.mkdir(parents=True)
    plain = list(SEEDS[name])
    frame = pl.DataFrame({"head": ["a", "b"], "relation": ["r", "r"], "tail": ["b", "c"], "time": ["2014-05-06", None]})
    if not plain:
        buffer = io.BytesIO()
        (frame.write_parquet if name == "parquet" else frame.write_ipc)(buffer)
        plain = [buffer.getvalue()]
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr(f"facts.{name}", plain[0])
    packed = [gzip.compress(plain[0]), zstandard.compress(plain[0]), bz2.compress(plain[0]), lzma.compress(plain[0])]
    for at, data in enumerate(plain):
        (corpus / f"{at}").write_bytes(b"\0" + data)
    for at, data in enumerate([*packed, zipped.getvalue()], 1):
        (corpus / f"packed-{at}").write_bytes(bytes([at]) + data)
    return corpus


def read(name: str, data: bytes, path: Path) -> str:
    """Read an input as dura.load does. The first byte says how it is compressed, and which options are given."""
    from dura.data.assembly import Shares
    from dura.data.loading import load_with_notes
    from dura.data.readers import ReadOptions
    from dura.types import BadInput

    choice = data[0] if data else 0
    packed = (
        choice % 24 if choice % 24 <= len(COMPRESSED) else 0
    )  # most inputs are plain: few mutations can be unpacked
    file = path / f"facts.{name}{COMPRESSED[packed - 1] if packed else ''}"
    file.write_bytes(data[1:])
    options = ReadOptions(
        header=(None, True, False)[choice // 24 % 3],
        skip_bad=bool(choice // 72 % 2),
        time=(None, 3, 0, "date")[choice % 4] if choice >= 144 else None,
        most_gb=0.001,
    )
    try:
        load_with_notes(file, options, Shares())
    except BadInput:
        return "refused"
    return "read"


def child(name: str, inputs: int, folder: Path) -> None:
    """Fuzz one format in this process."""
    import atheris  # type: ignore[import-untyped, unused-ignore]

    with atheris.instrument_imports(include=["dura.data"]):
        from dura.data import loading, separated  # noqa: F401

    counts: Counter[str] = Counter()
    work = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    began = time.monotonic()

    def once(data: bytes) -> None:
        counts[read(name, data, work)] += 1
        if sum(counts.values()) % 500 == 0 or sum(counts.values()) == inputs:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            report = {**counts, "seconds": round(time.monotonic() - began, 1), "peak MB": round(peak)}
            (folder / "report.json").write_text(json.dumps(report))

    resource.setrlimit(resource.RLIMIT_AS, (CEILING_MB << 20, CEILING_MB << 20))
    arguments = [sys.argv[0], f"-runs={inputs}", "-max_len=4096", "-rss_limit_mb=0", "-timeout=20", "-verbosity=0"]
    os.chdir(folder)  # findings are written here
    atheris.Setup([*arguments, str(folder / "corpus")], once)
    atheris.Fuzz()


def main() -> None:
    """Fuzz the chosen formats one after the other and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="how many in all")
    parser.add_argument("--formats", nargs="+", choices=SEEDS, default=list(SEEDS))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "fuzz")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child, given.inputs, given.out)
        return
    found: dict[str, object] = {}
    for name in given.formats:
        folder = given.out.resolve() / name
        if not folder.exists():
            seeds(name, folder)
        share = given.inputs // len(given.formats)
        command = [sys.executable, __file__, "--child", name, "--inputs", str(share), "--out", str(folder)]
        with (folder / "log").open("w") as log:
            code = subprocess.run(command, stdout=log, stderr=log, check=False).returncode
        report = json.loads((folder / "report.json").read_text()) if (folder / "report.json").exists() else {}
        found[name] = {"ended": "clean" if code == 0 else f"finding, see {name}/log", **report}
        (given.out / "fuzz.json").write_text(json.dumps(found, indent=1) + "\n")
        print(name, found[name], flush=True)


if __name__ == "__main__":
    main()
