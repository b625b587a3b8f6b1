"""Web: questions and answers as JSON over HTTP, and the page.

`command` is `dura serve`, `settings` its options. `service` puts the parts together: `routes` (addresses for data), `operating`
(health, metrics), `openapi` and `documents` (the description of all addresses), `pages` (the files of the page). `requests` are the
forms of what a client may send, `sentences` say what is wrong with it, `replies` are documents and errors. `answering` holds the
model and its threads, `collecting` puts questions together, `reloading` opens a new run. `protocol` and `gate` limit connections
and clients. `workers` and `worker` are several processes, which answer at one of the `sockets`. `tools` and `agents` are the same
functions for agents (MCP).

May touch everything below, but not the command line. To add an address: a function in `routes` that calls one method of `Trained`,
its form in `requests` and `sentences`, and its document in `documents` and `openapi`.
"""
