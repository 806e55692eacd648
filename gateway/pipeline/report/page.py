"""The page: one HTML file without script, that asks for nothing else.

Its Content-Security-Policy forbids everything but the one style sheet in it, by its hash, and pictures written into it.
So even markup that got past `markup` could neither run nor call home.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from urllib.parse import quote

from . import delays, lists, parts, traffic, values
from .figures import EXCEPTIONS, Percentiles, Report, percentiles
from .markup import Markup, element, join
from .sheets import csv

__all__ = ["csv", "html"]

_ICON = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 36 36" width="36" height="36" aria-hidden="true">'
    '<rect width="36" height="36" rx="9" fill="#0f766e"/><g fill="none" stroke="#fff" stroke-width="2.5" '
    'stroke-linecap="round" stroke-linejoin="round"><path d="M8 12h7l6 12h7"/><path d="M8 24h7l6-12h7"/></g>'
    '<circle cx="18" cy="18" r="3.4" fill="#fff"/></svg>'
)


def html(report: Report) -> str:
    """The whole page."""
    style = _style()
    policy = f"default-src 'none'; style-src '{_hash(style)}'; img-src data:; base-uri 'none'; form-action 'none'"
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


def _style() -> str:
    return resources.files(__package__).joinpath("style.css").read_text(encoding="utf-8")


def _hash(style: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


def _span(report: Report) -> str:
    since, until = values.moment(report.since), values.moment(report.until)
    same = report.since.date() == report.until.date()
    return f"{since} to {values.clock(report.until) if same else until}"


def _header(report: Report) -> Markup:
    of = f"{values.count(len(report.gateways))} gateways: " if len(report.gateways) > 1 else ""
    names = [join([", " if place else "", parts.name(each)]) for place, each in enumerate(report.gateways)]
    return element(
        "header",
        _ICON,
        element(
            "div",
            element("h1", "Traffic report"),
            parts.quiet(f"{_span(report)} UTC ({values.length(report.until - report.since)}). ", of, *names),
        ),
        element("p", f"Made {values.moment(report.made)} UTC", class_="quiet made"),
    )


def _sections(report: Report) -> list[Markup]:
    gaps = lists.gaps(report)
    if not report.rows:
        return [*gaps, _nothing(report)]
    return [
        *gaps,
        _figures(report),
        *traffic.section(report),
        *delays.section(report),
        lists.destinations(report),
        lists.dead_letters(report),
        lists.consumers(report),
        lists.sessions(report),
    ]


def _nothing(report: Report) -> Markup:
    rows = element("strong", "0 rows", data_figure="rows", data_value=0)
    return element(
        "section",
        element("h2", "Nothing in this span", id="nothing-heading"),
        element("p", "The archive has ", rows, f" from {_span(report)} UTC."),
        parts.quiet("Is the span right, was the journal of the gateway on, and has it been archived since?"),
        id="nothing",
        class_="nothing",
        aria_labelledby="nothing-heading",
    )


def _figures(report: Report) -> Markup:
    def many(event: str, label: str, remark: str = "") -> Markup:
        return parts.headline(event, label, report.total(event), values.count(report.total(event)), remark)

    whole = report.whole
    octets = whole.octets["accepted"]
    large = [
        many("accepted", "Messages accepted", _peak(report, "accepted")),
        many("delivered", "Delivered", _peak(report, "delivered")),
        many("acked", "Acknowledged"),
        parts.headline("octets", "Accepted", octets, values.octets(octets), _mean_size(report, octets)),
        _median("queue_median", "In the queue", percentiles(whole.queue)),
        _median("ack_median", "At the consumer", percentiles(whole.ack)),
    ]
    small = [many(event, traffic.NAMES[event]) for event in EXCEPTIONS]
    return parts.section(
        "figures",
        "Figures",
        parts.headlines(large),
        parts.headlines(small, "small"),
        element("ul", *_attention(report), class_="attention", aria_label="What needs attention"),
    )


def _peak(report: Report, event: str) -> str:
    found = traffic.peak(report, event)
    return f"at most {values.short(found[0])}/{traffic.unit(report)}" if found else ""


def _mean_size(report: Report, octets: int) -> str:
    accepted = report.total("accepted")
    return f"{values.octets(octets / accepted)} each" if accepted else ""


def _median(key: str, label: str, found: Percentiles) -> Markup:
    p50, p95, p99 = found
    remark = f"median; p95 {values.latency(p95)}, p99 {values.latency(p99)}" if p50 is not None else ""
    return parts.headline(key, label, p50, values.latency(p50), remark)


def _attention(report: Report) -> list[Markup]:
    stuck, slow = [len(report.consumers_that_were(kind)) for kind in ("stuck", "slow")]
    found = [
        ("missing-rows", "gaps", "danger", report.missing, "rows missing"),
        ("stuck", "consumers", "danger", stuck, "stuck consumers"),
        ("slow", "consumers", "wait", slow, "slow consumers"),
        ("dead-letters-noted", "dead-letters", "wait", report.total("dead_lettered"), "dead letters"),
        ("errors", "sessions", "wait", report.total("error"), "errors"),
        ("drops", "sessions", "wait", report.total("dropped"), "messages dropped"),
    ]
    noted = [
        element(
            "li",
            element("a", f"{values.count(many)} {words if many != 1 else _ONE[words]}", href=f"#{place}"),
            class_=tone,
            data_figure=key,
            data_value=many,
        )
        for key, place, tone, many, words in found
        if many
    ]
    return noted or [element("li", "Nothing that needs attention", data_figure="attention", data_value=0)]


_ONE = {
    "rows missing": "row missing",
    "stuck consumers": "stuck consumer",
    "slow consumers": "slow consumer",
    "dead letters": "dead letter",
    "errors": "error",
    "messages dropped": "message dropped",
}


def _footer(report: Report) -> Markup:
    rows = element("span", f"{values.count(report.rows)} rows", data_figure="journal_rows", data_value=report.rows)
    seen = ""
    if report.first and report.last:
        first, last = [values.moment(when.replace(microsecond=0)) for when in (report.first, report.last)]
        seen = f", from {first} to {last} UTC"
    return element(
        "footer",
        element("p", "Made by stomp-gateway from ", rows, f" of its journal{seen}."),
        element(
            "p",
            "The span holds its beginning and not its end; all times are UTC. A message to a topic is delivered "
            "once to each subscriber, so more can be delivered than was accepted. Delivered counts first deliveries.",
        ),
    )
