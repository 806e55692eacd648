"""Logins over all edges: tickets, which the primary has, and failed logins, which count in every process.

    edge: a ticket is shown   -- REDEEM -->   primary: it is used up
                              <-- REDEEMED --
    edge: a login has failed  -- LOGIN_FAILED -->   primary: counts it   -- LOGIN_FAILED -->   all other edges
    edge: its link begins     <-- LOGINS --         primary: all that it has counted

A login at the primary's HTTP goes to all edges.  All else an edge decides by itself: it has the users, the keys and the
operator's function, as a gateway without edges does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

import trio

from gateway.auth.authenticator import RateLimited
from gateway.auth.failed_logins import KnownLogins
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Identity

from .forms import Message, ToEdge, ToPrimary, error_of, fields_of_error, fields_of_identity, identity_of

if TYPE_CHECKING:
    from gateway.broker.core.ports import Authenticator
    from gateway.transports.server import Server


class _Link(Protocol):
    """An end of a link: `EdgeLink` or `PrimaryLink`."""

    def put(self, kind: Any, *fields: object) -> None: ...

    def ask(self) -> None: ...


class EdgeLogins:
    """What an edge asks its primary about logins, and tells it."""

    def __init__(self, link: _Link, authenticator: Authenticator | None) -> None:
        self._link = link
        self._authenticator = authenticator if isinstance(authenticator, RateLimited) else None
        self._last_question = 0
        self._questions: dict[int, _Question] = {}
        if self._authenticator is None:
            return
        failed, tickets = self._authenticator.failed, self._authenticator.tickets
        failed.is_told = False
        failed.on_failed = partial(self._tell, ToPrimary.LOGIN_FAILED)
        failed.on_succeeded = partial(self._tell, ToPrimary.LOGIN_SUCCEEDED)
        if tickets is not None:
            tickets.ask = self._redeem

    def _tell(self, kind: ToPrimary, address: str, login: str) -> None:
        self._link.put(kind, address, login)
        self._link.ask()

    async def _redeem(self, ticket: str) -> Identity:
        """The user of a ticket, which is used up.  Raises LoginRefused: there is none."""
        self._last_question = number = self._last_question + 1
        question = self._questions[number] = _Question()
        self._link.put(ToPrimary.REDEEM, number, ticket)
        self._link.ask()
        try:
            await question.answered.wait()
        finally:
            del self._questions[number]
        if isinstance(question.answer, LoginRefused):
            raise question.answer
        assert question.answer is not None  # it was answered
        return question.answer

    def take_answer(self, number: int, identity: Message | None, error: Message | None) -> None:
        """The primary has answered a question; its client may have gone meanwhile."""
        question = self._questions.get(number)
        if question is not None:
            refusal = None if error is None else error_of(error)
            assert refusal is None or isinstance(refusal, LoginRefused)  # no other refuses a ticket
            question.answer = refusal if identity is None else identity_of(identity)
            question.answered.set()

    def take_known(self, *known: Any) -> None:
        """What was counted before this process, or its link, was there."""
        if self._authenticator is not None:
            self._authenticator.failed.take_known(KnownLogins(*known))

    def take_failure(self, address: str, login: str) -> None:
        """A login has failed in another process."""
        if self._authenticator is not None:
            self._authenticator.failed.take_failure(address, login)

    def take_success(self, address: str, login: str) -> None:
        """A passcode was right in another process."""
        if self._authenticator is not None:
            self._authenticator.failed.take_success(address, login)


class _Question:
    def __init__(self) -> None:
        self.answered = trio.Event()
        self.answer: Identity | LoginRefused | None = None


class PrimaryLogins:
    """The same at the primary's end of a link."""

    def __init__(self, server: Server, link: _Link) -> None:
        self._link = link
        self._others = partial(_links_besides, server, link)
        self._authenticator = server.authenticator if isinstance(server.authenticator, RateLimited) else None
        if self._authenticator is not None:
            failed, to_all = self._authenticator.failed, partial(_links_besides, server, None)
            failed.on_failed = partial(_tell, to_all, ToEdge.LOGIN_FAILED)
            failed.on_succeeded = partial(_tell, to_all, ToEdge.LOGIN_SUCCEEDED)

    def begin(self) -> None:
        """The link begins: tell what was counted so far."""
        if self._authenticator is not None and any((known := self._authenticator.failed.known())[1:]):
            self._link.put(ToEdge.LOGINS, *known)
            self._link.ask()

    def redeem(self, number: int, ticket: str) -> None:
        """An edge asks for the user of a ticket."""
        tickets = None if self._authenticator is None else self._authenticator.tickets
        try:
            if tickets is None:
                raise LoginRefused("this gateway issues no tickets", is_guess=False, method="ticket")
            fields = fields_of_identity(tickets.redeem(ticket))
        except LoginRefused as error:
            self._link.put(ToEdge.REDEEMED, number, None, fields_of_error(error))
        else:
            self._link.put(ToEdge.REDEEMED, number, fields, None)
        self._link.ask()

    def take_failure(self, address: str, login: str) -> None:
        """A login has failed at the edge."""
        if self._authenticator is not None:
            self._authenticator.failed.take_failure(address, login)
            _tell(self._others, ToEdge.LOGIN_FAILED, address, login)

    def take_success(self, address: str, login: str) -> None:
        """A passcode was right at the edge."""
        if self._authenticator is not None:
            self._authenticator.failed.take_success(address, login)
            _tell(self._others, ToEdge.LOGIN_SUCCEEDED, address, login)


def _links_besides(server: Server, link: _Link | None) -> list[_Link]:
    return [each for each in cast(list[_Link], server.links) if each is not link]  # they are `PrimaryLink`s


def _tell(links: Callable[[], list[_Link]], kind: ToEdge, address: str, login: str) -> None:
    for link in links():
        link.put(kind, address, login)
        link.ask()
