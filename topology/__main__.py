"""`python -m topology` is the `topology` command."""

from topology.cli import main

if __name__ == "__main__":
    main()
