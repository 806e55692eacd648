"""Configuration: settings out of gateway.toml, the environment and the command line, checked as a whole."""
