"""`python -m aiostorm`: the same as the `aiostorm` command."""

from .cli import main

if __name__ == "__main__":
    main()
