// The history: any two compared, and the way back.
import {h, replace, button, chip, choice, dialog, field, moment, state, table, say} from "./dom.js"
import {api, flags, may, path, read} from "./api.js"
import {changeList, difference} from "./diff.js"
import {reachWords, stateChip} from "./reach.js"
import {showAudience} from "./release.js"
import * as proposals from "./proposals.js"

const pageSize = 100

export function show({content, scope, parameters, offer, fresh, note, link}) {
  let versions = [], rollouts = new Map(), next, [from, to] = [Number(parameters.get("from")) || 0, Number(parameters.get("to")) || 0]
  const compared = h("section"), picker = h("div"), more = h("p")
  const waiting = proposals.known() ? proposals.section(scope, anew) : null
  const content0 = ({version, ...rest}) => rest
  const get = number => number ? read(path(scope, `?versionNumber=${number}`)).then(content0) : Promise.resolve({})
  offer(null, () => `stalecast diff ${from || Math.max(1, to - 1)} ${to}${flags(scope)}`)

  /** After an approval: the history has one more. */
  function anew() {
    versions = []
    next = undefined
    ;[from, to] = [0, 0]
    load().catch(error => replace(content, state("error", error.message)))
  }

  async function load() {
    const [page, known] = await Promise.all([read(path(scope, `:listVersions?pageSize=${pageSize}${next ? `&pageToken=${next}` : ""}`)),
      // How far they came is missed where it fails, the way back is not.
      read(path(scope, `/propagation:list?pageSize=${pageSize}`)).catch(() => null)])
    versions = versions.concat(page.versions ?? [])
    if (known) rollouts = new Map((known.propagations ?? []).map(row => [row.versionNumber, row]))
    next = page.nextPageToken
    fresh({versions})
    if (!versions.length) { replace(content, waiting, state("empty", "No version yet.",
      h("p", null, h("a", {href: link("template")}, "Write the first one")))); return }
    to ||= Number(versions[0].versionNumber)
    from ||= to - 1
    list.update(versions)
    replace(more, next ? button("Older versions", load) : null)
    replace(content, waiting, picker, compared, h("section", null, h("h2", null, "History"), list, more))
    await compare()
    const wanted = parameters.get("rollback")
    if (wanted && versions.some(one => one.versionNumber === wanted && Number(wanted) !== newest())) {
      parameters.delete("rollback")
      await rollback(wanted)
    }
  }

  /** Who has a version: what the daemon knows of it. */
  function rolledOut(number) {
    const row = rollouts.get(String(number))
    return row?.state ? h("p", null, `Version ${number}: `, stateChip(row), ` ${reachWords(row)}`) : null
  }

  async function compare() {
    const numbers = versions.map(version => version.versionNumber)
    for (const number of [from, to]) if (number > 0 && !numbers.includes(String(number))) numbers.push(String(number))
    const side = (label, value, take) => field(label,
      choice([...numbers.map(number => [number, `version ${number}`]), ...(label === "From" ? [["0", "nothing"]] : [])], String(value),
      {
      onchange: event => { take(Number(event.target.value)); compare() }}))
    replace(picker, h("div", {class: "row"}, side("From", from, number => { from = number }), side("To", to, number => { to = number }),
      button("Swap", () => { if (from) { [from, to] = [to, from]; compare() } })))
    note({from, to})
    try {
      const [before, after] = await Promise.all([get(from), get(to)])
      replace(compared, h("h2", null, from ? `From version ${from} to version ${to}` : `All of version ${to}`), rolledOut(to),
        changeList(difference(before, after)))
    } catch (error) { replace(compared, state("error", error.message)) }
  }

  const newest = () => Number(versions[0]?.versionNumber)
  const list = table({label: "History", key: row => row.versionNumber, empty: "No version yet.", columns: [
    {name: "version", label: "Version", numeric: true, value: row => Number(row.versionNumber),
      cell: row => [row.versionNumber, Number(row.versionNumber) === newest() ? [" ", chip("current", "good")] : null]},
    {name: "when", label: "When", value: row => row.updateTime, cell: row => moment(row.updateTime)},
    {name: "who", label: "Who", value: row => row.updateUser?.name || row.updateUser?.email || ""},
    {name: "how", label: "How", value: row => `${(row.updateType ?? "").toLowerCase().replaceAll("_", " ")}${row.rollbackSource ? ` to ${row.rollbackSource}` : ""}`},
    {name: "reached", label: "Reached", value: row => rollouts.has(row.versionNumber) ? reachWords(rollouts.get(row.versionNumber)) : "",
      cell: row => { const one = rollouts.get(row.versionNumber); return one?.state ? [stateChip(one), " ", reachWords(one)] : "–" }},
    {name: "about", label: "About", value: row => row.description ?? ""},
    {name: "do", cell: row => h("span", {class: "actions"},
      button("Compare", () => { to = Number(row.versionNumber); from = to - 1; compare(); compared.scrollIntoView({block: "nearest"}) },
        {class: "plain", "aria-label": `Compare version ${row.versionNumber} with the one before`}),
      may(scope, "publish") && !scope.fedBy && Number(row.versionNumber) !== newest()
        ? button("Roll back", () => rollback(row.versionNumber), {class: "plain",
          "aria-label": `Roll back to version ${row.versionNumber}`}) : null)}]})

  async function rollback(number) {
    const done = await dialog(`Roll back to version ${number}?`, close => {
      const changes = h("div", null, state("loading", "Loading.")), audience = h("div"), problem = h("div")
      // What is replaced is what is compared here: a version that is published meanwhile stays.
      let etag
      Promise.all([api("GET", path(scope, `?versionNumber=${newest()}`)), get(number)]).then(([now, then]) => {
        etag = now.etag
        replace(changes, changeList(difference(content0(now.json), then)))
        submit.disabled = false
      }).catch(error => replace(changes, state("error", error.message, h("p", null, "Nothing can be rolled back unseen. Close this and try again."))))
      showAudience(scope, audience)
      const submit = button("Roll back", async () => {
        submit.disabled = true
        try { close((await api("POST", path(scope, ":rollback"),
          {body: {versionNumber: number}, headers: {"If-Match": etag}})).json.version.versionNumber) } catch (error) { submit.disabled = false; replace(problem,
          state("error", error.message)) }
      }, {class: "danger", disabled: true})
      return [h("p", null, `Its content becomes version ${newest() + 1}, and all clients are told at once.`), h("h3", null, "Who is told"),
        audience,
        h("h3", null, "What changes"), changes, problem, h("p", {class: "actions"}, button("Cancel", () => close()), submit)]
    }, {class: "wide"})
    if (!done) return
    say(`Version ${done} is published.`)
    location.hash = link("now").slice(1)
  }

  load().catch(error => replace(content, state("error", error.message)))
}
