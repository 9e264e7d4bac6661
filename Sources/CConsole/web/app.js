// The frame: who is signed in, which scope, which screen. Every screen is a URL of its own behind the `#`: the daemon serves
// one page and needs no list of screens, and what stands there is in no proxy's log.
import {h, replace, button, choice, copy, count, dialog, field, say, state} from "./dom.js"
import {each, observe, read, refresh, scopeName, session, signIn, signInWith, signOut, Refusal, Silence} from "./api.js"
import * as now from "./now.js"
import * as template from "./template.js"
import * as evaluate from "./evaluate.js"
import * as versions from "./versions.js"
import * as clients from "./clients.js"
import * as webhooks from "./webhooks.js"
import {sources, health} from "./system.js"
import {messages, keys, audit} from "./records.js"
import {search} from "./search.js"
import {strip} from "./strip.js"

const screens = {now, template, evaluate, versions, clients, webhooks, sources, messages, keys, audit, health}
const titles = {now: "Now", template: "Template", evaluate: "Evaluate", versions: "Versions", clients: "Clients",
  webhooks: "Webhooks", sources: "Sources", messages: "Messages", keys: "Keys", audit: "Audit", health: "Health"}
const bar = document.getElementById("bar"), main = document.getElementById("main")
let leave, shown, isDown = false
/** The strip of the scope that is shown. */
let glance
/** What `/status` said last, what else wants to hear of it, and what ends the asking. */
let heard, hear, asking

// Where we are

