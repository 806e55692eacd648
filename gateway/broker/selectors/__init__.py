"""Message selectors: which messages a subscription wants, by their headers.

The language is the subset of SQL-92 that JMS 1.1 defines (section 3.8.1), over headers that are all strings; what a
user has to know of it is `docs/selectors.md`.  `parse` reads a selector once, at SUBSCRIBE, into closures; a message
costs the calls of these closures and nothing else.

    lexer         characters to tokens
    parser        tokens to closures; the grammar
    evaluate      the closures: three-valued logic, comparison, arithmetic
    like          the closure of LIKE
    identifiers   which header a name means; the names of JMS
    values        which number and which truth value a header reads as
    refusal       the error of a selector that does not parse

Where JMS, ActiveMQ and Artemis disagree, or JMS did not think of headers that are strings, we decided thus:

* A header that reads as a number is one wherever the other side is a number, as ActiveMQ has it.  A literal in quotes
  never is: `'1' = 1` is of unlike types.
* Unlike types are not unknown but different: `=`, `<` and the like are false, `<>` is true, so that `a <> b` always
  is `NOT (a = b)`, as ActiveMQ has it.  JMS says false for `<>`, too.
* Two headers compare as numbers when both read as numbers, else as strings.
* Strings have an order, by code points.  JMS and ActiveMQ compare them by `=` and `<>` alone.
* In arithmetic a header that reads as no number is unknown; so are a division by zero and a result out of range.
* A division has a fraction, as ActiveMQ has it: `5 / 2` is 2.5.
* NOT binds less than comparison, as in SQL: `NOT a = 1` is `NOT (a = 1)`.  ActiveMQ reads `(NOT a) = 1`.
* What can only be a slip is refused, though JMS would call it false: `content-type = 'text/plain'` is a difference of
  two headers compared with a string.

Bounds: `MAX_LENGTH` characters, `MAX_DEPTH` parentheses, and numbers below 1e300, so an evaluation takes time that is
bounded by the length of selector and headers, and never raises.
"""

from .lexer import MAX_LENGTH
from .parser import MAX_DEPTH, parse

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "parse"]
