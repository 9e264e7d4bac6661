// The four answers on every page: what is current and by whom, who has it, who is behind, what fails.
import {h, replace, count, given, moment, share} from "./dom.js"
import {each, knows, path, read} from "./api.js"
import {failures, stateChip} from "./now.js"
import {isUnderWay} from "./release.js"

/** A strip for a scope. `heard(status)` tells it what `/status` says; `link(screen, parameters)` are the ways on. */
export function strip(scope, link) {
  const cells = Object.fromEntries(["version", "reached", "behind", "webhooks", "sources"].map(name => [name, h("div", {class: "cell"})]))
  const element = h("section", {id: "strip", "aria-label": "At a glance"}, h("dl", null, Object.values(cells)))
  let publisher, publishedOf

  const put = (name, label, value, more, tone) => {
    cells[name].className = `cell ${tone ?? ""}`
    replace(cells[name], h("dt", null, label), h("dd", null, h("b", null, value), more ? h("span", {class: "quiet"}, more) : null))
  }

  const end = each(3000, async signal => {
    const seen = await read(path(scope, "/propagation"), {signal})
    if (publishedOf !== seen.versionNumber && seen.versionNumber !== "0") {
      publisher = (await read(path(scope, ":listVersions?pageSize=1"), {signal})).versions?.[0]
      publishedOf = publisher?.versionNumber
    }
    show(seen)
  }, () => {})

  function show(seen) {
    const user = publisher?.updateUser?.name || publisher?.updateUser?.email
    const isEmpty = seen.versionNumber === "0"
    put("version", "Version", h("a", {href: link("versions")}, isEmpty ? "none" : seen.versionNumber),
      isEmpty ? null : [moment(seen.announceTime ?? publisher?.updateTime), user ? [" by ", given(user, 80)] : null])
    const {streams, clients} = seen
    const all = clients ? clients.audience - clients.left : 0
    const [part, whole, noun] = all > 0 ? [clients.fetched, all, "clients"] : [streams.sent, streams.audience - (streams.left ?? 0), "streams"]
    const isUnknown = all > 0 && clients.unknown === all
    put("reached", "Reached", h("a", {href: link("now")}, whole > 0 && !isUnknown ? share(part, whole) : "–"),
      isEmpty ? null : whole > 0 ? isUnknown ? "unknown since the restart" : `${count(part)} of ${count(whole)} ${noun}${isUnderWay(seen) ? " told so far" : ""}` : seen.state ? stateChip(seen) : "nobody listens")
    const behind = clients?.behind ?? whole - part
    put("behind", "Behind", knows("propagation:laggards") ? h("a", {href: link("clients", {stage: "fetched"})}, count(behind)) : count(behind),
      clients?.failed ? `${count(clients.failed)} failed` : null, clients?.failed ? "bad" : behind > 0 ? "warn" : "")
  }

  return {
    element, end,
    heard(status) {
      const failing = failures(status)
      const all = {webhooks: Object.values(status.webhooks?.states ?? {}).reduce((sum, number) => sum + number, 0), sources: status.sources?.length ?? 0}
      for (const [name, label] of [["webhooks", "Webhooks"], ["sources", "Sources"]])
        put(name, label, h("a", {href: link(name)}, failing[name] ? `${count(failing[name])} failing` : all[name] ? "well" : "none"),
          null, failing[name] ? "bad" : "")
    },
  }
}
