"""The page: one HTML file without script that loads nothing.

Its Content-Security-Policy forbids everything but the one style sheet in it, by its hash, and pictures written into it.
So even markup that got past `html` could neither run nor call home.  The sections stand here in their order.
"""

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from importlib import resources
from urllib.parse import quote

from ..jobs.figures import Figures, Histogram
from . import chart, formats, html
from .figures import (
    EVENTS,
    EXCEPTIONS,
    FLOWS,
    ConsumerAlarm,
    DestinationFigures,
    LastDeadLetter,
    Percentiles,
    Reason,
    Report,
    Step,
    percentiles,
)
from .html import Markup, element, join

# Rows that are shown; the CSV files have all.
MOST_DESTINATIONS = 25
MOST_REASONS = 15
MOST_CONSUMERS = 50
MOST_GAPS = 20
_MOST_HEADERS = 40

NAMES = {
    "accepted": "Accepted",
    "delivered": "Delivered",
    "acked": "Acknowledged",
    "nacked": "Rejected (NACK)",
    "redelivered": "Redelivered",
    "expired": "Expired",
    "dead_lettered": "Dead-lettered",
    "dropped": "Dropped",
}
_UNITS = {"hour": timedelta(hours=1), "minute": timedelta(minutes=1), "second": timedelta(seconds=1)}
_PERCENTILES = ("p50", "p95", "p99")
_ICON = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 36 36" width="36" height="36" aria-hidden="true">'
    '<rect width="36" height="36" rx="9" fill="#0f766e"/><g fill="none" stroke="#fff" stroke-width="2.5" '
    'stroke-linecap="round" stroke-linejoin="round"><path d="M8 12h7l6 12h7"/><path d="M8 24h7l6-12h7"/></g>'
    '<circle cx="18" cy="18" r="3.4" fill="#fff"/></svg>'
)


def page_of(report: Report) -> str:
    """The whole page."""
    style = resources.files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"Traffic report, {_span(report)} UTC"),
        element("link", rel="icon", href=f"data:image/svg+xml,{quote(_ICON)}"),
        element("style", Markup(style)),
    )
    body = element("body", _header(report), element("main", *_sections(report)), _footer(report))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _sections(report: Report) -> list[Markup]:
    gaps = _gaps(report)
    if not report.rows:
        return [*gaps, _nothing(report)]
    return [
        *gaps,
        _figures(report),
        _traffic(report),
        _latency(report),
        _destinations(report),
        _dead_letters(report),
        _consumers(report),
        _sessions(report),
    ]


# head and foot


def _span(report: Report) -> str:
    same = report.since.date() == report.until.date()
    return f"{formats.moment(report.since)} to {(formats.clock if same else formats.moment)(report.until)}"


def _header(report: Report) -> Markup:
    of = f"{formats.count(len(report.gateways))} gateways: " if len(report.gateways) > 1 else ""
    names = [join([", " if place else "", html.name(each)]) for place, each in enumerate(report.gateways)]
    title = element("h1", "Traffic report")
    remark = html.quiet(f"{_span(report)} UTC ({formats.length(report.until - report.since)}). ", of, *names)
    made = element("p", f"Made {formats.moment(report.made)} UTC", class_="quiet made")
    return element("header", _ICON, element("div", title, remark), made)


def _footer(report: Report) -> Markup:
    rows = element("span", f"{formats.count(report.rows)} rows", data_figure="journal_rows", data_value=report.rows)
    seen = ""
    if report.first and report.last:
        first, last = [formats.moment(when.replace(microsecond=0)) for when in (report.first, report.last)]
        seen = f", from {first} to {last} UTC"
    return element(
        "footer",
        element("p", "Made by stomp-gateway from ", rows, f" of its journal{seen}."),
        element(
            "p",
            "The span includes its beginning and not its end; all times are UTC. A message to a topic is delivered "
            "once to each subscriber, so more messages can be delivered than accepted. Delivered counts first "
            "deliveries.",
        ),
    )


def _nothing(report: Report) -> Markup:
    rows = element("strong", "0 rows", data_figure="rows", data_value=0)
    sentence = element("p", "The archive has ", rows, f" from {_span(report)} UTC.")
    hint = html.quiet("Check that the span is right, that the journal was on, and that it has been archived since.")
    return html.section("nothing", "Nothing in this span", sentence, hint, class_="nothing")


