"""Web: questions and answers as JSON over HTTP.

Holds the service (`service`), what it may be sent (`requests`) and the command that starts it (`command`); a web page would belong
here too. May touch everything below, but not the command line. It parses requests and calls `Trained.ask`, as `dura predict` does.
To add an address: a function in `service.application`.
"""
