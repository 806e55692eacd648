"""Policies in the file: the lines that refusals name, the commands that read it, the page that explains it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.model.policy import DEFAULT
from gateway.cli import main
from gateway.config.policies import FOR_QUEUES, FOR_TOPICS, KEY_RULES, KINDS
from gateway.config.settings import load

from .test_policies import SECONDS, refused, write

PAGE = (Path(__file__).parent.parent.parent / "docs" / "policies.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


BAD = 'match = "/queue/a"\nbackoff = -1'
LAYOUTS = [
    ("comments", f"# [[policy]]\n  # [[policy]]\n[[policy]] # [[policy]]\n# backoff = -1\n{BAD}", 6),
    ("quoted", "[[\"policy\"]]\n\"match\" = '/queue/a'\n\n  'backoff'  =  -1", 4),
    ("escaped", '[["p\\u006flicy"]]\nmatch = "/queue/a"\n"b\\u0061ckoff" = -1', 3),
    ("in a basic string", f'server_name = "[[policy]]#\\""\n[[policy]]\n{BAD}', 4),
    ("in a long basic string", f'users_file = """\n[[policy]]\n{BAD}\n\\"""\n"" \'\'\' """\n[[policy]]\n{BAD}', 9),
    ("in a long literal string", f"users_file = '''\n[[policy]]\n\\'' \"\"\"\n{BAD}'''\n[[policy]]\n{BAD}", 8),
    ("in an array", f'admin_groups = [ # ]\n  "[[policy]]", # ["\n  "]",\n]\n[[policy]]\n{BAD}', 7),
    ("the second of three", f"[[policy]]\nmatch='/queue/b'\nbackoff=1\n[[policy]]\n{BAD}\n[[policy]]\nbackoff=-1", 6),
    ("dotted", '[[policy]]\nmatch = "/queue/a"\nbackoff . x = -1\nbackoff.y = 1', 3),
    ("a table within", '[[policy]]\nmatch = "/queue/a"\n[policy.backoff]\nmatch = 1', 3),
    ("an inline table", '[[policy]]\nmatch = "/queue/a"\ntime_to_live = 1\nbackoff = {a = "\\"}", b = [{}]}', 4),
    ("inline tables", '\npolicy = [\n  {match = "/queue/b"},\n  {match = "/queue/a", backoff = -1},\n]', 2),
]
HARMLESS = [
    "",
    "# [[policy]] \"\"\" '''",
    'max_attempts = 1 # "',
    "conflate_by = '''[[policy]]'''",
    "dead_letter = 'x#'",
    'time_to_live = 1 # """ [',
    'on_nack = """\\\n  drop\\\n  """',
]


class TestLines:
    @pytest.mark.parametrize(("text", "line"), [row[1:] for row in LAYOUTS], ids=[row[0] for row in LAYOUTS])
    def test_layouts(self, text: str, line: int) -> None:
        Path("gateway.toml").write_bytes(text.encode())
        assert refused().startswith(f"gateway.toml line {line}: policy")

    @pytest.mark.long
    @given(data=st.data())
    def test_any_mixture(self, data: st.DataObject) -> None:
        """Whatever stands before and around, the wrong key is on the line that it was put on."""
        some = st.lists(st.sampled_from(HARMLESS), unique=True)
        before = data.draw(st.lists(some, max_size=4))
        around = data.draw(some)
        place = data.draw(st.integers(0, len(around)))
        lines = [line for block in before for line in ("[[policy]]", "match = '/queue/a'", *block)]
        lines += ["[[policy]]", "match = '/queue/b'", *around[:place]]
        write("\n".join([*lines, "backoff = -1", *around[place:]]))
        number = "\n".join(lines).count("\n") + 2
        assert refused() == f'gateway.toml line {number}: policy for "/queue/b": backoff {SECONDS} -1'


@pytest.mark.parametrize("command", ["check-config", "serve"])
def test_commands_refuse_a_wrong_one(command: str) -> None:
    write(f"[[policy]]\n{BAD}\n")
    result = CliRunner().invoke(main.main, [command])
    sentence = f'gateway.toml line 3: policy for "/queue/a": backoff {SECONDS} -1'
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", f"Error: {sentence}\n")


class TestPage:
    def test_every_key(self) -> None:
        said = {KEY_RULES["backoff"].words: "duration", KEY_RULES["max_bytes"].words: "bytes"}
        for key, rule in KEY_RULES.items():
            default = getattr(DEFAULT, key)
            shown = f"`{json.dumps(getattr(default, 'value', default))}`" if default not in (None, "") else "none"
            words = re.sub(r"^(?:a whole number,? )?(?:between (\S+) and )?", r"\1–", said.get(rule.words, rule.words))
            kinds = "queues" if key in FOR_QUEUES else "topics" if key in FOR_TOPICS else "both"
            section = PAGE.split(f"\n### For {kinds}\n")[1].split("\n##")[0]
            allowed = "" if default is False else f"; {words.lstrip('–')}"
            assert f"\n* `{key}` ({shown}{allowed}): " in section

    def test_examples_and_the_sentence(self) -> None:
        assert sorted(re.findall(r"^\* `(\w+)` \(", PAGE, re.MULTILINE)) == sorted(KEY_RULES)
        assert [kind for kind in KINDS if f"\n* `{kind}` for " not in PAGE] == []
        for example in EXAMPLES:
            write(example)
            assert len(load().policy) == example.count("[[policy]]") > 0
        write(EXAMPLES[0].replace("backoff = 1.0", "backoff = -1"))
        assert f"\n    {refused()}\n" in PAGE
