"""Serving: how many requests a service answers per second, how fast, and whether it stays well under load for long.

    python benchmarks/serving.py speed runs/fb --out docs/results
    python benchmarks/serving.py soak runs/fb --out docs/results

It needs wrk (Debian has a package of this name), which asks on loopback. Each request of `speed` is one question with a random head
and relation of the run, for ten answers. Services with and without collecting questions take turns, because other work on the
machine changes what it can do; the medians of the turns are kept with the load of the machine, and with the processor time per
request, which depends less on it. `soak` sends mixed requests to two
workers, kills one of them after a third of the time, and reloads the run after two thirds. It keeps every status and the memory of
the workers (PSS: a page that two processes share counts half for each).
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measure import show, write

psutil: Any = importlib.import_module("psutil")
Row = dict[str, Any]
CONNECTIONS = (1, 8, 64, 256)
_SCRIPT = """
local function names(path)
  local found = {}
  for line in io.lines(path) do found[#found + 1] = line end
  return found
end
local function code(text)
  return (text:gsub("[^%w%-_%.~]", function(c) return string.format("%%%02X", string.byte(c)) end))
end
local function escaped(c) return string.format("\\\\u%04x", string.byte(c)) end
local function quoted(text) return '"' .. text:gsub('[%c"\\\\]', escaped) .. '"' end
local heads, relations, mixed = names("RUN/entities.txt"), names("RUN/relations.txt"), MIXED
local function one(list) return list[math.random(#list)] end
local function get(path) return wrk.format("GET", path) end
math.randomseed(SEED)
function request()
  local head, relation, draw = one(heads), one(relations), math.random()
  local question = "head=" .. code(head) .. "&relation=" .. code(relation)
  if not mixed or draw < 0.6 then return get("/predict?" .. question) end
  if draw < 0.7 then return get("/entities?query=" .. code(head:sub(1, 4))) end
  if draw < 0.8 then return get("/facts?entity=" .. code(head)) end
  if draw < 0.88 then return get("/score?" .. question .. "&tail=" .. code(one(heads))) end
  if draw < 0.93 then return get("/neighbours?entity=" .. code(head)) end
  if draw < 0.95 then return get("/suggestions?entity=" .. code(head)) end
  if draw < 0.98 then
    local body = {}
    for i = 1, 8 do body[i] = '{"head": ' .. quoted(one(heads)) .. ', "relation": ' .. quoted(one(relations)) .. '}' end
    return wrk.format("POST", "/predict", nil, '{"questions": [' .. table.concat(body, ",") .. ']}')
  end
  return get("/predict?head=nobody&relation=" .. code(relation))
end
local statuses = {}
right, wrong = 0, ""
function response(status)
  if status == 200 then right = right + 1 return end
  statuses[status] = (statuses[status] or 0) + 1
  wrong = ""
  for key, count in pairs(statuses) do wrong = wrong .. string.format(', "%d": %d', key, count) end
end
local threads = {}
function setup(thread) table.insert(threads, thread) end
function done(summary, latency)
  local e = summary.errors
  local first, form = threads[1], 'JSON{"requests": %d, "seconds": %f, "p50_ms": %f, "p99_ms": %f, "broken": %d, "late": %d, '
  io.write(string.format(form .. '"statuses": {"200": %d%s}}\\n', summary.requests, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, e.connect + e.read + e.write, e.timeout,
    first:get("right"), first:get("wrong")))
end
"""


@contextlib.contextmanager
def service(run: Path, *options: str, source: Path | None = None) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address and the process of a service; of another version if its source is given."""
    command = [sys.executable, "-m", "dura", "serve", str(run), "--port", "0", "--quiet", *options]
    with tempfile.TemporaryFile("w+") as log:
        own = dict(os.environ) if source is None else {**os.environ, "PYTHONPATH": str(source)}
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, text=True, env=own)
        try:
            address = ""
            while not address:
                assert process.poll() is None, "the service ended"
                time.sleep(0.2)
                log.seek(0)
                address = next((line.split()[-3] for line in log if line.startswith("serving ")), "")
            yield address, process
        finally:
            process.terminate()
            process.wait(60)


def wrk(address: str, run: Path, connections: int, seconds: float, *, mixed: bool = False, seed: int = 0) -> Row:
    """What wrk measures."""
    script = _SCRIPT.replace("RUN", str(run.resolve())).replace("MIXED", str(mixed).lower()).replace("SEED", str(seed))
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        options = ["-t1", f"-c{connections}", f"-d{seconds:g}s", "--timeout", "30s", "-s", file.name]
        done = subprocess.run(["wrk", *options, address], capture_output=True, text=True, check=True)
    found = next(line[4:] for line in done.stdout.splitlines() if line.startswith("JSON"))
    row: Row = json.loads(found)
    return {"per_second": row["requests"] / row["seconds"], **row}


def products(address: str) -> tuple[float, float]:
    """How many products there were, and how many questions they answered."""
    try:
        reply = urllib.request.urlopen(f"{address}/metrics")
    except urllib.error.HTTPError:  # an older version has none
        return 0.0, 0.0
    with reply:
        lines = dict(line.rsplit(" ", 1) for line in reply.read().decode().splitlines() if not line.startswith("#"))
    return float(lines.get("dura_product_questions_count", 0)), float(lines.get("dura_product_questions_sum", 0))


def processor(process: subprocess.Popen[str]) -> float:
    """The seconds of processor time that the service has used so far."""
    own = psutil.Process(process.pid)
    times = [one.cpu_times() for one in (own, *own.children())]
    return float(sum(one.user + one.system for one in times))


def speed(run: Path, seconds: float, turns: int, workers: tuple[int, ...], before: Path | None) -> list[Row]:
    """Requests per second by connections, workers and collecting; also of an older version, if its source is given."""
    rows: list[Row] = []
    for count in workers:
        options = {
            "collecting": ["--workers", str(count)],
            "one by one": ["--workers", str(count), "--collect-ms", "0"],
        }
        with contextlib.ExitStack() as stack:
            servers = {name: stack.enter_context(service(run, *given)) for name, given in options.items()}
            if before is not None and count == 1:
                servers["before"] = stack.enter_context(service(run, source=before))
            for connections in CONNECTIONS:
                found: dict[str, list[Row]] = {name: [] for name in servers}
                for turn in range(turns):
                    for name, (address, process) in servers.items():
                        began, spent = products(address), processor(process)
                        row = wrk(address, run, connections, seconds, seed=turn)
                        row["cpu_ms"] = 1000 * (processor(process) - spent) / max(1, row["requests"])
                        after = products(address)
                        row["questions_a_product"] = (after[1] - began[1]) / max(1.0, after[0] - began[0])
                        found[name].append({**row, "load": os.getloadavg()[0]})
                for name, every in found.items():
                    rows.append({"workers": count, "way": name, "connections": connections, **_middle(every)})
                    show(f"{count} workers", [rows[-1]])
    return rows


def _middle(every: list[Row]) -> Row:
    keys = ("per_second", "p50_ms", "p99_ms", "cpu_ms", "questions_a_product", "load")
    row: Row = {key: round(statistics.median(one[key] for one in every), 2) for key in keys}
    wrong = sum(count for one in every for status, count in one["statuses"].items() if status != "200")
    return row | {
        "requests": sum(one["requests"] for one in every),
        "errors": wrong + sum(one["broken"] + one["late"] for one in every),
        "turns": len(every),
    }


def memory(process: subprocess.Popen[str]) -> list[Row]:
    """The memory of each worker in megabytes: all, its fair share, and the mapped tables in both ways."""
    found: list[Row] = []
    for worker in psutil.Process(process.pid).children():
        with contextlib.suppress(psutil.Error):
            info = worker.memory_full_info()
            tables = [part for part in worker.memory_maps() if part.path.endswith(".safetensors")]
            row = {"rss": info.rss, "pss": info.pss, "uss": info.uss}
            row |= {"tables_rss": sum(part.rss for part in tables), "tables_pss": sum(part.pss for part in tables)}
            found.append({key: round(value / 1e6, 1) for key, value in row.items()})
    return found


def soak(run: Path, minutes: float, piece: float = 20.0) -> Row:
    """Mixed load on two workers; one is killed, and later the run is reloaded."""
    pieces = max(6, round(60 * minutes / piece))
    rows: list[Row] = []
    with service(run, "--workers", "2") as (address, process):
        for at in range(pieces):
            event = {pieces // 3: "a worker is killed", 2 * pieces // 3: "the run is reloaded"}.get(at, "")
            asking = subprocess.Popen([sys.executable, "-c", _LATER, str(process.pid), event]) if event else None
            row = wrk(address, run, 32, piece, mixed=True, seed=at)
            if asking is not None:
                asking.wait()
            rows.append({"at": round((at + 1) * piece), "event": event, **row, "memory": memory(process)})
            shown = {key: value for key, value in rows[-1].items() if key not in ("statuses", "memory")}
            show(f"{rows[-1]['statuses']} {rows[-1]['memory']}", [shown])
    return {"seconds": pieces * piece, "connections": 32, "workers": 2, "pieces": rows}


_LATER = f"""
import os, signal, sys, time
import psutil
time.sleep(5)
supervisor = psutil.Process(int(sys.argv[1]))
if "killed" in sys.argv[2]:
    os.kill(supervisor.children()[0].pid, {int(signal.SIGKILL)})
else:
    supervisor.send_signal({int(signal.SIGHUP)})
"""


def main() -> None:
    """Measure, and keep what was measured next to what the file holds already."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "soak"])
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--seconds", type=float, default=8.0, help="seconds of each turn of speed")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--before", type=Path, help="the folder src of an older version, to compare with")
    parser.add_argument("--minutes", type=float, default=10.0, help="minutes of soak")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        parser.error("wrk is not installed; apt-get install wrk")
    file = options.out / "serving.json"
    kept = json.loads(file.read_text()) if file.exists() else {}
    kept.pop("machine", None)  # it is described again
    if options.what == "speed":
        kept["speed"] = speed(options.run, options.seconds, options.turns, tuple(options.workers), options.before)
        with service(options.run, "--workers", "2") as (address, process):
            wrk(address, options.run, 8, 4)
            kept["memory"] = memory(process)
        show("memory of two workers, MB", kept["memory"])
    else:
        kept["soak"] = soak(options.run, options.minutes)
    about = {"entities": _lines(options.run / "entities.txt"), "relations": _lines(options.run / "relations.txt")}
    write(file, {**kept, "run": about})


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


if __name__ == "__main__":
    main()
