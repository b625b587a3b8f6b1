"""Sources other than files of lines: each module turns one kind of source into a Sheet."""
