"""`python docs/site OUT`: build the site into a folder. Any warning is an error."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from stage import stage


def main(out: Path) -> int:
    """Build the site into `out`, which is emptied first if it holds an older site."""
    try:
        from sphinx.cmd.build import main as sphinx
    except ModuleNotFoundError:
        print("the site needs Sphinx; pip install 'dura-kge[docs]'", file=sys.stderr)  # noqa: T201
        return 1
    if out.exists():
        if not (out / "searchindex.js").exists() and any(out.iterdir()):
            print(f"{out} is not empty and holds no site; choose another folder", file=sys.stderr)  # noqa: T201
            return 1
        shutil.rmtree(out)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        source.mkdir()
        stage(source)
        code = sphinx(["-W", "--keep-going", "-q", "-b", "html", "-d", f"{folder}/trees", str(source), str(out)])
    return int(code)


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/site")))
