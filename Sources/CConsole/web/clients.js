// Who has what: clients by what they hold, run and are; one by its id.
import {h, replace, chip, choice, count, field, given, moment, plural, state, table} from "./dom.js"
import {each, flags, path, read} from "./api.js"

const kinds = {held: "version held", sdk: "SDK", app: "app", address: "address"}

export function show({content, scope, parameters, offer, fresh, note}) {
  let by = parameters.get("by") ?? "held", stage = parameters.get("stage") ?? "fetched", id = parameters.get("client") ?? ""
  const summary = h("div"), groupTitle = h("h2"), groups = h("div"), found = h("div")
  offer(null, () => `stalecast propagation laggards${flags(scope)} --stage ${stage}`)
  const remember = () => note({by, stage, client: id})

  const cells = [
    {name: "client", label: "Client", value: row => row.client ?? "",
      cell: row => row.client ? h("code", null, given(row.client, 60)) : h("i", null, "no name")},
    {name: "state", label: "State", value: row => row.state, cell: row => chip(row.state,
      {failed: "bad", lost: "bad", behind: "warn", current: "good"}[row.state])},
    {name: "held", label: "Holds", numeric: true, value: row => Number(row.held ?? 0), cell: row => row.held ?? "–"},
    {name: "active", label: "Runs", numeric: true, value: row => Number(row.active ?? 0), cell: row => row.active ?? "–"},
    {name: "app", label: "App", value: row => row.app ?? ""}, {name: "sdk", label: "SDK", value: row => row.sdk ?? ""},
    {name: "address", label: "Address", value: row => row.address ?? ""},
    {name: "since", label: "Behind since", value: row => row.behindSince ?? "", cell: row => moment(row.behindSince)},
    {name: "seen", label: "Last seen", value: row => row.lastSeen ?? "", cell: row => row.live ? "connected" : moment(row.lastSeen)},
    {name: "error", label: "Error", value: row => row.error ?? ""}]
  const laggards = table({label: "Laggards", key: row => row.client ?? row.address ?? "", sort: ["since"], columns: cells,
    empty: "No client is behind."})
  const one = table({label: "The client", key: row => row.client, filter: false, columns: cells,
    empty: "No client of that id was seen in the last 25 hours."})
  const grouped = table({label: "Groups", key: row => row.key, filter: false, sort: ["count", "down"], empty: "No client is behind.",
    columns: [
    {name: "key", label: "Of those behind", value: row => row.key, cell: row => row.key === "" ? h("i", null,
      "not said") : by === "held" ? (row.key === "0" ? "an unknown version" : `version ${row.key}`) : given(row.key, 80)},
    {name: "count", label: "Clients", numeric: true, value: row => row.count, cell: row => count(row.count)}]})

  const step = async signal => {
    const query = `?stage=${stage}`
    const [list, sorted, audience] = await Promise.all([
      read(path(scope, `/propagation:laggards${query}&pageSize=500`), {signal}),
        read(path(scope, `/propagation:laggards${query}&groupBy=${by}`), {signal}),
      read(path(scope, "/audience"), {signal})])
    fresh(list)
    laggards.update(list.laggards)
    grouped.update(sorted.groups)
    replace(summary, h("p", {class: "headline"}, h("strong", null, count(list.total)),
      ` ${list.total === 1 ? "client has" : "clients have"} not ${stage === "active" ? "activated" : "fetched"} version ${list.versionNumber}`,
      list.total > list.laggards.length ? `; ${count(list.laggards.length)} are listed` : "",
        ` · ${plural(audience.clients, "client")} connected${audience.unidentifiedStreams === undefined ? " to this node" : `, ${plural(audience.unidentifiedStreams, "stream")} without a name`}, ${plural(audience.clientsSeen, "client")} seen in 25 hours`,
        "."))
    // Of none there are no groups: one sentence says it.
    groupTitle.hidden = groups.hidden = !list.total
    replace(groupTitle, `By ${kinds[by]}`)
    replace(groups, h("div", {class: "short"}, grouped))
    if (!content.contains(summary)) replace(content, controls, found, summary, groupTitle, groups, h("h2", null, "Who is behind"),
      laggards)
  }
  const search = async () => {
    remember()
    if (!id) { replace(found); return }
    try { replace(found, h("h2", null, "The client"),
      one.update((await read(path(scope,
      `/propagation:laggards?client=${encodeURIComponent(id)}`))).laggards)) } catch (error) { replace(found,
      state("error", error.message)) }
  }
  let stop
  const begin = () => { stop?.(); remember(); stop = each(5000, step,
    error => { if (error.status) replace(content, state("error", error.message)) }) }
  const input = h("input", {type: "search", value: id, spellcheck: "false", autocomplete: "off"})
  const controls = h("div", {class: "row"},
    field("Behind at", choice([["fetched", "fetching"], ["active", "activating"]], stage,
      {onchange: event => { stage = event.target.value; begin() }})),
    field("Grouped by", choice(Object.entries(kinds), by, {onchange: event => { by = event.target.value; begin() }})),
    h("form", {class: "row", role: "search", onsubmit: event => { event.preventDefault(); id = input.value.trim(); search() }},
      field("One client by its id", input), h("button", {type: "submit"}, "Find")))
  begin()
  search()
  return () => stop()
}
