"""The line for spark-submit and its files; that a cluster takes them is shown elsewhere."""

from __future__ import annotations

import shlex
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

import gateway
from gateway.pipeline.errors import EnvironmentFailure
from gateway.pipeline.spark import java
from gateway.pipeline.spark.submit import Submission, submission
from tests.pipeline.commands import python

NAME = f"stomp_gateway-{gateway.__version__}.zip"


@pytest.fixture(autouse=True)
def some_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find", lambda: java.Java(Path("/opt/my java"), 17, "PATH"))


def made(into: Path, publishes: bool = False) -> Submission:
    arguments = ["run", "all", "--archive", "s3a://b/a b", "--once"]
    conf = {"spark.executor.memory": "2g"}
    told = {"master": "spark://h:7077", "name": "my job", "python": "/p/python3"}
    return submission(arguments, **told, into=into, publishes=publishes, conf=conf)


def test_the_line(tmp_path: Path) -> None:
    into = tmp_path / "a folder"
    found = shlex.split(made(into).line)
    variables, command, words = found[:3], found[3], found[4:]
    home = Path(pyspark.__file__).parent
    assert variables == ["JAVA_HOME=/opt/my java", f"SPARK_HOME={home}", f"PYSPARK_DRIVER_PYTHON={sys.executable}"]
    assert command == str(home / "bin" / "spark-submit")
    files = ["--py-files", str(into / NAME)]
    assert words[:8] == ["--master", "spark://h:7077", "--deploy-mode", "client", "--name", "my job", *files]
    end = words.index(str(into / "driver.py"))
    assert words[8:end:2] == ["--conf"] * ((end - 8) // 2)
    assert words[9:end:2] == [
        "spark.pyspark.python=/p/python3",
        f"spark.pyspark.driver.python={sys.executable}",
        f"spark.executorEnv.PYTHONPATH={into / NAME}",
        "spark.log.level=ERROR",
        "spark.ui.enabled=false",
        "spark.ui.showConsoleProgress=false",
        "spark.executor.memory=2g",
    ]
    assert words[end + 1 :] == ["run", "all", "--archive", "s3a://b/a b", "--once"]
    quiet, publishing = made(tmp_path).needs, made(tmp_path, publishes=True).needs
    assert publishing[: len(quiet)] == quiet
    assert "pyarrow" not in " ".join(quiet)
    assert "/p/python3" in publishing[-1]
    assert "GATEWAY_PIPELINE_PASSCODE" in publishing[-1]
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFailure, match="cannot be written: Not a directory"):
        made(tmp_path / "file" / "folder")


def test_the_zip_holds_what_workers_import(tmp_path: Path) -> None:
    made(tmp_path)
    path = str(tmp_path / NAME)
    made(tmp_path / "again")
    assert (tmp_path / "again" / NAME).read_bytes() == (tmp_path / NAME).read_bytes()
    with zipfile.ZipFile(path) as file:
        assert not [name for name in file.namelist() if "__pycache__" in name]
    program = (
        "import gateway.codec, gateway.client, pyspark_stomp, gateway.pipeline.command as command, pkgutil\n"
        f"names = [each.name for each in pkgutil.iter_modules([{path!r}])]\n"
        "print(command.__file__, *names)"
    )
    # Behind PYTHONPATH comes the path of an editable installation.
    told = python(program, env={"PYTHONPATH": path}, cwd=tmp_path, check=True)
    assert told.stdout.split() == [f"{path}/gateway/pipeline/command.py", "gateway", "pyspark_stomp"]
