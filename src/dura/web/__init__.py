"""Web: the service, questions and answers as JSON over HTTP.

Holds the application (`service`); a page comes here. May touch everything but the command line, which starts it. It says what
`dura predict --json` says and computes nothing itself. To add an address: a function in `service.application`.
"""
