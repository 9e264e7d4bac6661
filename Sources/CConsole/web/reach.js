// How far a version has come. The strip, Now, the list of versions and their comparison use the same words and colors.
import {chip, count, plural, share} from "./dom.js"
import {isUnderWay} from "./release.js"

/** `part` of `whole` have a version; `left` of the audience went without it; `unknown` have not said since a restart. */
export function reach({streams = {}, clients}) {
  if (clients?.audience > 0) {
    const {audience, fetched = 0, left = 0, unknown = 0} = clients
    // Clients that went after they were told count: the version may have ended them.
    return {noun: "client", part: fetched, whole: audience - left + (clients.lost ?? left), left, audience, unknown}
  }
  const {audience = 0, sent = 0, left = 0} = streams
  return {noun: "stream", part: sent, whole: audience - left, left, audience, unknown: 0}
}

/** `6 left without it`; null where none did. */
export const leftWords = ({left}) => left ? `${count(left)} left without it` : null

/** `40 % of 10 clients · 6 left without it`; `–` where nothing was there. */
export function reachWords(row) {
  const seen = reach(row)
  if (!seen.audience) return "–"
  const doubt = seen.unknown ? `${count(seen.unknown)} unknown since the restart` : null
  return [seen.unknown < seen.whole ? `${share(seen.part, seen.whole)} of ${plural(seen.whole, seen.noun)}` : null, leftWords(seen), doubt]
    .filter(Boolean).join(" · ")
}

/** A chip for a propagation's state: green only where hardly a client left without the version. */
export function stateChip(row) {
  const seen = reach(row)
  // A stage that has converged is not the whole audience.
  const isStage = row.state === "CONVERGED" && isUnderWay(row)
  const hasLost = seen.left > 0 && seen.left * 100 > seen.audience
  const tone = !seen.audience || isStage ? "" : {SPREADING: "warn", CONVERGED: hasLost ? "warn" : "good", LEFT: "warn"}[row.state] ?? ""
  const more = isStage ? " at this stage" : row.state === "CONVERGED" && seen.left ? `, ${count(seen.left)} left` : row.partial ? ", partial" : ""
  return chip(row.state.toLowerCase().replaceAll("_", " ") + more, tone)
}
