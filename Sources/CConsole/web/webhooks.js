// Who is told by URL, how that went, and what can be done about it.
import {h, replace, button, chip, choice, clock, count, dialog, facts, field, given, moment, plural, refind, say, shownOnce, span, state, table, unread} from "./dom.js"
import {api, each, may, partial, read} from "./api.js"
import {sending} from "./records.js"

const tones = {active: "good", failing: "bad", disabled: "bad", paused: "warn", unverified: "warn"}

export function show({content, scope, parameters, offer, fresh, note}) {
  const base = `/v1/projects/${scope.project}/webhooks`, flag = ` --project ${scope.project}`
  let id = parameters.get("id"), stop
  const list = table({label: "Webhooks", key: row => row.id, empty: "No webhook is registered in this project.", columns: [
    {name: "url", label: "URL", value: row => row.url, cell: row => button([given(row.url, 80)], () => choose(row.id),
      {class: "link"})},
    {name: "state", label: "State", value: row => row.state.name, cell: row => [chip(row.state.name, tones[row.state.name]),
      tones[row.state.name] === "bad" ? [" since ", moment(row.state.since)] : null, quietly(row.state.reason), tones[row.state.name] === "bad" ? quietly(failure(row)) : null]},
    {name: "topics", label: "Topics", value: row => row.topics.join(", ")},
    {name: "format", label: "Format", value: row => `${row.format}, ${row.mode}`},
    {name: "owed", label: "Owed", numeric: true, value: owed, cell: row => count(owed(row))},
    {name: "about", label: "About", value: row => row.description ?? row.configuredAs ?? ""}]})
  const detail = h("section", {"aria-label": "The webhook"})
  offer(null, () => id ? `stalecast webhooks attempts ${id}${flag}` : `stalecast webhooks list${flag}`)

  if (!scope.wholeProject) { replace(content, state("missing", partial)); return }

  function choose(wanted) {
    id = wanted
    note({id: id ?? ""})
    stop?.()
    if (!id) { replace(detail); return }
    const head = h("h2", {tabindex: -1}, "The webhook"), about = h("div"), deliveries = h("div")
    replace(detail, head, about, deliveries)
    const attempts = table({label: "Attempts", key: row => row.startTime + row.attempt, filter: false, empty: "Nothing was tried yet.",
      columns: [
      {name: "when", label: "When", value: row => row.startTime, cell: row => moment(row.startTime)},
      {name: "what", label: "What", value: row => row.versionNumber ? `${row.namespace} ${row.versionNumber}` : row.kind},
      {name: "try", label: "Try", numeric: true, value: row => row.attempt},
      {name: "outcome", label: "Outcome", value: row => row.outcome,
        cell: row => [chip(row.outcome, works(row) ? "good" : "warn"), row.status ? ` ${row.status}` : ""]},
      {name: "took", label: "Took", numeric: true, value: row => took(row), cell: row => span(took(row))},
      {name: "problem", label: "Problem", value: row => works(row) ? "" : reason(row)},
      {name: "next", label: "Next try", value: row => row.next ?? "", cell: row => moment(row.next)}]})
    const dead = table({label: "Given up", key: row => row.id, filter: false, empty: "Nothing was given up.", columns: [
      {name: "version", label: "Version", value: row => `${row.namespace} ${row.versionNumber}`},
        {name: "reason", label: "Why", value: row => row.reason},
      {name: "tries", label: "Tries", numeric: true, value: row => row.attempts},
        {name: "when", label: "When", value: row => row.moveTime, cell: row => moment(row.moveTime)}]})
    stop = each(3000, async signal => {
      const [webhook, tried, lost] = await Promise.all([read(`${base}/${id}`, {signal}),
        read(`${base}/${id}/attempts?pageSize=50`, {signal}), read(`${base}/${id}/deadLetters?pageSize=50`, {signal})])
      fresh(webhook)
      replace(head, given(webhook.url, 120))
      const focus = about.contains(document.activeElement) && document.activeElement
      replace(about, facts([["id", h("code", null, webhook.id)], ["state", chip(webhook.state.name, tones[webhook.state.name])],
        ["since", moment(webhook.state.since)],
        ...(webhook.delivery?.lastFailure ? [["last failure", [moment(webhook.delivery.lastFailure.time), quietly(failure(webhook))]]] : []),
        ...(webhook.delivery?.nextAttemptTime ? [["next try", moment(webhook.delivery.nextAttemptTime)]] : []),
        ["topics", webhook.topics.join(", ")], ["format", `${webhook.format}, ${webhook.mode}`], ["origin", webhook.origin],
          ["changed", moment(webhook.updateTime)]]),
      may(scope, "manage") ? h("p", {class: "actions start"}, webhook.origin === "configuration" ? null : [button("Edit", () => edit(webhook)),
        button("Remove", () => remove(webhook), {class: "danger"})], button("Test", () => act("test")),
        button("Redeliver the newest", () => act("redeliver")),
        webhook.state.name === "paused" ? button("Resume", () => act("resume")) : button("Pause", () => act("pause")),
        webhook.state.name === "disabled" ? button("Enable", () => act("enable")) : null,
        webhook.state.name === "unverified" ? button("Ask for consent", () => act("verify")) : null,
        lost.deadLetters.length ? button("Take up what was given up", () => act("redrive")) : null) : null)
      if (focus) refind(focus)
      attempts.update(tried.attempts.map((row, index) => ({...row, next: nextTry(row, tried.attempts.slice(0, index), webhook.mode)})))
      dead.update(lost.deadLetters)
      if (!deliveries.firstChild) replace(deliveries, h("h3", null, "Attempts"), attempts, h("h3", null, "Given up"), dead)
    }, error => replace(detail, state("error", error.message)))
  }

  async function act(verb) {
    const answer = (await api("POST", `${base}/${id}:${verb}`, {body: {}})).json
    const told = verb === "test" ? tested(answer.attempt)
      : answer.deliveries !== undefined ? `${plural(answer.deliveries, "delivery", "deliveries")} owed again.` : `It is ${answer.state?.name}.`
    say(told)
    await dialog(verb !== "test" ? "Done" : works(answer.attempt) ? "The test arrived" : "The test failed", close => [h("p", null, given(told, 400)), h("p", {class: "actions"}, button("Close", () => close()))])
    choose(id)
  }

  /** Makes one, or changes what most people change; the rest is for the command line. */
  async function edit(webhook) {
    const url = h("input", {type: "url", required: true, value: webhook?.url ?? "", spellcheck: "false"})
    const topics = h("input", {type: "text", value: (webhook?.topics ?? ["PUSH_RC"]).join(", "), spellcheck: "false"})
    const format = choice(["standard", "cloudevents-binary", "cloudevents-structured"].concat(webhook?.format === "fcm" ? "fcm" : []), webhook?.format ?? "standard")
    const mode = choice([["latest", "latest: only the newest version"], ["all", "all: each version"], ["fifo", "fifo: each version, in order"],
      ["fifo-advance", "fifo-advance: in order, past what is given up"]], webhook?.mode ?? "latest")
    const about = h("input", {type: "text", maxlength: 256, value: webhook?.description ?? ""})
    const made = await dialog(webhook ? "Edit the webhook" : "New webhook", close => sending(close, webhook ? "Save" : "Add", [
      field("URL", url), field("Topics", topics, "Several with commas between."), h("div", {class: "pair"}, field("Format", format), field("Mode", mode)),
      field("About", about)], () => {
      const body = {url: url.value.trim(), topics: topics.value.split(",").map(name => name.trim()).filter(Boolean), format: format.value,
        mode: mode.value, description: about.value}
      return webhook ? api("PATCH", `${base}/${webhook.id}?updateMask=${Object.keys(body)}`, {body, headers: {"If-Match": webhook.etag}})
        : api("POST", base, {body})
    }))
    if (!made) return
    if (made.signing?.secret)
      await shownOnce("Its secret", "The receiver checks signatures with it.", made.signing.secret)
    say(webhook ? "The webhook is changed." : "The webhook is added.")
    list.update((await read(`${base}?pageSize=1000`)).webhooks)
    choose(made.id)
  }

  async function remove(webhook) {
    const done = await dialog("Remove the webhook?", close => sending(close, "Remove",
      [h("p", null, given(webhook.url, 200), " hears of no version any more. What it is owed, its attempts and its secret go too.")],
      () => api("DELETE", `${base}/${webhook.id}`, {headers: {"If-Match": webhook.etag}}), true))
    if (!done) return
    say("The webhook is removed.")
    list.update((await read(`${base}?pageSize=1000`)).webhooks)
    choose("")
  }

  const end = each(5000, async signal => {
    const {webhooks} = await read(`${base}?pageSize=1000`, {signal})
    if (!id) fresh({webhooks})
    list.update(webhooks)
    if (content.contains(list)) return
    replace(content, may(scope, "manage") ? h("p", {class: "actions start"}, button("Add webhook", () => edit())) : null, list, detail)
    if (id) choose(id)
  }, unread(content, list))
  return () => { end(); stop?.() }
}

