// What OpenFeature's web SDK with its OFREP provider asks of a server, under the names that a page calls it by: all flags by
// POST, then again at each event of the streams that the answer names. Written for these tests from OFREP 0.3;
// `test_openfeature_web.py` says how the published packages take its place.

window.OpenFeatureWeb = (() => {
  const handlers = [];
  let context = {}, current;

  class OFREPWebProvider {
    constructor({baseUrl, headers}) {
      Object.assign(this, {baseUrl, headers, flags: {}, etag: null});
    }

    async refresh(announced) {
      const query = announced ? `?flagConfigEtag=${encodeURIComponent(announced)}` : "";
      const headers = [...this.headers, ["Content-Type", "application/json"]];
      if (this.etag) headers.push(["If-None-Match", this.etag]);
      const answer = await fetch(`${this.baseUrl}/ofrep/v1/evaluate/flags${query}`, {
        method: "POST", headers, body: JSON.stringify({context})});
      if (answer.status === 304) return [];
      if (!answer.ok) throw new Error(`OFREP answered ${answer.status}`);
      const {flags, eventStreams} = await answer.json();
      const next = Object.fromEntries(flags.map((flag) => [flag.key, flag]));
      const keys = new Set([...Object.keys(this.flags), ...Object.keys(next)]);
      const changed = [...keys].filter((key) => JSON.stringify(this.flags[key]) !== JSON.stringify(next[key]));
      Object.assign(this, {flags: next, etag: answer.headers.get("ETag")});
      this.listen(eventStreams);
      return changed;
    }

    listen(streams) {
      const uri = streams?.[0]?.endpoint.requestUri;
      if (!uri || uri === this.uri) return;
      this.onClose();
      this.uri = uri;
      this.stream = new EventSource(new URL(uri, this.baseUrl));
      this.stream.onmessage = async (event) => {
        const message = JSON.parse(event.data);
        if (message.type !== "refetchEvaluation") return;
        const flagsChanged = await this.refresh(message.etag);
        if (flagsChanged.length) handlers.forEach((handler) => handler({flagsChanged}));
      };
    }

    onClose() {
      this.stream?.close();
    }
  }

  const value = (key, other) => current.flags[key]?.value ?? other;
  return {
    OFREPWebProvider,
    OpenFeature: {
      addHandler: (_, handler) => handlers.push(handler),
      setContext: async (next) => {
        context = next;
        await current?.refresh();
      },
      setProviderAndWait: async (provider) => {
        current = provider;
        await provider.refresh();
      },
      getClient: () => ({
        getStringValue: value, getNumberValue: value, getBooleanValue: value, getObjectValue: value,
        getStringDetails: (key) => current.flags[key] ?? {errorCode: "FLAG_NOT_FOUND"},
      }),
    },
  };
})();
