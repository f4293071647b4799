// Server-sent events through fetch, because EventSource cannot carry a token. Reconnects for ever.

import { Refusal, headers, refusal } from "./service.js";

const WAITS_MS = [300, 700, 1500, 3000, 5000];
const SILENCE_MS = 12000; // four statuses a second are due, but a runner may take seconds to answer

/**
 * Follow `path` until the returned function is called. `hear(value)` gets each event. `tell(state, detail)` gets the
 * state of the connection: live, lost (detail: milliseconds to the next attempt), refused.
 */
export function follow(path, hear, tell) {
  const stop = new AbortController();
  run(path, hear, tell, stop.signal);
  return () => stop.abort();
}

async function run(path, hear, tell, stopped) {
  let failures = 0;
  while (!stopped.aborted) {
    try {
      await listen(path, stopped, (value) => {
        if (stopped.aborted) return;
        failures = 0;
        tell("live");
        hear(value);
      });
    } catch (error) {
      if (stopped.aborted) return;
      if (error instanceof Refusal && [401, 403, 404].includes(error.status)) return tell("refused", error);
    }
    if (stopped.aborted) return;
    const wait = WAITS_MS[Math.min(failures++, WAITS_MS.length - 1)];
    tell("lost", wait);
    await new Promise((done) => setTimeout(done, wait));
  }
}

async function listen(path, stopped, hear) {
  const silent = new AbortController();
  let watchdog = setTimeout(() => silent.abort(), SILENCE_MS);
  try {
    const signal = AbortSignal.any([stopped, silent.signal]);
    const response = await fetch(path, { headers: headers(), signal, cache: "no-store" });
    if (!response.ok) throw await refusal(response);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(watchdog);
      watchdog = setTimeout(() => silent.abort(), SILENCE_MS);
      const events = (rest + value).split(/\r?\n\r?\n/);
      rest = events.pop();
      for (const event of events) if (event.startsWith("data:")) hear(JSON.parse(event.slice(5)));
    }
  } finally {
    clearTimeout(watchdog);
  }
}
