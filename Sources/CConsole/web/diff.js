// What differs between two templates, by parameter, condition and group; and what two drafts of one disagree about.
import {h, given, cut, bytes, plural} from "./dom.js"

/** All parameters of a template: `name → {parameter, group}`; group "" is none. */
export function parameters(template) {
  const all = new Map()
  for (const [name, parameter] of Object.entries(template.parameters ?? {})) all.set(name, {parameter, group: ""})
  for (const [group, {parameters = {}}] of Object.entries(template.parameterGroups ?? {}))
    for (const [name, parameter] of Object.entries(parameters)) all.set(name, {parameter, group})
  return all
}

/** Puts a parameter where it belongs; without one it goes. Changes `template`. */
export function place(template, name, entry) {
  template.parameters ??= {}
  delete template.parameters[name]
  for (const group of Object.values(template.parameterGroups ?? {})) if (group.parameters) delete group.parameters[name]
  if (!entry) return
  if (!entry.group) { set(template.parameters, name, entry.parameter); return }
  template.parameterGroups ??= {}
  if (!Object.hasOwn(template.parameterGroups, entry.group)) set(template.parameterGroups, entry.group, {})
  const group = template.parameterGroups[entry.group]
  group.parameters ??= {}
  set(group.parameters, name, entry.parameter)
}

/** A member of whatever name, `__proto__` too. */
export const set = (object, name, value) =>
  Object.defineProperty(object, name, {value, enumerable: true, configurable: true, writable: true})

export const textOf = value => value === undefined ? undefined : value.useInAppDefault ? "(the app's default)"
  : value.value !== undefined ? value.value : JSON.stringify(value)

const same = (a, b) => canonical(a) === canonical(b)
/** Order of members means nothing. */
export const canonical = value => JSON.stringify(value, (_, inner) => inner && typeof inner === "object" && !Array.isArray(inner)
  ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => a < b ? -1 : 1)) : inner)

/** `[{kind, name, change: "added" | "removed" | "changed", fields: [[label, before, after]]}]` */
export function difference(before, after) {
  const [old, young] = [parameters(before), parameters(after)]
  const changes = []
  for (const name of new Set([...old.keys(), ...young.keys()])) {
    const [a, b] = [old.get(name), young.get(name)]
    if (a && b && same(a, b)) continue
    changes.push({kind: "parameter", name, change: word(a, b), fields: fields(parts(a), parts(b))})
  }
  const rules = template => new Map((template.conditions ?? []).map((condition, index) => [condition.name, {...condition, index}]))
  const [was, is] = [rules(before), rules(after)]
  for (const name of new Set([...was.keys(), ...is.keys()])) {
    const [a, b] = [was.get(name), is.get(name)]
    const seen = one => one && new Map([["expression", one.expression], ["color", one.tagColor], ["description", one.description]])
    const list = fields(seen(a), seen(b))
    if (!a || !b || list.length) changes.push({kind: "condition", name, change: word(a, b), fields: list})
  }
  const order = [...was.keys()].filter(name => is.has(name))
  const now = [...is.keys()].filter(name => was.has(name))
  if (order.join("\n") !== now.join("\n"))
    changes.push({kind: "conditions", name: "priority", change: "changed", fields: [["order", order.join("\n"), now.join("\n")]]})
  const groups = template => new Map(Object.entries(template.parameterGroups ?? {}).map(([name, group]) => [name,
    group.description ?? ""]))
  const [left, right] = [groups(before), groups(after)]
  for (const name of new Set([...left.keys(), ...right.keys()])) {
    const [a, b] = [left.get(name), right.get(name)]
    if (a !== b) changes.push({kind: "group", name, change: word(a, b),
      fields: [["description", a, b]].filter(([, x, y]) => (x ?? "") !== (y ?? ""))})
  }
  return changes
}

const word = (a, b) => a === undefined ? "added" : b === undefined ? "removed" : "changed"

function parts(entry) {
  if (!entry) return undefined
  const {parameter, group} = entry
  const list = new Map([["default", textOf(parameter.defaultValue)]])
  for (const [name, value] of Object.entries(parameter.conditionalValues ?? {})) list.set(`when ${name}`, textOf(value))
  list.set("description", parameter.description)
  list.set("type", parameter.valueType)
  list.set("group", group || undefined)
  return list
}

function fields(a = new Map(), b = new Map()) {
  return [...new Set([...a.keys(), ...b.keys()])].map(label => [label, a.get(label), b.get(label)])
    .filter(([, x, y]) => x !== y)
}

