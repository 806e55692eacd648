"""Tickets are valid once and for a while, and only so many are issued."""

from __future__ import annotations

import math

import pytest
import trio
from trio.testing import MockClock

from gateway.auth.tickets import PREFIX, Tickets, TooManyTickets
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Identity

ALICE = Identity("alice", frozenset({"ops"}), 5e9, "token")
REFUSED = "the ticket is unknown, was used before, or is older than {} s (ticket_lifetime)"


def refused(tickets: Tickets, *wrong: str) -> None:
    for ticket in wrong:
        with pytest.raises(LoginRefused) as error:
            tickets.redeem(ticket)
        assert not error.value.is_guess
        assert error.value.detail == REFUSED.format(f"{tickets.lifetime:g}")


async def test_valid_once() -> None:
    tickets = Tickets()
    ticket, other = tickets.issue(ALICE), tickets.issue(Identity("bob"))
    assert ticket.startswith(PREFIX)
    assert len({ticket, other}) == len(tickets) == 2
    refused(tickets, "", PREFIX, ticket[:-1], ticket + "x", ticket.upper())
    assert tickets.redeem(ticket) == Identity("alice", frozenset({"ops"}), 5e9, "ticket")
    refused(tickets, ticket)
    assert tickets.redeem(other).expires == math.inf
    assert len(tickets) == 0


async def test_valid_for_a_while(autojump_clock: MockClock) -> None:
    tickets = Tickets(5.0)
    first = tickets.issue(ALICE)
    await trio.sleep(4.9)
    second = tickets.issue(ALICE)
    assert tickets.redeem(first).user == "alice"
    third = tickets.issue(ALICE)
    await trio.sleep(5.0)
    refused(tickets, second, third)
    assert len(tickets) == 0


async def test_only_so_many(autojump_clock: MockClock) -> None:
    tickets = Tickets(5.0, 8)
    for user in ("alice", "alice", "bob", "bob", "carol", "carol", "dave"):
        tickets.issue(Identity(user))
    with pytest.raises(TooManyTickets, match="2 tickets of this user are unused, a quarter of max_tickets"):
        tickets.issue(ALICE)
    used = tickets.issue(Identity("dave"))
    with pytest.raises(TooManyTickets, match=r"8 tickets are unused \(max_tickets\)"):
        tickets.issue(Identity("erin"))
    tickets.redeem(used)
    tickets.issue(Identity("erin"))
    await trio.sleep(5.0)
    tickets.issue(ALICE)
    assert len(tickets) == 1
