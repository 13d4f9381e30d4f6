"""``python -m tiltyard`` is the command ``tiltyard``."""

from tiltyard.cli import main

if __name__ == "__main__":
    main()
