"""What can go wrong, by whom it concerns; the command line makes an exit status of each.  `str()` is one sentence."""

from __future__ import annotations


class PipelineFailure(Exception):
    """What the command line turns into its sentence and its status."""

    status = 1


class JobFailure(PipelineFailure):
    """A job could not do its work."""


class UsageFailure(PipelineFailure):
    """The command was not meant like that."""

    status = 2


class EnvironmentFailure(PipelineFailure):
    """Something is missing on this machine: Java, a package, a folder that can be written."""

    status = 3
