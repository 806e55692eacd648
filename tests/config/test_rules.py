"""Rule tables: what they may say, what is refused in which words, and on which line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gateway.broker.model.access import Action
from gateway.cli import main
from gateway.config.rules import KEYS, KINDS, RuleTable, canonical
from gateway.config.settings import SettingsError, load

PAGE = (Path(__file__).parent.parent.parent / "docs" / "rules.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
SEND = frozenset({Action.SEND})
NONE: frozenset[str] = frozenset()


def write(text: str) -> None:
    Path("gateway.toml").write_text(text, encoding="utf-8")


def refused(**arguments: Any) -> str:
    with pytest.raises(SettingsError) as refusal:
        load(**arguments)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


class TestReading:
    def test_all_keys(self) -> None:
        write(
            """
            max_body = 2048
            [[rule]]
            destination = ["/topic/prices.**", "orders"]
            users = ["alice", "*"]
            groups = ["ops"]
            transports = ["websocket"]
            addresses = ["10.0.0.0/255.0.0.0", "192.0.2.7/32", "2001:DB8:0::/32", "::1", "unix"]
            allow = ["subscribe", "send"]
            [[policy]]
            match = "/queue/a"
            [[rule]]
            destination = "**"
            deny = ["admin"]
            """
        )
        first, second = load().rule
        assert first == RuleTable(
            ("/topic/prices.**", "orders"),
            ("/topic/prices.**", "/queue/orders"),
            frozenset({"alice", "*"}),
            frozenset({"ops"}),
            frozenset({"websocket"}),
            frozenset({"10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "::1", "unix"}),
            frozenset({Action.SEND, Action.SUBSCRIBE}),
            True,
        )
        assert second == RuleTable(("**",), ("#",), NONE, NONE, NONE, NONE, frozenset({Action.ADMIN}), False)
        assert [table.line for table in load().rule] == [3, 12]

    @pytest.mark.parametrize(
        ("text", "pattern"),
        [
            ("/queue/a.b", "/queue/a.b"),
            ("a.*", "/queue/a.*"),
            ("/amq/queue/a", "/queue/a"),
            ("/exchange/amq.topic/a.#", "/topic/a.#"),
            ("/exchange/amq.fanout", "/exchange/amq.fanout"),
            ("/topic/home.{user}.>", "/topic/home.{user}.>"),
            ("/user/queue/**", "/user/{user}/queue/**"),
            ("/user/{user}/queue/a", "/user/{user}/queue/a"),
            ("/user/bob@example.org/queue/a", "/user/bob@example%2Eorg/queue/a"),
            ("/user/a%2fb/queue/a", "/user/a%2Fb/queue/a"),
            ("#", "#"),
            (">", "#"),
            ("/**", "#"),
        ],
    )
    def test_patterns_as_the_broker_has_them(self, text: str, pattern: str) -> None:
        assert canonical(text) == pattern

    def test_as_a_file_has_it(self) -> None:
        """What `gateway check-config` prints can be read again."""
        write(EXAMPLES[0])
        before = load().rule
        result = CliRunner().invoke(main.main, ["check-config"])
        assert result.exit_code == 0
        assert result.stdout.count("[[rule]]") == len(before) > 1
        write(result.stdout)
        assert load().rule == before


WRONG = [
    (5, 'allow = ["send"]', "rule 2: destination is missing; write the pattern of the rule, like destination ="),
    (6, 'destination = [1]\nallow = ["send"]', "destination must be a pattern, or a list of patterns, not [1]"),
    (5, 'destination = "a"', 'rule for "a": a rule needs either allow or deny, and this one has neither'),
    (8, 'destination = "a"\nallow = ["send"]\ndeny = ["send"]', 'rule for "a": a rule needs either allow or deny, and'),
    (7, 'destination = "a"\nallow = "send"', 'rule for "a": allow must be a list: write allow = ["send"]'),
    (7, 'destination = "a"\nallow = []', "allow must be a list of names that is not empty, not []"),
    (
        7,
        'destination = "a"\nallow = ["read"]',
        'allow: "read" is none of send, subscribe, admin, presence; did you mean subscribe?',
    ),
    (8, 'destination = "a"\nallow = ["send"]\nusers = [1]', "users must be a list of names that is not empty, not [1]"),
    (8, 'destination = "a"\nallow = ["send"]\nusers = ["a*"]', 'users: "a*" is no name: the only wildcard is *, for'),
    (8, 'destination = "a"\nallow = ["send"]\ngroups = [" a"]', 'groups: " a" is no name: it is empty, or has spaces'),
    (8, 'destination = "a"\nallow = ["send"]\ntransports = ["tls"]', 'transports: "tls" is none of tcp, websocket'),
    (8, 'destination = "a"\nallow = ["send"]\naddresses = []', "addresses must be a list of addresses that is not"),
    (6, 'match = "a"', 'rule 2: there is no key "match"; did you mean destination?'),
    (8, 'destination = "a"\nallow = ["send"]\nuser = ["a"]', 'there is no key "user"; did you mean users?'),
    (8, 'destination = "a"\nallow = ["send"]\nmax_body = 2048', "max_body is a setting and no key of a rule; write it"),
]
NETWORKS = [
    ("example.org", 'is neither an address nor a network, like "10.0.0.0/8" or "2001:db8::7", nor "unix"'),
    (" 10.0.0.0/8", "is neither an address nor a network"),
    ("fe80::1%eth0", "is neither an address nor a network"),
    ("10.1.2.3/8", 'has host bits set: write "10.0.0.0/8", or "10.1.2.3" for the one address'),
    ("::ffff:10.0.0.0/104", 'is an IPv4-mapped address, but clients have their IPv4 address here: write "10.0.0.0/8'),
]
WRONG_PATTERNS = [
    ("", 'is no destination; all destinations are "#" or "**", all queues "/queue/**"'),
    ("a,b", "has a comma, which separates destinations; write a list"),
    ("/topic/", 'needs a name behind the last slash; all names are "/topic/**"'),
    ("/nope/a", 'is of no kind of destination that has rules; did you mean "/queue/nope/a" or "/topic/nope/a"?'),
    ("/exchange/amq.fanout/a", 'has a key, which the exchange ignores; write "/exchange/amq.fanout"'),
    ("/temp-queue/a", "needs no rule: every client may use its own temporary destinations"),
    ("/reply-topic/#", "needs no rule: a client that knows the name of a temporary destination may send to it"),
    ("/session/events", "needs no rule: every session may use its own"),
    ("/dsub/a", "needs no rule: durable subscriptions have the rules of their topics"),
    ("/presence/topic/a", "needs no rule: the rules of its topic allow it, by the action presence"),
    ("/topic/a*", 'has a wildcard inside the word "a*"; it must be a whole word'),
    ("/topic/home-{user}", 'has braces in the word "home-{user}"; only {user} may, as a whole word'),
    ("/topic/" + "a." * 64, "has too many words in a destination: "),
    ("/topic/#.a.#.b.{user}", "has too many wildcards: "),
    ("topic/a.**", 'has no slash in front; did you mean "/topic/a.**"? The queue is "/queue/topic/a.**"'),
    ("/user/bob", "is no user destination: write /user/queue/NAME for the user's own, or /user/USER/queue/NAME"),
    ("/user/b*b/queue/a", "has a wildcard, or a comma, inside a user's name"),
    ("/user/{name}/queue/a", 'has braces in the word "{name}"; only {user} may'),
]


class TestRefusals:
    @pytest.mark.parametrize(("line", "text", "sentence"), WRONG, ids=[row[1].replace("\n", "; ") for row in WRONG])
    def test_the_key_and_its_line(self, line: int, text: str, sentence: str) -> None:
        write(f'# rules\n[[rule]]\ndestination = "ok"\nallow = ["send"]\n[[rule]]\n{text}\n')
        found = refused()
        assert found.startswith(f"gateway.toml line {line}: rule")
        assert sentence in found

    @pytest.mark.parametrize(("pattern", "sentence"), WRONG_PATTERNS, ids=[row[0][:30] for row in WRONG_PATTERNS])
    def test_patterns(self, pattern: str, sentence: str) -> None:
        write(f'\n[[rule]]\nallow = ["send"]\ndestination = ["a", "{pattern}"]\n')
        shown = f'"{pattern}"' if len(pattern) < 78 else f'"{pattern[:76]}...'
        assert refused().startswith(f"gateway.toml line 4: rule 1: destination: {shown} {sentence}")

    @pytest.mark.parametrize(("network", "sentence"), NETWORKS, ids=[row[0] for row in NETWORKS])
    def test_networks(self, network: str, sentence: str) -> None:
        write(f'\n[[rule]]\nallow = ["send"]\ndestination = "a"\naddresses = ["192.0.2.7", "{network}"]\n')
        assert refused().startswith(f'gateway.toml line 5: rule for "a": addresses: "{network}" {sentence}')

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("[rule]\nallow = ['send']", "each rule is a table in double brackets: write [[rule]]"),
            ("rule = 1", "rules are [[rule]] tables of the settings file, not 1"),
            ("rule = [1]", "rule 1: a rule is a table, not 1"),
            ("destination = 'a'", "destination belongs in a [[rule]]: it is a key of rules and no"),
            ("[[rules]]\nallow = []", "there is no setting 'rules'; did you mean [[rule]]?"),
        ],
    )
    def test_what_is_no_table(self, text: str, sentence: str) -> None:
        write(text)
        assert refused().startswith(f"gateway.toml line 1: {sentence}")

    def test_arguments_have_no_line(self) -> None:
        (table,) = load(rule=[{"destination": "a", "allow": ["send"]}]).rule
        assert (table.patterns, table.line) == (("/queue/a",), 0)
        assert load(rule=(table,)).rule == (table,)
        assert refused(rule=[{"destination": "a"}]).startswith('rule 1 for "a": a rule needs either allow or deny')


def test_the_page_says_what_the_code_does() -> None:
    """docs/rules.md: keys, kinds of names, examples and sentences."""
    assert [key for key in KEYS if f"\n* `{key}`: " not in PAGE] == []
    assert [kind for kind in KINDS if f"\n* `{kind}" not in PAGE] == []
    for example in EXAMPLES:
        write(example)
        assert len(load().rule) == example.count("[[rule]]") > 0
    write(EXAMPLES[0].replace('"subscribe"', '"read"', 1))
    assert f"\n    {refused()}\n" in PAGE
