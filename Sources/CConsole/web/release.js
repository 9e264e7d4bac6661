// Versions that reach their clients in stages: where one stands, what happened, the ways on; and how a publish becomes one.
import {h, replace, button, chip, count, dialog, field, moment, plural, state, table, say} from "./dom.js"
import {api, each, holder, knows, may, path, read} from "./api.js"

/** Whether the daemon has them. */
export const known = () => knows("remoteConfig/release")

const tones = {RAMPING: "warn", BAKING: "warn", PAUSED: "bad", RELEASED: "good", ROLLED_BACK: "bad"}
const words = text => text === "TOO_LITTLE" ? "too few yet" : String(text ?? "").toLowerCase().replaceAll("_", " ")
const percent = number => `${Math.round(number * 100) / 100} %`
const isOver = release => ["RELEASED", "ROLLED_BACK", "SUPERSEDED"].includes(release.state)
const told = release => release.events.at(-1)?.percent ?? release.percent

/** Whether a propagation is of a version that not all clients are told of yet. */
export const isUnderWay = ({release, versionNumber}) =>
  release?.versionNumber === versionNumber && ["PENDING", "RAMPING", "PAUSED"].includes(release.state)

/** A card with the newest release; hidden where there is none. `take` hears of one in a propagation, `end` ends its looks. */
export function section(scope) {
  const head = h("div", {class: "headline"}), bar = h("ol", {class: "stages", "aria-label": "Stages"})
  const tools = h("p", {class: "actions start"}), gates = gateTable(), charts = gateCharts()
  const gatePart = h("div", {hidden: true}, h("h3", null, "Gates"), charts, gates)
  const part = h("section", {class: "card", "aria-label": "Release in stages", hidden: true})
  const log = table({label: "What happened", key: row => row.at + row.kind, filter: false, most: 12, empty: "Nothing yet.", columns: [
    {name: "when", label: "When", value: row => row.at, cell: row => moment(row.at)},
    {name: "what", label: "What", value: row => words(row.kind)},
    {name: "stage", label: "Stage", numeric: true, value: row => row.percent, cell: row => percent(row.percent)},
    {name: "who", label: "By", value: row => holder(row.by)},
    {name: "why", label: "Why", value: row => row.reason ?? ""},
    {name: "figures", label: "Figures", value: row => row.figures ? gateFigures(row.figures) : ""}]})
  let seen, shown, stop

  function show(release) {
    seen = release
    if (isOver(release)) part.end()
    replace(head, headline(release))
    replace(bar, release.stages.map(stage => h("li", {class: stage.reachedAt ? "reached" : null}, h("b", null, percent(stage.percent)),
      " ", h("span", {class: "quiet"}, stage.reachedAt ? moment(stage.reachedAt) : release.percent > stage.percent ? "passed over" : "not yet"))))
    gates.update(release.gates ?? [])
    charts.update(release)
    gatePart.hidden = !release.gates?.length
    log.update([...release.events].reverse())
    const now = release.versionNumber + release.state + told(release)
    if (shown === now) return
    // Buttons stay while nothing changes: one of them may have the focus.
    const focus = tools.contains(document.activeElement)
    shown = now
    replace(tools, may(scope, "publish") ? waysOn(release).map(([verb, label, more]) =>
      button(label, () => change(verb, label, release), more)) : null)
    if (focus) tools.querySelector("button")?.focus()
    replace(part, h("h2", null, "Release in stages"), head, bar, tools, gatePart, log)
    say(head.textContent)
  }

  async function change(verb, label, release) {
    const {versionNumber: version, baseVersionNumber: base} = release
    const sentence = {
      pause: "Clients keep their version until the release is resumed, promoted or rolled back.",
      resume: "It goes on; the time of its stage begins anew.",
      advance: "The clients of the next stage are told now, and its time begins.",
      promote: `All clients are told of version ${version} now. Its bake time follows.`,
      rollback: `The content of version ${base} becomes a new version. Clients that were told of version ${version} are told of that one; for the others nothing changed.`,
    }[verb]
    const done = await dialog(`${label}: version ${version}`, close => {
      const reason = h("input", {type: "text", maxlength: 250}), problem = h("div")
      const submit = h("button", {type: "submit", class: verb === "rollback" ? "danger" : "main"}, label)
      return h("form", {onsubmit: async event => {
        event.preventDefault()
        submit.disabled = true
        try {
          close((await api("POST", path(scope, `/release:${verb}`), {body: reason.value ? {reason: reason.value} : {}})).json)
        } catch (error) {
          submit.disabled = false
          replace(problem, state("error", error.message))
        }
      }}, h("p", null, sentence), field("Why", reason, "Kept in the log of the release."), problem,
      h("p", {class: "actions"}, button("Cancel", () => close()), submit))
    })
    if (done) show(done)
  }

  part.take = brief => {
    if (!brief) return
    part.hidden = false
    if (stop || seen?.versionNumber === brief.versionNumber && seen.state === brief.state) return
    stop = each(1000, async signal => show(await read(path(scope, "/release"), {signal})),
      error => { if (error.status) { replace(part, state("error", error.message)); shown = undefined } })
  }
  part.end = () => { stop?.(); stop = undefined }
  return part
}