/** The changes as a list to read. */
export function changeList(changes) {
  if (!changes.length) return h("p", {class: "state empty"}, "No difference.")
  return h("div", null, h("p", {class: "quiet"}, plural(changes.length, "change")),
    h("ul", {class: "changes"}, changes.map(change => h("li", null,
    h("div", null, h("span", {class: `mark ${change.change}`}, change.change), ` ${change.kind} `,
      h("b", null, given(change.name, 120))),
    h("dl", {class: "sides"}, change.fields.map(([label, before, after]) => h("div", null,
      h("dt", null, given(label, 80)), h("dd", null, sides(before, after, `${change.name}, ${label}`)))))))))
}

/** Long texts line by line, short ones side by side. */
function sides(before, after, place) {
  if (before === undefined || after === undefined)
    return before === undefined ? h("ins", null, given(after, 600)) : h("del", null, given(before, 600))
  const [a, b] = [lines(before), lines(after)]
  if (a.length < 2 && b.length < 2 && before.length + after.length < 400) return [h("del", null, given(before, 200)), " ",
    h("ins", null, given(after, 200))]
  if (a.length * b.length > 4e6) return `${bytes(before.length)} became ${bytes(after.length)}, too much to compare here`
  const shown = compact(compare(a, b)).slice(0, 120)
  return h("pre", {class: "lines", tabindex: 0, role: "region", "aria-label": `Lines of ${place}`}, shown.map(([sign, text]) =>
    h(sign === "+" ? "ins" : sign === "-" ? "del" : "span", null, `${sign} ${cut(text, 400)}\n`)))
}

/** A value's lines; JSON is laid out first. */
function lines(text) {
  if (/^\s*[[{]/.test(text) && text.length < 200000) try { text = JSON.stringify(JSON.parse(text), null, 2) } catch { /* as it is */ }
  return text.split("\n")
}

/** The lines of both with their signs: what is common is the longest there is. */
export function compare(a, b) {
  let start = 0, end = 0
  while (start < a.length && start < b.length && a[start] === b[start]) start++
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++
  const [x, y] = [a.slice(start, a.length - end), b.slice(start, b.length - end)]
  const size = y.length + 1, common = new Uint32Array((x.length + 1) * size)
  for (let i = x.length - 1; i >= 0; i--)
    for (let j = y.length - 1; j >= 0; j--)
      common[i * size + j] = x[i] === y[j] ? common[(i + 1) * size + j + 1] + 1
        : Math.max(common[(i + 1) * size + j], common[i * size + j + 1])
  const list = a.slice(0, start).map(line => [" ", line])
  let i = 0, j = 0
  while (i < x.length || j < y.length) {
    if (i < x.length && j < y.length && x[i] === y[j]) { list.push([" ", x[i]]); i++; j++ }
    else if (j < y.length && (i === x.length || common[i * size + j + 1] > common[(i + 1) * size + j])) list.push(["+", y[j++]])
    else list.push(["-", x[i++]])
  }
  return list.concat(a.slice(a.length - end).map(line => [" ", line]))
}

/** Without what is far from any change. */
const compact = list => list.filter((_, index) => list.slice(Math.max(0, index - 2), index + 3).some(([sign]) => sign !== " "))

/**
 * Carries a draft over to a version that was published meanwhile. `conflicts`: names of parameters that both changed
 * to something else; `merged` has the draft's side of them, `withTheirs` the other.
 */
export function rebase(base, mine, theirs) {
  const [b, m, t] = [parameters(base), parameters(mine), parameters(theirs)]
  const merged = structuredClone(theirs), conflicts = [], kept = []
  for (const name of new Set([...b.keys(), ...m.keys()])) {
    if (same(b.get(name) ?? null, m.get(name) ?? null)) continue
    kept.push(name)
    if (!same(b.get(name) ?? null, t.get(name) ?? null) && !same(m.get(name) ?? null, t.get(name) ?? null)) conflicts.push(name)
    place(merged, name, m.get(name))
  }
  const mineChanged = !same(base.conditions ?? [], mine.conditions ?? [])
  const theirsChanged = !same(base.conditions ?? [], theirs.conditions ?? [])
  const conditionsConflict = mineChanged && theirsChanged && !same(mine.conditions ?? [], theirs.conditions ?? [])
  if (mineChanged) merged.conditions = mine.conditions
  return {merged, conflicts, kept, conditionsConflict}
}
