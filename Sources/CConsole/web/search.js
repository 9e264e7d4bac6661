// ⌘K and Ctrl-K: one box that finds parameters, versions, clients and pages. The keyboard alone is enough.
import {h, replace, cut, dialog, given, say} from "./dom.js"
import {api, path, read, scopeName, session} from "./api.js"

const most = 40

/** Opens the box. `places`: `[name, title]` of the screens; `address(name, scope, parameters)` makes a link. */
export async function search(scope, places, address) {
  if (document.querySelector("dialog[open]")) return
  let found = places.map(([name, title]) => entry("page", title, address(name, scope)))
  for (const other of session.scopes ?? []) if (other !== scope) found.push(entry("scope", scopeName(other), address("now", other)))
  const ending = new AbortController()
  await dialog("Search", close => {
    let shown = [], chosen = 0
    const list = h("ul", {id: "found", role: "listbox", "aria-label": "Found"}), note = h("p", {class: "quiet"})
    const input = h("input", {type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "found", "aria-autocomplete": "list",
      "aria-label": "Search parameters, versions, clients and pages", placeholder: "A parameter, a version, a client, a page", spellcheck: "false",
      autocomplete: "off", oninput: event => { event.stopPropagation(); chosen = 0; show() }, onkeydown: press})

    function show() {
      const wanted = input.value.trim().toLowerCase()
      const typed = input.value.trim()
      const matches = found.map(one => ({...one, rank: rank(one, wanted)})).filter(one => one.rank >= 0).sort((a, b) => a.rank - b.rank)
      if (typed && scope)
        matches.push(entry("client", typed, address("clients", scope, {client: typed}), "look it up"))
      shown = matches.slice(0, most)
      chosen = Math.min(chosen, Math.max(0, shown.length - 1))
      replace(list, shown.map((one, index) => h("li", {role: "option", id: `found${index}`, "aria-selected": String(index === chosen),
        onclick: () => follow(one), onmousemove: () => { if (chosen !== index) { chosen = index; mark() } }},
        h("span", {class: "chip"}, one.kind), " ", given(one.label, 90), one.about ? h("span", {class: "quiet"}, " ", given(one.about, 70)) : null)))
      replace(note, matches.length > most ? `${most} of ${matches.length} shown; type more to narrow it.` : shown.length ? null : "Nothing is called so.")
      mark()
    }

    function mark() {
      for (const [index, one] of [...list.children].entries()) one.setAttribute("aria-selected", String(index === chosen))
      shown.length ? input.setAttribute("aria-activedescendant", `found${chosen}`) : input.removeAttribute("aria-activedescendant")
      list.children[chosen]?.scrollIntoView({block: "nearest"})
    }

    function press(event) {
      const step = {ArrowDown: 1, ArrowUp: -1}[event.key]
      if (step && shown.length) { chosen = (chosen + step + shown.length) % shown.length; mark() }
      else if (event.key === "Home" && !input.value) { chosen = 0; mark() }
      // What is still on its way may fit better than what is there.
      else if (event.key === "Enter") gathered.then(() => shown[chosen] && follow(shown[chosen]))
      else return
      event.preventDefault()
    }

    function follow(one) {
      close()
      say(one.label)
      location.hash = one.href.slice(1)
    }

    const gathered = scope ? gather(scope, address, ending.signal).then(more => { found = found.concat(more); show() }, () => {}) : Promise.resolve()
    show()
    return [input, list, note]
  }, {class: "search"})
  ending.abort()
}

const entry = (kind, label, href, about) => ({kind, label, href, about})

/** 0: begins so; 1: a word of it does; 2: it is in there; 3: in what is said about it; −1: not at all. */
function rank({label, about = ""}, wanted) {
  const text = label.toLowerCase()
  if (text.startsWith(wanted)) return 0
  if (text.split(/[\s_.\-/]+/).some(part => part.startsWith(wanted))) return 1
  return text.includes(wanted) ? 2 : about.toLowerCase().includes(wanted) ? 3 : -1
}

/** What the scope has: parameters, its last versions, the clients that are behind. A part that may not be read is left out. */
async function gather(scope, address, signal) {
  const {parameters, textOf} = await import("./diff.js")
  const none = () => []
  return (await Promise.all([
    api("GET", path(scope), {signal}).then(answer => [...parameters(answer.json)].map(([name, {parameter}]) =>
      entry("parameter", name, address("template", scope, {find: name}), cut(textOf(parameter.defaultValue) ?? "", 60))), none),
    read(path(scope, ":listVersions?pageSize=100"), {signal}).then(page => (page.versions ?? []).map(one =>
      entry("version", `version ${one.versionNumber}`, address("versions", scope, {to: one.versionNumber}),
        [one.updateUser?.name || one.updateUser?.email, one.description].filter(Boolean).join(": "))), none),
    read(path(scope, "/propagation:laggards?pageSize=100"), {signal}).then(page =>
      page.laggards.filter(one => one.client).map(one =>
        entry("client", one.client, address("clients", scope, {client: one.client}), [one.state, one.app].filter(Boolean).join(", "))), none),
  ])).flat()
}
