"""`python -m observant`: the command line, where the program itself is not on the path."""

from observant.cli import main

if __name__ == "__main__":
    main()
