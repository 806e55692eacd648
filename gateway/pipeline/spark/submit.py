"""A job on a cluster: the line for spark-submit, and the two files that it names.

    stomp_gateway-VERSION.zip   our packages, for the executors and for the processes that plan a source on the driver
    driver.py                   the program of spark-submit: `gateway pipeline`

A zip and no wheel: of `--py-files` Spark puts only .zip, .egg and .jar on the path of its workers.  The driver runs
where spark-submit does (`--deploy-mode client`), in this same Python: it writes the tables and the checkpoints, which
need no shared disk.  The executors read the archive, so all of them must see it.
"""

import shlex
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import gateway
from gateway.files import SHOWN, store, writing

from ..errors import EnvironmentFailure
from . import java, session

_PACKAGES = ("gateway", "pyspark_stomp")
_DRIVER = '''"""The program of spark-submit: `gateway pipeline`, with the arguments behind this file's name."""

from gateway.pipeline.command import pipeline

pipeline(prog_name="gateway pipeline")
'''
_DATE = (1980, 1, 1, 0, 0, 0)  # the date of every member, so that the same packages always make the same bytes


@dataclass(frozen=True, slots=True)
class Submission:
    """A line for a shell, and sentences on what it needs."""

    line: str
    needs: tuple[str, ...]


def submission(
    arguments: Sequence[str],
    *,
    master: str,
    name: str,
    into: Path,
    python: str = sys.executable,
    publishes: bool = False,
    conf: Mapping[str, str] | None = None,
) -> Submission:
    """Write the files into a folder, and make the line that runs them.

    `name` is Spark's for the application, `python` the interpreter of the workers; `publishes`: they send to a broker.
    `EnvironmentFailure`: there is no Java, or the files cannot be written.
    """
    into = into.resolve()
    packages = into / f"stomp_gateway-{gateway.__version__}.zip"
    driver = into / "driver.py"
    try:
        into.mkdir(parents=True, exist_ok=True)
        _pack(packages)
        store(driver, _DRIVER.encode(), SHOWN)
    except OSError as error:
        raise EnvironmentFailure(f"{into} cannot be written: {error.strerror}") from None
    settings = {
        "spark.pyspark.python": python,
        "spark.pyspark.driver.python": sys.executable,
        "spark.executorEnv.PYTHONPATH": str(packages),
        "spark.log.level": "ERROR",
        **session.QUIET,
        **(conf or {}),
    }
    home = _spark_home()
    words = [str(home / "bin" / "spark-submit"), "--master", master, "--deploy-mode", "client", "--name", name]
    words += ["--py-files", str(packages)]
    for key, value in settings.items():
        words += ["--conf", f"{key}={value}"]
    words += [str(driver), *arguments]
    # These stand in front of the line, so that no other Spark or Java of this user is taken.  Spark finds
    # `format("stomp")` with the Python of the environment, and not with the one that its settings name.
    variables = {"JAVA_HOME": java.find().home, "SPARK_HOME": home, "PYSPARK_DRIVER_PYTHON": sys.executable}
    before = [f"{name}={shlex.quote(str(value))}" for name, value in variables.items()]
    return Submission(" ".join([*before, shlex.join(words)]), tuple(_needs(python, publishes)))


def _needs(python: str, publishes: bool) -> list[str]:
    needs = [
        f"The master and its workers run Spark {version('pyspark')} on Java {java.LEAST} or newer.",
        "Every worker sees the archive at the same path or URI; the tables are on the machine that runs this line.",
        "It runs in the foreground; the driver is this machine, which the workers must be able to reach.",
    ]
    if publishes:
        needs.append(
            f"To publish, every worker has {python}, Python {sys.version_info[0]}.{sys.version_info[1]} with pyarrow "
            "and pandas, and, if the broker wants a passcode, GATEWAY_PIPELINE_PASSCODE in its environment."
        )
    return needs


def _spark_home() -> Path:
    """The Spark of this Python's pyspark.  `EnvironmentFailure`: pyspark is missing."""
    session.check_packages(("pyspark",))
    import pyspark

    return Path(pyspark.__file__).parent


def _pack(target: Path) -> None:
    """Write our packages as a zip.  `OSError`: it cannot be written."""
    with writing(target, SHOWN) as raw, zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as file:
        for name in _PACKAGES:
            root = Path(gateway.__path__[0]).parent / name
            for path in sorted(root.rglob("*.py")):
                member = zipfile.ZipInfo(f"{name}/{path.relative_to(root).as_posix()}", _DATE)
                member.compress_type = zipfile.ZIP_DEFLATED
                file.writestr(member, path.read_bytes())
