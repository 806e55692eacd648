"""Terms of a primary, as journal and traces show them: how each began, and how it ended.

    journal   `became_primary`, `stepped_down`
    traces    `take over` with a span for each of its stages; `hand over`, until its last commit

Both nodes of a handover make the trace's id of the store's token and the new epoch, so their spans are one trace.  The
clocks of the two machines may differ.
"""

from __future__ import annotations

import hashlib
import secrets
import time

from gateway.cluster.node import Node
from gateway.cluster.term import Term
from gateway.observe.tracing import GatewaySpan
from gateway.runtime.gateway import Gateway

_NANO = 1_000_000_000


def tell_of_take_over(gateway: Gateway, node: Node, term: Term) -> None:
    """The gateway of a new primary takes clients."""
    value, took = term.lease.value, node.took
    _record(gateway, "became_primary", node, value.epoch, value.reason)
    if gateway.tracing is None or took is None:
        return
    trace, root = _trace_of(term, value.epoch), secrets.token_hex(8)
    facts = _facts_of(node, value.epoch, value.reason) | {"gateway.log.messages": took.messages}
    stages = [(name, round(start * _NANO), round(end * _NANO)) for name, start, end in took.stages()]
    gateway.tracing.tell(GatewaySpan("take over", trace, root, "", stages[0][1], stages[-1][2], facts))
    for name, start, end in stages:
        gateway.tracing.tell(GatewaySpan(name, trace, secrets.token_hex(8), root, start, end, {}))


async def step_down(gateway: Gateway, node: Node, term: Term) -> None:
    """The term of a primary is over, and its gateway still there: finish, if it goes in order."""
    began, epoch, reason = time.monotonic_ns(), term.lease.value.epoch, node.why_ended(term)
    _record(gateway, "stepped_down", node, epoch, reason)
    await gateway.finish()
    if gateway.tracing is not None and gateway.is_written:
        trace, own = _trace_of(term, epoch + 1), secrets.token_hex(8)
        facts = _facts_of(node, epoch, reason)
        gateway.tracing.tell(GatewaySpan("hand over", trace, own, "", began, time.monotonic_ns(), facts))


def _record(gateway: Gateway, event: str, node: Node, epoch: int, reason: str) -> None:
    journal = gateway.journal
    if journal is not None:
        journal.record(event, journal.clock(), b"", node=node.options.name, cluster_epoch=epoch, reason=reason)


def _facts_of(node: Node, epoch: int, reason: str) -> dict[str, str | int]:
    return {
        "gateway.cluster": node.options.cluster,
        "gateway.node": node.options.name,
        "gateway.epoch": epoch,
        "gateway.reason": reason,
    }


def _trace_of(term: Term, epoch: int) -> str:
    """The id of the trace in which an epoch begins."""
    return hashlib.sha256(f"{term.store.token} {epoch}".encode()).hexdigest()[:32]
