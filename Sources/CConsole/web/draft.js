// A draft of a template: where it is kept, and what its values may be.
import {cut, say} from "./dom.js"
import {scopeName} from "./api.js"

// The draft lives in this tab until it is published or dropped, also over a restart of the daemon.
const kept = scope => "draft " + scopeName(scope)
export const recall = scope => { try { return JSON.parse(sessionStorage.getItem(kept(scope))) } catch { return null } }
export function keep(scope, draft) {
  try { draft ? sessionStorage.setItem(kept(scope),
    JSON.stringify(draft)) : sessionStorage.removeItem(kept(scope)) } catch { say("The draft is too large to be kept over a reload.") }
}

/** Content only: what a publish sends. */
export const content0 = json => { const {version, ...content} = json; return content }

/** The other value of a parameter that is true or false by default; null for any other one. */
export function flipped({valueType, defaultValue}) {
  if (valueType !== "BOOLEAN" || !/^(true|false)$/i.test(defaultValue?.value ?? "")) return null
  return defaultValue.value.toLowerCase() === "true" ? "false" : "true"
}

/** Why a value is not of its type, as a sentence's end; null where it is, or where only the daemon can say. */
export function mistyped(value, type) {
  if (value.value === undefined) return null
  const text = value.value.trim()
  if (type === "NUMBER" && (text === "" || Number.isNaN(Number(text)))) return `is no number: “${cut(text, 40)}”.`
  if (type === "BOOLEAN" && !/^(true|false)$/i.test(text)) return `is neither true nor false: “${cut(text, 40)}”.`
  if (type === "JSON") try { JSON.parse(text) } catch (error) { return `is not JSON: ${error.message}` }
  return null
}
