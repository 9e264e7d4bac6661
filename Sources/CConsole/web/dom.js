// Elements from data. Text only ever becomes text: there is no way from here to markup.

const svgNames = new Set(["svg", "path", "line", "g", "text", "circle", "rect", "polyline"])

/** An element: `h("a", {href, class, onclick, "aria-label"}, "text", other, [more])`; null and false are left out. */
export function h(name, given, ...children) {
  const attributes = given ?? {}
  const element = svgNames.has(name)
    ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value)
    else if (key === "value" || key === "checked") element[key] = value
    else element.setAttribute(key, value === true ? "" : String(value))
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false))
  return element
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false))
  return element
}

/** Like `replace`, but leaves what says the same, with the focus that may be in it. */
export function replaceChanged(element, ...children) {
  const next = replace(element.cloneNode(false), ...children)
  if (next.textContent !== element.textContent) element.replaceChildren(...next.childNodes)
}

// Texts

/** Foreign text, whose direction stays inside it; cut where it would fill the screen. */
export function given(text, most = 160) {
  const whole = String(text ?? "")
  if (whole.length <= most) return h("bdi", {class: "given"}, whole)
  const rest = whole.length > 2048 ? `${(whole.length / 1024).toFixed(0)} kB` : `${whole.length} characters`
  return h("bdi", {class: "given"}, cut(whole, most), h("span", {class: "quiet"}, ` … ${rest}`))
}

/** At most so many characters, never half of one. */
export const cut = (text, most) => text.length <= most ? text : text.slice(0, most).replace(/[\ud800-\udbff]$/, "")

const whole = new Intl.NumberFormat("en", {maximumFractionDigits: 0})
export const count = number => number === undefined || number === null ? "–" : whole.format(number)
export const share = (part, all) => all > 0 ? `${Math.floor(part / all * 1000) / 10} %` : "–"
export const plural = (number, word, many = word + "s") => `${count(number)} ${number === 1 ? word : many}`

