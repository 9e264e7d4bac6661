// The four answers on every page: who has the newest version, which and by whom, who is behind, what fails.
import {h, replace, count, given, moment} from "./dom.js"
import {each, path, read, session} from "./api.js"
import {everywhere, failures} from "./now.js"
import {isLossy, leftWords, reach, shareWords, stateChip} from "./reach.js"
import {isUnderWay} from "./release.js"

/** A strip for a scope. `heard(status)` tells it what `/status` says; `link(screen, parameters)` are the ways on. */
export function strip(scope, link) {
  const cells = Object.fromEntries(["reached", "version", "behind"].concat(session.mayReadAll ? ["webhooks", "sources"] : []).map(name => [name, h("div", {class: "cell"})]))
  const element = h("section", {id: "strip", "aria-label": "At a glance"}, h("dl", null, Object.values(cells)))
  let publisher, publishedOf

  const put = (name, label, value, more, tone) => {
    if (!cells[name]) return
    cells[name].className = `cell ${name} ${tone ?? ""}`
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
    const isEmpty = seen.versionNumber === "0", isStaged = isUnderWay(seen)
    const far = reach(seen), {part, whole, noun, unknown} = far, gone = leftWords(far)
    const isUnknown = whole > 0 && unknown === whole
    const words = isUnknown ? "unknown since the restart"
      : whole > 0 ? `${count(part)} of ${count(whole)} ${noun}s${isStaged ? " told so far" : ""}`
      : far.audience ? null : seen.state ? stateChip(seen) : "no client listens"
    put("reached", "Reached", h("a", {href: link("now")}, whole > 0 && !isUnknown ? shareWords(far) : "–"),
      isEmpty ? null : [words, words && gone ? " · " : null, gone], isLossy(far) ? "warn" : "")
    put("version", "Version", h("a", {href: link("versions")}, isEmpty ? "none" : seen.versionNumber), isEmpty ? null
      : [moment(seen.announceTime ?? publisher?.updateTime), user ? [" by ", given(user, 80)] : null, isStaged ? ", in stages" : null])
    const behind = seen.clients?.behind ?? whole - part, failed = seen.clients?.failed
    put("behind", "Behind", h("a", {href: link("clients", {stage: "fetched"})}, count(behind)),
      failed ? `${count(failed)} failed` : null, failed ? "bad" : behind > 0 ? "warn" : "")
  }

  return {
    element, end,
    heard(status) {
      const failing = failures(status)
      const all = {webhooks: Object.values(status.webhooks?.states ?? {}).reduce((sum, number) => sum + number, 0), sources: status.sources?.length ?? 0}
      for (const [name, label] of [["webhooks", "Webhooks"], ["sources", "Sources"]])
        put(name, label, h("a", {href: link(name)}, failing[name] ? `${count(failing[name])} failing` : all[name] ? "well" : "none"),
          all[name] ? everywhere() : null, failing[name] ? "bad" : "")
    },
  }
}
