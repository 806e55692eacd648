import sys
from pathlib import Path
from gateway.stores import SQLiteStore
from gateway.broker.batch import *
s = SQLiteStore.open(Path(sys.argv[1]))
list(s.load().rows)
b = Batch(1)
b.places[1] = Place(1, "queue", "/queue/a")
for n in range(1, 1+int(sys.argv[2])):
    b.rows[n] = Row(n, 1, n, 5, 400); b.contents[n] = Content({"destination": "/queue/a"}, bytes([n%256])*100)
s.write(b); s.close(clean=True)
