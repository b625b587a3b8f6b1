"""Records: a run folder, the files that a run leaves and continues from.

```
RUN/
  settings.toml                 the experiment
  run.json                      {"format", "dura", "created", "graph"}; written last, it makes a run
  entities.txt relations.txt    one name per line
  times.txt                     one time per line (only of dated facts)
  labels.tsv                    entity, label (optional)
  facts.safetensors             train, valid, test: int32 [n, 3], [n, 4] with a time, [n, 5] with begin and end
  records.jsonl                 append-only, one JSON object per line
  checkpoints/                  see `dura.training.checkpoint`
  .lock .lock.pid               one process per run folder
```
`writing` writes files whole or not at all, and `reading` is the only way in: a folder may come from a stranger. `schema` says what
a manifest must hold, `kinds` what a record must, `tensors` what a safetensors file must. This room knows bytes, texts, JSON and the
places of tensors only: what they mean is the business of the rooms above. A new file of the folder gets its limit in `reading` and
its place in the list of `folder`.
"""

from __future__ import annotations

from dura.records.folder import FORMAT, PACKED, PLAIN, RunFolder
from dura.records.kinds import best_epoch, curve, exported_as
from dura.records.reading import Damage, Missing, read_bytes, read_json, read_names, read_pairs
from dura.records.writing import disk_error, write_atomic

__all__ = [
    "FORMAT",
    "PACKED",
    "PLAIN",
    "Damage",
    "Missing",
    "RunFolder",
    "best_epoch",
    "curve",
    "disk_error",
    "exported_as",
    "read_bytes",
    "read_json",
    "read_names",
    "read_pairs",
    "write_atomic",
]
