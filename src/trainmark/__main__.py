"""Lets `python -m trainmark` stand for the `trainmark` command."""

from trainmark.cli.main import main

if __name__ == "__main__":
    main()
