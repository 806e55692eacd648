"""The corpus of the fuzzers holds: what reads octets of strangers stands all that was ever worth keeping."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.codec import Decoder
from tests.fuzz import CORPUS, TARGETS, __main__, seeds, target


def test_every_target_has_seeds() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} == set(TARGETS)
    assert all(seeds(name) for name in TARGETS)


@pytest.mark.parametrize("name", TARGETS)
def test_corpus(name: str) -> None:
    for path in seeds(name):
        target(name)(path.read_bytes())


class TestTargetsFind:
    """A target that cannot fail finds nothing."""

    def test_a_decoder_that_loses_an_octet_at_a_cut(self, monkeypatch: pytest.MonkeyPatch) -> None:
        feed = Decoder.feed
        monkeypatch.setattr(Decoder, "feed", lambda self, data: feed(self, data[:-1] if len(data) == 3 else data))
        with pytest.raises(AssertionError):
            target("decoder")(b"\x03\x02" + b"SEND\ndestination:/queue/a\n\nbody\0")


class TestCommand:
    def test_what_was_found_is_run_again(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "found").write_bytes(b"\x03\x02SEND\n\n\0")
        assert __main__.main(["--again", str(tmp_path / "found"), "decoder"]) == 0
        assert "breaks decoder no more" in capsys.readouterr().out
