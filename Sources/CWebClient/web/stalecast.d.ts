/** Version of this module. */
export const version: string;

export interface Options {
  /** Address of Edge, Stalecast's public listener. Default: where this module was loaded from. */
  endpoint?: string;
  /** Id or number. Default `demo`. */
  project?: string;
  /** Default `firebase`, the client template. */
  namespace?: string;
  /** Topics that are listened to. Default `["PUSH_RC"]`. */
  topics?: string[];
  /** A publishable key (`stc_p_…`) or one of `edge.apiKeys`. It is sent in the query, which needs no preflight. */
  key?: string;
  /**
   * A token, or a function that is asked for one: before the first request, once for each 401, and when the server says
   * that the token is about to expire. While it fails, the last one is shown.
   */
  token?: string | (() => string | undefined | Promise<string | undefined>);
  /** As for `fetch`; `"include"` sends cookies to Edge on another origin, where an auth hook asks for them. */
  credentials?: RequestCredentials;
  /** Values that count until the server has given others. Objects and arrays count as their JSON. */
  defaults?: Record<string, unknown>;
  /** `"automatic"` (default): fetched values are in force at once. `"manual"`: with `activate()`, or at the next visit. */
  activation?: "automatic" | "manual";
  /** False fetches only, and listens to nothing. Default true. */
  live?: boolean;
  /** Custom signals, for conditions. */
  signals?: Record<string, string | number>;
  /** Firebase's shape `1:<project number>:web:<hex>`, for conditions on the app. */
  appId?: string;
  appVersion?: string;
  /** BCP 47, for conditions on the language. Default: the browser's. */
  language?: string;
  /** Two capitals, for conditions on the country. Default: the language's region. */
  country?: string;
  /** What percentages are drawn by, and what the client is counted by. Default: made at random, and kept. */
  id?: string;
  /** A page that loads within so many milliseconds after the last fetch only listens. Default 12 hours. */
  minimumFetchInterval?: number;
  /** Milliseconds after which a fetch is given up. Default 15,000. */
  fetchTimeout?: number;
  /** Milliseconds after which a stream without a byte is given up. Two in a row make way for long-poll. Default 15,000. */
  openingLimit?: number;
  /** Milliseconds of silence after which a stream that stood is given up. Default 75,000: three heartbeats. */
  silenceLimit?: number;
  /**
   * Ask a cache or CDN in front of Edge, which answers many clients at once: shared long-polls in place of a stream, and
   * values without conditions. The client is not counted, and is told with the last stage of a release. Default false.
   */
  cdn?: boolean;
  /** Milliseconds for which the server may hold a long-poll. Default 55,000; with `cdn` 20,000, alike in all clients. */
  pollWait?: number;
  /** Milliseconds after which a hidden page closes its connection. Default 60,000. */
  hiddenLimit?: number;
  /** Milliseconds of long-poll before a stream is tried, doubled with each try up to 15 minutes. Default 60,000. */
  probeInterval?: number;
  /** What tests put in place of the browser's own. */
  environment?: Partial<Environment>;
}

export interface Environment {
  fetch: typeof fetch;
  /** Milliseconds since 1970. */
  now(): number;
  /** At least 0 and below 1. */
  random(): number;
  /** Calls `action` after `delay` milliseconds; the function that comes back prevents it. */
  after(delay: number, action: () => void): () => void;
  /** Default `localStorage`. With another one, tabs do not share a connection. */
  storage: Pick<Storage, "getItem" | "setItem">;
}

/** A value, by the rules of Firebase's SDK for the web. */
export interface Value {
  asString(): string;
  /** 0 for a text that is no number. */
  asNumber(): number;
  /** True for `1`, `true`, `t`, `yes`, `y` and `on`, whatever their case. */
  asBoolean(): boolean;
  getSource(): "remote" | "default" | "static";
}

/**
 * `connecting`; `live`: the stream stands and has told all; `polling`: long-poll in its place; `waiting` for the next
 * attempt; `following`: another tab has the connection; `idle`: hidden, offline or closed; `ended`: the server wants no
 * more connections.
 */
export type State = "connecting" | "live" | "polling" | "waiting" | "following" | "idle" | "ended";

/** Why a connection was lost. */
export interface Loss {
  /**
   * `broken`: no connection, or `edge.allowedOrigins` does not name the page's origin; `silent`: no sign of life;
   * `closed`: the server ended it, as it does from time to time; `refused`: see `status`; `foreign`: another
   * server answers, such as a captive portal; `dismissed`: the server wants no more connections.
   */
  kind: "broken" | "silent" | "closed" | "refused" | "foreign" | "dismissed";
  status?: number;
}

export interface FetchError extends Error {
  /** Undefined when there was no answer. */
  status?: number;
  /** Milliseconds for which the server wants to be left alone. */
  retryAfter?: number;
}

export interface Client {
  /** Fulfilled, never rejected, once there are values of the server or of an earlier visit, or the first fetch failed. */
  readonly ready: Promise<void>;
  getValue(key: string): Value;
  getString(key: string): string;
  getNumber(key: string): number;
  getBoolean(key: string): boolean;
  getAll(): Record<string, Value>;
  /** Version of the values in force; 0 for none. */
  readonly version: number;
  readonly state: State;
  /** True while a message said that the values are old, and no fetch has answered it yet. */
  readonly isStale: boolean;
  /**
   * Asks the server now. Calls that come meanwhile share one exchange. With manual activation `activate()` is next.
   * Rejects with a `FetchError`; while the client is live it goes on trying by itself.
   */
  fetch(): Promise<void>;
  /** Puts fetched values in force, and returns the keys that changed. */
  activate(): string[];
  /**
   * Calls `listener` with the sorted keys whose values changed, or, with manual activation, that an activation would
   * change. The function that comes back removes it.
   */
  onUpdate(listener: (changedKeys: string[]) => void): () => void;
  /** Calls `listener` with each new state, and while that is `waiting`, with each refusal by another HTTP status. */
  onState(listener: (state: State, loss?: Loss) => void): () => void;
  /** Ends everything; values can still be read. */
  close(): void;
}

/** A client; it fetches and listens at once. */
export function createClient(options?: Options): Client;

/** An event as `eventReader` reads it. */
export interface StreamEvent {
  type: string;
  data: string;
  id: string;
}

/** Reads server-sent events from texts that may be cut anywhere. Throws at an event of more than a million characters. */
export function eventReader(
  onEvent: (event: StreamEvent) => void, onRetry?: (milliseconds: number) => void,
): (text: string) => void;
