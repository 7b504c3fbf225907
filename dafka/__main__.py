"""`python -m dafka` is the `dafka` command."""

from dafka.cli.main import main

if __name__ == "__main__":
    main()
