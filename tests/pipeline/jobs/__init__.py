"""The tests of the jobs: `story.py` makes up what they read, and `reference.py` counts it without Spark."""
