// Sources and health: both are in what `/status` tells.
import {h, replace, bytes, chip, count, facts, given, moment, plural, span, state, table, unread} from "./dom.js"
import {each, read, session} from "./api.js"
import {failing, failingWebhooks} from "./now.js"

const guarded = content => {
  if (session.mayReadAll) return true
  replace(content, state("missing", "This shows all of the daemon, and your grants are for a part of it."))
  return false
}

/** Where versions come from. */
export const sources = {show({content, offer, fresh}) {
  offer(null, "stalecast sources")
  if (!guarded(content)) return
  const list = table({label: "Sources", key: row => `${row.project}/${row.namespace}`,
    empty: "No scope is fed by a source: versions come through the API.", columns: [
    {name: "scope", label: "Scope", value: row => `${row.project}/${row.namespace}`},
    {name: "kind", label: "Kind", value: row => row.kind}, {name: "place", label: "Place", value: row => row.place,
      cell: row => h("code", null, given(row.place, 100))},
    {name: "state", label: "State", value: row => row.error?.message ?? "well", cell: row => row.error
      ? [chip(row.error.reason.replaceAll("_", " "), "bad"), " ", given(row.error.message, 200),
        ` · ${plural(row.error.failures, "failure")} in a row, the first `, moment(row.error.since)] : chip("well", "good")},
    {name: "version", label: "Origin's version", value: row => row.originVersionNumber ?? "",
      cell: row => row.originVersionNumber ?? "–"},
    {name: "success", label: "Last success", value: row => row.lastSuccess ?? "", cell: row => row.lastSuccess ? moment(row.lastSuccess) : "not since the start"},
    {name: "change", label: "Last change", value: row => row.lastChange ?? "", cell: row => moment(row.lastChange)},
    {name: "next", label: "Next look", numeric: true, value: row => row.nextLookSeconds,
      cell: row => row.nextLookSeconds === undefined ? "–" : `in ${span(row.nextLookSeconds * 1000)}`},
    {name: "looks", label: "Looks", numeric: true, value: row => row.looks, cell: row => count(row.looks)},
    {name: "adopted", label: "Adopted", numeric: true, value: row => row.adopted, cell: row => count(row.adopted)}]})
  return each(2000, async signal => {
    const seen = (await read("/status", {signal})).sources ?? []
    fresh(seen)
    list.update(seen)
    if (!content.contains(list)) replace(content, list)
  }, unread(content, list))
}}