def _gaps(report: Report) -> list[Markup]:
    """Missing rows: they come before everything else."""
    if not report.gaps:
        return []
    rows = [
        html.row(
            html.head(html.name(each.gateway)),
            html.counted("dropped_rows", "Rows", each.rows),
            html.timed("When (UTC)", each.at),
            html.said("Reason", _sentence(each.reason), full=True),
            data_gateway=each.gateway,
        )
        for each in report.gaps[:MOST_GAPS]
    ]
    many = element("strong", formats.count(report.missing), data_figure="missing", data_value=report.missing)
    sentence = element("p", "The figures below are too low: ", many, " rows of the journal are missing in this span.")
    table = html.table("Missing rows", ["Gateway", "#Rows", "When (UTC)", "Reason"], rows, cards=True)
    more = _beyond(len(report.gaps), MOST_GAPS)
    return [html.section("gaps", "The figures are incomplete", sentence, table, *more, class_="notice")]


# figures


def _figures(report: Report) -> Markup:
    def many(event: str, label: str, remark: str = "") -> Markup:
        return html.headline(event, label, report.total(event), formats.count(report.total(event)), remark)

    def median(key: str, label: str, found: Percentiles) -> Markup:
        p50, p95, p99 = found
        remark = f"median; p95 {formats.latency(p95)}, p99 {formats.latency(p99)}" if p50 is not None else ""
        return html.headline(key, label, p50, formats.latency(p50), remark)

    whole = report.whole
    size, accepted = whole.body_bytes["accepted"], report.total("accepted")
    large = [
        many("accepted", "Messages accepted", _peak(report, "accepted")),
        many("delivered", "Delivered", _peak(report, "delivered")),
        many("acked", "Acknowledged"),
        html.headline(
            "bytes", "Accepted", size, formats.size(size), f"{formats.size(size / accepted)} each" if accepted else ""
        ),
        median("queue_median", "In the queue", percentiles(whole.queue)),
        median("ack_median", "At the consumer", percentiles(whole.ack)),
    ]
    small = [many(event, NAMES[event]) for event in EXCEPTIONS]
    attention = element("ul", *_attention(report), class_="attention", aria_label="What needs attention")
    return html.section("figures", "Figures", html.headlines(large), html.headlines(small, "small"), attention)


def _attention(report: Report) -> list[Markup]:
    stuck, slow = [len(report.consumers_that_were(kind)) for kind in ("stuck", "slow")]
    found = (
        ("missing-rows", "gaps", "danger", report.missing, "row missing", "rows missing"),
        ("stuck", "consumers", "danger", stuck, "stuck consumer", "stuck consumers"),
        ("slow", "consumers", "wait", slow, "slow consumer", "slow consumers"),
        ("dead-letters-noted", "dead-letters", "wait", report.total("dead_lettered"), "dead letter", "dead letters"),
        ("errors", "sessions", "wait", report.total("error"), "error", "errors"),
        ("drops", "sessions", "wait", report.total("dropped"), "message dropped", "messages dropped"),
    )
    noted = []
    for key, place, tone, many, one, several in found:
        if many:
            link = element("a", f"{formats.count(many)} {one if many == 1 else several}", href=f"#{place}")
            noted.append(element("li", link, class_=tone, data_figure=key, data_value=many))
    return noted or [element("li", "Nothing needs attention", data_figure="attention", data_value=0)]


# traffic over time: charts show rates, so that a short first or last step is no dip; the table has counts


