"""`python -m distributor` is the `distributor` command."""

from distributor.cli.main import main

if __name__ == "__main__":
    main()