/** `#/versions?scope=demo/firebase&from=3` */
function place() {
  const [name, query] = location.hash.replace(/^#\/?/, "").split("?")
  const parameters = new URLSearchParams(query)
  const wanted = parameters.get("scope") ?? remembered("scope")
  const scope = session.scopes?.find(scope => scopeName(scope) === wanted) ?? session.scopes?.[0]
  return {name: Object.hasOwn(screens, name) ? name : "now", parameters, scope}
}

const address = (name, scope, parameters = {}) => {
  const query = new URLSearchParams({...(scope ? {scope: scopeName(scope)} : {}), ...parameters})
  for (const [key, value] of [...query]) if (value === "" || value === "undefined") query.delete(key)
  return `#/${name}?${String(query).replaceAll("%2F", "/")}`
}

const remembered = key => { try { return localStorage.getItem("stalecast-" + key) } catch { return null } }
const remember = (key, value) => { try { localStorage.setItem("stalecast-" + key, value) } catch { /* private window */ } }

/** Where this tab was when it left for an issuer; null forgets it. */
const leftFrom = place => { try { place === null ? sessionStorage.removeItem("stalecast-place") : sessionStorage.setItem("stalecast-place", place) } catch { /* private window */ } }
const cameBack = () => { try { return sessionStorage.getItem("stalecast-place") } catch { return null } finally { leftFrom(null) } }

function go() {
  if (!session.signedIn) return gate()
  ending = undefined
  const {name, parameters, scope} = place()
  leave?.()
  leave = hear = undefined
  const before = shown
  shown = name
  document.title = `${titles[name]} · Stalecast`
  frame(name, scope)
  follow()
  const title = h("h1", {tabindex: -1}, titles[name])
  const tools = h("div", {class: "tools"}), content = h("div", {class: "content"})
  replace(main, h("div", {class: "head"}, title, tools), content)
  if (!scope && !["health", "sources", "keys", "audit"].includes(name)) {
    replace(content, state("empty",
      "Nothing here may be read with this credential: it has no grant for any scope. `stalecast keys list` shows what each key is granted."))
  } else {
    let data
    const context = {
      content, scope, parameters,
      /** Another place; without a name the same screen. */
      link: (name_, more) => address(name_ ?? name, scope, more),
      /** Changes the address without leaving the screen. */
      note: more => history.replaceState(null, "", address(name, scope, more)),
      /** What "copy as JSON" gives, and the command that prints or does the same. */
      offer: (json, command) => { data = json; replace(tools, copy("Copy as JSON", () => JSON.stringify(data, null, 2)),
        command ? copy("Copy the command", command) : null) },
      fresh: json => { data = json },
      /** Calls `take` with what `/status` says, now and then, where that may be read. */
      status: take => { hear = take; if (heard) take(heard) },
      reload: go,
    }
    replace(content, state("loading", "Loading."))
    leave = screens[name].show(context) ?? undefined
  }
  if (!before) return
  if (before !== name) say(titles[name])
  // What had the focus is gone with the page before.
  if (before !== name || document.activeElement === document.body) title.focus()
}

/** The strip stays from screen to screen. */
function look(scope) {
  if (glance && glance.scope === scope) return
  glance?.end()
  document.getElementById("strip")?.remove()
  glance = scope && {scope, ...strip(scope, (name, more) => address(name, scope, more))}
  if (!glance) return
  bar.after(glance.element)
  if (heard) glance.heard(heard)
}

const find = () => session.signedIn && search(place().scope, Object.entries(titles), address)

function frame(name, scope) {
  look(scope)
  replace(bar,
    h("a", {class: "brand", href: address("now", scope)}, "Stalecast"),
    session.scopes?.length ? h("div", {class: "scope"}, h("label", {for: "scope", class: "unseen"}, "Scope"), choice(
      session.scopes.map(scopeName), scope ? scopeName(scope) : "",
      {id: "scope", onchange: event => { remember("scope", event.target.value); location.hash = address(name,
        session.scopes.find(one => scopeName(one) === event.target.value)) }})) : null,
    h("nav", {"aria-label": "Screens"}, h("ul", null, Object.keys(screens).map(key =>
      h("li", null, h("a", {href: address(key, scope), "aria-current": key === name ? "page" : null}, titles[key],
        h("span", {id: "failing-" + key})))))),
    h("div", {class: "who"}, button("Search", find, {class: "plain", "aria-keyshortcuts": "Control+K Meta+K", title: "Ctrl-K or ⌘K"}),
      h("span", {id: "wire", class: isDown ? "down" : "up"}, isDown ? "disconnected" : "connected"),
      theme(), button("Sign out", signOut, {class: "plain", title: who()})))
  // On a phone the names of the screens are one line that moves sideways.
  bar.querySelector("[aria-current]")?.scrollIntoView({block: "nearest", inline: "center"})
}

/** Says that what is shown is old: figures that stand still look like figures of now. */
function outage() {
  document.getElementById("outage")?.remove()
  document.body.classList.toggle("old", isDown)
  if (isDown) bar.after(h("p", {id: "outage", class: "state error"}, "The daemon does not answer. What is shown is from before ",
    h("b", null, new Date().toLocaleTimeString("en-GB")), "; this page tries again by itself."))
}

// What fails, beside the names of the screens that say why

/** Asks for `/status` while a person is signed in who may read it. */
function follow() {
  mark()
  if (session.mayReadAll) asking ??= each(5000, async signal => {
    heard = await read("/status", {signal})
    mark()
    glance?.heard(heard)
    hear?.(heard)
  }, () => {})
}

function mark() {
  for (const [name, number] of Object.entries(heard ? now.failures(heard) : {})) {
    const place = document.getElementById("failing-" + name)
    if (place) replace(place, number ? h("span", {class: "badge"}, count(number)) : null, number ? h("span", {class: "unseen"}, " failing") : null)
  }
}

const who = () => session.principal.kind === "bootstrap" ? "signed in with the control token" : `signed in as ${session.principal.name || session.principal.id}`

function theme() {
  const apply = value => { value === "auto" ? delete document.documentElement.dataset.theme : document.documentElement.dataset.theme = value }
  const value = remembered("theme") ?? "auto"
  return h("div", null, h("label", {class: "unseen", for: "theme"}, "Colours"),
    choice([["auto", "Auto"], ["light", "Light"], ["dark", "Dark"]], value,
      {id: "theme", class: "plain", onchange: event => { remember("theme", event.target.value); apply(event.target.value) }}))
}

// Signing in

/** Why the last session ended; kept until the next one begins. */
let ending

function gate(sentence = ending) {
  ending = sentence
  // Removes what was said of a scope: the next person at the page may not read it.
  say("")
  leave?.()
  asking?.()
  leave = hear = heard = asking = undefined
  look()
  shown = undefined
  document.title = "Sign in · Stalecast"
  for (const open of document.querySelectorAll("dialog")) open.close()
  replace(bar, h("span", {class: "brand"}, "Stalecast"))
  const token = h("input", {type: "password", autocomplete: "off", required: true, spellcheck: "false"})
  const user = h("input", {type: "text", autocomplete: "name", maxlength: 120})
  const problem = h("div", null, session.problem ? state("error", session.problem) : null)
  const doors = (session.issuers ?? []).map((issuer, index) => button(`Sign in with ${issuer}`, async () => {
    leftFrom(location.hash)
    try { await signInWith(issuer) } catch (error) { replace(problem, state("error", error.message)) }
  }, {class: index ? "" : "main"}))
  const form = h("form", {class: "gate", onsubmit: async event => {
    event.preventDefault()
    try {
      await signIn({token: token.value.trim(), user: user.value.trim()})
      leftFrom(null)
      go()
    } catch (error) {
      replace(problem, state("error", error.message))
      token.focus()
    }
  }}, h("h1", {tabindex: -1}, "Sign in"), sentence ? h("p", {role: "status"}, sentence) : null,
  doors.length ? [h("p", {class: "doors"}, doors), h("h2", null, "Or with a key")] : null,
  h("p", null, "On the daemon's machine ", h("code", null, "stalecast console"),
    " opens this page signed in. Or paste the control token, or a key: the page may then do what it is granted."),
  field("Token or key", token), field("Your name", user, "Kept with what you publish."),
  problem, h("p", {class: "actions"}, h("button", {type: "submit", class: doors.length ? "" : "main"}, "Sign in")))
  replace(main, form)
}

observe(event => {
  const isGate = document.title === "Sign in · Stalecast"
  // A daemon answers again, so the issuers are known now. What is being typed stays.
  if (isGate && ending === new Silence().message && /^(back|signedOut)$/.test(event) && !main.querySelector("[type=password]").value) {
    ending = undefined
    go()
  } else if (event === "signedOut" && !isGate)
    gate("The session is over: it was signed out, it expired, its key or token is no longer good, or the daemon restarted, which ends a sign-in with an issuer. A draft you had is kept.")
  if (event === "left") gate("You are signed out.")
  if (event === "down" || event === "up") {
    isDown = event === "down"
    const wire = document.getElementById("wire")
    if (wire) replace(wire, isDown ? "disconnected" : "connected").className = event
    outage()
    say(isDown ? "The daemon does not answer; trying again." : "The daemon answers again.")
    // What is shown goes on by itself; a dialog over it, and a draft under it, are left alone.
    if (!isDown && session.signedIn && main.querySelector(".state.error, .state.loading") && !document.querySelector("dialog")) go()
  }
})

// What a screen forgot to catch

addEventListener("unhandledrejection", event => {
  if (event.reason instanceof Refusal || event.reason instanceof Silence) {
    event.preventDefault()
    dialog("That did not work", close => [h("p", null, event.reason.message),
      h("p", {class: "actions"}, button("Close", () => close()))])
  }
})

const theme0 = remembered("theme")
if (theme0 && theme0 !== "auto") document.documentElement.dataset.theme = theme0
document.getElementById("skip").addEventListener("click", event => { event.preventDefault(); main.focus() })

// The address that `stalecast console` prints is good once, so that it may stay in no history.
async function begin() {
  const code = location.hash.match(/^#code=([0-9a-f]+)$/)?.[1]
  if (code) {
    history.replaceState(null, "", location.pathname)
    try { await signIn({code}) } catch (error) { await refresh().catch(() => null); if (!session.signedIn) return gate(error.message) }
  } else {
    try { await refresh() } catch (error) { return gate(error.message) }
    // Where the sign-in with an issuer was begun.
    const back = session.signedIn && cameBack()
    if (back && !location.hash) history.replaceState(null, "", back)
  }
  go()
}

addEventListener("keydown", event => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return
  event.preventDefault()
  find()
})

addEventListener("hashchange", () => {
  // A dialog belongs to the page that opened it. One that sends stays until its answer is here.
  for (const open of document.querySelectorAll("dialog[open]:not([data-busy])")) open.close()
  location.hash.startsWith("#code=") ? begin() : go()
})
begin()
