"""The end of a round: the gateway has given out all that it had.

Of each letter that must outlive a process exactly one holds: it came at the end, it is a dead letter, or it is settled.
Only where nobody was told may it be either way; and then all of its unit must have gone the same way.
"""

from __future__ import annotations

from .books import Books, Letter, State, Unit


def audit(books: Books) -> None:
    """Complain of what is missing, or there twice, or half."""
    for letter in books.letters.values():
        if letter.kept:
            _look_at(books, letter)
    for unit in books.units:
        if unit.state is State.SENT and not unit.loose:
            _look_at_unit(books, unit)


def _look_at(books: Books, letter: Letter) -> None:
    here, dead = letter.seen == books.life, letter.dead
    exists = letter.is_certain
    if here and dead:
        books.complain("doubled", f"{letter} is a dead letter, and in its queue, too")
    elif letter.settling is None:
        if dead:
            books.complain("ghost", f"{letter} is a dead letter, and nobody rejected it")
        elif exists and not here:
            books.complain("lost", f"{letter}, last seen in life {letter.seen}")
    elif letter.rejecting:
        if not here and not dead and (exists or letter.done):
            books.complain("lost", f"{letter} was rejected in life {letter.touched}, and is no dead letter")
    elif dead:
        books.complain("ghost", f"{letter} is a dead letter, and was acknowledged")


def _look_at_unit(books: Books, unit: Unit) -> None:
    signs = {letter: _came(letter) for letter in unit.letters if letter.kept and letter.touched != unit.life}
    for letter in unit.settled:
        if letter.kept and letter.unit is not unit and _existed(letter, unit.life):
            signs[letter] = letter.seen <= unit.life
    if len(set(signs.values())) > 1:
        done = ", ".join(str(letter) for letter, sign in signs.items() if sign)
        undone = ", ".join(str(letter) for letter, sign in signs.items() if not sign)
        books.complain("half", f"of a unit of life {unit.life} are done: {done}; not done: {undone}")


def _came(letter: Letter) -> bool:
    return letter.seen > letter.unit.life or letter.dead


def _existed(letter: Letter, life: int) -> bool:
    """Whether it was certainly in the store when that life ended."""
    return letter.unit.state is State.SURE or letter.unit.life < life
