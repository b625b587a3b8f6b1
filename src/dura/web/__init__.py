"""Web: the service and its page. Nothing is here yet."""
