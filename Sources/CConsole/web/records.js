// What is kept of people's doings: messages sent by hand, keys, and the audit log.
import {h, replace, button, chip, choice, dialog, field, given, moment, shownOnce, state, table, unread} from "./dom.js"
import {api, each, flags, holder, knows, partial, read, session} from "./api.js"

const refusedHere = "Keys and the audit log are for those who may operate the daemon."

/** Messages that people sent to a topic by hand. */
export const messages = {show({content, scope, offer, fresh}) {
  offer(null, `stalecast messages --project ${scope.project}`)
  if (!scope.wholeProject) { replace(content, state("missing", partial)); return }
  const list = table({label: "Messages", key: row => row.name, empty: "No message was sent by hand yet.", columns: [
    {name: "when", label: "When", value: row => row.time, cell: row => moment(row.time)},
    {name: "target", label: "To", value: row => row.target, cell: row => h("code", null, given(row.target, 120))},
    {name: "keys", label: "Data", value: row => row.keys.join(" "), cell: row => h("code", null, given(row.keys.join(", "), 120))},
    {name: "who", label: "Who", value: row => row.sender.name || row.sender.email || row.sender.principal,
      cell: row => h("span", {title: row.sender.principal}, given(row.sender.name || row.sender.email || row.sender.principal, 60))},
    {name: "id", label: "Id", value: row => row.name.split("/").at(-1), cell: row => h("code", null, row.name.split("/").at(-1))}]})
  return each(3000, async signal => {
    const seen = await read(`/v1/projects/${scope.project}/messages`, {signal})
    fresh(seen)
    list.update(seen.messages)
    if (!content.contains(list)) replace(content, h("p", {class: "quiet"},
      "Data that was sent to a topic with stalecast send or the API: the last 300 of the project, without their values."), list)
  }, unread(content, list))
}}

// Keys

const tones = {active: "good", not_yet_valid: "warn", expired: "bad", revoked: "bad"}
const isAll = names => !names || names.includes("*")
const granted = ({role, actions, projects, namespaces, topics}) => [role ?? actions?.join(", ") ?? "nothing",
  isAll(projects) ? "everywhere" : `in ${projects.join(", ")}`, isAll(namespaces) ? "" : `namespaces ${namespaces.join(", ")}`,
  isAll(topics) ? "" : `topics ${topics.join(", ")}`].filter(Boolean).join(", ")

export const keys = {show({content, offer, fresh, reload}) {
  offer(null, "stalecast keys list")
  if (!session.mayOperate) { replace(content, state("missing", refusedHere)); return }
  const list = table({label: "Keys", key: row => row.id, empty: "No key yet: the control token alone opens this daemon.", columns: [
    {name: "id", label: "Key", value: row => row.id, cell: row => h("code", null, row.id)},
    {name: "name", label: "Name", value: row => row.name},
    {name: "state", label: "State", value: row => row.state, cell: row => chip(row.state.replaceAll("_", " "), tones[row.state])},
    {name: "grants", label: "May", value: row => row.grants.map(granted).join("; "), cell: row => given(row.grants.map(granted).join("; "), 160)},
    {name: "used", label: "Last used", value: row => row.lastUsed ?? "", cell: row => moment(row.lastUsed)},
    {name: "created", label: "Made", value: row => row.created ?? "", cell: row => row.configured ? "configuration" : moment(row.created)},
    {name: "expires", label: "Expires", value: row => row.expires ?? "", cell: row => row.expires ? moment(row.expires) : "never"},
    {name: "do", cell: row => row.configured || row.state === "revoked" ? null : h("span", {class: "actions"},
      button("Rotate", () => change(row, "rotate"), {class: "plain", "aria-label": `Rotate ${row.name || row.id}`}),
      button("Revoke", () => change(row, "revoke"), {class: "plain", "aria-label": `Revoke ${row.name || row.id}`}))}]})

  async function change(row, verb) {
    const sentence = verb === "revoke" ? "It opens nothing any more, and the streams it opened end. This cannot be undone."
      : "It gets another secret. The one before is taken for seven more days."
    const made = await dialog(`${verb === "revoke" ? "Revoke" : "Rotate"} ${row.name || row.id}?`, close => sending(close, verb === "revoke"
      ? "Revoke" : "Rotate", [h("p", null, sentence)], () => api("POST", `/v1/keys/${row.id}:${verb}`, {body: {}}), verb === "revoke"))
    if (made?.key) await shown(made.key)
    if (made) reload()
  }

  async function create() {
    const name = h("input", {type: "text", maxlength: 128, autocomplete: "off"})
    const role = choice([["viewer", "viewer: reads"], ["publisher", "publisher: reads and publishes"], ["operator", "operator: everything"],
      ["app", "app: listens and fetches at Edge"]], "viewer")
    const project = h("input", {type: "text", spellcheck: "false", placeholder: "all"})
    const made = await dialog("New key", close => sending(close, "Make it", [field("Name", name, "Who or what uses it."),
      field("Role", role), field("Project", project, "An id or a pattern such as shop-*; empty is all.")],
    () => api("POST", "/v1/keys", {body: {name: name.value, ...(role.value === "app" ? {kind: "publishable"} : {}), grants: [{...(role.value === "app" ? {actions: ["watch", "fetch"]} : {role: role.value}),
      ...(project.value.trim() ? {projects: [project.value.trim()]} : {})}]}})))
    if (made) { await shown(made.key); reload() }
  }

  const shown = key => shownOnce("The key", "Keep it where its user finds it.", key)

  return each(5000, async signal => {
    const seen = await read("/v1/keys", {signal})
    fresh(seen)
    list.update(seen.keys)
    if (!content.contains(list)) replace(content, h("p", {class: "actions start"}, button("New key", create)), list)
  }, unread(content, list))
}}

