// What is going on: the newest version's way to its audience, who listens, what was delivered.
import {h, replace, replaceChanged, facts, chip, count, given, moment, plural, share, span, state, table, say} from "./dom.js"
import {api, each, flags, may, partial, path, read, scopeName, session, watch} from "./api.js"
import {changeList, difference} from "./diff.js"
import {leftWords, reach, reachWords, shareWords, stateChip} from "./reach.js"
import * as releases from "./release.js"
import * as timeline from "./timeline.js"
import {failure} from "./webhooks.js"

export function show({content, scope, offer, fresh, link, status}) {
  const head = h("div", {class: "headline"}), about = h("div"), changes = h("div"), chart = h("div"), figures = h("div", {class: "columns"})
  const line = timeline.section(scope)
  const topics = h("section"), past = h("section"), faults = h("div"), release = releases.section(scope)
  offer(null, `stalecast propagation status${flags(scope)}`)
  const mayRollBack = may(scope, "publish") && !scope.fedBy && !scope.needsApproval
  let latest, told, listening, changesOf, listed, newest, aboutOf, rows = []

  function take(seen) {
    // Events lack what is counted elsewhere: webhooks and polls.
    if (seen.versionNumber === latest?.versionNumber) seen = {...latest, ...seen}
    latest = seen
    fresh(seen)
    release.take(seen.release)
    if (!content.contains(head)) replace(content, faults, release,
      h("section", {"aria-label": "Convergence", class: "card"}, head, about, changes, chart, figures), line.element, past, topics)
    if (seen.versionNumber === "0") {
      replace(content, state("empty", "This scope has no version yet. Publish the first one from the command line, or write it here.",
        h("p", null, h("a", {href: link("template")}, "Write a template"))))
      return
    }
    // Events lack the names too; what is there stays, with the focus that may be in it.
    if (changesOf !== seen.versionNumber) {
      replace(changes, seen.changedKeys ? changed(seen, link) : null)
      if (seen.changedKeys) compare(seen)
    }
    if (seen.changedKeys) changesOf = seen.versionNumber
    showStory()
    replace(head, headline(seen, listening, link))
    // Counted from reconnects there are no times.
    replace(chart, (seen.partial ? null : convergence(seen.curve, audiences(seen), seen.ageSeconds)) ?? state("empty", quietly(seen)))
    replace(figures, populations(seen))
    const sentence = head.textContent
    const stage = seen.versionNumber + seen.state + (seen.release?.state ?? "")
    if (told !== stage) { told = stage; say(sentence) }
    // What the stream says moves the newest row; the others change when this one begins or ends.
    versions.update([{...rows.find(row => row.versionNumber === seen.versionNumber), ...seen},
      ...rows.filter(row => row.versionNumber !== seen.versionNumber)])
    if (listed !== stage) list(stage)
  }

  /** Says who published the newest version, and leads back. What is there stays, with the focus that may be in it. */
  function showStory() {
    if (newest?.versionNumber !== latest.versionNumber) {
      if (aboutOf) replace(about)
      return aboutOf = undefined
    }
    const back = mayRollBack ? wayBack(latest, newest) : null
    const of = `${newest.versionNumber} ${back}`
    if (aboutOf === of) return
    aboutOf = of
    replace(about, story(newest, back && h("a", {href: link("versions", {rollback: back})}, `roll back to version ${back} …`)))
  }

  /**
   * Reads the last versions. What is asked for later wins, whichever answer comes last. After a failure it is repeated
   * with what is heard three seconds later.
   */
  async function list(stage) {
    listed = stage
    try {
      const authors = (await read(path(scope, ":listVersions?pageSize=12"))).versions ?? []
      if (listed !== stage) return
      newest = authors.find(one => one.versionNumber === latest.versionNumber)
      showStory()
      const of = new Map(authors.map(one => [one.versionNumber, one]))
      const {propagations} = await read(path(scope, "/propagation:list?pageSize=12"))
      if (listed !== stage) return
      rows = propagations.map(row => ({...of.get(row.versionNumber), ...row}))
      versions.update(rows)
      if (!past.contains(versions)) replace(past, h("h2", null, "Last versions"), versions)
    } catch (error) {
      if (listed !== stage) return
      setTimeout(() => { if (listed === stage) listed = undefined }, 3000)
      if (error.status) replace(past, state("error", error.message))
    }
  }

  /** Shows what the newest version changed, value by value. */
  async function compare({versionNumber, previousVersionNumber}) {
    const [before, after] = await Promise.all([previousVersionNumber, versionNumber].map(number =>
      Number(number) ? read(path(scope, `?versionNumber=${number}`)) : {}))
    if (latest.versionNumber !== versionNumber) return
    const list = difference(before, after)
    if (list.length) changes.append(h("details", {open: list.length <= 3}, h("summary", null, "What changed"), changeList(list)))
  }

  // Who listens, and what came before

  const versions = table({label: "Last versions", key: row => row.versionNumber, filter: false, empty: "No version yet.", columns: [
    {name: "version", label: "Version", numeric: true, value: row => Number(row.versionNumber),
      cell: row => h("a", {href: link("versions", {to: row.versionNumber})}, row.versionNumber)},
    {name: "when", label: "When", value: row => row.announceTime ?? row.updateTime,
      cell: row => moment(row.announceTime ?? row.updateTime)},
    {name: "state", label: "State", value: row => row.state ?? "", cell: row => row.state ? stateChip(row) : "–"},
    {name: "reached", label: "Reached", value: reachWords},
    {name: "sent99", label: "99 % sent", numeric: true, value: row => row.times?.sent?.t99 ?? 1e9,
      cell: row => seconds(row.times?.sent?.t99)},
    {name: "fetched99", label: "99 % fetched", numeric: true, value: row => row.times?.fetched?.t99 ?? 1e9,
      cell: row => seconds(row.times?.fetched?.t99)},
    {name: "who", label: "Who", value: row => who(row)},
    {name: "keys", label: "Changed", value: row => (row.changedKeys ?? []).join(" "), cell: row => keyList(row)},
  ]})
  const listeners = table({label: "Topics", key: row => row.name, filter: false, empty: "No topic is bound to this project.", columns: [
    {name: "topic", label: "Topic", value: row => row.name},
    {name: "about", label: "About", value: row => row.scopes.join(", ") + (row.keys?.length ? ` · ${row.keys.join(", ")}` : "")},
    {name: "listening", label: "Listening", numeric: true, value: row => total(row.subscribers),
      cell: row => count(total(row.subscribers))},
    {name: "how", label: "How", value: row => Object.entries(row.subscribers).filter(([, number]) => number).map(([way, number]) => `${count(number)} ${way}`).join(", ") || "–"},
  ]})
  replace(past, h("h2", null, "Last versions"), versions)
  replace(topics, h("h2", null, "Who listens"), scope.wholeProject ? listeners : state("missing", partial))
  const failed = error => { if (!content.contains(head)) replace(content, state("error", error.message)) }
  const ends = [release.end, line.end]
  ends.push(each(3000, signal => read(path(scope, "/propagation"), {signal}).then(take), failed))
  ends.push(watch(path(scope, "/propagation:watch?follow=true"), {progress: take}, () => {}))

  if (scope.wholeProject) ends.push(each(2000, async signal => {
    const all = (await api("GET", `/v1/projects/${scope.project}/topics`, {signal})).json.topics
    const own = all.filter(topic => topic.scopes.some(name => name.endsWith("/" + scope.namespace) || name === scope.namespace))
    listeners.update(own)
    const sum = own.reduce((sum, topic) => sum + total(topic.subscribers), 0)
    if (listening === sum) return
    listening = sum
    if (latest && latest.versionNumber !== "0") replace(head, headline(latest, listening, link))
  }, error => { if (error.status) replace(topics, state("error", error.message)) }))
  status(async seen => {
    line.heard(seen)
    // Without the list the number is there.
    replaceChanged(faults, failing(seen, link, await failingWebhooks(seen, scope).catch(() => [])))
  })
  return () => ends.forEach(end => end())
}

