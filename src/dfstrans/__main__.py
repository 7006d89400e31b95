"""`python -m dfstrans` is the command line."""

from dfstrans.cli import main

if __name__ == "__main__":
    main()