function headline(release) {
  const version = h("b", null, `version ${release.versionNumber}`), at = h("strong", null, percent(told(release)))
  const next = release.nextStepAt ? [release.state === "BAKING" ? " · released " : " · next step ", moment(release.nextStepAt)]
    : release.state === "RAMPING" ? " · waits for the next stage" : null
  const {clients} = release
  const reached = clients ? ` · ${plural(clients.told, "client")} with an id: ${count(clients.fetched)} fetched, ${count(clients.failed)} failed` : null
  const after = release.successorVersionNumber ? ` · version ${release.successorVersionNumber} followed` : null
  return h("p", null, at, " of the clients were told of ", version, `, over version ${release.baseVersionNumber} `,
    chip(words(release.state), tones[release.state]), next, reached, after)
}

/** What can be done now: verb, label, attributes. */
function waysOn(release) {
  if (isOver(release)) return []
  return [release.state === "PAUSED" ? ["resume", "Resume"] : ["pause", "Pause"],
    ...(release.stages.filter(stage => stage.percent > release.percent).length > 1 ? [["advance", "Next stage"]] : []),
    ...(release.percent < 100 ? [["promote", "Promote"]] : []), ["rollback", "Roll back", {class: "danger"}]]
}

// Prometheus answers in a unit of its own; all others are in percent.
const figure = (row, value) => value === null || value === undefined ? "–" : row.name === "prometheus" ? String(value) : percent(value)

/** Figures of a gate in words: `told 30 %, others 0.4 %, limit 2 %`. */
function gateFigures(gate) {
  return [gate.told === undefined ? ["value", gate.value] : ["told", gate.told], ["others", gate.untold], ["limit", gate.limit]]
    .filter(([, value]) => value !== undefined).map(([name, value]) => `${name} ${figure(gate, value)}`).join(", ")
}

/** A small chart for each gate that compares clients: what told clients did, what the others did, the limit as a line. */
function gateCharts() {
  const names = ["loss", "failed", "fetchErrors", "silent"], most = 180, seen = new Map(), part = h("div", {class: "gauges"})
  const width = 180, height = 56
  let version

  function chart(gate, points) {
    const top = 1.15 * Math.max(gate.limit ?? 0, ...points.flatMap(point => [point.told, point.untold ?? 0]), 0.1)
    const y = value => (height - 2 - value / top * (height - 4)).toFixed(1)
    const line = (member, kind) => {
      const known = points.map((point, index) => [point[member], index]).filter(([value]) => value !== undefined)
      return known.length ? h("polyline", {class: `line ${kind}`, points: known.map(([value, index]) =>
        `${(width - (points.length - 1 - index) * width / (most - 1)).toFixed(1)},${y(Math.max(0, value))}`).join(" ")}) : null
    }
    return h("figure", null, h("figcaption", null, h("b", null, gate.name), " ", points.length ? gateFigures(gate) : words(gate.verdict)),
      h("svg", {class: "curve", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `${gate.name}: ${gateFigures(gate) || words(gate.verdict)}`},
        h("line", {class: "limit", x1: 0, x2: width, y1: y(gate.limit ?? 0), y2: y(gate.limit ?? 0)}), line("untold", "sent"), line("told", "active")))
  }

  part.update = release => {
    if (version !== release.versionNumber) { version = release.versionNumber; seen.clear() }
    const gates = (release.gates ?? []).filter(gate => names.includes(gate.name))
    for (const gate of gates) {
      const points = seen.get(gate.name) ?? [], told = gate.told ?? gate.value
      if (told !== undefined) points.push({told, untold: gate.untold})
      seen.set(gate.name, points.slice(-most))
    }
    replace(part, gates.map(gate => chart(gate, seen.get(gate.name))))
  }
  return part
}

