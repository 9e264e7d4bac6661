// The convergence curve: counts over the logarithm of time, as lines, and as a table for those who do not see them.
import {h, count, span} from "./dom.js"

const height = 260, left = 46, right = 74, top = 12, bottom = 28

/**
 * `curve`: `{at: seconds, sent: counts, …}`; `audiences`: what 100 % is of, by rung; `now`: seconds since the announcement.
 * Each rung is a share of its own population: streams and clients are never added.
 */
export function convergence(curve, audiences, now) {
  const rungs = Object.keys(audiences).filter(rung => curve?.[rung]?.length && audiences[rung] > 0)
  if (!rungs.length) return null
  // Letters keep their size: a narrow window gets a narrower picture, not a smaller one.
  const width = Math.min(1240, Math.max(340, innerWidth - 90))
  const first = 0.001, last = Math.max(10, now * 1.02)
  const decades = Math.log10(last / first)
  const x = at => left + (width - left - right) * Math.min(1, Math.max(0, Math.log10(Math.max(at, first) / first) / decades))
  const y = part => height - bottom - (height - top - bottom) * Math.min(1, part)
  const element = h("svg", {class: "curve", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `Convergence: ${rungs.map(rung => `${rung} ${describe(curve[rung], audiences[rung])}`).join(", ")}`})
  for (const part of [0, 0.5, 0.95, 1]) {
    element.append(h("line", {class: part === 0 || part === 1 ? "axis" : "grid", x1: left, x2: width - right, y1: y(part),
      y2: y(part)}))
    if (part !== 0.95) element.append(h("text", {x: left - 6, y: y(part) + 4, "text-anchor": "end"}, `${part * 100} %`))
  }
  for (let power = -3; 10 ** power <= last; power++) {
    const at = 10 ** power
    element.append(h("line", {class: "grid", x1: x(at), x2: x(at), y1: top, y2: height - bottom}),
      h("text", {x: x(at), y: height - 8, "text-anchor": "middle"}, label(at)))
  }
  const ends = []
  for (const rung of rungs) {
    const parts = curve[rung].map(number => number / audiences[rung])
    let d = `M${x(first)} ${y(0)}`
    curve.at.forEach((at, index) => { if (parts[index] !== undefined) d += `H${x(at).toFixed(1)}V${y(parts[index]).toFixed(1)}` })
    d += `H${x(Math.max(now, curve.at.at(-1) ?? 0)).toFixed(1)}`
    element.append(h("path", {class: `line ${rung}`, d}))
    ends.push([rung, y(parts.at(-1) ?? 0)])
  }
  // Names beside the ends of their lines, never one on another.
  ends.sort((a, b) => a[1] - b[1])
  let above = -Infinity
  for (const [rung, end] of ends) {
    above = Math.max(end + 4, above + 14)
    element.append(h("text", {class: `name ${rung}`, x: x(Math.max(now, curve.at.at(-1) ?? 0)) + 6, y: above}, rung))
  }
  return h("figure", {class: "chart"}, element, h("details", null, h("summary", null, "The same as a table"),
    asTable(curve, rungs, audiences)))
}

const label = at => at < 1 ? `${Math.round(at * 1000)} ms` : at < 60 ? `${at} s` : at < 3600 ? `${Math.round(at / 60)} min` : `${Math.round(at / 3600)} h`
const describe = (counts, all) => `${count(counts.at(-1))} of ${count(all)}`

function asTable(curve, rungs, audiences) {
  const step = Math.max(1, Math.ceil(curve.at.length / 16))
  const rows = curve.at.map((at, index) => [at, index]).filter(([, index]) => index % step === 0 || index === curve.at.length - 1)
  return h("div", {class: "scroller", tabindex: 0, role: "region", "aria-label": "Convergence as a table"}, h("table", null,
    h("caption", {class: "unseen"}, "Convergence"),
    h("thead", null, h("tr", null, h("th", {scope: "col", class: "numeric"}, "after"),
      rungs.map(rung => h("th", {scope: "col", class: "numeric"}, `${rung} of ${count(audiences[rung])}`)))),
    h("tbody", null, rows.map(([at, index]) => h("tr", null, h("th", {scope: "row", class: "numeric"}, span(at * 1000)),
      rungs.map(rung => h("td", {class: "numeric"}, count(curve[rung][index]))))))))
}
