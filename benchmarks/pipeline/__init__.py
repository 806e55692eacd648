"""The benchmarks of the data pipeline: rows per second, and what a row costs.

`python -m benchmarks.pipeline` (or `make bench-pipeline`) measures each part in a process of its own, one after the
other, and prints one line per figure beside its goal.  The modules are

* `measured`   one figure: its goal, its rows, the CPU and the load of the machine
* `loop`       what a row of the journal costs the event loop
* `gateway`    the gateway with its journal, and without; the method is that of `benchmarks`
* `archive`    segments to Parquet
* `synthetic`  an archive of ten million rows, made of whole columns
* `jobs`       the metrics job that catches up, and the report of an hour
* `source`     `format("stomp")` reading from a synthetic server (`flood`) and from the gateway
* `suite`      how long the tests take that start Spark
"""