/** Author and description of a version, and a way back; nothing where none is known. */
function story(version, back) {
  const user = who(version), isTold = user || version.description
  if (!isTold && !back) return null
  return h("p", {class: "quiet"}, user ? ["published by ", given(user, 80)] : null, user && version.description ? ": " : null,
    version.description ? given(version.description, 200) : null, isTold && back ? " · " : null, back)
}

/** The version that a rollback of the newest leads to. After a rollback that is the version just taken back: there is none. */
function wayBack({versionNumber, previousVersionNumber, release}, {rollbackSource}) {
  return Number(previousVersionNumber) && !Number(rollbackSource) && release?.versionNumber !== versionNumber ? previousVersionNumber : null
}

const who = version => version?.updateUser?.name || version?.updateUser?.email || ""

/** Names of the parameters that a version changed, the first ones. */
function keyList({changedKeys, changedKeyCount}) {
  if (!changedKeys) return "–"
  return [changedKeys.slice(0, 3).map((key, index) => [index ? ", " : "", h("code", null, given(key, 40))]),
    changedKeyCount > 3 ? ` and ${count(changedKeyCount - 3)} more` : null]
}

/** Which parameters a version changed, with the way to their values; nothing where none did. */
function changed({changedKeys, changedKeyCount, versionNumber, previousVersionNumber}, link) {
  const before = Number(previousVersionNumber) ? previousVersionNumber : null
  if (!changedKeys.length) return null
  const shown = changedKeys.slice(0, 6)
  return h("p", {class: "quiet"}, "changed ", shown.map((key, place) => [place ? ", " : "", h("code", null, given(key, 60))]),
    changedKeyCount > shown.length ? ` and ${count(changedKeyCount - shown.length)} more` : null,
    before ? [" · ", h("a", {href: link("versions", {from: before, to: versionNumber})}, "compare")] : null)
}