/** What stops a release by itself. */
function gateTable() {
  const figures = [["value", "Value"], ["limit", "Limit"], ["told", "Told"], ["untold", "Untold"]].map(([name, label]) =>
    ({name, label, numeric: true, value: row => row[name], cell: row => figure(row, row[name])}))
  const tone = {OK: "good", TRIPPED: "bad"}
  return table({label: "Gates", key: row => row.name, filter: false, empty: "None.", columns: [
    {name: "name", label: "Gate", value: row => row.name},
    {name: "verdict", label: "Verdict", value: row => row.verdict, cell: row => chip(words(row.verdict), tone[row.verdict])}, ...figures,
    {name: "count", label: "Of", numeric: true, value: row => row.count, cell: row => count(row.count)},
    {name: "detail", label: "Why", value: row => row.detail ?? ""}]})
}

// Before a publish

/** Who would be told of a publish; resolves with what the daemon says, or nothing. */
export async function showAudience(scope, element) {
  if (!knows("remoteConfig/audience")) { replace(element, state("missing", "This daemon does not tell it beforehand.")); return null }
  try {
    const seen = await read(path(scope, "/audience"))
    replace(element, h("p", null, h("b", null, plural(seen.streams, "stream")),
      `, ${plural(seen.polls, "poll")}${seen.webhooks === undefined ? "" : `, ${plural(seen.webhooks, "webhook")}`}; `,
      h("b", null, plural(seen.clients, "client")),
        ` known by name${seen.unidentifiedStreams ? `, ${plural(seen.unidentifiedStreams, "stream")} without one` : ""}.`),
    seen.held?.length ? h("p", {class: "quiet"}, "They hold ", seen.held.slice(0, 6).map((one, index) =>
      `${index ? ", " : ""}${one.versionNumber === "0" ? "an unknown version" : `version ${one.versionNumber}`} (${count(one.clients)})`),
        ".") : null)
    return seen
  } catch (error) { replace(element, state("error", error.message)); return null }
}

/**
 * The part of the publish dialog that says how a version is released. `changed` is called when it says something else.
 * `query()`: of the request; `heard(audience)`: who would be told; `refused(error)`: whether a box was offered that helps.
 */
export function choices(changed) {
  const staged = h("input", {type: "checkbox", onchange: () => { fields.hidden = !staged.checked; changed() }})
  const supersede = h("input", {type: "checkbox", onchange: () => changed()})
  const stages = h("input", {type: "text", value: "1%, 10%, 50%, 100%", spellcheck: "false", oninput: () => reckon(), onchange: () => changed()})
  const [every, bake] = ["5m", "10m"].map(value => h("input", {type: "text", value, spellcheck: "false", onchange: () => changed()}))
  const reach = h("p", {class: "quiet"})
  const fields = h("fieldset", {hidden: true}, h("legend", null, "Stages"), field("Shares of the clients", stages, "Ascending, the last 100%."),
    h("div", {class: "pair"}, field("Each lasts", every), field("The last is watched for", bake)), reach)
  const open = h("label", {class: "check", hidden: true}, supersede, " take the place of the release that is open")
  let audience

  function reckon() {
    const unnamed = audience?.unidentifiedStreams ?? 0
    // In a cluster the daemon knows the streams of all nodes, and the clients of its own.
    const named = audience ? audience.unidentifiedStreams === undefined ? Math.max(audience.clients, audience.streams) : audience.clients : 0
    const parts = stages.value.split(",").map(text => parseFloat(text)).filter(part => part > 0 && part <= 100)
    replace(reach, named + unnamed === 0 ? "No client is connected now who would hear of it." : [
      parts.map((part, index) => `${index ? "; " : ""}${percent(part)}: ${part < 100 ? `about ${count(Math.round(named * part / 100))}`
        : count(named + unnamed)}`), " of the clients connected now.",
      unnamed ? ` ${plural(unnamed, "stream")} without a name: told with the last stage.` : null])
  }

  return {
    element: [h("label", {class: "check"}, staged, " in stages: a share of the clients first"), fields, open],
    query: () => ({...(staged.checked ? {release: "staged", stages: stages.value.replaceAll(" ", ""), every: every.value.trim(),
      bake: bake.value.trim()} : {}), ...(supersede.checked ? {supersede: "true"} : {})}),
    heard: seen => { audience = seen; reckon() },
    refused: error => { if (error.message.includes("[RELEASE_OPEN]")) open.hidden = false },
  }
}
