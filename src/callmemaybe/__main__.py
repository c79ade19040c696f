"""``python -m callmemaybe``: the same program as the command ``callmemaybe``."""

from callmemaybe.cli.main import main

if __name__ == "__main__":
    main()
