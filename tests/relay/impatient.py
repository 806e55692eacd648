"""`python -m gateway`, but what is lost is looked for at least once a second.

A relay doubles its pause up to half a minute.  So a server that took ten seconds to start, on a busy machine, would be
found ten seconds later.
"""

from gateway.cli.main import main
from gateway.relay import link

vars(link)["_LONGEST_PAUSE"] = 1.0

if __name__ == "__main__":
    main(prog_name="gateway")
