"""The codec: one module of tests per module, each with all of its lines and branches by these tests alone."""
