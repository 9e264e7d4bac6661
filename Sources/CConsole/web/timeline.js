// The last hour and the last day of the daemon: streams, deliveries, fetches, failures, and the versions of a scope as marks.
import {h, replace, button, clock, count, moment, plural, span, state} from "./dom.js"
import {each, knows, read, session} from "./api.js"

const height = 176, left = 46, right = 12, top = 22, middle = 96, bottom = 148

/** A section with the time line; nothing where the daemon has none, or where the grants are for a part of it. */
export function section(scope) {
  if (!session.mayReadAll || !knows("/v1/timeline")) return {element: null, end() {}, heard() {}}
  let length = "hour", seen
  const title = h("h2", null, "Time line")
  const figure = h("div"), total = h("p", {class: "quiet"})
  const choices = [["hour", "Last hour"], ["day", "Last day"]].map(([name, label]) => button(label, () => { length = name; draw() },
    {class: "plain", "data-length": name}))
  const element = h("section", {"aria-label": "Time line", class: "card timeline"},
    h("div", {class: "head"}, title, h("div", {class: "tools"}, choices)), total, figure)

  function draw() {
    for (const one of choices) one.setAttribute("aria-pressed", one.dataset.length === length)
    if (!seen) return
    const {stepSeconds, points} = seen[length]
    const marks = seen.publishes.filter(one => one.project === scope.project && one.namespace === scope.namespace)
    const end = clock.now(), begin = end - stepSeconds * 1000 * (length === "hour" ? 60 : 96)
    const isOpen = element.querySelector("details")?.open
    replace(total, summary(points, marks.filter(one => Date.parse(one.time) >= begin), seen.since))
    replace(figure, points.length ? chart(points, marks, begin, end, stepSeconds * 1000) : state("empty", "Nothing is counted yet."))
    if (isOpen) element.querySelector("details").open = true
  }

  const end = each(10000, async signal => { seen = await read("/v1/timeline", {signal}); draw() },
    error => { if (error.status && !seen) replace(figure, state("error", error.message)) })
  draw()
  /** A node of a cluster counts its own streams, deliveries and fetches. */
  const heard = status => replace(title, "Time line", status.cluster ? h("span", {class: "quiet"}, " of this node") : null)
  return {element, end, heard}
}

const sum = (points, name) => points.reduce((all, point) => all + point[name], 0)

function summary(points, marks, since) {
  const failed = sum(points, "failures")
  return [plural(marks.length, "version"), ` · ${plural(sum(points, "deliveries"), "delivery", "deliveries")} · ${
    plural(sum(points, "fetches"), "fetch", "fetches")} · `,
    failed ? h("b", {class: "failures"}, plural(failed, "failure")) : "no failure", " · started ", moment(since)]
}

