"""The program `dura`, also `python -m dura`: the command line together with the commands of other rooms."""

from dura.cli.main import main as run
from dura.cli.main import program
from dura.web.command import serve

app = program(serve)


def main() -> None:
    """Run the command line."""
    run(app)


if __name__ == "__main__":
    main()