def _traffic(report: Report) -> Markup:
    unit = _unit(report)
    each = "each" if report.step == _UNITS[unit] else f"every {formats.length(report.step)}"
    content = [
        html.quiet(f"Messages per {unit}, a point for {each}. Times are UTC."),
        *_rates(report, "traffic-chart", "Messages over time", FLOWS),
    ]
    if any(report.total(event) for event in EXCEPTIONS):
        shown = [event for event in EXCEPTIONS if report.total(event)]
        content += [
            element("h3", "Exceptions"),
            html.quiet(f"Messages per {unit}, on a scale of their own."),
            *_rates(report, "exceptions-chart", "Exceptions over time", shown),
        ]

    def cells(step: Step) -> Iterable[Markup]:
        yield from [html.counted(event, NAMES[event], step.figures.counts[event]) for event in EVENTS]
        size = step.figures.body_bytes["accepted"]
        yield html.cell("bytes", "Bytes accepted", size, formats.size(size))

    columns = [*[f"#{NAMES[event]}" for event in EVENTS], "#Bytes accepted"]
    table = _by_step(report, "Messages over time", columns, cells)
    return html.section("traffic", "Traffic", *content, html.behind("traffic-table", "The counts as a table", table))


def _rates(report: Report, key: str, title: str, events: Sequence[str]) -> list[Markup]:
    series = {NAMES[event]: [_rate(report, step, event) for step in report.steps] for event in events}
    highest = max([max(values, default=0.0) for values in series.values()], default=0.0)
    words = [f"{NAMES[event]}: {formats.count(report.total(event))} {_peak(report, event)}." for event in events]
    description = f"From {formats.moment(report.since)} to {formats.moment(report.until)} UTC. {' '.join(words)}"
    return _lines(report, key, title, description, series, chart.linear(highest, formats.short))


def _lines(
    report: Report, key: str, title: str, description: str, series: chart.Series, scale: chart.Scale
) -> list[Markup]:
    middles = [step.start + (step.end - step.start) / 2 for step in report.steps]
    return chart.lines(key, title, description, (report.since, report.until), middles, series, scale)


def _by_step(report: Report, title: str, columns: Sequence[str], cells: Callable[[Step], Iterable[Markup]]) -> Markup:
    alone = report.since.date() == (report.until - timedelta(microseconds=1)).date()
    rows = []
    for step in report.steps:
        clock = formats.clock(step.start)
        label = clock if alone else f"{formats.day(step.start)} {clock}"
        rows.append(html.row(html.head(label), *cells(step), data_time=formats.iso(step.start)))
    return html.table(title, ["From (UTC)", *columns], rows)


def _peak(report: Report, event: str) -> str:
    highest = max([_rate(report, step, event) for step in report.steps], default=0.0)
    return f"at most {formats.short(highest)}/{_unit(report)}" if highest else ""


def _rate(report: Report, step: Step, event: str) -> float:
    """Messages per second, minute or hour (`_unit`)."""
    return step.figures.counts[event] * (_UNITS[_unit(report)] / (step.end - step.start))


def _unit(report: Report) -> str:
    """The unit of rates: the longest that is not longer than a step."""
    return next((name for name, length in _UNITS.items() if report.step >= length), "second")


# latency


def _latency(report: Report) -> Markup:
    return html.section(
        "latency",
        "Latency",
        html.quiet("Taken from histograms, and exact to 4.5 %. Times are UTC."),
        *_percentiles(report, "queue", "In the queue: from accepted to the first delivery", lambda had: had.queue),
        *_percentiles(report, "ack", "At the consumer: from the delivery to its ACK", lambda had: had.ack),
    )


def _percentiles(report: Report, key: str, title: str, of: Callable[[Figures], Histogram]) -> list[Markup]:
    heading, whole = element("h3", title), of(report.whole)
    if not whole:
        return [heading, html.quiet("There was none in this span.")]
    found = dict(zip(_PERCENTILES, percentiles(whole), strict=True))
    taken = [percentiles(of(step.figures)) for step in report.steps]
    known = [value for each in taken for value in each if value is not None]
    series = {name: [each[place] for each in taken] for place, name in enumerate(_PERCENTILES)}
    scale = chart.logarithmic(min(known) / 2, max(known) * 2 + 1, formats.latency)
    words = ", ".join([f"{name} {formats.latency(value)}" for name, value in found.items()])

    def cells(step: Step) -> Iterable[Markup]:
        histogram = of(step.figures)
        yield html.counted("count", "Messages", sum(histogram.values()))
        for name, value in zip(_PERCENTILES, percentiles(histogram), strict=True):
            yield html.took(name, name, value)

    table = _by_step(report, title, ["#Messages", *[f"#{name}" for name in _PERCENTILES]], cells)
    return [
        heading,
        html.headlines(
            [html.headline(f"{key}_{name}", name, value, formats.latency(value)) for name, value in found.items()],
            "small three",
        ),
        *_lines(report, f"{key}-chart", f"Latency over time. {title}", f"Over the whole span: {words}.", series, scale),
        html.behind(f"{key}-table", "The percentiles as a table", table),
    ]