function chart(points, marks, begin, end, step) {
  const width = Math.min(1240, Math.max(300, innerWidth - 90))
  const x = at => left + (width - left - right) * Math.min(1, Math.max(0, (at - begin) / (end - begin)))
  const most = name => Math.max(1, ...points.map(point => point[name]))
  const streams = most("streams"), moved = Math.max(most("deliveries"), most("fetches"))
  const y = number => middle - (middle - top) * number / streams
  const tall = number => number === 0 ? 0 : Math.max(1.5, (bottom - middle - 14) * Math.sqrt(number / moved))
  const element = h("svg", {class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label":
    `Time line: at most ${plural(streams, "stream")}, ${sum(points, "deliveries")} deliveries, ${sum(points, "fetches")} fetches, ${sum(points, "failures")} failures, ${marks.length} versions`})
  for (const [at, label] of [[top, count(streams)], [middle, "0"], [bottom, ""]])
    element.append(h("line", {class: at === top ? "grid" : "axis", x1: left, x2: width - right, y1: at, y2: at}),
      h("text", {x: left - 6, y: at + 4, "text-anchor": "end"}, label))
  for (let part = 0; part <= 4; part++) {
    const at = begin + (end - begin) * part / 4
    element.append(h("text", {x: x(at), y: height - 8, "text-anchor": part === 0 ? "start" : part === 4 ? "end" : "middle"},
      part === 4 ? "now" : `− ${span(end - at).replace(/ 0 (s|min)$/, "")}`))
  }
  const inside = points.map(point => ({...point, at: Date.parse(point.time)})).filter(point => point.at + step > begin)
  element.append(...area(inside, x, y, step), ...bars(inside, x, tall, step, end - begin, width))
  let edge = -Infinity
  for (const {time, versionNumber, updateType} of marks.toReversed()) {
    const at = Date.parse(time)
    if (at < begin) continue
    element.append(h("line", {class: `publish ${updateType === "ROLLBACK" ? "back" : ""}`, x1: x(at), x2: x(at), y1: top - 6, y2: bottom}))
    if (edge !== -Infinity && edge - x(at) < 34) continue
    edge = x(at)
    element.append(h("text", {class: "version", x: edge, y: top - 10, "text-anchor": edge > width - 40 ? "end" : "middle"}, versionNumber))
  }
  return h("figure", {class: "chart"}, element, h("figcaption", {class: "legend"}, h("span", {class: "streams"}, "streams open"),
    h("span", {class: "sent"}, "deliveries"), h("span", {class: "fetched"}, "fetches"), h("span", {class: "failures"}, "failures"),
    h("span", {class: "publish"}, "versions of this scope")),
  h("details", null, h("summary", null, "The same as a table"), asTable(inside, marks)))
}

/** Streams: an area for each stretch without a gap. */
function area(points, x, y, step) {
  const stretches = []
  for (const point of points) {
    const last = stretches.at(-1)
    if (last && point.at - last.at(-1).at <= step * 1.5) last.push(point)
    else stretches.push([point])
  }
  return stretches.flatMap(stretch => {
    const steps = stretch.map(point => `V${y(point.streams).toFixed(1)}H${x(point.at + step).toFixed(1)}`).join("")
    const start = `M${x(stretch[0].at).toFixed(1)} ${middle}`
    return [h("path", {class: "area streams", d: `${start}${steps}V${middle}Z`}), h("path", {class: "line streams", d: start + steps})]
  })
}

/** Deliveries and fetches stand on the lower axis side by side; failures hang below it. */
function bars(points, x, tall, step, all, width) {
  const wide = Math.max(1, (width - left - right) * step / all / 2 - 0.5)
  return points.flatMap(point => [["deliveries", "sent", 0], ["fetches", "fetched", wide]].map(([name, color, shift]) =>
    point[name] ? h("rect", {class: `bar ${color}`, x: (x(point.at) + shift).toFixed(1), y: (bottom - tall(point[name])).toFixed(1),
      width: wide.toFixed(1), height: tall(point[name]).toFixed(1)}) : null)
    .concat(point.failures ? h("rect", {class: "bar failures", x: x(point.at).toFixed(1), y: bottom + 1, width: (wide * 2).toFixed(1), height: 6}) : null)
    .filter(Boolean))
}

function asTable(points, marks) {
  const heads = ["streams", "deliveries", "fetches", "failures"]
  const step = Math.max(1, Math.ceil(points.length / 24))
  const rows = points.filter((_, index) => (points.length - 1 - index) % step === 0).toReversed()
  return h("div", {class: "scroller", tabindex: 0, role: "region", "aria-label": "Time line as a table"}, h("table", null,
    h("caption", {class: "unseen"}, "Time line"),
    h("thead", null, h("tr", null, h("th", {scope: "col"}, "begun"), heads.map(name => h("th", {scope: "col", class: "numeric"}, name)))),
    h("tbody", null, rows.map(point => h("tr", null, h("th", {scope: "row"}, moment(point.time)),
      heads.map(name => h("td", {class: "numeric"}, count(point[name]))))))),
  marks.length ? h("p", {class: "quiet"}, marks.slice(-12).toReversed().map((one, index) => [index ? ", " : "Versions: ",
    one.versionNumber, " ", moment(one.time)])) : null)
}
