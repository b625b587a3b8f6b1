"""Records: the files of a run folder, which a run writes and continues from.

```
RUN/
  settings.toml                 the experiment
  run.json                      {"format", "dura", "created", "graph"}; written last: with it the folder is a run
  entities.txt relations.txt    one name per line
  times.txt                     one time per line (only if facts have times)
  labels.tsv                    entity, label (optional); types.tsv and descriptions.tsv are like it, and so are
                                relation-labels.tsv, relation-types.tsv and relation-descriptions.tsv
  facts.safetensors             train, valid, test: int32 [n, 3], [n, 4] with a time, [n, 5] with begin and end
  records.jsonl                 append-only, one JSON object per line
  checkpoints/                  see `dura.training.checkpoint`
  calibration.json              what turns scores into probabilities (optional; see `dura.inference.calibration`)
  combined.json                 which runs answer together, and weights.safetensors how (see `dura.runs.combining`)
  map.json                      places of entities in the plane (optional; see `dura.runs.mapping`)
  cache/                        questions of a large graph (see `dura.data.kept`); may be deleted
  .lock .lock.pid               one process per run folder
```
`writing` writes a file completely or not at all. All files are read through `reading`, because a folder may come from a stranger.
`schema` checks the content of JSON files, `kinds` that of records, and `tensors` the header of a safetensors file. Stored graphs
(`dura.data.stored`) have some of these files too. This room knows bytes, text, JSON and the places of tensors; the rooms above know
what they mean. It may touch registry, text, types and words. To add a file to the folder, write its size limit in `reading` and its
name in the list in `folder`.
"""

from __future__ import annotations

from dura.records.folder import COMBINED, FORMAT, GRAPH, PACKED, PLAIN, InUse, RunFolder, clear_leftovers
from dura.records.kinds import best_epoch, curve, exported_as
from dura.records.reading import Damage, Missing, read_bytes, read_json, read_names, read_pairs, remedy
from dura.records.writing import disk_error, write_atomic

__all__ = [
    "COMBINED",
    "FORMAT",
    "GRAPH",
    "PACKED",
    "PLAIN",
    "Damage",
    "InUse",
    "Missing",
    "RunFolder",
    "best_epoch",
    "clear_leftovers",
    "curve",
    "disk_error",
    "exported_as",
    "read_bytes",
    "read_json",
    "read_names",
    "read_pairs",
    "remedy",
    "write_atomic",
]
