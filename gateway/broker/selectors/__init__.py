"""Selectors: conditions on headers that choose the messages of a subscription.

The language is the subset of SQL-92 that JMS 1.1 defines (section 3.8.1), over headers that are all strings; users
read `docs/selectors.md`.  `parse` reads a selector once, at SUBSCRIBE, into closures; a message costs the calls of
these closures and nothing else.

    lexer         characters to tokens
    parser        tokens to closures; the grammar
    evaluate      the closures: three-valued logic, comparison, arithmetic
    like          the closure of LIKE
    identifiers   names to headers; the names of JMS
    values        headers to numbers and truth values
    refusal       the error about a selector that does not parse

JMS, ActiveMQ and Artemis disagree in places, and JMS does not cover headers that are strings: the rules chosen here
stand at the lines that carry them out.

Bounds: `MAX_LENGTH` characters, `MAX_DEPTH` parentheses, and numbers below 1e300, so an evaluation takes time that is
bounded by the length of selector and headers, and never raises.
"""

from .lexer import MAX_LENGTH
from .parser import MAX_DEPTH, parse

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "parse"]
