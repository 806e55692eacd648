"""What selectors are for which headers, at the edges; `test_reference` shows logic, precedence and arithmetic.

A selector takes a message when it is true, not when it is false or unknown; `outcome` looks at its negation, too.
"""

from __future__ import annotations

from gateway.broker.selectors import parse

Message = dict[str, str]


def outcome(selector: str, message: Message) -> bool | None:
    taken, denied = parse(selector)(message), parse(f"NOT ({selector})")(message)
    assert denied is (None if taken is None else not taken)
    return taken


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
        *(("a > 5", "10", True), ("5 < a", "10", True), ("5 >= a", "5", True), ("a = 1", "1.0", True)),
        *(("a = 9007199254740993", "9007199254740993", True), ("a = 9007199254740993", "9007199254740992", False)),
        *(("a = 1", "one", False), ("a <> 1", "one", True), ("a = 10", "1_0", False), ("a > 1", "1e300", False)),
        # A header and a string.
        *(("a = 'red'", "Red", False), ("'red' = a", "red", True), ("a = '1'", "1.0", False), ("a > '10'", "9", True)),
        # A header and a truth value.
        *(("a = TRUE", "True", True), ("TRUE = a", "true", True), ("a = TRUE", "1", False), ("a <> TRUE", "1", True)),
        *(("a", "TRUE", True), ("a", "yes", False), ("NOT a", "yes", True), ("(1 = 2) = a", "false", True)),
        # Membership.
        *(("a IN ('x', 5)", "5.0", True), ("a IN ('5')", "5.0", False), ("a IN (-5, +1.5)", "1.5", True)),
        *(("a NOT IN (1)", "one", True), ("a NOT IN (1)", "1.0", False), ("(a) IN ('x')", "x", True)),
        # Between.
        *(
            ("a BETWEEN 'b' AND 'd'", "c", True),
            ("a NOT BETWEEN 1 AND 2", "x", False),
            ("1 BETWEEN a AND 3", "0", True),
        ),
        *(("a BETWEEN missing AND 3", "5", False), ("a NOT BETWEEN missing AND 3", "5", True)),
        # Patterns.
        *(("a LIKE '1%'", "1.0", True), ("a LIKE '%x_z%'", "x" * 2000, None), ("a LIKE '%xyz%'", "x" * 2000, False)),
        # Constants.
        *(("'1' = 1", "", False), ("'1' <> 1", "", True), ("1 = 1.0", "", True), ("TRUE = 'true'", "", False)),
        *(("TRUE <> 1", "", True), ("TRUE", "", True), ("5L = 5", "", True), ("5d = 5", "", True)),
    ]:
        assert outcome(selector, {"a": value}) is expected


def test_unknown() -> None:
    for selector in [
        *("a", "a = 1", "1 = a", "a <> 'x'", "a <> FALSE", "a = a", "b = a", "a NOT BETWEEN 1 AND 2", "a NOT IN ('x')"),
        *("a IN (1)", "a NOT LIKE '%'", "1 - a = 1", "-a = 0", "a * 0 = 0", "a + 1 <> a + 2", "1 <> (a = 1)"),
        *("(a = 1) = (b = 1)", "(a = 1) = 'x'", "a = (b = 1)"),
        # No result of arithmetic.
        *("b / 0 <> 1", "b / (b - b) = 1", "0 / 0 = 0", "1 / 0.0 > 0", "c + 1 = 1", "-c = 1", "empty + 1 = 1"),
        *("d * d * d * d > 0", "-1e299 * 100 < 0", "1e299 / 1e-9 > 0", "nan + 1 = 1", "nan = -nan"),
    ]:
        message = {"b": "1", "c": "red", "d": "9" * 100, "empty": "", "nan": "nan"}
        assert outcome(selector, message) is None


def test_two_headers_are_compared_as_numbers_if_both_are() -> None:
    for a, b, expected in [("1", "1.0", True), ("1", "one", False), ("x", "x", True), ("x", "y", False)]:
        assert outcome("a = b", {"a": a, "b": b}) is expected
