"""`python -m dura` is the command line."""

from dura.cli.main import main

if __name__ == "__main__":
    main()
