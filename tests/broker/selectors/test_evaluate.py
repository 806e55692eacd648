"""What selectors are for which headers: logic, comparison, arithmetic.

A selector takes a message when it is true, not when it is false or unknown; `outcome` looks at its negation, too.
"""

from __future__ import annotations

from gateway.broker.selectors import parse

Message = dict[str, str]

MESSAGE = {"t": "true", "f": "false", "one": "1", "two": "2", "red": "red", "empty": "", "1": "5"}
WORDS = {True: "t = TRUE", False: "f = TRUE", None: "missing = TRUE"}


def outcome(selector: str, message: Message) -> bool | None:
    taken, denied = parse(selector)(message), parse(f"NOT ({selector})")(message)
    assert denied is (None if taken is None else not taken)
    return taken


# JMS 1.1, tables 3-4 to 3-6.
TABLE = [
    # left, right, AND, OR
    (True, True, True, True),
    (True, False, False, True),
    (True, None, None, True),
    (False, True, False, True),
    (False, False, False, False),
    (False, None, False, None),
    (None, True, None, True),
    (None, False, False, None),
    (None, None, None, None),
]


def test_and_and_or() -> None:
    for left, right, both, either in TABLE:
        assert outcome(f"{WORDS[left]} AND {WORDS[right]}", MESSAGE) is both
        assert outcome(f"{WORDS[left]} OR {WORDS[right]}", MESSAGE) is either


def test_not() -> None:
    for value, opposite in [(True, False), (False, True), (None, None)]:
        assert outcome(WORDS[value], MESSAGE) is value
        assert outcome(f"NOT {WORDS[value]}", MESSAGE) is opposite
        assert outcome(f"NOT NOT {WORDS[value]}", MESSAGE) is value


def test_precedence() -> None:
    for selector, expected in [
        ("TRUE OR TRUE AND FALSE", True),
        ("(TRUE OR TRUE) AND FALSE", False),
        ("FALSE AND FALSE OR TRUE", True),
        ("NOT FALSE AND FALSE", False),
        ("NOT (FALSE AND FALSE)", True),
        ("NOT one = 2", True),
        ("NOT one = 1 OR two = 2", True),
        ("NOT TRUE OR TRUE", True),
        ("missing = 1 OR missing = 2 OR one = 1", True),
        ("missing = 1 AND two = 2 AND one = 2", False),
        ("1 + 2 * 3 = 7", True),
        ("(1 + 2) * 3 = 9", True),
        ("10 - 2 - 3 = 5", True),
        ("10 - (2 - 3) = 11", True),
        ("24 / 4 / 2 = 3", True),
        ("2 * 3 - 4 * 5 + 6 / 2 = -11", True),
        ("-one + two = 1", True),
        ("-(one + two) = -3", True),
        ("- -one = 1 AND --one = 1 AND ---one = -1 AND +-+one = -1", True),
        ("one + one = two", True),
        ("1 = two - one", True),
        ("one BETWEEN 0 AND 1 AND two = 2", True),
        ("NOT one BETWEEN 2 AND 3", True),
    ]:
        assert outcome(selector, MESSAGE) is expected


# Section 3.8.1.1, example by example.
def test_the_examples_of_jms() -> None:
    for selector, taken, not_taken in [
        (
            "JMSType = 'car' AND color = 'blue' AND weight > 2500",
            [{"type": "car", "color": "blue", "weight": "2501"}],
            [
                {"type": "car", "color": "blue", "weight": "2500"},
                {"type": "van", "color": "blue", "weight": "3000"},
                {},
            ],
        ),
        ("age BETWEEN 15 and 19", [{"age": "15"}, {"age": "17.5"}, {"age": "19"}], [{"age": "14"}, {"age": "20"}, {}]),
        ("age >= 15 AND age <= 19", [{"age": "15"}, {"age": "19"}], [{"age": "14"}, {"age": "20"}, {}]),
        ("age NOT BETWEEN 15 and 19", [{"age": "14"}, {"age": "20"}], [{"age": "15"}, {"age": "19"}, {}]),
        ("age < 15 OR age > 19", [{"age": "14"}, {"age": "20"}], [{"age": "15"}, {"age": "19"}, {}]),
        ("Country IN (' UK', 'US', 'France')", [{"Country": "US"}, {"Country": " UK"}], [{"Country": "Peru"}, {}]),
        ("Country NOT IN (' UK', 'US', 'France')", [{"Country": "Peru"}], [{"Country": "US"}, {}]),
        ("phone LIKE '12%3'", [{"phone": "123"}, {"phone": "12993"}], [{"phone": "1234"}, {}]),
        ("word LIKE 'l_se'", [{"word": "lose"}], [{"word": "loose"}, {}]),
        ("underscored LIKE '\\_%' ESCAPE '\\'", [{"underscored": "_foo"}], [{"underscored": "bar"}, {}]),
        ("phone NOT LIKE '12%3'", [{"phone": "1234"}], [{"phone": "123"}, {"phone": "12993"}, {}]),
        ("prop_name IS NULL", [{}], [{"prop_name": ""}]),
        ("prop_name IS NOT NULL", [{"prop_name": ""}], [{}]),
        ("name = 'literal''s'", [{"name": "literal's"}], [{"name": "literals"}]),
        ("n = 57 OR n = -957 OR n = +62", [{"n": "57"}, {"n": "-957"}, {"n": "62"}], [{"n": "957"}, {}]),
        ("n = 7E3 OR n = -57.9E2", [{"n": "7000"}, {"n": "-5790"}], [{"n": "7"}]),
        ("n = 7. OR n = -95.7 OR n = +6.2", [{"n": "7"}, {"n": "-95.70"}, {"n": "6.2"}], [{"n": "95.7"}]),
        ("flag = TRUE", [{"flag": "true"}], [{"flag": "false"}, {}]),
        ("JMSPriority > 6", [{"priority": "7"}], [{"priority": "6"}, {}]),
        ("JMSDeliveryMode = 'PERSISTENT'", [{"persistent": "true"}], [{}]),
    ]:
        assert [parse(selector)(each) for each in taken] == [True] * len(taken)
        assert True not in [parse(selector)(each) for each in not_taken]


