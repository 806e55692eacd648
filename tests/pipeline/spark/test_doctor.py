"""The doctor: each finding made up, and once everything for real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from gateway.pipeline.errors import EnvironmentFailure
from gateway.pipeline.spark import doctor, java
from gateway.pipeline.spark.doctor import Finding
from tests.pipeline.spark.fake_java import script

STEPS = ("session", "Python worker", "micro-batch")


@pytest.fixture(autouse=True)
def healthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine where all is well, and an empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("SPARK_HOME", "PYSPARK_PYTHON", "GATEWAY_JOURNAL", "GATEWAY_ARCHIVE", "GATEWAY_TABLES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(java, "find", lambda: java.Java(Path("/opt/java"), 21, "PATH"))


def probing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Have a program of sh in place of the process that tries Spark."""
    monkeypatch.setattr("sys.executable", str(script(tmp_path / "probe", text)))


def step(name: str, **words: str) -> str:
    return f"""echo '{json.dumps({"step": name, **words})}'"""


def found(name: str) -> Finding:
    """What is said of something, when Spark is not tried."""
    return next(each for each in chain(doctor._folders(), doctor._machine()) if each.what == name)


def failed(sentence: str) -> None:
    raise EnvironmentFailure(sentence)


def test_spark_is_not_tried_without_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda name: "1.0" if name == "pyarrow" else version(name))
    findings = list(doctor.examine())
    assert [each.what for each in findings if not each.ok] == ["pyarrow", *STEPS]
    assert [each.detail for each in findings[-3:]] == ["not tried"] * 3
    assert str(findings[-1]) == "FAIL micro-batch: not tried. Repair the above first"
    monkeypatch.setattr(java, "find", lambda: failed("no Java"))
    assert found("Java") == Finding("Java", "none", "no Java")


def test_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    cases: dict[tuple[str, str | None], str] = {
        **dict.fromkeys([("pandas", "2.2"), ("pyspark", "4.2.0.dev1"), ("pyarrow", "26.0.1")], ""),
        **dict.fromkeys([("pandas", "3.0.1"), ("pandas", "2.1.4")], "pip install 'pandas>=2.2,<3'"),
        **dict.fromkeys([("pyarrow", "9.0"), ("pyarrow", None)], "pip install 'pyarrow>=18'"),
    }
    for (name, told), remedy in cases.items():

        def answer(asked: str, told: str | None = told) -> str:
            if told is None:
                raise PackageNotFoundError(asked)
            return told

        monkeypatch.setattr(doctor, "version", answer)
        finding = next(each for each in (doctor._package(*row) for row in doctor.PACKAGES) if each.what == name)
        assert finding.detail == (told or "not installed")
        assert finding.remedy.partition(", or all at once")[0] == remedy


def test_another_spark_and_another_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-3.5.0.jar").touch()
    assert not found("SPARK_HOME").ok
    (tmp_path / "jars" / f"spark-core_2.13-{version('pyspark')}.jar").touch()
    assert found("SPARK_HOME").ok
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "python"))
    for text in ("echo 3.9", "exit 1"):
        script(tmp_path / "python", text)
        assert found("PYSPARK_PYTHON").remedy.startswith("Unset PYSPARK_PYTHON")
    script(tmp_path / "python", f"echo {sys.version_info[0]}.{sys.version_info[1]}")
    assert found("PYSPARK_PYTHON").ok


def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_ARCHIVE", str(tmp_path))
    monkeypatch.setenv("GATEWAY_TABLES", str(tmp_path / "a" / "b"))
    assert found("journal") == Finding("journal", "not set; commands that need it take --journal")
    assert found("archive") == Finding("archive", str(tmp_path))
    assert found("tables") == Finding("tables", f"{tmp_path / 'a' / 'b'}, which does not exist yet")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    monkeypatch.setenv("GATEWAY_TABLES", str(tmp_path / "file" / "b"))
    assert found("tables").remedy.startswith(f"No file can be made in {tmp_path / 'file'} (")
    (tmp_path / "gateway.toml").write_text("tabels = 1\n")
    assert "tabels" in found("settings").remedy
    assert found("cache").ok


def test_steps_of_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = step("session", detail="x")
    probing(tmp_path, monkeypatch, "\n".join([step(name, detail=f"of {name}") for name in STEPS]))
    assert list(doctor._spark(20)) == [Finding(name, f"of {name}") for name in STEPS]
    probing(tmp_path, monkeypatch, f"{session}; {step('Python worker', reason='it hurts')}; exit 1")
    [first, second, third] = doctor._spark(20)
    assert first.ok
    assert second == Finding("Python worker", "failed", "it hurts")
    assert (third.what, third.detail, third.ok) == ("micro-batch", "not tried", False)
    probing(tmp_path, monkeypatch, "echo before >&2; echo 'Killed: 9' >&2; exit 1")
    assert next(doctor._spark(20)).remedy == "it ended without a result: Killed: 9"
    probing(tmp_path, monkeypatch, f"{session}; exec sleep 60")
    assert [each.remedy for each in doctor._spark(0.2)][1] == "it did not end within 0.2 s"


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(300)
def test_everything_in_a_process(tmp_path: Path) -> None:
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    program = "from gateway.pipeline.command import pipeline; pipeline(['doctor', '--json'])"
    told = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    findings: dict[str, Any] = {each["what"]: each for each in map(json.loads, told.stdout.splitlines())}
    assert [each for each in findings.values() if not each["ok"]] == []
    assert (told.returncode, told.stderr) == (0, "")
    assert findings["micro-batch"]["detail"] == '3 messages through format("stomp")'
    # Nothing that the JVM says comes to the terminal; it is all in its log.
    assert "log4j" in (tmp_path / "cache" / "stomp-gateway" / "spark-gateway-pipeline-doctor.log").read_text()
