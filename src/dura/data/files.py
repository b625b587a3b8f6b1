"""The bytes of a file, decompressed by its ending; what is wrong with it is said in one sentence."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path

from dura.types import BadInput

UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
MAGIC = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst"}


def _gunzip(data: bytes) -> bytes:
    try:
        return gzip.decompress(data)
    except EOFError:
        raise ValueError("is cut short") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"is damaged ({error})") from None


def _unzstd(data: bytes) -> bytes:
    import zstandard

    parts = []
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            parts.append(frame.decompress(data))
        except zstandard.ZstdError as error:
            raise ValueError(f"is damaged ({error})") from None
        if not frame.eof:
            raise ValueError("is cut short")
        data = frame.unused_data
    return b"".join(parts)


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {".gz": _gunzip, ".zst": _unzstd}


def endings(path: Path) -> tuple[str, str]:
    """The ending that names the format, and the one that names the compression, both in lower case.

    >>> endings(Path("facts.v2.TSV.gz"))
    ('.tsv', '.gz')
    """
    compression = path.suffix.lower()
    if compression not in COMPRESSIONS:
        return compression, ""
    return path.with_suffix("").suffix.lower(), compression


def stem(path: Path) -> str:
    """The file's name without the endings of format and compression.

    >>> stem(Path("data/facts.v2.tsv.gz"))
    'facts.v2'
    """
    return (path.with_suffix("") if endings(path)[1] else path).with_suffix("").name


def read_bytes(path: Path) -> bytes:
    """The file's content, decompressed where its name ends in .gz or .zst."""
    if path.is_dir():
        raise BadInput(f"{path} is a folder, but a file is needed here")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}") from None
    if not data:
        raise BadInput(f"{path} is empty")
    compression = endings(path)[1]
    found = next((ending for magic, ending in MAGIC.items() if data.startswith(magic)), "")
    if found != compression:
        content = f"{found.removeprefix('.')}-compressed" if found else "not compressed that way"
        right = f"{path.with_suffix('') if compression else path}{found}"
        raise BadInput(f"{path} is {content}, unlike its name says; name it {Path(right).name}")
    if not compression:
        return data
    try:
        return COMPRESSIONS[compression](data)
    except ValueError as error:
        raise BadInput(f"the compressed file {path} {error}; get it once more") from None


def read_lines(path: Path) -> bytes:
    """The content with LF line ends (a CR before LF or at the very end is dropped), without a UTF-8 mark."""
    data = read_bytes(path)
    if data.startswith(UTF16_MARKS):
        raise BadInput(f"{path} is UTF-16, but only UTF-8 is read; save it as UTF-8")
    return data.removeprefix(UTF8_MARK).replace(b"\r\n", b"\n").removesuffix(b"\r")