/** Milliseconds as people say them. */
export function span(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "–"
  if (ms < 1) return "< 1 ms"
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`
  if (ms < 60e3) return `${(ms / 1000).toFixed(1)} s`
  if (ms < 3600e3) return `${Math.floor(ms / 60e3)} min ${Math.round(ms / 1000) % 60} s`
  if (ms < 172800e3) return `${Math.floor(ms / 3600e3)} h ${Math.floor(ms / 60e3) % 60} min`
  return `${Math.floor(ms / 86400e3)} days`
}

export function bytes(number) {
  if (number === undefined || number === null) return "–"
  for (const [size, unit] of [[1 << 30, "GB"], [1 << 20, "MB"], [1024, "kB"]])
    if (number >= size) return `${(number / size).toFixed(1)} ${unit}`
  return `${number} bytes`
}

/** Milliseconds that the daemon's clock is ahead of this machine's; times of the daemon are compared with its own. */
export const clock = {ahead: 0, now() { return Date.now() + this.ahead }}

const moments = new Intl.DateTimeFormat("en-GB", {day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit",
  second: "2-digit", timeZoneName: "short"})
const dates = new Intl.DateTimeFormat("en-GB", {day: "numeric", month: "short", hour: "2-digit", minute: "2-digit"})

/** A moment as its distance from now, from a day on as its date; the moment itself is in its title. */
export function moment(text) {
  const date = new Date(text)
  if (!text || Number.isNaN(date.getTime())) return "–"
  const ms = clock.now() - date
  const words = Math.abs(ms) < 2000 ? "now" : Math.abs(ms) > 86400e3 ? dates.format(date) : ms > 0 ? `${coarse(ms)} ago` : `in ${coarse(-ms)}`
  return h("time", {datetime: text, title: moments.format(date)}, words)
}

const coarse = ms => ms < 60e3 ? `${Math.round(ms / 1000)} s` : ms < 3600e3 ? `${Math.floor(ms / 60e3)} min` : span(ms)

// Parts of screens

/** What stands where data would: `empty`, `loading`, `error`, `missing`. */
export function state(kind, sentence, ...more) {
  return h("div", {class: `state ${kind}`, role: kind === "error" ? "alert" : null}, h("p", null, sentence), more)
}

/** Says something to people who do not see it change. */
export function say(sentence) { document.getElementById("polite").textContent = sentence }

/** A short list of names and values. */
export const facts = pairs => h("dl", {class: "facts"},
  pairs.filter(Boolean).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value ?? "–"))))

export const button = (label, onclick, more) => h("button", {type: "button", onclick, ...more}, label)

export const field = (label, input, hint) => {
  input.id ||= `f${++field.last}`
  if (hint) input.setAttribute("aria-describedby", input.id + "h")
  return h("div", {class: "field"}, h("label", {for: input.id}, label), input,
    hint ? h("p", {class: "quiet", id: input.id + "h"}, hint) : null)
}
field.last = 0

export const choice = (options, value, more) => h("select", more, options.map(option => {
  const [key, label] = Array.isArray(option) ? option : [option, option]
  return h("option", {value: key, selected: key === value}, label)
}))

/** A chip; `tone` is good, bad, warn or none. */
export const chip = (text, tone = "") => h("span", {class: `chip ${tone}`}, text)

/** Focuses the button that has taken the place of one. */
export function refind(lost) {
  const name = one => one.ariaLabel ?? one.textContent
  if (!lost.isConnected) [...document.querySelectorAll("main button")].find(one => name(one) === name(lost))?.focus()
}

/** A modal dialog; `build(close)` makes its content. Resolves with what it was closed with. */
export function dialog(title, build, more) {
  return new Promise(resolve => {
    const id = `d${++dialog.last}`
    const close = result => { element.result = result; element.close() }
    const element = h("dialog", {"aria-labelledby": id, ...more}, h("h2", {id, tabindex: -1}, title))
    element.append(...[build(close)].flat(Infinity).filter(Boolean))
    const opener = document.activeElement
    element.addEventListener("close", () => { element.remove(); refind(opener); resolve(element.result) })
    let isTyped = false
    element.addEventListener("input", () => { isTyped = true })
    element.addEventListener("cancel", async event => {
      // What was sent cannot be called back.
      if (event.target !== element || element.dataset.busy) return event.preventDefault()
      if (!isTyped) return
      event.preventDefault()
      if (await dialog("Throw away what you typed?", answer => h("p", {class: "actions"}, button("Go on", () => answer()),
        button("Throw away", () => answer(true), {class: "danger"})))) close()
    })
    document.body.append(element)
    element.showModal()
    const first = element.querySelector("input, textarea, select")
    ;(first ?? element.querySelector("h2")).focus()
  })
}
dialog.last = 0

/** Copies, and says so on the button; where the browser does not let it, shows the text to copy. */
export function copy(label, text) {
  const element = button(label, async () => {
    const content = typeof text === "function" ? text() : text
    try {
      await navigator.clipboard.writeText(content)
      element.textContent = "Copied"
      say("Copied")
      setTimeout(() => { element.textContent = label }, 1500)
    } catch {
      await dialog(label, close => [
        h("textarea", {readonly: true, rows: Math.min(20, content.split("\n").length + 1), "aria-label": label, value: content}),
        h("p", {class: "actions"}, button("Close", () => close()))])
    }
  }, {class: "plain"})
  return element
}

/** Shows a secret. */
export const shownOnce = (title, sentence, secret) => dialog(title, close => [h("p", null, "It is shown here, and only once. ", sentence), h("p", null, h("code", {class: "given"}, secret)),
  h("p", {class: "actions"}, copy("Copy it", secret), button("Close", () => close(), {class: "main"}))])

/** After a failed read: a list that is shown stays. */
export const unread = (content, list) => error => { if (!content.contains(list)) replace(content, state("error", error.message)) }

/** A word for the shell. */
export const word = text => /^[\w@%+=:,./-]+$/.test(text) ? text : `'${String(text).replaceAll("'", "'\\''")}'`

/**
 * A table that sorts by its heads and filters by a text.
 *
 * `columns`: `{name, label, value: row => sort key and filter text, cell: row => node, numeric}`. `update(rows)` fills it anew,
 * and keeps what is sorted, filtered and focused.
 */
export function table({label, columns, key, empty, sort, filter = true, most = 200, find = ""}) {
  let rows = [], [sorted, down] = [sort?.[0], sort?.[1] === "down"], wanted = find.toLowerCase(), limit = most
  // In a narrow window rows are cards, and what is no table row to the browser must still be one to those who do not see it.
  const body = h("tbody", {role: "rowgroup"}), note = h("p", {class: "quiet"}), none = h("div")
  const heads = columns.map(column => {
    if (!column.value) return h("th", {scope: "col", role: "columnheader"}, column.label || h("span", {class: "unseen"}, "Actions"))
    const head = h("th", {scope: "col", role: "columnheader", class: column.numeric ? "numeric" : null},
      button(column.label, () => {
        if (sorted === column.name) down = !down
        else [sorted, down] = [column.name, Boolean(column.numeric)]
        show()
      }))
    head.column = column
    return head
  })
  const search = h("input", {type: "search", placeholder: "Filter", value: find, "aria-label": `Filter ${label}`,
    oninput: () => { wanted = search.value.toLowerCase(); limit = most; show() }})
  const scroller = h("div", {class: "scroller", tabindex: 0, role: "region", "aria-label": label},
    h("table", {role: "table"}, h("caption", {class: "unseen"}, label), h("thead", {role: "rowgroup"}, h("tr", {role: "row"}, heads)), body))
  scroller.hidden = true
  const element = h("div", {class: "table"}, filter ? h("div", {class: "filter"}, search) : null, scroller, none, note)

  function compare(a, b) {
    const column = columns.find(one => one.name === sorted)
    if (!column) return 0
    const [x, y] = [column.value(a), column.value(b)]
    const order = column.numeric ? (x ?? -1) - (y ?? -1) : String(x ?? "").localeCompare(String(y ?? ""), "en", {numeric: true})
    return down ? -order : order
  }

  function show() {
    for (const head of heads) {
      if (!head.column) continue
      const order = head.column.name === sorted ? (down ? "descending" : "ascending") : null
      order ? head.setAttribute("aria-sort", order) : head.removeAttribute("aria-sort")
    }
    const matches = rows.filter(row => !wanted || columns.some(column =>
      column.value && cut(String(column.value(row) ?? ""), 4096).toLowerCase().includes(wanted)))
    const shown = matches.sort(compare).slice(0, limit)
    const focus = focused()
    body.replaceChildren(...shown.map(row => {
      const line = h("tr", {role: "row"}, columns.map((column, index) => {
        const cell = h(index === 0 ? "th" : "td", {scope: index === 0 ? "row" : null, role: index === 0 ? "rowheader" : "cell",
          class: column.numeric ? "numeric" : null, "data-label": column.label ?? null},
        column.cell ? column.cell(row) : given(column.value(row)))
        cell.classList.toggle("vacant", ["", "–"].includes(cell.textContent))
        return cell
      }))
      line.key = key(row)
      return line
    }))
    refocus(focus)
    scroller.hidden = shown.length === 0
    replace(none, shown.length ? null : state("empty", rows.length ? `Nothing here matches “${cut(wanted, 40)}”.` : empty))
    replace(note, matches.length > shown.length
      ? [`${count(shown.length)} of ${count(matches.length)} shown. `,
        button("Show more", () => { limit *= 4; show() }, {class: "plain"})]
      : null)
  }

  function focused() {
    const line = body.contains(document.activeElement) && document.activeElement.closest("tr")
    return line ? [line.key, [...line.querySelectorAll("a, button, input")].indexOf(document.activeElement)] : null
  }

  function refocus(focus) {
    const line = focus && [...body.rows].find(row => row.key === focus[0])
    line?.querySelectorAll("a, button, input")[focus[1]]?.focus({preventScroll: true})
  }

  element.update = list => { rows = [...list]; search.parentElement && (search.parentElement.hidden = rows.length < 6 && !wanted); show(); return element }
  return element
}
