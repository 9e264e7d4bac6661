// How far a version has come. The strip, Now, the list of versions and their comparison use the same words and colors.
import {chip, count, plural, share} from "./dom.js"
import {isUnderWay} from "./release.js"

/**
 * `part` of `whole` have a version; `lost` are without it for good; `unknown` have not said since a restart. `isVague`: a
 * node of release 0.2.0 or before does not say whether clients that left were told, so `lost` is the most it can be.
 */
export function reach({streams = {}, clients}) {
  const of = streams.audience ?? 0, heard = of - (streams.left ?? 0)
  // The daemon judges a version by its clients only where at least half of the streams say whose they are.
  if (clients?.audience > 0 && !(clients.unidentifiedStreams * 2 > of)) {
    const {audience, fetched = 0, left = 0, unknown = 0} = clients, lost = clients.lost ?? left, isVague = clients.lost === undefined && left > 0
    // Clients that went after they were told count: the version may have ended them. Those that went before say nothing of it.
    const whole = audience - left + lost
    // Streams without a name are told of where all named clients went before they were told.
    if (whole > 0 || heard <= 0) return {noun: "client", part: fetched, whole, lost: whole > 0 ? lost : left, audience, unknown, isVague}
  }
  return {noun: "stream", part: streams.sent ?? 0, whole: heard, lost: heard > 0 ? 0 : of, audience: of, unknown: 0}
}

/** `6 left without it`; null where none did. */
export const leftWords = ({lost, isVague}) => lost ? `${count(lost)} left without it${isVague ? ", told or not" : ""}` : null

/** `40 %`, or `at least 40 %`. */
export const shareWords = ({part, whole, isVague}) => (isVague ? "at least " : "") + share(part, whole)

/** Whether more than one in a hundred went without a version: it is not well then. */
export const isLossy = ({lost, whole}) => lost * 100 > whole

/** `40 % of 10 clients · 6 left without it`; `–` where nothing was there. */
export function reachWords(row) {
  const seen = reach(row)
  if (!seen.audience) return "–"
  const doubt = seen.unknown ? `${count(seen.unknown)} unknown since the restart` : null
  return [seen.unknown < seen.whole ? `${shareWords(seen)} of ${plural(seen.whole, seen.noun)}` : null, leftWords(seen), doubt]
    .filter(Boolean).join(" · ")
}

/** A chip for a propagation's state. The daemon decides which state it is, and the state decides the colour. */
export function stateChip(row) {
  const seen = reach(row)
  // A stage that has converged is not the whole audience.
  const isStage = row.state === "CONVERGED" && isUnderWay(row)
  const tone = !seen.audience || isStage ? "" : {SPREADING: "warn", CONVERGED: "good", LEFT: "warn"}[row.state] ?? ""
  const more = isStage ? " at this stage" : row.state === "CONVERGED" && seen.lost ? `, ${count(seen.lost)} left` : row.partial ? ", partial" : ""
  return chip(row.state.toLowerCase().replaceAll("_", " ") + more, tone)
}
