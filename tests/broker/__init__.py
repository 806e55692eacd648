"""The tests of gateway/broker: clients without sockets (`client.py`), one module per module of the broker, a model."""
