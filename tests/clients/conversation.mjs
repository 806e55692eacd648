// The node programs' side of the talk with the test: see driver.py, which holds the other end.

import { createInterface } from "node:readline";

/**
 * Carry out the jobs that come on standard input until it ends.
 * @param run async (job, ask) => anything JSON can say; what it throws is the job's failure.
 */
export async function converse(run) {
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const say = (value) => process.stdout.write(JSON.stringify(value) + "\n");
  const ask = async (what) => {
    say({ ask: what });
    await lines.next();
  };
  for (;;) {
    const { value, done } = await lines.next();
    if (done) return;
    try {
      say({ passed: (await run(JSON.parse(value), ask)) ?? null });
    } catch (error) {
      say({ failed: String(error?.stack ?? error) });
    }
  }
}
