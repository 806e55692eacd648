"""The sections that are lists: destinations, dead letters, consumers, sessions and errors, gaps."""

from __future__ import annotations

from collections.abc import Sequence

from . import parts, svg, values
from .figures import EXCEPTIONS, ConsumerAlarm, DestinationFigures, Gap, LastDeadLetter, Reason, Report, percentiles
from .markup import Markup, element, join

# How many rows are shown; the CSV files have all.
MOST_DESTINATIONS = 25
MOST_REASONS = 15
MOST_CONSUMERS = 50
MOST_GAPS = 20
_MOST_HEADERS = 40


def destinations(report: Report) -> Markup:
    """The busiest destinations."""
    shown = report.destinations[:MOST_DESTINATIONS]
    known = len(report.destinations) + report.others
    if not shown:
        return parts.section("destinations", "Destinations", parts.quiet("No messages in this span."))
    most = max([_busiest(each) for each in shown]) or 1
    columns = ["Destination", *[f"#{label}" for label, _ in _FLOWS], "#Other", "#Waiting", "#Queue p95", "#ACK p95"]
    table = parts.table("Destinations", columns, [_destination(each, most) for each in shown], cards=True)
    rest = f"The busiest {len(shown)} of {values.count(known)}." if known > len(shown) else "All of them."
    bars = svg.legend_of_bars(["accepted", "delivered"])
    remark = parts.quiet(
        f"{rest} Other: rejected, redelivered, expired, "
        "dead-lettered and dropped. Waiting: how many messages waited there, at the most."
    )
    return parts.section("destinations", "Destinations", remark, bars, table, class_="long")


_FLOWS = (("Accepted", "accepted"), ("Delivered", "delivered"), ("Acknowledged", "acked"))


def _busiest(destination: DestinationFigures) -> int:
    return max(destination.figures.counts["accepted"], destination.figures.counts["delivered"])


def _destination(each: DestinationFigures, most: int) -> Markup:
    accepted, delivered = [each.figures.counts[event] for event in ("accepted", "delivered")]
    other = sum([each.figures.counts[event] for event in EXCEPTIONS])
    return parts.row(
        parts.head(parts.name(each.name), svg.bars(accepted / most, delivered / most)),
        *[parts.counted(event, label, each.figures.counts[event]) for label, event in _FLOWS],
        parts.counted("other", "Other", other),
        parts.cell("waiting", "Waiting", each.waiting, values.count(each.waiting or 0)),
        parts.took("queue_p95", "Queue p95", percentiles(each.figures.queue)[1]),
        parts.took("ack_p95", "ACK p95", percentiles(each.figures.ack)[1]),
        data_destination=each.name,
    )


def dead_letters(report: Report) -> Markup:
    """By destination and reason, then the last ones."""
    found = report.because("dead_lettered")
    if not found:
        return parts.section("dead-letters", "Dead letters", parts.quiet("None in this span."))
    rows = [
        parts.row(
            parts.head(parts.name(each.destination)),
            parts.said("Reason", _sentence(each.reason), full=True),
            parts.counted("dead_lettered", "Messages", each.count),
            parts.timed("Last (UTC)", each.last),
            data_destination=each.destination or "",
            data_reason=each.reason or "",
        )
        for each in found[:MOST_REASONS]
    ]
    columns = ["Destination", "Reason", "#Messages", "Last (UTC)"]
    content = [parts.table("Dead letters", columns, rows, cards=True), *_reasons_beyond(report, "dead_lettered")]
    if report.dead_letters:
        columns = ["Destination", "When (UTC)", "Reason", "#Deliveries", "#Size", "Message and headers"]
        examples = [_dead_letter(each) for each in report.dead_letters]
        content += [
            element("h3", "The last ones"),
            parts.table("The last dead letters", columns, examples, cards=True),
        ]
    return parts.section("dead-letters", "Dead letters", *content, class_="long")


def _dead_letter(each: LastDeadLetter) -> Markup:
    headers = sorted(each.headers.items())[:_MOST_HEADERS]
    listed = join(
        [join([element("dt", parts.clipped(key)), element("dd", parts.clipped(value))]) for key, value in headers]
    )
    folded = element(
        "details",
        element("summary", f"{values.count(len(each.headers))} headers"),
        element("dl", listed, class_="headers"),
    )
    return parts.row(
        parts.head(parts.name(each.destination)),
        parts.timed("When (UTC)", each.ts),
        parts.said("Reason", _sentence(each.reason), full=True),
        parts.counted("delivery_count", "Deliveries", each.delivery_count or 0),
        parts.cell("size", "Size", each.size, values.NONE if each.size is None else values.octets(each.size)),
        parts.said("Message and headers", parts.name(each.message_id), folded, full=True),
        data_message_id=each.message_id or "",
    )


