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

Where JMS, ActiveMQ and Artemis disagree, or JMS does not cover headers that are strings, the rules are:

* A header that reads as a number is one if the other side is a number, as in ActiveMQ.  A literal in quotes never is:
  `'1' = 1` compares unlike types.
* Unlike types are not unknown but different: `=`, `<` and the like are false, `<>` is true, so that `a <> b` always
  is `NOT (a = b)`, as in ActiveMQ.  In JMS `<>` is false as well.
* Two headers compare as numbers when both read as numbers, else as strings.
* Strings have an order, by code points.  JMS and ActiveMQ compare them by `=` and `<>` alone.
* In arithmetic a header that reads as no number is unknown; so are a division by zero and a result out of range.
* A division has a fraction, as in ActiveMQ: `5 / 2` is 2.5.
* NOT binds less than comparison, as in SQL: `NOT a = 1` is `NOT (a = 1)`.  ActiveMQ reads `(NOT a) = 1`.
* A comparison that is false for all messages is refused as a mistake, though JMS accepts it: `content-type =
  'text/plain'` compares a difference of two headers with a string.

Bounds: `MAX_LENGTH` characters, `MAX_DEPTH` parentheses, and numbers below 1e300, so an evaluation takes time that is
bounded by the length of selector and headers, and never raises.
"""

from .lexer import MAX_LENGTH
from .parser import MAX_DEPTH, parse

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "parse"]