const total = subscribers => Object.values(subscribers).reduce((sum, number) => sum + number, 0)
const seconds = number => number === null || number === undefined ? "–" : span(number * 1000)

/** How many fail, by the screen that says why. */
export function failures(status) {
  const states = status.webhooks?.states ?? {}
  return {webhooks: (states.failing ?? 0) + (states.disabled ?? 0), sources: (status.sources ?? []).filter(source => source.error).length}
}

/** The project's webhooks among those that a status counts as failing; none where the list may not be read. */
export async function failingWebhooks(status, scope, signal) {
  if (!failures(status).webhooks || !scope?.wholeProject) return []
  const {webhooks} = await read(`/v1/projects/${scope.project}/webhooks?pageSize=1000`, {signal})
  return webhooks.filter(one => ["failing", "disabled"].includes(one.state.name))
}

/** What fails in the daemon, each with the screen that says why; nothing where all is well. */
export function failing(status, link, webhooks) {
  const named = webhooks.slice(0, 3), more = failures(status).webhooks - named.length
  const sources = (status.sources ?? []).filter(source => source.error)
  return [
    named.length || more > 0 ? h("div", {class: "state error"}, named.map(one => h("p", null, "Webhook ",
      h("a", {href: link("webhooks", {id: one.id})}, given(one.url, 80)), one.state.name === "disabled" ? " is disabled" : " fails",
      failure(one) ? [": ", given(failure(one), 160)] : null)),
      more > 0 ? h("p", null, h("a", {href: link("webhooks")}, plural(more, named.length ? "more webhook" : "webhook")),
        more === 1 ? " fails or is disabled" : " fail or are disabled", everywhere() ? ` (${everywhere()}).` : ".") : null) : null,
    sources.length ? h("div", {class: "state error"}, sources.slice(0, 3).map(source => h("p", null,
      h("a", {href: link("sources")}, `Source of ${scopeName(source)}`), " fails: ", given(source.error.message, 160))),
      sources.length > 3 ? h("p", null, `${count(sources.length - 3)} more.`) : null) : null]
}

/** What is counted for the whole daemon says so where there are several projects. */
export const everywhere = () => new Set((session.scopes ?? []).map(scope => scope.project)).size > 1 ? "all projects counted" : ""

function audiences(seen) {
  const far = reach(seen), clients = far.noun === "client" ? far.whole : 0, streams = seen.streams.audience - (seen.streams.left ?? 0)
  return {sent: streams, received: streams, ...(clients ? {fetched: clients, active: clients} : {})}
}