const works = attempt => attempt.outcome === "2xx"
const quietly = text => text ? [" ", h("span", {class: "quiet"}, given(text, 80))] : null

/** What went wrong: a sentence of the daemon's, else what the receiver said. */
const reason = ({status, problem, response}) => problem && problem !== `status ${status}` ? problem : response ?? ""

/** Why the last attempt that failed did so; empty without one in this run of the daemon. */
export function failure({delivery}) {
  const last = delivery?.lastFailure
  if (!last) return ""
  const said = reason(last)
  return last.status ? `${last.status}${said ? `: ${said}` : ""}` : said || last.outcome.replaceAll("_", " ")
}

/** A version that was tried again meanwhile, or that a newer one stands for, is not tried any more. */
function nextTry({nextAttemptTime, namespace, kind, versionNumber}, newer, mode) {
  const isOver = newer.some(other => other.namespace === namespace && other.kind === kind
    && (mode === "latest" || other.versionNumber === versionNumber))
  return nextAttemptTime && !isOver && Date.parse(nextAttemptTime) > clock.now() ? nextAttemptTime : undefined
}

function tested(attempt) {
  if (!attempt.status) return `No answer came: ${attempt.problem ?? "the connection failed"}.`
  const said = reason(attempt)
  return `The receiver answered ${attempt.status}${said ? `: ${said}` : "."}`
}

const owed = row => (row.delivery?.scopes ?? []).reduce((sum, scope) => sum + (Number(scope.owed ?? scope.lag ?? 0) || 0),
  0) || Number(row.delivery?.owed ?? 0)
const took = row => row.phasesMs?.total ?? Object.values(row.phasesMs ?? {}).reduce((sum, ms) => sum + ms, 0)
