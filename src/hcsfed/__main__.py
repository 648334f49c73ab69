"""``python -m hcsfed``."""

from hcsfed.cli.main import main

if __name__ == "__main__":
    main()
