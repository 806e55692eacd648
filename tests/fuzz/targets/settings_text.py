"""The settings file: any text is taken, or refused in one sentence that names where it is wrong."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from gateway.config import settings
from gateway.config.settings import SettingsError
from tests.fuzz.targets import check_refusal, in_memory


def run(octets: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".toml", dir=in_memory()) as file:
        Path(file.name).write_bytes(octets)
        before = os.environ.get("GATEWAY_CONFIG")
        os.environ["GATEWAY_CONFIG"] = file.name
        try:
            settings.load()
        except SettingsError as refusal:
            check_refusal(refusal)
        finally:
            if before is None:
                del os.environ["GATEWAY_CONFIG"]
            else:
                os.environ["GATEWAY_CONFIG"] = before
