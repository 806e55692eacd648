"""Several gateways as one: every commit goes into a replicated log, and another node takes over where one is lost.

records    the binary form of a commit
log        the port of the log, and how one primary writes to it
replica    the file into which each node applies the log
store      the store of the primary: log first, then file
"""