/** How the daemon is. */
export const health = {show({content, scope, offer, fresh, link}) {
  offer(null, "stalecast status")
  if (!guarded(content)) return
  const head = h("div", {class: "headline"}), whose = h("p", {class: "quiet"}), cards = h("div", {class: "columns"}), certificates = h("section")
  const nodes = table({label: "Nodes", key: row => row.id, filter: false, empty: "No node has been heard of yet.", columns: [
    {name: "id", label: "Node", value: row => row.id}, {name: "role", label: "Role", value: row => row.role ?? "core"},
    {name: "control", label: "Control", value: row => row.advertise ?? "–"},
    {name: "head", label: "Head", numeric: true, value: row => row.head},
    {name: "etcd", label: "etcd answers in", numeric: true, value: row => row.etcdDelaySeconds ?? 0,
      cell: row => row.etcdDelaySeconds === undefined ? "–" : span(row.etcdDelaySeconds * 1000)},
    {name: "copy", label: "Copy", value: row => row.goneSeconds ?? row.unverifiedSeconds ?? 0, cell: row =>
      row.goneSeconds !== undefined ? chip(`cut off or ended ${span(row.goneSeconds * 1000)} ago`, "bad")
        : row.isUnheard ? "?"
          : row.unverifiedSeconds ? chip(`not confirmed for ${span(row.unverifiedSeconds * 1000)}`, "bad")
            : row.behind > 0 ? `${count(row.behind)} behind`
              // A node of an older program never says that its copy is not confirmed.
              : row.etcdDelaySeconds === undefined ? "?" : chip("current", "good")}]})
  let before
  return each(2000, async signal => {
    const seen = await read("/status", {signal})
    fresh(seen)
    const cluster = seen.cluster && await read("/v1/cluster", {signal})
    const {edge, fetch: fetches, store, webhooks, process, clients} = seen
    const at = performance.now()
    const rate = before ? (edge.deliveries - before.deliveries) / (at - before.at) * 1000 : null
    const load = before ? (process.cpuSeconds - before.cpu) / (at - before.at) * 1000 : null
    before = {at, deliveries: edge.deliveries, cpu: process.cpuSeconds}
    replace(head, h("p", null, seen.ready ? chip("ready", "good") : chip("not ready", "bad"), ` Stalecast ${seen.version}, started `,
      moment(seen.startedAt), `, process ${seen.pid}`),
      failing(seen, link, await failingWebhooks(seen, scope, signal).catch(() => [])),
      seen.notReady?.length ? h("ul", null, seen.notReady.map(reason => h("li", null, reason))) : null)
    const named = object => Object.entries(object ?? {}).filter(([, number]) => number).map(([name, number]) => `${count(number)} ${name.replaceAll("_", " ")}`).join(", ") || "none"
    const card = (title, pairs) => h("section", {class: "card"}, h("h2", null, title,
      cluster ? h("span", {class: "quiet"}, " of this node") : null), facts(pairs))
    // The strip above the page counts the clients of all nodes; a card beside it must not seem to.
    replace(whose, cluster ? ["The cards count what this node did: ", h("b", null, cluster.node ?? "?"),
      ". The strip above counts the clients of all nodes; of each node the table below has its part."] : null)
    replace(cards,
      card("Edge", [["connections", count(edge.connections)], ["streams", count(edge.streams)], ["polls", count(edge.polls)],
        ["deliveries", `${count(edge.deliveries)}${rate === null ? "" : ` · ${count(rate)} a second`}`],
        ["told only the newest", count(edge.coalesced)], ["stalled", count(edge.stalled)], ["slow readers", count(edge.slowReaders)], ["credentials", given(seen.auth.mode)], ["let go", named(edge.drops)],
          ["refused", named(edge.refused)],
        ["publish to written", edge.written.count ? span(edge.written.seconds / edge.written.count * 1000) : "–"]]),
      card("Fetches", [["answered", count(fetches.answered)], ["from the cache", count(fetches.cacheHits)],
        ["refused", count(fetches.refused)], ["renderings kept", `${count(fetches.renderings)}, ${bytes(fetches.renderingBytes)}`],
        ["bytes sent", bytes(fetches.bytes)]]),
      clients ? card("Clients", [["known", count(clients.known)], ["connected", count(clients.live)],
        ["names", clients.names ? "kept in memory" : "switched off"], ["reports", named(clients.reports)],
        ["reports refused", count(clients.reportsRefused)]]) : null,
      card("Webhooks", [["health", given(webhooks.health)], ["states", named(webhooks.states)], ["under way", count(webhooks.inFlight)],
        ["waiting", count(webhooks.waiting)], ["delivered", count(webhooks.delivered)], ["failed", count(webhooks.failed)],
        ["given up", count(webhooks.deadLetters)], ["oldest owed", webhooks.oldestPendingSeconds ? span(webhooks.oldestPendingSeconds * 1000) : "–"]]),
      card("Store", [["health", given(store.health)], ["commits", store.sequence], ["published", count(store.published)],
        ["rolled back", count(store.rolledBack)], ["cursor", h("code", null, seen.cursor)]]),
      card("Process", [["memory", bytes(process.residentBytes)], ["processor time",
        `${span(process.cpuSeconds * 1000)}${load === null ? "" : ` · ${(load * 100).toFixed(1)} % now`}`],
        ["descriptors", count(process.descriptors)]]))
    replace(certificates, seen.certificates?.length ? [h("h2", null, "Certificates"),
      h("ul", null, seen.certificates.map(one => h("li", null,
      facts(Object.entries(one).map(([name, value]) => [name,
      given(typeof value === "string" ? value : JSON.stringify(value))])))))] : null)
    // A node that has a problem may not hear what the others tell.
    if (cluster) nodes.update([...cluster.nodes.map(node => ({...node, behind: cluster.logHead - node.head,
      isUnheard: cluster.problem !== undefined && node.id !== cluster.node})), ...cluster.gone])
    if (!content.contains(head)) replace(content, head, whose, cards, cluster ? h("h2", null, "Nodes") : null, cluster ? nodes : null,
      certificates)
  }, error => { if (!content.contains(head)) replace(content, state("error", error.message)) })
}}
