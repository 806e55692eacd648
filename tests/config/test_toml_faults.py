"""Files that are no TOML: each fault is told in one sentence, with the line where it is mended."""

from __future__ import annotations

import pytest

from .test_errors import refused, write

TORN = "the string is not closed; write {} at its end"
QUOTES = "these quotes are not those of TOML; write them as \" or '"
BACKSLASH = "a backslash in double quotes begins an escape; write the text in single quotes"
TEXT = 'https://a.org is no value of TOML; write allowed_origins = "https://a.org"'
COMMENT = "a comment begins with #"
LINE = "a line is NAME = VALUE, a [[header]], or a comment behind #"
FAULTS = [
    ('store = "sqlite:store.db', 1, TORN.format('"')),
    ("store = 'sqlite:store.db\ntcp = []", 1, TORN.format("'")),
    ('a = 1\nstore = """sqlite\n:store.db\n', 2, TORN.format('"""')),
    ("a = 'it's'", 1, TORN.format("'")),
    ("drain_timeout = 10s", 1, '10s is no value of TOML; write drain_timeout = "10s"'),
    ("# first\ntcp = 127.0.0.1:1 # here", 2, '127.0.0.1:1 is no value of TOML; write tcp = "127.0.0.1:1"'),
    ("tcp = [127.0.0.1:1]", 1, '127.0.0.1:1 is no value of TOML; write "127.0.0.1:1"'),
    ("tcp = ['a:1' 'b:1']", 1, "a comma is missing between two texts: 'a:1' 'b:1'"),
    ("tcp = ['a:1',\n'b:1'\nlenient = true", 1, "the [ is not closed; write a ] where it ends"),
    ("policy = [{match = 'a'}, {match = 'b'", 1, "the [ is not closed; write a ] where it ends"),
    ("lenient = True", 1, "True is no value of TOML; write lenient = true"),
    ("lenient = no", 1, "no is no value of TOML; write lenient = false"),
    ("max_headers = 1,000", 1, "1,000 is no number of TOML; write max_headers = 1000"),
    ("max_headers = " + "9" * 5_000 + ",0", 1, f"{'9' * 80} is no number of TOML; write max_headers = {'9' * 80}"),
    ("admin_token = [\nsesame\n]", 2, "the value cannot be read; a text needs quotes"),
    ("allowed_origins = https://a.org", 1, TEXT),
    ("max_headers = 020", 1, "020 is no number of TOML; write max_headers = 20"),
    ("max_headers =", 1, "max_headers has no value; write one behind the ="),
    ("tcp: ':1'", 1, "a setting needs =; write tcp = ':1'"),
    ("tcp", 1, "a setting needs =; write tcp = ..."),
    ("a = 20, b = 1", 1, "each setting needs a line of its own: b = 1"),
    ("a = 'b' c = 1", 1, "each setting needs a line of its own: c = 1"),
    ("[[policy]\nmatch = 'a'", 1, "the header must be [[policy]]"),
    ("[policy]\n[policy]", 2, "the header must be [[policy]]"),
    ("[a", 1, "the header must be [a]"),
    ("a = “b”", 1, QUOTES),
    ('users_file = "C:\\users"', 1, BACKSLASH),
    *(
        (line, 1, "the value cannot be read; a text needs quotes")
        for line in (
            *("admin_token = sesame", "admin_token: sesame", "a = 1, metrics_token = sesame"),
            "trace_endpoint = http://u:sesame@127.0.0.1:4318/v1/traces",
        )
    ),
    ("// a", 1, COMMENT),
    ("a = 20 // twenty", 1, COMMENT),
    ('{"store": "memory"}', 1, LINE),
    ("export store='a'", 1, LINE),
    ("a = {b = 1, b = 2}", 1, "duplicate inline table key 'b'"),  # as tomllib says it
    ("a = [1, 2 3]", 1, '2 3 is no value of TOML; write "2 3"'),
    ("a = 1\na.b = 1", 2, "cannot overwrite a value"),
    ("[a]\n[a]", 2, "cannot declare ('a',) twice"),
]


@pytest.mark.parametrize(("text", "line", "sentence"), FAULTS, ids=[row[0] for row in FAULTS])
def test_faults(text: str, line: int, sentence: str) -> None:
    write(text)
    assert refused() == f"gateway.toml line {line}: {sentence}"
