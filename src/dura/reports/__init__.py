"""Reports: tables and plots made from records only, without torch or live objects. Nothing is here yet."""
