// Proposals that wait for another person: read, compared, approved, rejected; and a draft proposed.
import {h, replace, button, chip, dialog, field, given, moment, state, table, say} from "./dom.js"
import {api, knows, may, path, read, session} from "./api.js"
import {changeList, difference} from "./diff.js"
import {showAudience} from "./release.js"

const content0 = ({version, ...rest}) => rest
const who = person => person?.name || person?.email || person?.principal || ""
const word = proposal => proposal.stale ? "stale" : proposal.state.toLowerCase()
const tone = proposal => ({open: "warn", stale: "bad", approved: "good"})[word(proposal)] ?? ""

/** Whether the daemon has them. */
export const known = () => knows("remoteConfig/proposals")

/** A section with the scope's proposals. `changed` is called when one was approved. */
export function section(scope, changed) {
  const part = h("section", {hidden: true})
  let all = false
  const list = table({label: "Proposals", key: row => row.number, filter: false, empty: "No open proposal.", columns: [
    {name: "number", label: "Proposal", numeric: true, value: row => Number(row.number), cell: row => row.number},
    {name: "state", label: "State", value: word, cell: row => chip(word(row), tone(row))},
    {name: "base", label: "Over", numeric: true, value: row => Number(row.baseVersion), cell: row => `version ${row.baseVersion}`},
    {name: "when", label: "When", value: row => row.createTime, cell: row => moment(row.createTime)},
    {name: "at", label: "Publishes", value: row => row.publishTime ?? "",
      cell: row => row.stale ? "not any more" : row.publishTime && row.state === "OPEN" ? ["by itself ", moment(row.publishTime)] : row.state === "OPEN" ? "when approved" : ""},
    {name: "who", label: "Author", value: row => who(row.author), cell: row => h("span", {title: row.author.principal}, given(who(row.author), 60))},
    {name: "decided", label: "Decided by", value: row => who(row.decision),
      cell: row => row.decision ? h("span", {title: row.decision.principal}, given(who(row.decision), 60)) : null},
    {name: "about", label: "About", value: row => row.description ?? ""},
    {name: "do", cell: row => h("span", {class: "actions"}, button("Review", () => review(row.number).catch(failed),
      {class: "plain", "aria-label": `Review proposal ${row.number}`}))}]})
  const failed = error => replace(part, h("h2", null, "Proposals"), state("error", error.message))

  async function load() {
    const {proposals} = await read(path(scope, `/proposals?pageSize=300${all ? "" : "&state=OPEN"}`))
    part.hidden = !proposals.length && !all && !scope.needsApproval
    list.update(proposals)
    replace(part, h("h2", null, "Proposals"),
      scope.needsApproval ? h("p", {class: "quiet"}, "Two people publish here: one proposes, another approves.") : null, list,
      h("p", null, button(all ? "Only open proposals" : "Show decided proposals too", () => { all = !all; load().catch(failed) }, {class: "plain"})))
  }

  async function review(number) {
    const proposal = await read(path(scope, `/proposals/${number}`))
    const before = Number(proposal.baseVersion) && proposal.template
      ? content0(await read(path(scope, `?versionNumber=${proposal.baseVersion}`)).catch(() => ({}))) : {}
    const isOwn = scope.needsApproval && proposal.author.principal === session.principal.actor
    const version = await dialog(`Proposal ${number}`, close => {
      const problem = h("div"), audience = h("div")
      const reason = h("input", {type: "text", maxlength: 1000})
      const decide = async (verb, body) => {
        const buttons = [...problem.closest("dialog").querySelectorAll("button")]
        for (const one of buttons) one.disabled = true
        try {
          const {json} = await api("POST", path(scope, `/proposals/${number}:${verb}`), {body})
          close(json.decision.versionNumber ?? "rejected")
        } catch (error) {
          for (const one of buttons) one.disabled = false
          replace(problem, state("error", error.message))
        }
      }
      if (proposal.state === "OPEN") showAudience(scope, audience)
      const decidable = proposal.state === "OPEN" && may(scope, "publish")
      return [
        h("p", null, chip(word(proposal), tone(proposal)), " by ", h("b", null, given(who(proposal.author), 80)), " (",
          h("code", null, given(proposal.author.principal, 80)), "), ", moment(proposal.createTime), `, over version ${proposal.baseVersion}.`),
        proposal.description ? h("p", null, given(proposal.description, 1000)) : null,
        proposal.decision ? h("p", null, `${word(proposal)} by `, h("b", null, given(who(proposal.decision), 80)), ", ",
          moment(proposal.decision.time), proposal.decision.reason ? [": ", given(proposal.decision.reason, 1000)] : null) : null,
        proposal.publishTime && proposal.state === "OPEN" ? h("p", null, "It publishes itself ", moment(proposal.publishTime),
          `, if version ${proposal.baseVersion} is current then. Withdraw it to cancel that.`) : null,
        proposal.stale ? state("missing", `Another version is current now, so it cannot be approved.${proposal.changedSince?.length
          ? ` Changed since: ${proposal.changedSince.slice(0, 20).join(", ")}.` : ""}`) : null,
        h("h3", null, "What changes"), proposal.template ? changeList(difference(before, proposal.template))
          : h("p", null, proposal.changedKeys.join(", ") || "No parameter's value."),
        proposal.state === "OPEN" && !proposal.stale ? [h("h3", null, "Who is told"), audience] : null,
        decidable && isOwn ? h("p", {class: "quiet"}, "It is your own: another person has to approve it. You may withdraw it.") : null,
        decidable ? field("Reason of a rejection", reason) : null, problem,
        h("p", {class: "actions"}, button("Close", () => close()),
          decidable ? button(isOwn || proposal.publishTime ? "Withdraw" : "Reject", () => decide("reject", reason.value ? {reason: reason.value} : {}),
            {class: "danger"}) : null,
          decidable && !isOwn && !proposal.stale ? button("Approve and publish", () => decide("approve", {}), {class: "main"}) : null)]
    }, {class: "wide"})
    if (!version) return
    say(version === "rejected" ? `Proposal ${number} is rejected.` : `Version ${version} is published.`)
    if (version !== "rejected") changed()
    await load()
  }

  load().catch(failed)
  return part
}
