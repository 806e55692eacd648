"""Every attack once: what its row names stops it, memory stays under the mark, and the neighbour loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from .attacks import ATTACKS, Attack, settings_in
from .siege import MARK, besieged

# One for each thing that stops attacks: a timeout, limits before and after the login, costs of a frame, an origin.
SHORT = {
    "slow loris",
    "header flood before login",
    "endless body",
    "selector bomb",
    "subscription flood",
    "foreign page",
}

CASES = [
    pytest.param(
        attack,
        kind,
        id=f"{attack.name}-{kind}",
        marks=[] if attack.name in SHORT and kind == attack.kinds[0] else [pytest.mark.long],
    )
    for attack in ATTACKS
    for kind in attack.kinds
]


@pytest.mark.parametrize(("attack", "kind"), CASES)
def test_attack(attack: Attack, kind: str, tmp_path: Path) -> None:
    settings = settings_in(tmp_path, attack)
    with besieged(kind, settings, login=attack.login, passcode=attack.passcode) as siege:
        siege.neighbour.measured()
        said = trio.run(attack.run, siege)
        assert siege.neighbour.measured()["count"] > 0
        assert siege.peak < MARK
        log = siege.gateway.log
    for words in attack.names:
        assert words in said + log, f"nothing says {words!r}: {said!r}; {log}"
