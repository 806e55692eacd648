"""`python -m gateway`, but a push looks at least twice a second for what is away."""

from gateway.cli.main import main
from gateway.push import consumer, endpoint

vars(consumer)["MAX_PAUSE"] = 0.5
vars(consumer)["IN_PROGRESS_EVERY"] = 0.4
vars(endpoint)["FIRST_PAUSE"] = 0.1
vars(endpoint)["LONGEST_PAUSE"] = 0.5

if __name__ == "__main__":
    main(prog_name="gateway")
