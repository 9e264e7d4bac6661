// What LaunchDarkly's client-side SDK 3 asks of a server, under the names that a page calls it by: flags by GET or REPORT, a
// stream of pings, goals, events. Written for these tests from the SDK's documented requests; `test_launchdarkly.py` says how
// the published SDK takes its place.

window.LDClient = {
  initialize: (environment, context, options) => {
    const {baseUrl, streamUrl, eventsUrl, useReport, evaluationReasons, streamReconnectDelay = 1000} = options;
    const listeners = {change: [], error: [], ready: []};
    const tell = (name, value) => (listeners[name] ?? []).forEach((listener) => listener(value));
    let flags = {}, stream, isClosed = false, events = 0;
    const encode = (value) => btoa(String.fromCharCode(...new TextEncoder().encode(JSON.stringify(value))))
      .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

    const ask = async () => {
      const reasons = evaluationReasons ? "?withReasons=true" : "", path = `${baseUrl}/sdk/evalx/${environment}/context`;
      const answer = await (useReport
        ? fetch(path + reasons, {method: "REPORT", headers: {"Content-Type": "application/json"}, body: JSON.stringify(context)})
        : fetch(`${path}s/${encode(context)}${reasons}`));
      if (!answer.ok) throw new Error(answer.status === 404 ? "environment not found" : `error fetching flags: ${answer.status}`);
      return answer.json();
    };
    const take = (next) => {
      const changes = {};
      for (const key of new Set([...Object.keys(flags), ...Object.keys(next)])) {
        const [previous, current] = [flags[key]?.value, next[key]?.value];
        if (JSON.stringify(previous) !== JSON.stringify(current)) changes[key] = {current, previous};
      }
      flags = next;
      if (Object.keys(changes).length) tell("change", changes);
    };
    // An answer of a request that began before the last one ended must not put older flags in force.
    let latest = 0;
    const refresh = async () => {
      const number = ++latest;
      const next = await ask();
      if (number === latest && !isClosed) take(next);
    };
    const listen = () => {
      if (isClosed) return;
      // A stream that a browser opens has no body, so with REPORT it is one for all contexts.
      stream = new EventSource(`${streamUrl}${useReport ? `/ping/${environment}` : `/eval/${environment}/${encode(context)}`}`);
      stream.addEventListener("ping", () => refresh().catch((error) => tell("error", error)));
      stream.onerror = () => {
        stream.close();
        setTimeout(listen, streamReconnectDelay * (0.5 + Math.random() / 2));
      };
    };
    const start = async () => {
      flags = await ask();
      fetch(`${baseUrl}/sdk/goals/${environment}`).catch(() => {});
      tell("ready");
      listen();
    };
    const ready = start().catch((error) => tell("error", error));

    return {
      on: (name, listener) => listeners[name].push(listener),
      waitUntilReady: () => ready,
      variation: (key, other) => {
        events += 1;
        return key in flags ? flags[key].value : other;
      },
      variationDetail: (key, other) => ({value: flags[key]?.value ?? other, reason: flags[key]?.reason}),
      identify: async (next) => {
        context = next;
        stream?.close();
        await refresh();
        listen();
      },
      flush: () => fetch(`${eventsUrl}/events/bulk/${environment}`, {
        method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify([{kind: "summary", count: events}]),
      }),
      close: () => {
        isClosed = true;
        stream?.close();
      },
    };
  },
};
