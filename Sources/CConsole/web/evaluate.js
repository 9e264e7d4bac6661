// What an app instance would get, and why: the daemon's own evaluator is asked.
import {h, replace, button, chip, field, given, state, table, word} from "./dom.js"
import {api, flags, path} from "./api.js"

const example = {appId: "1:123456789012:ios:0a1b2c", countryCode: "FR", languageCode: "fr-FR", platformVersion: "18.1",
  appVersion: "2.1.0", appInstanceId: "cAbCdEfGhIjKlMnOpQrStU"}
const shortcuts = [["Country", "countryCode"], ["Language", "languageCode"], ["App version", "appVersion"],
  ["Instance id", "appInstanceId"]]

export function show({content, scope, parameters, offer, fresh, note}) {
  let context = example
  try { context = JSON.parse(parameters.get("context")) ?? example } catch { /* an address that a person wrote */ }
  const text = h("textarea", {rows: 9, spellcheck: "false", value: JSON.stringify(context, null, 2)})
  const version = h("input", {type: "text", inputmode: "numeric", pattern: "[0-9]*", value: parameters.get("version") ?? "",
    placeholder: "newest"})
  const result = h("div", {class: "results"}), problem = h("div")
  offer(null, () => `stalecast get${flags(scope)}${version.value ? ` --version-number ${version.value}` : ""} | stalecast evaluate --template - --namespace ${scope.namespace} --context ${word(JSON.stringify(parsed() ?? {}))}`)

  const parsed = () => { try { return JSON.parse(text.value) } catch { return null } }
  const quick = shortcuts.map(([label, name]) => {
    const input = h("input", {type: "text", value: context[name] ?? "", spellcheck: "false", oninput: () => {
      const now = parsed()
      if (!now) return
      input.value ? now[name] = input.value : delete now[name]
      text.value = JSON.stringify(now, null, 2)
    }})
    text.addEventListener("input", () => { const now = parsed(); if (now) input.value = now[name] ?? "" })
    return field(label, input)
  })

  async function run(event) {
    event?.preventDefault()
    const wanted = parsed()
    if (!wanted) { replace(problem, state("error", "The context is not JSON.")); return }
    replace(problem)
    note({context: JSON.stringify(wanted).length < 1500 ? JSON.stringify(wanted) : "", version: version.value})
    try {
      const json = (await api("POST", path(scope, ":evaluate"),
        {body: {context: wanted, ...(version.value ? {versionNumber: version.value} : {})}})).json
      fresh(json)
      values.update(json.parameters)
      reasons.update(json.conditions.map((condition, index) => ({...condition, index})))
      replace(result, h("section", null, h("h2", null, "What it gets"), values), h("section", null, h("h2", null, "Why"), reasons))
    } catch (error) { replace(result, state("error", error.message)) }
  }

  const values = table({label: "Values", key: row => row.name, sort: ["name"], empty: "Nothing: the template has no parameter.",
    columns: [
    {name: "name", label: "Parameter", value: row => row.name},
    {name: "value", label: "Value", value: row => row.value ?? "", cell: row => row.value === undefined ? h("i", null,
      "the app's default") : h("code", null, given(row.value, 200))},
    {name: "because", label: "Because of", value: row => row.condition ?? "",
      cell: row => row.condition ? given(row.condition) : h("span", {class: "quiet"}, "the default")}]})
  const reasons = table({label: "Conditions", key: row => row.name, filter: false, empty: "The template has no condition.", columns: [
    {name: "index", label: "No.", cell: row => String(row.index + 1)},
    {name: "name", label: "Condition", value: row => row.name},
    {name: "matched", label: "Matches", value: row => row.matched ? "yes" : "no",
      cell: row => row.matched ? chip("yes", "good") : chip("no")},
    {name: "reason", label: "Why", value: row => row.reason, cell: row => given(row.reason, 300)}]})

  replace(content, h("div", {class: "beside"}, h("form", {onsubmit: run, class: "card"}, h("h2", null, "Who asks"),
    h("div", {class: "pair"}, quick),
    field("Context as JSON", text, "What the body of a fetch says. What is missing makes the conditions that ask for it false."),
    field("Version", version), problem, h("p", {class: "actions"}, h("button", {type: "submit", class: "main"}, "Evaluate"))), result))
  run()
}