def consumers(report: Report) -> Markup:
    """Those that were stuck, then those that were slow."""
    limit = values.length(report.stuck_after)
    remark = parts.quiet(
        f"Stuck: a delivery waits for its ACK for longer than {limit}, and no ACK comes. "
        "Slow: it waits as long, but others are acknowledged."
    )
    found = [*report.consumers_that_were("stuck"), *report.consumers_that_were("slow")]
    if not found:
        return parts.section("consumers", "Stuck and slow consumers", remark, parts.quiet("None in this span."))
    columns = ["Destination", "Kind", "#Pending", "#Oldest", "From (UTC)", "To (UTC)", "Who"]
    rows = [_consumer(each) for each in found[:MOST_CONSUMERS]]
    table = parts.table("Stuck and slow consumers", columns, rows, cards=True)
    more = _beyond(len(found), MOST_CONSUMERS)
    return parts.section("consumers", "Stuck and slow consumers", remark, table, *more, class_="long")


def _consumer(each: ConsumerAlarm) -> Markup:
    who = [
        ("login", each.principal),
        ("from", each.peer),
        ("subscription", each.subscription),
        ("session", each.session),
    ]
    words = join([join([f"{label} ", parts.name(text), " "]) for label, text in who if text])
    kind = element("strong", "Stuck" if each.kind == "stuck" else "Slow", class_=each.kind)
    return parts.row(
        parts.head(parts.name(each.destination)),
        parts.said("Kind", kind),
        parts.counted("pending", "Pending", each.pending),
        parts.took("oldest_us", "Oldest", each.oldest_us),
        parts.timed("From (UTC)", each.raised),
        parts.timed("To (UTC)", each.cleared, "still"),
        parts.said("Who", words, full=True),
        data_kind=each.kind,
        data_destination=each.destination or "",
        data_subscription=each.subscription or "",
        data_session=each.session or "",
    )


_SESSION_FIGURES = (
    ("connected", "Sessions begun"),
    ("disconnected", "Sessions ended"),
    ("heartbeat_missed", "Heart-beats missed"),
    ("error", "Errors"),
    ("subscribed", "Subscriptions begun"),
    ("tx_begun", "Transactions begun"),
    ("tx_committed", "Committed"),
    ("tx_aborted", "Aborted"),
)


def sessions(report: Report) -> Markup:
    """How many, and why they ended; the errors; why messages were rejected or dropped."""
    remarks = {
        "connected": ", ".join(
            [f"{values.count(many)} {transport}" for transport, many in sorted(report.transports.items())]
        )
    }
    figures = [
        parts.headline(event, label, report.total(event), values.count(report.total(event)), remarks.get(event, ""))
        for event, label in _SESSION_FIGURES
    ]
    content: list[Markup] = [parts.headlines(figures, "small")]
    for key, title, events in _WHY:
        if found := report.because(*events):
            content += [element("h3", title), _reasons(key, title, found), *_reasons_beyond(report, *events)]
    return parts.section("sessions", "Sessions and errors", *content, class_="long")


_WHY = (
    ("error-reasons", "Errors, by reason", ("error",)),
    ("disconnect-reasons", "Why sessions ended", ("disconnected",)),
    ("drop-reasons", "Messages dropped or rejected, by reason", ("dropped", "nacked")),
    ("abort-reasons", "Transactions aborted, by reason", ("tx_aborted",)),
)


def _reasons(key: str, title: str, found: Sequence[Reason]) -> Markup:
    rows = [
        parts.row(
            parts.head(_sentence(each.reason), *([" ", parts.name(each.destination)] if each.destination else [])),
            parts.counted(each.event, "How often", each.count),
            parts.timed("Last (UTC)", each.last),
            data_reason=each.reason or "",
            data_destination=each.destination or "",
            data_event=each.event,
        )
        for each in found[:MOST_REASONS]
    ]
    return element("div", parts.table(title, ["Reason", "#How often", "Last (UTC)"], rows, cards=True), id=key)


def gaps(report: Report) -> list[Markup]:
    """What is missing, when something is: it comes before everything else."""
    if not report.gaps:
        return []
    rows = [_gap(each) for each in report.gaps[:MOST_GAPS]]
    sentence = element(
        "p",
        "The figures below are too low: ",
        element("strong", values.count(report.missing), data_figure="missing", data_value=report.missing),
        " rows of the journal are missing in this span.",
    )
    table = parts.table("Missing rows", ["Gateway", "#Rows", "When (UTC)", "Why"], rows, cards=True)
    more = _beyond(len(report.gaps), MOST_GAPS)
    return [parts.section("gaps", "The figures are incomplete", sentence, table, *more, class_="notice")]


def _gap(each: Gap) -> Markup:
    return parts.row(
        parts.head(parts.name(each.gateway)),
        parts.counted("dropped_rows", "Rows", each.rows),
        parts.timed("When (UTC)", each.at),
        parts.said("Why", _sentence(each.reason), full=True),
        data_gateway=each.gateway,
    )


def _sentence(text: str | None) -> Markup:
    return element("bdi", parts.clipped(text, 300)) if text else element("span", "no reason given", class_="quiet")


def _reasons_beyond(report: Report, *events: str) -> list[Markup]:
    """How many more reasons these events have."""
    many = len(report.because(*events)) + sum([report.unlisted.get(event, 0) for event in events])
    return _beyond(many, MOST_REASONS)


def _beyond(many: int, most: int) -> list[Markup]:
    """How many more there are than are shown."""
    return [parts.quiet(f"and {values.count(many - most)} more")] if many > most else []
