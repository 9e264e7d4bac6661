// Stalecast's client for web pages: values of a remote configuration that change while the page is open.
//
//   import {createClient} from "https://config.example.com/v1/client/stalecast.js";
//   const config = createClient({project: "shop", defaults: {welcome_text: "Hello"}});
//   config.onUpdate(() => show(config.getString("welcome_text")));
//
// Options and types: stalecast.d.ts. Edge serves this file without comments and indentation, so a comment has lines of
// its own and a text never goes over two lines. All times are in milliseconds.

export const version = "0.3.0";
const sdk = `web-${version}`;

// Some are missing outside a page.
const {window, document, navigator} = globalThis;
const second = 1000;
const minute = 60 * second;
// A server that lags catches up within this time; one that still answers an older version is a restored store.
const patience = 5 * minute;
const longestPause = 240 * minute;

const standard = {
  project: "demo", namespace: "firebase", topics: ["PUSH_RC"],
  appId: "1:123456789012:web:57a1eca57", activation: "automatic", live: true,
  minimumFetchInterval: 720 * minute, fetchTimeout: 15 * second, openingLimit: 15 * second,
  silenceLimit: 75 * second, pollWait: 55 * second, hiddenLimit: minute, probeInterval: minute,
};

const browser = {
  fetch: globalThis.fetch?.bind(globalThis), now: Date.now, random: Math.random,
  // Calls `action` after `delay`; the function that comes back prevents it.
  after: (delay, action) => {
    const timer = setTimeout(action, delay);
    return () => clearTimeout(timer);
  },
};

// What outlives the page. `owed`: a message said that the values are old, and no fetch has answered it yet. `target`:
// the version that it named. `isVoid`: the server disowned the cursor, so that a lower version can be the newer one.
// `behindSince`: since when the server answers with older versions than it announced or gave before.
const blank = {
  id: "", born: 0, version: 0, etag: "", entries: {}, at: 0, context: "", cursor: "", owed: false, target: 0,
  isVoid: false, behindSince: 0,
};

