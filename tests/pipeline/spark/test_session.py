"""What is settled before Spark starts, and what is said when it does not.

A session itself is in test_doctor.py and test_command.py, as part of what users start.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gateway.pipeline.errors import EnvironmentFailure
from gateway.pipeline.spark import session
from tests.pipeline.commands import python
from tests.pipeline.spark.fake_java import environment


def test_local_masters_have_a_part_for_each_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    counts = {"local": 2, "local[1]": 2, "local[4]": 4, "local[8,3]": 8, "local[*]": 6, "local-cluster[1,1,1024]": 2}
    assert {master: session.partitions(master) for master in counts} == counts
    remote = ("spark://host:7077", "yarn", "k8s://https://host", "localhost")
    assert [each for each in (*counts, *remote) if session.is_local(each)] == [*counts]


def test_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    session.check_packages(("json", "os.path"))
    with pytest.raises(EnvironmentFailure, match=r"^none_such and none\.such are not installed"):
        session.check_packages(("none_such", "none.such"))
    monkeypatch.setitem(sys.modules, "colorsys", None)  # it was taken out
    with pytest.raises(EnvironmentFailure, match="colorsys is not installed"):
        session.check_packages(("colorsys",))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "grpc" else name)
    with pytest.raises(EnvironmentFailure, match=r"^grpc is not installed: pip install 'pyspark\[connect\]'$"):
        session.session(None, "sc://host", "test")


class TestJava:
    """A `java` that says its version and then fails: what a process makes of it, and what its environment is."""

    PROGRAM = (
        "import os, sys\n"
        "from gateway.pipeline.spark.session import session\n"
        "try:\n"
        "    session({master!r}, None, 'a test: 1', {{'spark.x': 'y'}})\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error, sep='\\n')\n"
    )

    def run(self, tmp_path: Path, body: str, master: str | None = None, **variables: str) -> list[str]:
        """What the program says, with a `java` that runs a line of sh."""
        told = python(self.PROGRAM.format(master=master), env=environment(tmp_path, body, **variables), check=True)
        assert told.stderr == ""
        return told.stdout.splitlines()

    def test_the_environment_and_the_settings(self, tmp_path: Path) -> None:
        # `spark-submit` asks a first Java for the command line of the second, and says how in its arguments.
        line = 'echo "Error: ${SPARK_LOCAL_IP:-none} $PYSPARK_PYTHON $*" >&2; exit 1'
        said = {}
        for master in ("local[3]", "spark://host:1"):
            (folder := tmp_path / master.partition(":")[0]).mkdir()
            _, sentence = self.run(folder, line, master, PYSPARK_PYTHON="/given")
            assert len(sentence) < 500
            log = folder / "cache/stomp-gateway/spark-a-test-1.log"
            assert sentence.startswith("Spark did not start: Error: ")
            assert sentence.endswith(f"; its log is {log}")
            said[master] = log.read_text()
        here, cluster = said["local[3]"], said["spark://host:1"]
        assert f"Error: 127.0.0.1 {sys.executable} " in here
        assert "Error: none /given " in cluster
        own = ["app.name=a test: 1", "sql.session.timeZone=UTC", "sql.shuffle.partitions=3", "x=y"]
        for setting in ("master=local[3]", *own):
            assert f"--conf spark.{setting}" in here
        assert "--conf spark.x=y" in cluster
        for_brief_runs = "--conf spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        assert (for_brief_runs in here, "extraJavaOptions" in cluster) == (True, False)

    def test_inside_spark_submit_nothing_is_set(self, tmp_path: Path) -> None:
        """The JVM runs already: no search for Java, no log.  Here Java is missing, which is said."""
        inside = {"PYSPARK_GATEWAY_PORT": "1", "PYSPARK_GATEWAY_SECRET": "s"}
        kind, sentence = self.run(tmp_path, f"touch {tmp_path / 'asked'}; exit 1", **inside)
        assert kind == "EnvironmentFailure"
        assert "its log is" not in sentence
        assert not (tmp_path / "asked").exists()
        assert not (tmp_path / "cache").exists()