def test_one_header() -> None:
    for selector, value, expected in [
        # A header and a number.
        *(("a > 5", "6", True), ("a > 5", "5", False), ("a > 5", "10", True), ("5 < a", "10", True)),
        *(("a = 1", "1.0", True), ("a = 1", "1e0", True), ("a = 1.0", "1", True), ("a = 1", "01", True)),
        *(("5 >= a", "5", True), ("5 > a", "5", False), ("5 <= a", "5", True), ("5 = a", "5", True)),
        *(("5 <> a", "5", False), ("5 != a", "6", True)),
        *(("a = 9007199254740993", "9007199254740993", True), ("a = 9007199254740993", "9007199254740992", False)),
        *(("a = 1", "one", False), ("a <> 1", "one", True), ("a < 1", "one", False), ("a >= 1", "one", False)),
        *(("a = 1", "", False), ("a = 10", "1_0", False), ("a = 1", " 1", False), ("a <> 0", "nan", True)),
        *(("a > 1", "1e300", False), ("a > 1", "inf", False), ("a = 1", "9" * 5000, False)),
        # A header and a string.
        *(("a = 'red'", "red", True), ("a = 'red'", "Red", False), ("'red' = a", "red", True), ("a <> 'b'", "c", True)),
        *(("a = '1'", "1", True), ("a = '1'", "1.0", False), ("a = ''", "", True)),
        *(("a > '10'", "9", True), ("a < 'b'", "a", True), ("'b' > a", "a", True), ("a >= '2024-05'", "2024-06", True)),
        # A header and a truth value.
        *(("a = TRUE", "True", True), ("a = TRUE", "false", False), ("a <> true", "FALSE", True)),
        *(("a = FALSE", "FALSE", True), ("TRUE = a", "true", True), ("a = TRUE", "1", False), ("a <> TRUE", "1", True)),
        *(
            ("a", "TRUE", True),
            ("a", "false", False),
            ("a", "yes", False),
            ("NOT a", "yes", True),
            ("(a)", "true", True),
        ),
        *(("a AND a", "true", True), ("a OR FALSE", "true", True), ("NOT a", "false", True)),
        *(("a = (1 = 1)", "true", True), ("(1 = 2) = a", "false", True), ("(1 = 1) <> a", "false", True)),
        # Membership.
        *(("a IN ('x', 5)", "5.0", True), ("a IN ('x', 5)", "x", True), ("a IN ('x', 5)", "y", False)),
        *(("a IN ('5')", "5.0", False), ("a IN (-5, +1.5)", "-5", True), ("a IN (-5, +1.5)", "1.5", True)),
        *(("a NOT IN (1)", "one", True), ("a NOT IN (1)", "1.0", False), ("(a) IN ('x')", "x", True)),
        # Between.
        *(("a BETWEEN 'b' AND 'd'", "c", True), ("a NOT BETWEEN 'b' AND 'd'", "c", False)),
        *(("a BETWEEN 1 AND 2", "x", False), ("a NOT BETWEEN 1 AND 2", "x", False), ("a BETWEEN 2 AND 1", "1", False)),
        *(("1 BETWEEN a AND 3", "0", True), ("a BETWEEN a AND a", "x", True), ("a * 2 BETWEEN a + 1 AND 9", "2", True)),
        *(("a BETWEEN missing AND 3", "5", False), ("a BETWEEN missing AND 3", "1", None)),
        *(("a NOT BETWEEN missing AND 3", "5", True), ("a NOT BETWEEN missing AND 3", "1", None)),
        # Patterns.
        *(("a LIKE '1%'", "1.0", True), ("a NOT LIKE '1%'", "2", True), ("a LIKE 'it''s %'", "it's a", True)),
        *(("a LIKE '%x_z%'", "x" * 2000, None), ("a LIKE '%xyz%'", "x" * 2000, False)),
        # Constants.
        *(("'1' = 1", "", False), ("'1' <> 1", "", True), ("'1' < 1", "", False), ("1 = '1'", "", False)),
        *(("1 = 1.0", "", True), ("'a' = 'a'", "", True), ("'a' < 'b'", "", True), ("TRUE = TRUE", "", True)),
        *(("TRUE = 'true'", "", False), ("TRUE <> 1", "", True), ("TRUE", "", True), ("FALSE", "", False)),
        *(("5L = 5", "", True), ("5d = 5", "", True)),
    ]:
        assert outcome(selector, {"a": value}) is expected