/** A form that sends, keeps what was typed when it is refused, and closes with the answer. */
export function sending(close, label, parts, send, isDanger = false) {
  const problem = h("div"), submit = h("button", {type: "submit", class: isDanger ? "danger" : "main"}, label)
  return h("form", {onsubmit: async event => {
    event.preventDefault()
    submit.disabled = true
    try { close((await send()).json ?? true) } catch (error) { submit.disabled = false; replace(problem, state("error", error.message)) }
  }}, parts, problem, h("p", {class: "actions"}, button("Cancel", () => close()), submit))
}

// The audit log

export const audit = {show({content, scope, offer, fresh}) {
  let here = false, refused = false
  const command = () => `stalecast logs${refused ? " --refused" : ""}${here && scope ? flags(scope) : ""}`
  offer(null, command)
  if (!session.mayOperate) { replace(content, state("missing", refusedHere)); return }
  if (!knows("/v1/audit")) { replace(content, state("missing", "This daemon does not show it here; `stalecast logs` does.")); return }
  const list = table({label: "Audit log", key: row => row.seq, empty: "No line of that kind.", most: 100, columns: [
    {name: "when", label: "When", value: row => row.time, cell: row => moment(row.time)},
    {name: "who", label: "Who", value: who, cell: row => given(who(row), 80)},
    {name: "what", label: "What", value: row => row.sentence, cell: row => [(row.outcome ?? "ok") === "ok" ? null
      : [chip(row.outcome, "bad"), " "], given(row.sentence, 240)]},
    {name: "ip", label: "From", value: row => row.ip ?? "", cell: row => row.ip ? h("code", null, row.ip) : "–"},
    {name: "seq", label: "Line", numeric: true, value: row => row.seq}]})
  let again
  const box = (label, take) => h("label", {class: "check"}, h("input", {type: "checkbox", onchange: event => { take(event.target.checked); again() }}), ` ${label}`)
  const controls = h("div", {class: "row"}, scope ? box(`only ${scope.project}/${scope.namespace}`, isOn => { here = isOn }) : null,
    box("only what was refused", isOn => { refused = isOn }))
  let end
  again = () => {
    end?.()
    const query = new URLSearchParams({pageSize: 500, ...(refused ? {refused: true} : {}),
      ...(here ? {project: scope.project, namespace: scope.namespace} : {})})
    end = each(3000, async signal => {
      const seen = await read(`/v1/audit?${query}`, {signal})
      fresh(seen)
      list.update(seen.entries)
      if (!content.contains(list)) replace(content, controls, list)
    }, error => { if (error.status) replace(content, controls, state("error", error.message)) })
  }
  again()
  return () => end()
}}

/** The person, and the credential where it says more. */
function who({actor = "stalecast", user}) {
  const credential = holder(actor)
  return user && user !== credential ? `${user} (${credential})` : credential
}
