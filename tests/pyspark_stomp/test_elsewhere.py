"""The same source and sink where Spark is not in this process: a standalone cluster, and Spark Connect."""

from __future__ import annotations

import json
import shlex
import socket
import sys
import venv
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from gateway.pipeline.spark import java
from gateway.pipeline.spark.submit import submission
from tests.gateway_process import HOST, free_ports
from tests.pipeline import rows
from tests.pyspark_stomp import job
from tests.pyspark_stomp.conftest import Broker
from tests.pyspark_stomp.kills import Life
from tests.pyspark_stomp.test_receiver import bodies

pytestmark = pytest.mark.spark
_DAEMON = {"SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "256m"}
_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def bare_python(folder: Path) -> str:
    """A Python that has what this one has, but not the project."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    here = Path(pyspark.__file__).parents[1]
    (packages / "others.pth").write_text(f"{here}\n")  # the .pth of the project, in there, does not count in here
    return str(folder / "bin" / "python")


@pytest.mark.long
@pytest.mark.timeout(300)
def test_spark_submit(broker: Broker, name: str, tmp_path: Path) -> None:
    """A master and a worker; executors get our packages as the zip of `gateway pipeline submit-command` alone."""
    broker.send(f"/queue/{name}", bodies(300))
    rows.write(tmp_path / "archive", [rows.accepted(number, destination="/queue/a") for number in range(10)])
    port, master_page, worker_port, worker_page = free_ports(4)
    master = f"spark://{HOST}:{port}"
    run = ["run", "metrics", "--archive", str(tmp_path / "archive"), "--tables", str(tmp_path / "tables"), "--once"]
    made = submission(
        run,
        master=master,
        name="tests",
        into=tmp_path / "submit",
        python=bare_python(tmp_path / "venv"),
        conf=dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), HOST)
        | dict.fromkeys(("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"), _JVM)
        | {"spark.ui.enabled": "false", "spark.executor.memory": "512m"},
    )
    told = {"remote": None, "where": broker.where, "queue": f"/queue/{name}", "folder": str(tmp_path), "pipeline": run}
    driver = tmp_path / "submit" / "driver.py"
    driver.write_text(Path(job.__file__).read_text())
    line = made.line.partition(shlex.quote(str(driver)))[0] + shlex.join([str(driver), json.dumps(told)])
    daemon = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    environment = _DAEMON | {"JAVA_HOME": str(java.find().home), "SPARK_DAEMON_JAVA_OPTS": _JVM, "PYTHONPATH": ""}
    with ExitStack() as stack:

        def start(what: str, *command: str) -> Life:
            (tmp_path / what).mkdir()
            return stack.enter_context(Life(tmp_path / what, *command, **environment))

        where = ["--host", HOST, "--port", str(port), "--webui-port", str(master_page)]
        leader = start("master", daemon, "org.apache.spark.deploy.master.Master", *where)
        leader.wait_for(lambda: is_open(port))
        where = ["--host", HOST, "--port", str(worker_port), "--webui-port", str(worker_page)]
        resources = ["--cores", "2", "--memory", "600m", "--work-dir", str(tmp_path / "work")]
        start("worker", daemon, "org.apache.spark.deploy.worker.Worker", *where, *resources, master)
        submitted = start("driver", "sh", "-c", f"exec env {line}")
        assert submitted.wait() == 0, submitted.said
    assert "\n300\n" in "\n" + submitted.said
    assert broker.waiting(f"/queue/{name}") == []
    assert sorted(broker.waiting(f"/queue/{name}.out")) == sorted(bodies(300))
    assert list((tmp_path / "tables" / "metrics").glob("*.parquet"))


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


@pytest.mark.long
@pytest.mark.timeout(200)
def test_spark_connect(spark: SparkSession, broker: Broker, name: str, tmp_path: Path) -> None:
    """The JVM of the tests serves; a client without a JVM does all the rest."""
    broker.send(f"/queue/{name}", bodies(300))
    port = spark.sparkContext.getConf().get("spark.connect.grpc.binding.port")
    told = {"remote": f"sc://{HOST}:{port}", "where": broker.where, "queue": f"/queue/{name}", "folder": str(tmp_path)}
    told["pipeline"] = None
    jvm = spark._jvm
    assert jvm is not None
    service = jvm.org.apache.spark.sql.connect.service.SparkConnectService
    service.start(spark._jsc.sc())
    try:
        with Life(tmp_path, sys.executable, job.__file__, json.dumps(told)) as client:
            assert client.wait() == 0, client.said
    finally:
        service.stop(getattr(service, "stop$default$1")(), getattr(service, "stop$default$2")())
    assert client.said.splitlines()[-1] == "300"
    assert broker.waiting(f"/queue/{name}") == []
    assert sorted(broker.waiting(f"/queue/{name}.out")) == sorted(bodies(300))
