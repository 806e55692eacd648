"""Lexer: characters of a selector to tokens.

    keyword     = NOT / AND / OR / BETWEEN / LIKE / ESCAPE / IN / IS / TRUE / FALSE / NULL      in any case
    name        = letter *( letter / digit ) *( "." 1*( letter / digit ) )                      "_" and "$" are letters
                / <"> 1*( any character, <"> doubled ) <">
    string      = "'" *( any character, "'" doubled ) "'"
    number      = ( 1*DIGIT [ "." *DIGIT ] / "." 1*DIGIT ) [ ( "e" / "E" ) [ "+" / "-" ] 1*DIGIT ] [ suffix ]
    suffix      = "L" / "F" / "D"                                           in any case; "L" for integers only
    symbol      = "=" / "<>" / "!=" / "<" / "<=" / ">" / ">=" / "+" / "-" / "*" / "/" / "(" / ")" / ","

A name in double quotes is never a keyword, and may hold what a name else cannot: `"content-type"`.
"""

import re
from dataclasses import dataclass
from enum import Enum

from ..errors import NotAllowed
from .refusal import quoted, refusal
from .values import number_of

# Each message of the destination costs an evaluation, whose time grows with the length.
MAX_LENGTH = 4096
"""Characters of a selector at most."""


class Lexeme(Enum):
    """Kind of a token that is neither keyword nor symbol."""

    NAME = "name"
    STRING = "string"
    NUMBER = "number"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """One token."""

    kind: str | Lexeme  # a keyword in capitals, a symbol, or a `Lexeme`
    column: int  # of its first character, from 1
    text: str  # the token as written
    string: str = ""  # the name of a NAME, the characters of a STRING
    number: int | float = 0  # the value of a NUMBER

    @property
    def shown(self) -> str:
        """The token in an error."""
        return "the end" if self.kind is Lexeme.END else quoted(self.text)


KEYWORDS = frozenset("NOT AND OR BETWEEN LIKE ESCAPE IN IS TRUE FALSE NULL".split())

_HYPHENATED = "hyphenated_props:"
# Two words of Artemis may come first, so that its users need not edit their selectors.  `hyphenated_props:` makes `-` a
# letter inside names; `convert_string_expressions:` is the rule here anyway.
_PREFIXES = re.compile(rf"(?:convert_string_expressions:|{_HYPHENATED})+")
_SPACES = re.compile(r"[ \t\n\r\f]+")
_NAME = re.compile(r"(?:[^\W\d]|\$)[\w$]*(?:\.[\w$]+)*")
_HYPHENATED_NAME = re.compile(r"(?:[^\W\d]|\$)[\w$]*(?:[.-][\w$]+)*")
# Possessive, so that a string without end does not end at half of a doubled quote.
_STRING = re.compile(r"'((?:[^']|'')*+)'")
_DELIMITED = re.compile(r'"((?:[^"]|"")++)"')
_NUMBER = re.compile(r"((?:[0-9]+(\.[0-9]*)?|(\.[0-9]+))([eE][+-]?[0-9]+)?)([lLfFdD]?)(?![\w$.])")
_SYMBOL = re.compile(r"<>|<=|>=|!=|[=<>+\-*/(),]")
# Of another language, above all Spring's: operators, and headers as members of `headers`.  They are refused with the
# right way to write them, so a header called `headers.something` needs double quotes.
_FOREIGN = re.compile(
    r"""== | && | \|\| | !(?!=)
    | headers (?: \.([\w$.]++)(?!\() | \. | \[ ['"]? ([^'"\[\]]*) ['"]? \]? )""",
    re.VERBOSE,
)
_OURS = {"==": "'='", "&&": "AND", "||": "OR", "!": "NOT"}
# A malformed number, for the error.
_WORD = re.compile(r"[\w$.]+")


def tokens(text: str) -> list[Token]:
    """All tokens of a selector, END last.  Raises NotAllowed: it is too long, or has what is no token."""
    if len(text) > MAX_LENGTH:
        raise refusal(text, MAX_LENGTH + 1, f"a selector of {len(text)} characters", f"{MAX_LENGTH} at most")
    start = _behind(_PREFIXES, text, 0)
    name = _HYPHENATED_NAME if _HYPHENATED in text[:start] else _NAME
    place = _behind(_SPACES, text, start)
    found = []
    while place < len(text):
        token = _token(text, place, name)
        found.append(token)
        place = _behind(_SPACES, text, place + len(token.text))
    return [*found, Token(Lexeme.END, len(text) + 1, "")]


def _behind(pattern: re.Pattern[str], text: str, place: int) -> int:
    """Place after a match of the pattern, which may be empty."""
    match = pattern.match(text, place)
    return match.end() if match else place


def _token(text: str, place: int, name: re.Pattern[str]) -> Token:
    column = place + 1
    # First: else `headers.a` would be a name, and `==` a symbol before a mistake that is hard to understand.
    if match := _FOREIGN.match(text, place):
        raise refusal(text, column, quoted(match[0]), _OURS.get(match[0]) or _alone(match[1] or match[2] or ""))
    if match := name.match(text, place):
        return _word(match[0], column)
    if match := _SYMBOL.match(text, place):
        return Token(match[0], column, match[0])
    if match := _STRING.match(text, place):
        return Token(Lexeme.STRING, column, match[0], match[1].replace("''", "'"))
    if match := _NUMBER.match(text, place):
        return Token(Lexeme.NUMBER, column, match[0], number=_number(text, column, match))
    if match := _DELIMITED.match(text, place):
        return Token(Lexeme.NAME, column, match[0], match[1].replace('""', '"'))
    raise _no_token(text, place)


def _alone(name: str) -> str:
    """Advice for a header that is written as a member of `headers`."""
    if not name:
        return "the header's name alone"
    plain = _NAME.fullmatch(name) and name.upper() not in KEYWORDS
    return "the header's name alone: " + (name if plain else f'"{name}"')


def _word(word: str, column: int) -> Token:
    """A keyword or a name."""
    capitals = word.upper()  # of ASCII only: upper() makes an I of a dotless i
    if word.isascii() and capitals in KEYWORDS:
        return Token(capitals, column, word)
    return Token(Lexeme.NAME, column, word, word)


def _number(text: str, column: int, match: re.Match[str]) -> int | float:
    digits, point, bare_point, exponent, suffix = match.groups()
    suffix = suffix.upper()
    # As in Java, whose literals JMS takes over.
    if suffix == "L" and (point or bare_point or exponent):
        raise refusal(text, column, quoted(match[0]), "an integer in front of L")
    value = number_of(digits)
    if value is None:
        raise refusal(text, column, quoted(match[0]), "a number below 1e300 of at most 100 characters")
    return float(value) if suffix in ("F", "D") else value


def _no_token(text: str, place: int) -> NotAllowed:
    column, first = place + 1, text[place]
    if first == "'":
        return refusal(text, column, "a string without its end", "a closing ' (a ' inside is written twice)")
    if first == '"':
        return refusal(text, column, "a quoted name without its end", 'a name and a closing "')
    match = _WORD.match(text, place)
    if match and first in ".0123456789":
        return refusal(text, column, quoted(match[0]), "a number like 10, 2.5 or 1e3")
    return refusal(text, column, quoted(first), "a header name, a literal or an operator")