# destinations and dead letters


def _destinations(report: Report) -> Markup:
    shown = report.destinations[:MOST_DESTINATIONS]
    known = len(report.destinations) + report.others
    if not shown:
        return html.section("destinations", "Destinations", html.quiet("No messages in this span."))
    flows = [f"#{NAMES[event]}" for event in FLOWS]
    columns = ["Destination", *flows, "#Other", "#Waiting", "#Queue p95", "#ACK p95"]
    table = html.table("Destinations", columns, [_destination(each) for each in shown], cards=True)
    rest = f"The busiest {len(shown)} of {formats.count(known)}." if known > len(shown) else "All destinations."
    remark = html.quiet(
        f"{rest} Other: rejected, redelivered, expired, dead-lettered and dropped. "
        "Waiting: the most messages that waited at a time."
    )
    return html.section("destinations", "Destinations", remark, table, class_="long")


def _destination(each: DestinationFigures) -> Markup:
    other = sum([each.figures.counts[event] for event in EXCEPTIONS])
    return html.row(
        html.head(html.name(each.name)),
        *[html.counted(event, NAMES[event], each.figures.counts[event]) for event in FLOWS],
        html.counted("other", "Other", other),
        html.cell("waiting", "Waiting", each.waiting, formats.count(each.waiting or 0)),
        html.took("queue_p95", "Queue p95", percentiles(each.figures.queue)[1]),
        html.took("ack_p95", "ACK p95", percentiles(each.figures.ack)[1]),
        data_destination=each.name,
    )


def _dead_letters(report: Report) -> Markup:
    """Dead letters by destination and reason, then the last ones."""
    found = report.because("dead_lettered")
    if not found:
        return html.section("dead-letters", "Dead letters", html.quiet("None in this span."))
    rows = [
        html.row(
            html.head(html.name(each.destination)),
            html.said("Reason", _sentence(each.reason), full=True),
            html.counted("dead_lettered", "Messages", each.count),
            html.timed("Last (UTC)", each.last),
            data_destination=each.destination or "",
            data_reason=each.reason or "",
        )
        for each in found[:MOST_REASONS]
    ]
    columns = ["Destination", "Reason", "#Messages", "Last (UTC)"]
    content = [html.table("Dead letters", columns, rows, cards=True), *_reasons_beyond(report, "dead_lettered")]
    if report.dead_letters:
        columns = ["Destination", "When (UTC)", "Reason", "#Deliveries", "#Size", "Message and headers"]
        examples = [_dead_letter(each) for each in report.dead_letters]
        table = html.table("The last dead letters", columns, examples, cards=True)
        content += [element("h3", "The last dead letters"), table]
    return html.section("dead-letters", "Dead letters", *content, class_="long")


def _dead_letter(each: LastDeadLetter) -> Markup:
    headers = sorted(each.headers.items())[:_MOST_HEADERS]
    listed = [element("dt", html.clipped(key)) + element("dd", html.clipped(value)) for key, value in headers]
    summary = element("summary", f"{formats.count(len(each.headers))} headers")
    folded = element("details", summary, element("dl", *map(Markup, listed), class_="headers"))
    return html.row(
        html.head(html.name(each.destination)),
        html.timed("When (UTC)", each.ts),
        html.said("Reason", _sentence(each.reason), full=True),
        html.counted("delivery_count", "Deliveries", each.delivery_count or 0),
        html.cell("size", "Size", each.size, formats.NONE if each.size is None else formats.size(each.size)),
        html.said("Message and headers", html.name(each.message_id), folded, full=True),
        data_message_id=each.message_id or "",
    )


# consumers and sessions


