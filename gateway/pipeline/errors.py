"""Errors of the pipeline; the command line makes an exit status of each.  `str()` is one sentence."""

from __future__ import annotations


class PipelineFailure(Exception):
    """An error that ends a command with its sentence and its status."""

    status = 1


class JobFailure(PipelineFailure):
    """A job could not do its work."""


class UsageFailure(PipelineFailure):
    """The command cannot be carried out as it was given."""

    status = 2


class EnvironmentFailure(PipelineFailure):
    """Something is missing on this machine: Java, a package, a folder that can be written."""

    status = 3
