"""Replay: messages of the archive are sent again.

`run` plans and sends, `plan` has options, plan and record, `messages` turns rows into messages.
"""
