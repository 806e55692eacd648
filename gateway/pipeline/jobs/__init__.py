"""The jobs, by name; `job` defines what a job is."""

from . import consumers, deadletters, metrics, sessions
from .job import AlarmLimits, Job

JOBS: dict[str, Job] = {each.name: each for each in (metrics.JOB, consumers.JOB, sessions.JOB, deadletters.JOB)}

__all__ = ["JOBS", "AlarmLimits", "Job"]