function headline(seen, listening, link) {
  const {clients} = seen, far = reach(seen)
  const version = h("b", null, `version ${seen.versionNumber}`)
  const badge = seen.state ? [" ", stateChip(seen)] : null
  const when = seen.announceTime ? [", announced ", moment(seen.announceTime)] : null
  const gone = far.lost ? [" · ", h("b", {class: "warned"}, leftWords(far))] : null
  if (far.whole > 0 && far.noun === "client") {
    const t99 = seen.times?.fetched?.t99
    const doubt = far.unknown ? ` · ${count(far.unknown)} unknown since the restart` : null
    return h("p", null, far.unknown < far.whole ? [h("strong", null, doubt ? `${count(far.part)} of ${count(far.whole)}` : shareWords(far)),
      releases.isUnderWay(seen) ? " of the clients that were told have " : " of the clients have ", version] : [version, ": how many clients have it is not known"],
      t99 ? ` · 99 % after ${span(t99 * 1000)}` : null, doubt,
      clients.behind ? [" · ", h("a", {href: link("clients", {stage: "fetched"})}, `${count(clients.behind)} behind`)] : null, gone,
      clients.failed ? ` · ${plural(clients.failed, "client")} failed` : null, when, badge)
  }
  if (far.whole > 0) return h("p", null, h("strong", null, share(far.part, far.whole)), " of the streams were sent ", version,
    seen.milliseconds ? ` within ${span(seen.milliseconds)}` : null,
      far.part < far.whole ? ` · ${count(far.whole - far.part)} read too slowly` : null, gone, when, badge)
  const none = far.audience ? [`All ${plural(far.audience, far.noun)} left without `, version]
    : listening === 0 ? ["No client listens: ", version, " is current"]
    : releases.isUnderWay(seen) ? [version, " is released in stages. No client that was told of it was connected"]
    : [version, seen.partial ? " is current; no client came back yet" : " is current. No client was connected when it was announced"]
  return h("p", null, none, listening ? ` · ${count(listening)} listen now` : null, when, badge)
}

function quietly(seen) {
  if (!seen.partial && releases.isUnderWay(seen)) return "Only a share of the clients is told so far."
  if (!seen.partial && !seen.curve) return "The daemon was restarted after this version had ended. It kept the counts, and no curve."
  if (!seen.partial) return seen.streams.audience || seen.clients?.audience ? "All who heard of it have left."
    : "No client was connected when this version was announced. A client that connects now gets it at once."
  const before = seen.beforeRestart
  return "The daemon was restarted after this version was announced. It counts the clients that come back, without times."
    + (before ? ` When it stopped, ${count(before.streams.sent)} of ${plural(before.streams.audience, "stream")} were told and ${
      count(before.clients.fetched)} of ${plural(before.clients.audience, "client")} had fetched it.` : "")
}

function populations({streams, clients, times, polls, webhooks, fetches, fetchWindowMs}) {
  const lost = clients?.lost ?? clients?.left ?? 0, untold = (clients?.left ?? 0) - lost
  // A page full of zeros says no more than the sentence above it.
  if (![streams.audience, streams.left, streams.joined, clients?.audience, clients?.left, clients?.unidentifiedStreams, polls?.answered,
    webhooks?.owed, fetches?.answers, fetches?.errors].some(Boolean)) return []
  const t = rung => times?.[rung]?.t50 ? ` · 50 % ${seconds(times[rung].t50)}, 95 % ${seconds(times[rung].t95)}, 99 % ${seconds(times[rung].t99)}` : ""
  return [
    h("section", null, h("h2", null, "Streams"), facts([
      ["audience", count(streams.audience)], ["sent", count(streams.sent) + t("sent")],
      streams.received !== undefined && ["received",
        `${count(streams.received)}${streams.receivedUnknown ? ` · ${count(streams.receivedUnknown)} unknown (TLS)` : ""}`],
      streams.backlogged !== undefined && ["waiting", count(streams.backlogged)],
      streams.left !== undefined && ["left · joined", `${count(streams.left)} · ${count(streams.joined)}`],
      ["polls answered", count(polls?.answered)], ["webhooks owed", count(webhooks?.owed)]])),
    clients ? h("section", null, h("h2", null, "Clients"), facts([
      ["audience", count(clients.audience)], ["fetched", count(clients.fetched) + t("fetched")],
        ["active", count(clients.active) + t("active")],
      ["behind", count(clients.behind)], clients.unknown ? ["unknown", `${count(clients.unknown)} since the restart`] : null,
      ["failed", clients.failed ? chip(count(clients.failed), "bad") : "0"],
        ["left without it", lost ? chip(count(lost), "warn") : "0"], untold > 0 && ["left before they were told", count(untold)],
      ["streams without a name", count(clients.unidentifiedStreams)],
      clients.sampling?.rate < 1 && ["counted",
        `every ${Math.round(1 / clients.sampling.rate)}th, ± ${(clients.sampling.error * 200).toFixed(2)} points`],
      fetches && ["fetches", `${plural(fetches.answers, "answer")}${fetches.errors === undefined ? "" : `, ${plural(fetches.errors, "error")}`}, at most ${count(fetches.peakPerSecond)} a second${fetchWindowMs ? `, spread over ${span(fetchWindowMs)}` : ""}`]]))
      : null]
}