def test_two_headers_are_numbers_when_both_read_as_numbers() -> None:
    for one, other, less, equal in [
        ("9", "10", True, False),
        ("1.0", "1", False, True),
        ("x9", "x10", False, False),
        ("9", "x", True, False),
        ("red", "red", False, True),
        ("true", "TRUE", False, False),
        ("", "", False, True),
    ]:
        message = {"a": one, "b": other}
        assert outcome("a < b", message) is less
        assert outcome("b > a", message) is less
        assert outcome("a = b", message) is equal
        assert outcome("a <> b", message) is not equal
        assert outcome("a <= b", message) is (less or equal)


def test_unknown() -> None:
    for selector in [
        *(
            "a",
            "a = 1",
            "1 = a",
            "a <> 1",
            "a < 1",
            "a = 'x'",
            "a <> 'x'",
            "'x' = a",
            "a = TRUE",
            "a <> FALSE",
            "a = a",
        ),
        *("a = b", "b = a", "a <> b", "a BETWEEN 1 AND 2", "a NOT BETWEEN 1 AND 2", "b BETWEEN 1 AND a"),
        *("a IN ('x')", "a NOT IN ('x')", "a IN (1)", "a LIKE '%'", "a NOT LIKE '%'"),
        *("a + 1 = 1", "1 - a = 1", "-a = 0", "a * 0 = 0", "b + a = 1", "b = a + 1", "a + 1 = TRUE", "a + 1 <> a + 2"),
        *("(a = 1) = TRUE", "(a = 1) = (b = 1)", "(a = 1) = 'x'", "(a = 1) = b", "a = (b = 1)", "1 <> (a = 1)"),
        # No result of arithmetic.
        *("b / 0 = 1", "b / 0 <> 1", "b / (b - b) = 1", "0 / 0 = 0", "1 / 0.0 > 0", "b / 0 / 2 = 1"),
        *(
            "c + 1 = 1",
            "-c = 1",
            "c * 0 = 0",
            "1 + c <> 5",
            "d * d * d * d > 0",
            "-1e299 * 100 < 0",
            "1e299 / 1e-9 > 0",
        ),
        *("empty + 1 = 1", "nan + 1 = 1", "nan = -nan"),
    ]:
        message = {"b": "1", "c": "red", "d": "9" * 100, "empty": "", "nan": "nan"}
        assert outcome(selector, message) is None


def test_arithmetic() -> None:
    for selector, expected in [
        ("5 / 2 = 2.5", True),
        ("4 / 2 = 2", True),
        ("-7 / 2 = -3.5", True),
        ("9007199254740993 + 0 = 9007199254740993", True),
        ("9007199254740992 + one = 9007199254740993", True),
        ("99999999999999999999 * 10 + 1 = 999999999999999999991", True),
        ("1.5 * two = 3", True),
        ("one + 0.5 > 1.4", True),
        ("- 5 < -4", True),
        ("0 - -5 = 5", True),
        ("10 / 4 * 2 = 1.25", False),
    ]:
        assert outcome(selector, MESSAGE) is expected


def test_a_selector_keeps_nothing_of_a_message() -> None:
    selector = parse("a = 1 OR b LIKE 'x%'")
    for _ in range(2):
        assert selector({"a": "1"}) is True
        assert selector({"a": "2", "b": "y"}) is False
        assert selector({"b": "xy"}) is True
        assert selector({}) is None
