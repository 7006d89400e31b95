"""`python -m dfstrans` is the command line."""

from dfstrans.cli.app import main

if __name__ == "__main__":
    main()
