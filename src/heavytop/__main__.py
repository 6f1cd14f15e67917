"""``python -m heavytop``: the command line."""

from heavytop.cli import app

if __name__ == "__main__":
    app()
