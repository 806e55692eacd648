"""One target under atheris: `python -m tests.fuzz.child TARGET FOLDER... [-option=value...]`.

The arguments behind the target are libFuzzer's: folders of inputs, the first of which gets what is found, and options.
What is fuzzed is imported here, and nowhere before, so that atheris can see which code an input reaches.
"""

from __future__ import annotations

import sys

import atheris
import structlog

with atheris.instrument_imports(include=["gateway"]):
    from tests.fuzz import target

    run = target(sys.argv[1])


def main() -> None:
    """Fuzz until the time is over; what is found ends the process with another status than 0."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # thousands of lines in a second
    atheris.Setup([sys.argv[0], *sys.argv[2:]], run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