def _consumers(report: Report) -> Markup:
    """The consumers that were stuck, then those that were slow."""
    title, limit = "Stuck and slow consumers", formats.length(report.stuck_after)
    remark = html.quiet(
        f"Stuck: a delivery waits for its ACK for longer than {limit}, and the consumer acknowledges nothing else. "
        "Slow: a delivery waits as long, but the consumer acknowledges others."
    )
    found = [*report.consumers_that_were("stuck"), *report.consumers_that_were("slow")]
    if not found:
        return html.section("consumers", title, remark, html.quiet("None in this span."))
    columns = ["Destination", "Kind", "#Pending", "#Oldest", "From (UTC)", "To (UTC)", "Consumer"]
    table = html.table(title, columns, [_consumer(each) for each in found[:MOST_CONSUMERS]], cards=True)
    return html.section("consumers", title, remark, table, *_beyond(len(found), MOST_CONSUMERS), class_="long")


def _consumer(each: ConsumerAlarm) -> Markup:
    names = (
        ("login", each.principal),
        ("from", each.peer),
        ("subscription", each.subscription),
        ("session", each.session),
    )
    words = join([join([f"{label} ", html.name(text), " "]) for label, text in names if text])
    return html.row(
        html.head(html.name(each.destination)),
        html.said("Kind", element("strong", each.kind.capitalize(), class_=each.kind)),
        html.counted("pending", "Pending", each.pending),
        html.took("oldest_us", "Oldest", each.oldest_us),
        html.timed("From (UTC)", each.raised),
        html.timed("To (UTC)", each.cleared, "still"),
        html.said("Consumer", words, full=True),
        data_kind=each.kind,
        data_destination=each.destination or "",
        data_subscription=each.subscription or "",
        data_session=each.session or "",
    )


_SESSION_FIGURES = {
    "connected": "Sessions begun",
    "disconnected": "Sessions ended",
    "heartbeat_missed": "Heart-beats missed",
    "error": "Errors",
    "subscribed": "Subscriptions begun",
    "tx_begun": "Transactions begun",
    "tx_committed": "Committed",
    "tx_aborted": "Aborted",
}
_REASONS = (
    ("error-reasons", "Errors, by reason", ("error",)),
    ("disconnect-reasons", "Reasons why sessions ended", ("disconnected",)),
    ("drop-reasons", "Messages dropped or rejected, by reason", ("dropped", "nacked")),
    ("abort-reasons", "Transactions aborted, by reason", ("tx_aborted",)),
)


def _sessions(report: Report) -> Markup:
    transports = ", ".join([f"{formats.count(many)} {name}" for name, many in sorted(report.transports.items())])
    figures = [
        html.headline(
            event, label, many := report.total(event), formats.count(many), transports if event == "connected" else ""
        )
        for event, label in _SESSION_FIGURES.items()
    ]
    content: list[Markup] = [html.headlines(figures, "small")]
    for key, title, events in _REASONS:
        if found := report.because(*events):
            content += [element("h3", title), _reasons(key, title, found), *_reasons_beyond(report, *events)]
    return html.section("sessions", "Sessions and errors", *content, class_="long")


def _reasons(key: str, title: str, found: Sequence[Reason]) -> Markup:
    rows = [
        html.row(
            html.head(_sentence(each.reason), *([" ", html.name(each.destination)] if each.destination else [])),
            html.counted(each.event, "Count", each.count),
            html.timed("Last (UTC)", each.last),
            data_reason=each.reason or "",
            data_destination=each.destination or "",
            data_event=each.event,
        )
        for each in found[:MOST_REASONS]
    ]
    return element("div", html.table(title, ["Reason", "#Count", "Last (UTC)"], rows, cards=True), id=key)


def _sentence(text: str | None) -> Markup:
    return element("bdi", html.clipped(text, 300)) if text else element("span", "no reason given", class_="quiet")


def _reasons_beyond(report: Report, *events: str) -> list[Markup]:
    """How many more reasons these events have than the table shows."""
    many = len(report.because(*events)) + sum([report.unlisted.get(event, 0) for event in events])
    return _beyond(many, MOST_REASONS)


def _beyond(many: int, most: int) -> list[Markup]:
    return [html.quiet(f"and {formats.count(many - most)} more")] if many > most else []
