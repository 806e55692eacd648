"""Replay: messages of the archive are sent again.

`run` plans and sends, `plan` has options and plan, `messages` turns rows into messages, `record` keeps the progress.
"""
