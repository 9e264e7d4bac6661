// A world in which a client of Sources/CWebClient runs alone: a case moves its clock, chooses its chance, and answers
// its requests.

const encoder = new TextEncoder();
const channel = new MessageChannel();
const waiting = [];
channel.port1.onmessage = () => waiting.shift()();
const turn = () => new Promise((resolve) => {
  waiting.push(resolve);
  channel.port2.postMessage(0);
});

export const check = (holds, what) => { if (!holds) throw new Error(what); };
export const same = (found, wanted, what = "") => {
  const [is, should] = [JSON.stringify(found), JSON.stringify(wanted)];
  check(is === should, `${what} ${is} is not ${should}`);
};

/** What `fetch` gives: as much of a Response as the client reads, in the same turn. */
export const answer = (text, status = 200, headers = {}, body = undefined) => (
  {status, headers: new Headers(headers), text: async () => text, body});
export const json = (object, status = 200, headers = {}) => answer(
  JSON.stringify(object), status, {"Content-Type": "application/json", ...headers});
export const page = () => answer("<html>Sign in to the hotel", 200, {"Content-Type": "text/html"});

/** A body whose pieces come one by one. */
class Pieces {
  #pieces = [];
  #readers = [];
  getReader() {
    return {read: () => new Promise((resolve, reject) => {
      this.#readers.push({resolve, reject});
      this.#pass();
    })};
  }
  put(piece) {
    this.#pieces.push(piece);
    this.#pass();
  }
  #pass() {
    while (this.#readers.length && this.#pieces.length) {
      const piece = this.#pieces.shift(), {resolve, reject} = this.#readers.shift();
      if (piece instanceof Error) reject(piece);
      else resolve({done: piece === undefined, value: piece && encoder.encode(piece)});
    }
  }
}

/** A request of the client, and the hands that answer it. */
class Exchange {
  constructor(url, init, resolve, reject) {
    this.url = url;
    this.path = url.pathname;
    this.query = Object.fromEntries(url.searchParams);
    this.headers = init.headers ?? {};
    this.body = init.body && JSON.parse(init.body);
    this.answer = resolve;
    this.fail = () => reject(new TypeError("Failed to fetch"));
    this.isOver = false;
    this.pieces = new Pieces();
    init.signal.addEventListener("abort", () => {
      this.isOver = true;
      reject(new DOMException("aborted", "AbortError"));
      this.pieces.put(new Error("aborted"));
    });
  }

  /** Answers with a stream; what it says comes with `say`. */
  open(text = "") {
    this.answer(answer("", 200, {"Content-Type": "text/event-stream"}, this.pieces));
    this.say(text);
  }
  say(text) { if (text) this.pieces.put(text); }
  tell(message, id) { this.say(`${id ? `id: ${id}\n` : ""}data: ${JSON.stringify(message)}\n\n`); }
  sync(id) { this.say(`event: synced\nid: ${id}\ndata: {}\n\n`); }
  end() { this.pieces.put(undefined); }
}

export class World {
  time = 1_700_000_000_000;
  chance = 0.5;
  timers = [];
  requests = [];
  stored = new Map();
  /** What `:fetch` answers by itself; nil leaves it to the case. */
  served = {version: 1, entries: {title: "one"}};

  environment = {
    now: () => this.time, random: () => this.chance,
    after: (delay, action) => {
      check(delay >= 0 && delay < 2 ** 31, `a timer of ${delay}`);
      const timer = {at: this.time + delay, action};
      this.timers.push(timer);
      return () => { this.timers = this.timers.filter((other) => other !== timer); };
    },
    fetch: (url, init) => new Promise((resolve, reject) => {
      if (init.signal.aborted) return reject(new DOMException("aborted", "AbortError"));
      const exchange = new Exchange(url, init, resolve, reject);
      this.requests.push(exchange);
      if (exchange.path.endsWith(":fetch") && this.served) exchange.answer(this.values());
    }),
    storage: {
      getItem: (key) => this.stored.get(key) ?? null,
      setItem: (key, text) => { this.stored.set(key, text); },
    },
  };

  values(version = this.served.version, entries = this.served.entries) {
    return json({state: "UPDATE", templateVersion: String(version), entries}, 200, {ETag: `"etag-${version}"`});
  }

  of(part) { return this.requests.filter(({path}) => path.includes(part)); }
  get fetches() { return this.of(":fetch"); }
  get streams() { return this.of("/v1/events"); }
  get polls() { return this.of("/v1/poll"); }
  get record() { return JSON.parse([...this.stored.values()][0]); }

  /** Lets what is ready happen. */
  async rest() { for (let index = 0; index < 12; index += 1) await turn(); }

  /** Moves the clock, from timer to timer. */
  async pass(delay) {
    const end = this.time + delay;
    await this.rest();
    for (;;) {
      const next = this.timers.filter(({at}) => at <= end).sort((a, b) => a.at - b.at)[0];
      if (!next) break;
      this.timers = this.timers.filter((other) => other !== next);
      this.time = Math.max(this.time, next.at);
      next.action();
      await this.rest();
    }
    this.time = end;
  }

  /** A client whose first fetch was answered and whose stream stands. */
  async live(createClient, options = {}) {
    const client = await this.start(createClient, options);
    this.streams.at(-1).open("retry: 3000\n\n: hello\n\n");
    this.streams.at(-1).sync("e.1");
    await this.rest();
    same(client.state, "live");
    return client;
  }
  async start(createClient, options = {}) {
    const client = createClient({endpoint: "http://edge.test", environment: this.environment, ...options});
    await this.rest();
    return client;
  }
}

export const stale = (version, more = {}) => ({
  CONFIG_STATE: "STALE", topic: "PUSH_RC", project: "demo", namespace: "firebase",
  ...(version && {latestTemplateVersionNumber: String(version)}), fetchWindowMs: 0, ...more,
});
