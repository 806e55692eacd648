"""Which origins a list names: what browsers send, however it was written, and no other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.net import OriginError, is_listed, is_of, listed

parametrize = pytest.mark.parametrize
# No deadline: the machine is shared.
many = settings(deadline=None)

SITE = "https://*.example.org"
WORDS = st.from_regex(r"[a-z0-9_-]{1,12}", fullmatch=True)
LETTERS = st.sampled_from("ab-._*:/@[]?#%\\0\x00é ")
TEXTS = st.text(LETTERS, max_size=12)


@parametrize(
    ("written", "form"),
    [
        ("HTTPS://App.Example.ORG", "https://app.example.org"),
        ("https://app.example.org:443", "https://app.example.org"),
        ("https://app.example.org:80", "https://app.example.org:80"),
        ("https://*.example.org:8443", "https://*.example.org:8443"),
        ("http://[0:0:0:0:0:0:0:1]:8000", "http://[::1]:8000"),
        ("chrome-extension://aapbdbdomjkkjkaonfhkkikfgjllcleb", "chrome-extension://aapbdbdomjkkjkaonfhkkikfgjllcleb"),
        ("https://app.example.org.", "https://app.example.org."),
    ],
)
def test_one_form(written: str, form: str) -> None:
    assert listed(written) == form
    assert listed(form) == form


@parametrize(
    ("text", "reason"),
    [
        ("", "write scheme://host or scheme://host:port, or *"),
        ("example.org", "write scheme://host or scheme://host:port, or *"),
        ("https://a b", "write scheme://host"),
        ("https://user@example.org", "write scheme://host"),
        ("https://example.org:", "write scheme://host"),
        ("http://[fe80::1%25eth0]", "write scheme://host"),
        ("https://example.org/", "it has a path; an origin ends behind host and port: https://example.org"),
        ("https://example.org:8443/app?x#y", "ends behind host and port: https://example.org:8443"),
        ("https://example.org:65536", "a port is 65535 at most"),
        ("https://bücher.example", "they write a host in ASCII"),
        ("https://\u212aelvin.example", "they write a host in ASCII"),  # whose small letter is k
        ("wss://app.example.org", "write the http or https origin"),
        ("https://127.1", "its host is no address that browsers write"),
        ("http://[::1::]", "its host is no address that browsers write"),
        ("https://a..b", "browsers send no such host"),
        (f"https://{'a.' * 127}b", "browsers send no such host"),
        ("https://*", "* stands alone, or for the first words of a host"),
        ("https://app.*.org", "* stands alone"),
        ("https://example.org:*", "* stands alone"),
        ("https://*.", "write scheme://host"),
        ("https://*.192.0.2.7", "an address has no names below it"),
    ],
)
def test_what_no_page_has(text: str, reason: str) -> None:
    with pytest.raises(OriginError) as caught:
        listed(text)
    assert str(caught.value).startswith(repr(text))
    assert reason in str(caught.value)


@parametrize(
    ("origin", "entry"),
    [
        ("https://app.example.org", "https://APP.example.org:443"),
        ("http://[::1]:8000", "http://[0::1]:8000"),
        ("https://app.example.org", SITE),
        ("https://App.Example.org:443", SITE),
        ("https://a.example.org:8443", f"{SITE}:8443"),
        ("null", "*"),
    ],
)
def test_named(origin: str, entry: str) -> None:
    assert is_listed(origin, [listed("https://other.example"), listed(entry)])


@parametrize(
    "origin",
    [
        "https://example.org",
        "https://evilexample.org",
        "https://app.example.org.evil",
        "https://app.example.org.",
        "http://app.example.org",
        "https://app.example.org:8443",
        "https://evil.example@app.example.org",
        "https://evil.example/.example.org",
        "https://evil.example#.example.org",
        "https://evil.example\0.example.org",
        "https://.example.org",
        "https://a..example.org",
        "https://\u212aelvin.example.org",
        "https://app.example.org/",
        "https://app.example.org, https://a.example.org",
        "wss://app.example.org",
        "null",
        "",
        f"https://{'a.' * 8_000}example.org",
    ],
)
def test_not_named_by_a_site(origin: str) -> None:
    assert not is_listed(origin, [SITE])


@parametrize("origin", ["https://app.example.org", "https://example.org:8443", "http://example.org", "null", ""])
def test_not_named_by_one_host(origin: str) -> None:
    assert not is_listed(origin, ["https://example.org"])
    assert not is_listed(origin, [])


@many
@given(st.lists(WORDS, min_size=1, max_size=5), st.sampled_from(["", ":443", ":0443"]))
def test_all_that_is_below_is_named(words: list[str], port: str) -> None:
    host = ".".join(words)
    assert is_listed(f"https://{host}.example.org{port}", [SITE])
    assert is_listed(f"HTTPS://{host.upper()}.Example.Org{port}", [SITE])


@many
@given(TEXTS, TEXTS, TEXTS)
def test_nothing_else_is(before: str, between: str, behind: str) -> None:
    """Whatever somebody puts around the name: if it is named, a browser would say that the page is below it."""
    origin = f"https://{before}{between}example.org{behind}"
    if is_listed(origin, [SITE]):
        host = origin.removeprefix("https://").removesuffix(":443")
        assert host.endswith(".example.org")
        assert all(word.replace("-", "a").replace("_", "a").isalnum() for word in host.split("."))


@many
@given(st.text(max_size=40))
def test_what_was_listed_once_can_be_listed_again(text: str) -> None:
    try:
        form = listed(text)
    except OriginError:
        assert not is_listed(text, [text])
    else:
        assert listed(form) == form


@parametrize(
    ("origin", "host", "same"),
    [
        ("https://gateway.example", "gateway.example", True),
        ("https://gateway.example", "GATEWAY.example:443", True),
        ("http://[::1]:8000", "[::1]:8000", True),
        ("http://gateway.example", "gateway.example:443", False),
        ("https://gateway.example", "", False),
        ("", "", False),
        ("https://evil.example", "evil.example@gateway.example", False),
    ],
)
def test_the_page_of_a_host(origin: str, host: str, same: bool) -> None:
    assert is_of(origin, host) is same