const digits = (text) => (/^\d{1,15}$/.test(text) ? +text : 0);
const within = (number, most) => (number > 0 ? Math.min(number, most) : 0);
// Runs what a page, or its user's browser, may forbid or get wrong.
const attempt = (action, onError) => {
  try { return action(); } catch (error) { onError?.(error); }
};
const parse = (text) => attempt(() => JSON.parse(text));
// A Map: a parameter may be called __proto__.
const entriesOf = (object = {}) => new Map(Object.entries(object).map(
  ([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]));
const differing = (a, b) => [...new Set([...a.keys(), ...b.keys()])].filter((key) => a.get(key) !== b.get(key)).sort();
const ended = (signal) => signal.aborted || new Promise((resolve) => signal.addEventListener("abort", resolve));
const retryAfter = (answer) => within(answer.headers.get("Retry-After") * second, longestPause);
const failure = (message, status, pause) => Object.assign(new Error(message), {status, retryAfter: pause});

// A stored record; members of another type, as another program may have written them, have their defaults.
const readRecord = (text) => {
  const found = parse(text), record = {...blank};
  for (const name in blank) if (typeof found?.[name] === typeof blank[name]) record[name] = found[name];
  const {version, target, entries} = record;
  return {...record, version: digits(version), target: digits(target), entries: entriesOf(entries ?? {})};
};

// A value by the rules of Firebase's SDK for the web: a text that does not fit is 0 or false.
const valueOf = (text, source) => ({
  asString: () => text, asNumber: () => +text || 0, getSource: () => source,
  asBoolean: () => ["1", "true", "t", "yes", "y", "on"].includes(text.toLowerCase()),
});

// Reads server-sent events as the HTML standard, 9.2.6, says. The cost is linear, however the text is cut.
export const eventReader = (onEvent, onRetry) => {
  let rest = "", data = [], type, id = "", length = 0, endsInReturn;
  const read = (line) => {
    if (!line) {
      if (data.length) onEvent({type: type || "message", data: data.join("\n"), id});
      [data, type, length] = [[], "", 0];
      return;
    }
    const [, name, value] = /^([^:]*):? ?(.*)/s.exec(line);
    if (name === "data") data.push(value);
    if (name === "event") type = value;
    if (name === "id" && !value.includes("\0")) id = value;
    if (name === "retry" && /^\d+$/.test(value)) onRetry?.(+value);
  };
  return (text) => {
    if (!text) return;
    if ((length += text.length) > 1 << 20) throw new Error("an event is too long");
    // This line feed belongs to the carriage return that ended the text before.
    if (endsInReturn && text[0] === "\n") text = text.slice(1);
    endsInReturn = text.endsWith("\r");
    const lines = text.split(/\r\n|\r|\n/);
    lines[0] = rest + lines[0];
    rest = lines.pop();
    lines.forEach(read);
  };
};

// A client; it fetches and listens at once. One function, because what it declares is private then.
export const createClient = (options = {}) => {
  const settings = {...standard, ...(options.cdn && {pollWait: 20 * second}), ...options}, {now, random, after, ...env} = {...browser, ...options.environment};
  const {project, namespace, appId, appVersion, signals, token, openingLimit} = settings;
  const {language = navigator?.language, cdn} = settings;
  // Edge serves this file at /v1/client/ below its own address.
  const endpoint = (settings.endpoint ?? new URL("../..", import.meta.url).href).replace(/\/*$/, "/");
  const facts = {
    appId, appVersion, languageCode: language, countryCode: settings.country ?? /-([A-Z]{2})\b/.exec(language)?.[1],
    timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone, customSignals: signals,
  };
  const context = JSON.stringify(facts), key = `stalecast ${endpoint} ${project} ${namespace}`;

  // What outlives the page

  const storage = env.storage ?? attempt(() => localStorage);
  const record = readRecord(attempt(() => storage.getItem(key)));
  record.id = settings.id || record.id
    // Not to be guessed: a page that knows it may report in its name.
    || Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => (byte + 256).toString(16).slice(1)).join("");
  record.born ||= now();
  const save = (changes) => {
    Object.assign(record, changes);
    const entries = Object.fromEntries(record.entries);
    // Without room the next page begins with what is there.
    attempt(() => storage.setItem(key, JSON.stringify({...record, entries})));
  };

  // Values

  const defaults = entriesOf(settings.defaults);
  let active = record.entries, activeVersion = record.version;
  const activate = () => {
    const keys = differing(active, record.entries);
    [active, activeVersion] = [record.entries, record.version];
    return keys;
  };
  const getValue = (key) => active.has(key) ? valueOf(active.get(key), "remote")
    : defaults.has(key) ? valueOf(defaults.get(key), "default") : valueOf("", "static");

  const listeners = new Set(), stateListeners = new Set();
  const add = (listeners, listener) => {
    listeners.add(listener);
    return () => { listeners.delete(listener); };
  };
  // A page's mistake stops neither the other listeners nor the client.
  const tell = (listeners, ...values) => [...listeners].forEach(
    (listener) => attempt(() => listener(...values), globalThis.reportError));
  const tellChanges = () => {
    const keys = settings.activation === "manual" ? differing(active, record.entries) : activate();
    if (keys.length) tell(listeners, keys);
  };
  let state = "idle", refusedWith;
  // Tells of another refusal in the same state too: a page may have to ask its user to sign in again.
  const become = (news, loss) => {
    const isRefusal = loss?.status && loss.status !== refusedWith;
    if (state === "ended" || state === news && !isRefusal) return;
    [state, refusedWith] = [news, loss?.status];
    tell(stateListeners, state, loss);
  };

  // Requests

  // A signal that ends with `parent`, with `stop`, or `limit` after the last `alive`.
  const watch = (parent, limit) => {
    const controller = new AbortController(), {signal} = controller;
    let cancel;
    const it = {
      signal, kind: "broken",
      alive: (limit) => {
        cancel?.();
        if (!signal.aborted) cancel = after(limit, () => it.stop("silent"));
      },
      stop: (kind) => {
        cancel();
        if (!signal.aborted) it.kind = kind;
        controller.abort();
      },
    };
    it.alive(limit);
    parent?.addEventListener("abort", it.stop, {signal});
    if (parent?.aborted) it.stop();
    return it;
  };

  let shown = typeof token === "string" ? token : undefined, renewal;
  // A token other than `refused`; where the page has none, or not before `signal` ends, the last one.
  const renew = async (refused, signal) => {
    if (typeof token !== "function" || shown !== refused) return shown;
    renewal ??= (async () => { shown = await token() ?? shown; })()
      // Why there is none is the page's to know; the server will say 401 again.
      .catch(() => {}).finally(() => { renewal = undefined; });
    await Promise.race([renewal, ended(signal)]);
    return shown;
  };
  // With the token there is; one that the server refuses is renewed once.
  const send = async (path, query, request) => {
    // A key in the address would keep a cache from answering clients alike.
    const url = new URL(path, endpoint), items = Object.entries({...query, key: cdn ? "" : settings.key});
    url.search = new URLSearchParams(items.filter(([, value]) => value));
    for (let mayRenew = true; ; mayRenew = false) {
      const token = shown ?? await renew(undefined, request.signal);
      const bearer = token || cdn && settings.key;
      const headers = {...request.headers, ...(bearer && {Authorization: `Bearer ${bearer}`})};
      const answer = await env.fetch(url, {cache: cdn ? "default" : "no-store", credentials: settings.credentials, ...request, headers});
      if (answer.status !== 401 || !mayRenew || await renew(token, request.signal) === token) return answer;
    }
  };

  // Fetches

  let flight, cancelDue, due = Infinity, pausedUntil = 0, attempts = 0, isOvertaken, link;
  const unplan = () => {
    cancelDue?.();
    due = Infinity;
  };
  // Has a fetch made after `delay`, unless one is due before.
  const plan = (delay) => {
    const time = now(), at = Math.max(time + delay, pausedUntil);
    if (!link || at >= due) return;
    unplan();
    due = at;
    cancelDue = after(at - time, async () => {
      due = Infinity;
      const underWay = flight;
      // Its failure has planned the next one. The answer that is under way may do.
      await fetch().catch(() => {});
      if (underWay && record.owed) plan(0);
    });
  };
  // A pause that the server named for all, longer by chance, so that its clients do not come back at once.
  const spread = (pause) => pause * (1 + random() / 4) + second * random();
  const shortPause = () => 200 * 4 ** (attempts > 1) * (0.5 + random());
  // Of a message that came meanwhile the time is planned already, and its window is not cut short.
  const planNext = (delay) => {
    if (record.owed && due === Infinity) plan(delay);
  };
  // Makes up for a fetch that nothing else will make. Many clients come back at once, so they spread over 2 s.
  const catchUp = () => flight || planNext(2 * second * random());
  const settled = () => {
    unplan();
    attempts = 0;
    save({owed: false, target: 0, isVoid: false, behindSince: 0});
  };

  const fetch = () => flight ??= exchange().finally(() => { flight = undefined; });
  const exchange = async () => {
    // Whether a message without a version came meanwhile: it may be about one that the answer does not have.
    isOvertaken = false;
    try {
      take(await ask());
      // A server that goes on answering an older version is not asked in a loop.
      if (++attempts < 3) planNext(shortPause());
    } catch (error) {
      failed(error);
      throw error;
    }
  };
  const ask = async () => {
    const {id, born, etag, owed, cursor, at} = record, pause = pausedUntil - now();
    if (pause > 0) throw failure("the server asks to wait", 429, pause);
    const scope = `v1/projects/${project}/namespaces/${namespace}`;
    const body = JSON.stringify({
      ...facts, appInstanceId: id, appInstanceIdToken: "web", sdkVersion: sdk,
      firstOpenTime: new Date(within(born, now())).toISOString(), activeTemplateVersion: activeVersion || undefined,
    });
    // After a message the values are new, and without this header the request is one that a browser sends at once,
    // without asking the server first whether the page may.
    const headers = at && !owed ? {"If-None-Match": etag} : {};
    const {signal, stop} = watch(undefined, settings.fetchTimeout);
    try {
      // The cursor keeps a node that lags from answering what is older than the message.
      const version = cdn && await announced(signal);
      if (version === 0) return {version, etag: "", entries: record.entries};
      const answer = await (version ? send(`${scope}/config`, {version}, {signal})
        : send(`${scope}:fetch`, owed && {cursor}, {method: "POST", body, headers, signal}));
      const json = parse(await answer.text()), entries = json?.entries ?? (json?.state && {}), {status} = answer;
      if (status !== 200 || typeof entries !== "object") {
        const reason = json?.error?.message ?? "this is no config server; check the endpoint";
        throw failure(`${status}: ${reason}`, status, retryAfter(answer));
      }
      return {
        version: digits(json.templateVersion), etag: answer.headers.get("ETag") ?? "",
        entries: json.state === "NO_CHANGE" ? record.entries : entriesOf(entries),
      };
    } catch (error) {
      throw "status" in error ? error : failure(`${endpoint} could not be reached: ${error.message}`);
    } finally { stop(); }
  };
  // The version to ask a cache for. A client that knows none asks which is the newest.
  const announced = async (signal) => {
    if (!record.target && !record.version) await poll(signal, true);
    return record.target || record.version;
  };
  const take = ({version, etag, entries}) => {
    const at = now(), known = record.isVoid ? 0 : record.version;
    const behindSince = version && version < Math.max(known, record.target) && Math.min(record.behindSince || at, at);
    const isLagging = behindSince && at - behindSince < patience;
    if (isLagging && version < known) return save({behindSince});
    save({version, etag, entries, at, context, behindSince});
    if (!isLagging && !isOvertaken) settled();
    tellChanges();
  };
  const failed = ({status, retryAfter}) => {
    attempts += 1;
    save({owed: true});
    if (retryAfter) pausedUntil = now() + retryAfter;
    planNext(retryAfter ? spread(retryAfter) : !status && attempts < 3 ? shortPause()
      : Math.min(15 * second * 2 ** Math.max(0, attempts - 3), 15 * minute) * (0.5 + random()));
  };

  // Messages

  const received = (message) => {
    if (message?.CONFIG_STATE !== "STALE") return;
    const version = digits(message.latestTemplateVersionNumber), {owed, target} = record;
    if (version && (version <= record.version && !record.isVoid || owed && version <= target)) return;
    isOvertaken ||= !version;
    save({owed: true, behindSince: 0, target: Math.max(version, target)});
    attempts = 0;
    plan(String(message.urgent) === "true" ? 0 : within(message.fetchWindowMs, 1440 * minute) * random());
  };
  // The server does not know the cursor: its store is another one, and versions may have begun anew.
  const disown = () => {
    unplan();
    save({isVoid: true, owed: true, target: 0, behindSince: 0, cursor: ""});
  };
  // What was said up to `cursor` is in the record: the next connection need not hear it again.
  const passed = (cursor) => {
    if (cursor && cursor !== record.cursor) save({cursor});
  };
  // What another tab fetched. A clock that was set back must not keep a newer version out.
  const adopt = (text) => {
    const {at, version, etag, entries, ...other} = readRecord(text);
    if (at <= record.at && version <= record.version || other.context !== context) return;
    Object.assign(record, {at, version, etag, entries});
    if (record.owed && version >= record.target) settled();
    tellChanges();
  };

  // The connection

  // The pause that the server named for after a stream.
  let retry = second, round = 0;
  // For a cache all clients are alike: no part of it tells one from another.
  const subscription = () => ({
    topic: settings.topics.join(), project, namespace, cursor: record.cursor,
    ...(cdn ? {round: String(round)} : {
      client: record.id, app: appId, sdk, have: String(record.isVoid ? 0 : record.version), active: activeVersion,
    }),
  });
  const sleep = (delay, signal) => ended(watch(signal, delay).signal);

  // What an answer says that is none of ours; undefined where it is.
  const refusal = (answer, type) => {
    const {status} = answer;
    if (status === 204) return {kind: "dismissed"};
    if (status !== 200) return {kind: "refused", status, retryAfter: retryAfter(answer)};
    if (!answer.headers.get("Content-Type")?.startsWith(type)) return {kind: "foreign"};
  };
  // One stream; resolves with why it ended. `up`: for how long it was up; undefined when it never was.
  const stream = async (parent) => {
    const it = watch(parent, openingLimit), {signal} = it;
    let since, isSynced = false;
    const lost = (kind) => ({kind, isSynced, up: since === undefined ? since : now() - since});
    try {
      const answer = await send("v1/events", subscription(), {signal, headers: {Accept: "text/event-stream"}});
      const other = refusal(answer, "text/event-stream"), token = shown;
      if (other) return other;
      const read = eventReader(({type, data, id}) => {
        if (type === "message") received(parse(data));
        if (type === "reset") disown();
        // The next stream shows another token, and begins where this one ends.
        if (type === "auth" && parse(data)?.type === "expiring") {
          renew(token, signal).then((renewed) => renewed === token || it.stop("renewed"));
        }
        passed(id);
        if (type !== "synced") return;
        isSynced = true;
        become("live");
        catchUp();
      }, (delay) => { retry = within(delay, 60 * minute); });
      const reader = answer.body.getReader(), decoder = new TextDecoder();
      for (;;) {
        const {done, value} = await reader.read();
        if (done) return lost("closed");
        since ??= now();
        it.alive(settings.silenceLimit);
        read(decoder.decode(value, {stream: true}));
      }
    } catch {
      return lost(it.kind);
    } finally { it.stop(); }
  };
  // One long-poll. The first is answered at once, which tells that polls get through.
  const poll = async (parent, isFirst) => {
    // A shared poll is held for two rounds at most.
    const {pollWait} = settings, limit = pollWait * (cdn ? 2 : 17 / 16);
    const it = watch(parent, openingLimit + (isFirst && !cdn ? 0 : limit)), {signal} = it;
    try {
      const answer = await send("v1/poll", {...subscription(), wait: isFirst && !cdn ? "0" : `${pollWait}ms`}, {signal});
      const other = refusal(answer, "application/json");
      if (other) return other;
      const {cursor, messages, reset, round: next} = parse(await answer.text()) ?? {};
      round = next;
      if (!cursor || !Array.isArray(messages)) return {kind: "foreign"};
      if (reset) disown();
      const isNews = isFirst || messages.length > 0 && cursor !== record.cursor;
      messages.forEach(received);
      passed(String(cursor));
      become("polling");
      if (isNews) catchUp();
      return {kind: "answered", isNews};
    } catch {
      return {kind: it.kind};
    } finally { it.stop(); }
  };

  // Keeps one stream up until `signal` ends. While none comes through it long-polls, and tries a stream at `probeAt`.
  const run = async (signal) => {
    let losses = 0, silences = 0, isFirst, probeAt, probeDelay = settings.probeInterval;
    const pollFirst = () => {
      isFirst = true;
      probeAt = now() + probeDelay * (0.8 + 0.4 * random());
    };
    become("connecting");
    while (!signal.aborted) {
      const began = now(), isProbe = began >= probeAt, isPoll = cdn || began < probeAt;
      const loss = await (isPoll ? poll(signal, isFirst) : stream(signal));
      if (signal.aborted || loss.kind === "renewed") continue;
      if (loss.kind === "dismissed") {
        become("ended", loss);
        return settle();
      }
      if (loss.kind === "answered") {
        isFirst = false;
        losses = 0;
        // An answer that came at once and said nothing would make this a loop.
        if (!loss.isNews && now() - began < second) await sleep(second * (1 + random()), signal);
        continue;
      }
      if (isPoll) probeAt = 0;
      else {
        if (isProbe) probeDelay = Math.min(probeDelay * 2, 15 * minute);
        if (loss.up >= minute) [losses, silences, probeDelay] = [0, 0, settings.probeInterval];
        // A stream that is held back, or replaced by a foreign page, makes way for long-poll.
        silences = loss.kind === "foreign" ? 2 : silences + (loss.kind === "silent");
        probeAt = undefined;
        if (silences > 1 || isProbe && !loss.isSynced) {
          silences = 0;
          pollFirst();
          if (isProbe) continue;
        }
      }
      losses += 1;
      become("waiting", loss);
      await sleep(pauseAfter(loss, losses), signal);
    }
  };
  const pauseAfter = ({kind, status, up, retryAfter}, losses) => {
    if (retryAfter) return spread(retryAfter);
    // The server has spread them over its clients already.
    if (losses === 1 && up !== undefined) return retry;
    // What says "no" rather than "later" seldom mends by itself.
    const isFinal = kind === "refused" && status < 500 && ![408, 425, 429].includes(status);
    return retry + random() * Math.min(second * 2 ** (losses - 1 + 3 * isFinal), minute * (isFinal ? 10 : 1));
  };

  // The connection stands while the page is seen and online. Of several tabs one has it, and the others read what that
  // one stores.

  const page = new AbortController();
  let isAway, cancelHidden;
  const settle = () => {
    const isWanted = !page.signal.aborted && !isAway && state !== "ended";
    if (isWanted === Boolean(link)) return;
    if (!isWanted) {
      link.abort();
      link = undefined;
      unplan();
      return become("idle");
    }
    link = new AbortController();
    const {signal} = link, work = () => run(signal);
    become("following");
    catchUp();
    if (!storage || env.storage || !navigator?.locks) return work();
    // A page without an origin may store things, but not lock them.
    navigator.locks.request(key + context + settings.key, {signal}, work).catch(() => signal.aborted || work());
  };
  // A page that is seen only now and then keeps its connection for a while.
  const look = (isGone) => {
    cancelHidden?.();
    if (!isGone && document?.hidden) cancelHidden = after(settings.hiddenLimit, () => look(true));
    else {
      isAway = isGone;
      settle();
    }
  };
  const watchPage = () => {
    const on = (target, name, action) => target?.addEventListener(name, action, {signal: page.signal});
    on(window, "storage", (event) => { if (event.key === key && event.newValue) adopt(event.newValue); });
    on(window, "pageshow", () => look());
    on(document, "visibilitychange", () => look());
    // A page with an open stream could not be kept for the back button. `navigator.onLine` is not asked: it is false
    // on a machine that reaches nothing but a daemon of its own.
    for (const name of ["pagehide", "offline"]) on(window, name, () => look(true));
    // Over another network nothing is left of the connection.
    on(window, "online", () => {
      look(true);
      look();
    });
    settle();
    look();
  };

  const age = now() - record.at;
  // A negative age is that of a clock that was set back.
  const isFresh = age >= 0 && age < settings.minimumFetchInterval && !record.owed && record.context === context;
  const first = isFresh ? Promise.resolve() : fetch().catch(() => {});
  // The stream begins after the version that was fetched: what was published in between is told.
  if (settings.live) first.then(watchPage);

  return {
    ready: record.at ? Promise.resolve() : first, getValue, activate, fetch,
    getString: (key) => getValue(key).asString(), getNumber: (key) => getValue(key).asNumber(),
    getBoolean: (key) => getValue(key).asBoolean(),
    getAll: () => Object.fromEntries([...defaults.keys(), ...active.keys()].map((key) => [key, getValue(key)])),
    get version() { return activeVersion; }, get state() { return state; }, get isStale() { return record.owed; },
    onUpdate: (listener) => add(listeners, listener), onState: (listener) => add(stateListeners, listener),
    close: () => {
      page.abort();
      cancelHidden?.();
      settle();
    },
  };
};