// The convergence curve: counts over the logarithm of time, as lines, and as a table for those who do not see them.
const height = 260, left = 46, right = 74, top = 12, bottom = 28

/**
 * `curve`: `{at: seconds, sent: counts, …}`; `audiences`: what 100 % is of, by rung; `now`: seconds since the announcement.
 * Each rung is a share of its own population: streams and clients are never added.
 */
function convergence(curve, audiences, now) {
  const rungs = Object.keys(audiences).filter(rung => curve?.[rung]?.length && audiences[rung] > 0)
  if (!rungs.length) return null
  // Letters keep their size: a narrow window gets a narrower picture, not a smaller one.
  const width = Math.min(1240, Math.max(340, innerWidth - 90))
  const first = 0.001, last = Math.max(10, now * 1.02)
  const decades = Math.log10(last / first)
  const x = at => left + (width - left - right) * Math.min(1, Math.max(0, Math.log10(Math.max(at, first) / first) / decades))
  const y = part => height - bottom - (height - top - bottom) * Math.min(1, part)
  const element = h("svg", {class: "curve", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `Convergence: ${rungs.map(rung => `${rung} ${describe(curve[rung], audiences[rung])}`).join(", ")}`})
  for (const part of [0, 0.5, 0.95, 1]) {
    element.append(h("line", {class: part === 0 || part === 1 ? "axis" : "grid", x1: left, x2: width - right, y1: y(part),
      y2: y(part)}))
    if (part !== 0.95) element.append(h("text", {x: left - 6, y: y(part) + 4, "text-anchor": "end"}, `${part * 100} %`))
  }
  for (let power = -3; 10 ** power <= last; power++) {
    const at = 10 ** power
    element.append(h("line", {class: "grid", x1: x(at), x2: x(at), y1: top, y2: height - bottom}),
      h("text", {x: x(at), y: height - 8, "text-anchor": "middle"}, label(at)))
  }
  const ends = []
  for (const rung of rungs) {
    const parts = curve[rung].map(number => number / audiences[rung])
    let d = `M${x(first)} ${y(0)}`
    curve.at.forEach((at, index) => { if (parts[index] !== undefined) d += `H${x(at).toFixed(1)}V${y(parts[index]).toFixed(1)}` })
    d += `H${x(Math.max(now, curve.at.at(-1) ?? 0)).toFixed(1)}`
    element.append(h("path", {class: `line ${rung}`, d}))
    ends.push([rung, y(parts.at(-1) ?? 0)])
  }
  // Names beside the ends of their lines, never one on another.
  ends.sort((a, b) => a[1] - b[1])
  let above = -Infinity
  for (const [rung, end] of ends) {
    above = Math.max(end + 4, above + 14)
    element.append(h("text", {class: `name ${rung}`, x: x(Math.max(now, curve.at.at(-1) ?? 0)) + 6, y: above}, rung))
  }
  return h("figure", {class: "chart"}, element, h("details", null, h("summary", null, "The same as a table"),
    asTable(curve, rungs, audiences)))
}

const label = at => at < 1 ? `${Math.round(at * 1000)} ms` : at < 60 ? `${at} s` : at < 3600 ? `${Math.round(at / 60)} min` : `${Math.round(at / 3600)} h`
const describe = (counts, all) => `${count(counts.at(-1))} of ${count(all)}`

function asTable(curve, rungs, audiences) {
  const step = Math.max(1, Math.ceil(curve.at.length / 16))
  const rows = curve.at.map((at, index) => [at, index]).filter(([, index]) => index % step === 0 || index === curve.at.length - 1)
  return h("div", {class: "scroller", tabindex: 0, role: "region", "aria-label": "Convergence as a table"}, h("table", null,
    h("caption", {class: "unseen"}, "Convergence"),
    h("thead", null, h("tr", null, h("th", {scope: "col", class: "numeric"}, "after"),
      rungs.map(rung => h("th", {scope: "col", class: "numeric"}, `${rung} of ${count(audiences[rung])}`)))),
    h("tbody", null, rows.map(([at, index]) => h("tr", null, h("th", {scope: "row", class: "numeric"}, span(at * 1000)),
      rungs.map(rung => h("td", {class: "numeric"}, count(curve[rung][index]))))))))
}
