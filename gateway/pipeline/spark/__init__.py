"""Spark on this machine: its Java, its JVM, its session, and the archive as a DataFrame."""
