"""Work limits: how much is done in one turn, read at once, and kept in memory beside the account of messages.

No setting changes them.  What an operator sets is in `Quotas` and `Policy`.
"""

from dataclasses import dataclass

_KIB, _MIB = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """The amounts of one broker."""

    # queues

    # Bytes of messages that wait in memory before others are paged.
    in_memory_bytes: int = 16 * _MIB
    # The same where half of the memory is taken: a thousand deep queues must not hold up all publishers when there is
    # room on the disk.
    least_in_memory_bytes: int = 256 * _KIB
    # Fewer messages than this wait in memory, and costing less than so many bytes: read on.
    few_messages: int = 1_000
    few_bytes: int = _MIB
    # Paged messages of one read.
    page_messages: int = 1_000
    page_bytes: int = 2 * _MIB
    # Bytes that may be read in search of messages for a consumer that wants none of those in memory.
    search_bytes: int = 64 * _MIB
    # Rows that leave the store with one batch, 7 ms here, 10 ms in the thread that writes: a million at once would hold
    # up all receipts.
    purges_per_turn: int = 5_000
    # Entries of a page index that were read, or have gone, before it is cut.
    index_slack: int = 65_536
    # Messages that a selector is asked about in one turn: about 2 ms.
    selector_reads: int = 3_000
    # Messages that were unseen, and are shown in one turn; to subscribers and browsers, copies of them: about 2 ms.
    shown_per_turn: int = 500
    # Messages that a browser looks at in one turn: about 2 ms.
    browser_looks: int = 2_000
    # Consumer sets of a queue: each message is offered to one after the other, until a consumer with room wants it.
    consumer_sets: int = 1_000
    # Groups of a queue; and bytes, for those of all queues.
    groups: int = 65_536
    group_bytes: int = 64 * _MIB

    # topics

    # Messages of a durable subscription that has ended, thrown away in one turn: 1 ms.
    drops_per_turn: int = 500
    # Retained messages that are looked at in one turn: about 2 ms.
    retained_looks: int = 2_000
    # Bytes of a stream, where its policy names no bound but its age.
    stream_bytes: int = 16 * _MIB
    # The end of a stored stream that is in memory, too.
    tail_messages: int = 1_000
    tail_bytes: int = _MIB
    # Messages, or streams, that have gone, beside as many as are there, before arrays and lists are cut.
    stream_slack: int = 1_024
    # Messages of a stream that go in one turn: 5 ms.
    stream_drops: int = 1_000
    # Empty streams without a subscriber that are remembered.
    resting_streams: int = 10_000
    # What is read of streams at once, and given to a reader in one turn, at most.
    replay_messages: int = 200
    replay_bytes: int = 256 * _KIB
    # Streams that a reader looks at in one turn: about 2 ms.
    replay_looks: int = 500
    # Seconds between two looks at the position of an offset.
    offset_pause: float = 5.0

    # Users in one list of a topic's presence, and bytes of them.
    presence_users: int = 1_000
    presence_bytes: int = 256 * _KIB
    # Users of all topics that may come back: beyond that a lost connection is a leave at once.
    presence_away: int = 100_000

    # sessions

    # Destinations to which a user may send, and that are remembered: beyond that it is found out again.
    remembered_names: int = 1_000
    # Characters of ids and destinations of a session's subscriptions, which are in no account of memory.
    subscription_characters: int = 4 * _MIB
    # Sessions and subscriptions that are rechecked in one turn: 4 ms, or one session that has more.
    recheck_looks: int = 500

    # the scheduler, the store and the journal

    # What is due in one turn; the rest of it follows in the next.
    actions_per_turn: int = 500
    # Cancelled entries that are swept in one turn: 0.5 ms.
    sweeps_per_turn: int = 500
    # Bytes that may wait to be written before publishers are held back: a slow disk must not fill the memory.
    unwritten_bytes: int = 32 * _MIB
    # Rows that are read at once at the start of a process.
    recovery_rows: int = 1_000
    # Destinations that the event log remembers, of all that are read by patterns; and for each subscription to one.
    recorded_destinations: int = 4_096
    recorded_names: int = 1_024
    # Sessions and destinations that gauges look at in one turn: very many of them must hold up no client.
    gauge_looks: int = 500

    # operators

    # Rows of one read of a scan, and bytes.
    scan_rows: int = 200
    scan_bytes: int = 2 * _MIB
    # Bytes of the rows of a page of messages, of bodies and headers as they were sent.  JSON of them takes 1 to 3 ms,
    # without another task between; of a thousand rows of full size it would take 60.  A hundred whole bodies with
    # ordinary headers fit in.
    listed_bytes: int = 512 * _KIB
    # Refusals of an operation that are listed; further ones are counted only.
    listed_refusals: int = 1_000
    # Dead letters that a preview of a redrive looks at, and destinations that it lists.
    previewed_letters: int = 10_000
    listed_targets: int = 100


WORK_LIMITS = WorkLimits()
"""As they are, but for tests."""
