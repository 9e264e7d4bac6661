// Control's API, and whether it answers.
import {clock} from "./dom.js"

/** Of `/console/session`. */
export let session = {signedIn: false}
const listeners = new Set()
/** Hears "down", "up", then "back" or "signedOut", and "left" after signOut. */
export const observe = listener => listeners.add(listener)
const tell = event => { for (const listener of listeners) listener(event) }

export class Refusal extends Error {
  constructor(status, error) {
    super(error?.message ?? `The daemon answered ${status} and said nothing.`)
    this.status = status
    this.word = error?.status
    this.violations = (error?.details ?? []).flatMap(detail => detail.fieldViolations ?? [])
  }
  get isConflict() { return this.message.includes("[VERSION_MISMATCH]") }
}

/** No answer at all. */
export class Silence extends Error {
  constructor() { super("The daemon does not answer. This page tries again by itself.") }
}

let isDown = false

async function send(method, path, {body, headers, signal} = {}) {
  let answer
  try {
    answer = await fetch(path, {
      method, signal, cache: "no-store", headers: {...(body === undefined ? {} : {"Content-Type": "application/json"}), ...headers},
      body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body)})
  } catch (error) {
    if (error.name === "AbortError") throw error
    if (!isDown) { isDown = true; tell("down"); retry() }
    throw new Silence()
  }
  if (isDown) { isDown = false; tell("up") }
  // The header has whole seconds and comes late.
  const ahead = Date.parse(answer.headers.get("Date")) - Date.now()
  clock.ahead = Math.abs(ahead) > 5000 ? ahead : 0
  const text = await answer.text()
  let json = null
  try { json = text ? JSON.parse(text) : null } catch { /* not JSON: metrics */ }
  return {status: answer.status, ok: answer.ok, json, text, etag: answer.headers.get("ETag")}
}

/** Asks; throws a refusal in the daemon's words. */
export async function api(method, path, options) {
  const answer = await send(method, path, {...options, headers: {
    ...(session.user && method !== "GET" ? {"X-Stalecast-User": ascii(session.user)} : {}), ...options?.headers}})
  if (answer.status === 401) { await refresh(); if (!session.signedIn) tell("signedOut") }
  if (!answer.ok) throw new Refusal(answer.status, answer.json?.error)
  return answer
}

const ascii = text => text.replace(/[^\x20-\x7e]/g, "?")
export const read = async (path, options) => (await api("GET", path, options)).json

async function retry() {
  do {
    await new Promise(resolve => setTimeout(resolve, 2000))
    if (document.hidden) continue
    try { await refresh() } catch { continue }
    tell(session.signedIn ? "back" : "signedOut")
  } while (isDown)
}

// Who sits here

let asked = 0, answered = 0
export async function refresh() {
  const number = ++asked
  const answer = await send("GET", "/console/session")
  // Of several the last counts.
  if (number > answered) { answered = number; session = answer.json ?? {signedIn: false} }
}

export async function signIn(credential) {
  const answer = await send("POST", "/console/session", {body: credential})
  if (!answer.ok) throw new Refusal(answer.status, answer.json?.error)
  answered = asked
  return session = answer.json
}

export async function signOut() {
  const answer = await send("DELETE", "/console/session").catch(() => null)
  // Else the issuer signs the next person in as this one.
  if (answer?.json?.location) return location.assign(answer.json.location)
  await refresh().catch(() => session = {signedIn: false})
  tell("left")
}

/** Leaves for an issuer's page, which leads back to this one. */
export async function signInWith(issuer) {
  const answer = await send("POST", "/console/sign-in", {body: {issuer}})
  if (!answer.ok) throw new Refusal(answer.status, answer.json?.error)
  location.assign(answer.json.location)
}

/** Whether the daemon has a path that ends so. */
export const knows = end => session.paths?.some(path => path.endsWith(end)) ?? false

// Scopes

export const scopeName = scope => `${scope.project}/${scope.namespace}`
export const path = (scope, rest) =>
  `/v1/projects/${encodeURIComponent(scope.project)}/namespaces/${encodeURIComponent(scope.namespace)}/remoteConfig${rest ?? ""}`
export const may = (scope, action) => scope.actions.includes(action)
/** What may be read is only a part of the project: no topics, no webhooks. */
export const partial = "This is of all of a project, and your grants are for a part of it."
/** A principal as people say it. */
export const holder = principal => principal === "bootstrap" ? "control token" : principal ?? ""
/** The command line's words for a scope. */
export const flags = scope => ` --project ${scope.project} --namespace ${scope.namespace}`

/**
 * Calls `step(signal)` at once and then each `ms`, while the page is seen; never two at a time. Returns what ends it.
 * What a step throws goes to `failed`.
 */
export function each(ms, step, failed) {
  const ending = new AbortController()
  let timer, running = false
  async function run() {
    clearTimeout(timer)
    if (running || document.hidden || ending.signal.aborted) return
    running = true
    try { await step(ending.signal) } catch (error) { if (error.name !== "AbortError" && !ending.signal.aborted) failed?.(error) }
    running = false
    if (!ending.signal.aborted) timer = setTimeout(run, ms)
  }
  document.addEventListener("visibilitychange", run, {signal: ending.signal})
  run()
  return () => { ending.abort(); clearTimeout(timer) }
}

let source
/** The page's one event source, open while the page is seen. `on`: a function for each event's name. */
export function watch(path, on, failed) {
  let ended = false
  const close = () => { source?.close(); source = undefined }
  function open() {
    close()
    if (document.hidden || ended) return
    source = new EventSource(path)
    for (const [name, take] of Object.entries(on))
      source.addEventListener(name, event => { if (!ended) take(JSON.parse(event.data)) })
    source.addEventListener("error", () => { if (!ended) failed(source?.readyState === EventSource.CLOSED) })
  }
  document.addEventListener("visibilitychange", open)
  open()
  return () => { ended = true; close(); document.removeEventListener("visibilitychange", open) }
}
