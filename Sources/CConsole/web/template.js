// The template: a draft over the version it was read from, what it would change, and publishing it.
import {h, replace, button, chip, choice, cut, dialog, field, given, moment, plural, state, table, word, say} from "./dom.js"
import {api, flags, may, path, Refusal} from "./api.js"
import * as proposals from "./proposals.js"
import * as releases from "./release.js"
import {content0, flipped, keep, mistyped, recall} from "./draft.js"
import {changeList, difference, parameters, place, rebase, set, textOf, canonical} from "./diff.js"

const colors = ["BLUE", "BROWN", "CYAN", "DEEP_ORANGE", "GREEN", "INDIGO", "LIME", "ORANGE", "PINK", "PURPLE", "TEAL"]

export function show(context) {
  const {content, scope, offer, fresh} = context
  const locked = scope.fedBy ? `The versions of this scope come from ${scope.fedBy}; they are changed there.`
    : may(scope, "publish") ? null : "You may read this scope and not publish to it."
  let base, etag, version, draft
  const top = h("div"), body = h("div")
  offer(null, () => `stalecast get${flags(scope)} > template.json\nstalecast publish template.json${flags(scope)} --if-match ${word(etag ?? "*")}`)

  async function load() {
    const answer = await api("GET", path(scope))
    base = content0(answer.json)
    version = answer.json.version
    etag = answer.etag
    const held = recall(scope)
    draft = held ? held.template : structuredClone(base)
    if (held && held.etag !== etag) {
      // Drafted over a version that is not the newest any more.
      base = held.base
      etag = held.etag
    }
    replace(content, top, body)
    render()
  }

  const changes = () => difference(base, draft)
  // Of the draft as it is shown: a row asks for each, and templates have thousands.
  let marks = new Map(), uses = new Map(), colorOf = new Map()

  function look(list) {
    marks = new Map(list.map(change => [change.kind + change.name, change.change]))
    colorOf = new Map((draft.conditions ?? []).map(condition => [condition.name, condition.tagColor]))
    uses = new Map()
    for (const {parameter} of parameters(draft).values())
      for (const name of Object.keys(parameter.conditionalValues ?? {})) uses.set(name, (uses.get(name) ?? 0) + 1)
  }

  function changed() {
    canonical(base) === canonical(draft) ? keep(scope, null) : keep(scope, {template: draft, base, etag})
    render()
  }

  function render() {
    fresh(draft)
    const list = changes()
    look(list)
    const number = version?.versionNumber
    replace(top,
      locked ? h("p", {class: "state missing"}, locked) : null,
      h("div", {class: "toolbar"},
        h("p", null, number ? [h("b", null, `Version ${number}`), version.updateTime ? [", ",
          moment(version.updateTime)] : null] : "No version yet",
          list.length ? [" · ", chip(`draft: ${plural(list.length, "change")}`, "warn")] : null),
        locked ? null : [
          button("Add parameter", () => editParameter(null)),
          button("Add condition", () => editCondition(null)),
          button("Edit as JSON", editText),
          button("Validate", validate, {disabled: !list.length}),
          button("Discard", discard, {disabled: !list.length}),
          button(scope.needsApproval ? "Review and propose" : "Review and publish", review, {class: "main", disabled: !list.length})]))
    rows.update([...parameters(draft)].map(([name, entry]) => ({name, ...entry})))
    conditions.update((draft.conditions ?? []).map((condition, index) => ({...condition, index})))
    if (!body.firstChild) replace(body, h("section", null, h("h2", null, "Parameters"), rows),
      h("section", null, h("h2", null, "Conditions"),
      h("p", {class: "quiet"}, "In order of priority: of several that match, the first decides."), conditions))
  }

  // What is there

  const mark = (kind, name) => { const change = marks.get(kind + name); return change ? [" ",
    h("span", {class: `mark ${change}`}, change)] : null }
  const rows = table({label: "Parameters", key: row => row.name, sort: ["name"], find: context.parameters.get("find") ?? "", empty: "No parameter yet.", columns: [
    {name: "name", label: "Name", value: row => row.name, cell: row => [h("b", null, given(row.name, 80)),
      mark("parameter", row.name)]},
    {name: "type", label: "Type", value: row => (row.parameter.valueType ?? "").toLowerCase()},
    {name: "value", label: "Default", value: row => textOf(row.parameter.defaultValue) ?? "",
      cell: row => row.parameter.defaultValue?.useInAppDefault ? h("i", null, "the app's") : h("code", null,
      given(textOf(row.parameter.defaultValue), 90))},
    {name: "conditions", label: "Conditional values", value: row => Object.keys(row.parameter.conditionalValues ?? {}).join(" "),
      cell: row => Object.entries(row.parameter.conditionalValues ?? {}).map(([name, value]) =>
      h("span", {class: "conditional"}, tag(name), " ", h("code", null, given(textOf(value), 40))))},
    {name: "group", label: "Group", value: row => row.group},
    {name: "about", label: "About", value: row => row.parameter.description ?? "", cell: row => given(row.parameter.description, 90)},
    ...(locked ? [] : [{name: "edit", cell: row => h("span", {class: "actions"}, flip(row),
      button("Edit", () => editParameter(row.name), {"aria-label": `Edit ${cut(row.name, 60)}`, class: "plain"}))}])]})
  const conditions = table({label: "Conditions", key: row => row.name, filter: false,
    empty: "No condition: all clients get the default values.", columns: [
    {name: "index", label: "No.", cell: row => String(row.index + 1)},
    {name: "name", label: "Name", value: row => row.name, cell: row => [tag(row.name), mark("condition", row.name)]},
    {name: "expression", label: "Expression", value: row => row.expression ?? "",
      cell: row => h("code", null, given(row.expression, 200))},
    {name: "uses", label: "Used by",
      cell: row => plural(uses.get(row.name) ?? 0, "parameter")},
    ...(locked ? [] : [{name: "edit", cell: row => h("span", {class: "actions"},
      button("Edit", () => editCondition(row.name), {"aria-label": `Edit condition ${cut(row.name, 60)}`, class: "plain"}),
      button("Up", () => move(row.index, -1), {"aria-label": `Move ${cut(row.name, 60)} up`, class: "plain",
        disabled: row.index === 0}),
      button("Down", () => move(row.index, 1), {"aria-label": `Move ${cut(row.name, 60)} down`, class: "plain",
        disabled: row.index === draft.conditions.length - 1}))}])]})

  const tag = name => {
    const color = colorOf.get(name)
    return h("span", {class: `tag ${(colors.includes(color) ? color : "none").toLowerCase()}`}, given(name, 60))
  }

  function move(index, by) {
    const list = draft.conditions
    ;[list[index], list[index + by]] = [list[index + by], list[index]]
    changed()
  }

  // Changing it

  /** A switch for true or false: one click changes the draft and asks, the second one publishes. */
  function flip({name, parameter}) {
    const next = flipped(parameter)
    if (next === null) return null
    return button(`Set ${next}`, async () => {
      const before = structuredClone(draft)
      parameters(draft).get(name).parameter.defaultValue = {value: next}
      changed()
      // Cancelled, a draft that was not there before goes again.
      if (!await review() && canonical(before) === canonical(base)) { draft = before; changed() }
    }, {"aria-label": `Set ${cut(name, 60)} to ${next}`, class: "plain"})
  }

  const problemBox = () => h("div", {class: "problem"})
  const ends = (close, label, more) => h("p", {class: "actions"}, more, button("Cancel", () => close()),
    h("button", {type: "submit", class: "main"}, label))
  const form = (submit, ...parts) => h("form", {onsubmit: event => { event.preventDefault(); submit() }}, parts)

  async function editParameter(name) {
    const entry = name === null ? {parameter: {defaultValue: {value: ""}, valueType: "STRING"}, group: ""} : parameters(draft).get(name)
    const parameter = structuredClone(entry.parameter)
    await dialog(name === null ? "New parameter" : "Edit parameter", close => {
      const inputs = {
        name: h("input", {type: "text", required: true, value: name ?? "", spellcheck: "false", autocomplete: "off"}),
        type: choice([["STRING", "text"], ["BOOLEAN", "true or false"], ["NUMBER", "number"], ["JSON", "JSON"], ["", "not said"]],
          parameter.valueType === "PARAMETER_VALUE_TYPE_UNSPECIFIED" ? "" : parameter.valueType ?? ""),
        about: h("input", {type: "text", value: parameter.description ?? ""}),
        group: h("input", {type: "text", value: entry.group, list: "groups"}),
      }
      const values = h("div")
      const editors = new Map()
      function value(label, key, given_) {
        const own = given_ && given_.value === undefined && !given_.useInAppDefault
        const text = h("textarea", {rows: Math.min(8, (given_?.value ?? "").split("\n").length), value: given_?.value ?? "",
          spellcheck: "false", disabled: own || given_?.useInAppDefault})
        const app = h("input", {type: "checkbox", checked: Boolean(given_?.useInAppDefault),
          onchange: () => { text.disabled = app.checked }})
        const box = h("fieldset", null, h("legend", null, label), own ? h("p", {class: "quiet"},
          "A personalization, rollout or experiment; it stays as it is.") : [field("Value", text),
          h("label", {class: "check"}, app, " the app's own default")],
        key === null ? null : button("Remove", () => { editors.delete(key); box.remove(); offerMore() }, {class: "plain"}))
        editors.set(key, () => own ? given_ : app.checked ? {useInAppDefault: true} : {value: text.value})
        return box
      }
      const adder = h("div")
      function offerMore() {
        const free = (draft.conditions ?? []).filter(condition => !editors.has(condition.name)).map(condition => condition.name)
        if (!free.length) { replace(adder); return }
        const select = choice(free.map(one => [one, cut(one, 80)]), free[0], {"aria-label": "Condition"})
        replace(adder, h("div", {class: "row"}, select, button("Add a value for it",
          () => { const box = value(h("span", null, "When ", tag(select.value)), select.value,
          {value: ""}); values.append(box); offerMore(); box.querySelector("textarea").focus() })))
      }
      values.append(value("Default value", null, parameter.defaultValue ?? {value: ""}))
      for (const [condition, one] of Object.entries(parameter.conditionalValues ?? {})) values.append(value(h("span", null, "When ",
        tag(condition)), condition, one))
      offerMore()
      const problem = problemBox()
      return form(() => {
        const wanted = inputs.name.value.trim()
        if (wanted !== name && parameters(draft).has(wanted)) { replace(problem,
          state("error", "There is a parameter of that name.")); return }
        for (const [condition, make] of editors) {
          const wrong = mistyped(make(), inputs.type.value)
          if (wrong) { replace(problem, state("error", `${condition === null ? "The default value" : `The value when ${condition}`} ${wrong}`)); return }
        }
        parameter.defaultValue = editors.get(null)()
        delete parameter.conditionalValues
        for (const [condition, make] of editors) if (condition !== null) set(parameter.conditionalValues ??= {}, condition, make())
        inputs.type.value ? parameter.valueType = inputs.type.value : delete parameter.valueType
        inputs.about.value ? parameter.description = inputs.about.value : delete parameter.description
        if (name !== null && name !== wanted) place(draft, name, null)
        place(draft, wanted, {parameter, group: inputs.group.value.trim()})
        close()
        changed()
      }, field("Name", inputs.name), h("div", {class: "pair"}, field("Type", inputs.type), field("Group", inputs.group)),
        field("About", inputs.about),
      h("datalist", {id: "groups"}, Object.keys(draft.parameterGroups ?? {}).map(group => h("option", {value: group}))),
      values, adder, problem, ends(close, "Keep in the draft", name === null ? null : button("Delete parameter",
        () => { place(draft, name, null); close(); changed() }, {class: "danger"})))
    }, {class: "wide"})
  }

  async function editCondition(name) {
    const old = (draft.conditions ?? []).find(condition => condition.name === name) ?? {name: "", expression: "", tagColor: "BLUE"}
    await dialog(name === null ? "New condition" : "Edit condition", close => {
      const label = h("input", {type: "text", required: true, value: old.name, autocomplete: "off"})
      const expression = h("textarea", {rows: 4, required: true, value: old.expression ?? "", spellcheck: "false"})
      const color = choice(["", ...colors].map(one => [one, one ? one.toLowerCase().replace("_", " ") : "none"]), old.tagColor ?? "")
      const problem = problemBox()
      return form(() => {
        const wanted = label.value.trim()
        draft.conditions ??= []
        if (wanted !== name && draft.conditions.some(condition => condition.name === wanted)) { replace(problem,
          state("error", "There is a condition of that name.")); return }
        const next = {...old, name: wanted, expression: expression.value}
        color.value ? next.tagColor = color.value : delete next.tagColor
        if (name === null) draft.conditions.push(next)
        else draft.conditions = draft.conditions.map(condition => condition.name === name ? next : condition)
        if (name !== null && wanted !== name) rename(name, wanted)
        close()
        changed()
      }, field("Name", label), field("Expression", expression, "For example: device.os == 'ios' && device.country in ['FR']"),
        field("Color", color), problem,
      ends(close, "Keep in the draft", name === null ? null : button("Delete condition",
        () => { draft.conditions = draft.conditions.filter(one => one.name !== name); rename(name, null); close(); changed() },
        {class: "danger"})))
    })
  }

  /** Values follow their condition, or go with it. */
  function rename(from, to) {
    for (const {parameter} of parameters(draft).values()) {
      if (!Object.hasOwn(parameter.conditionalValues ?? {}, from)) continue
      if (to !== null) set(parameter.conditionalValues, to, parameter.conditionalValues[from])
      delete parameter.conditionalValues[from]
    }
  }

  async function editText() {
    await dialog("The draft as JSON", close => {
      const text = h("textarea", {rows: 24, spellcheck: "false", value: JSON.stringify(draft, null, 2),
        "aria-label": "The draft as JSON"})
      const problem = problemBox()
      return form(() => {
        try { draft = content0(JSON.parse(text.value)) } catch (error) { replace(problem,
          state("error", `This is not JSON: ${error.message}`)); return }
        close()
        changed()
      }, text, problem, ends(close, "Keep in the draft"))
    }, {class: "wide"})
  }

  async function discard() {
    const sure = await dialog("Discard the draft?", close => [h("p", null, `${plural(changes().length, "change")} will be gone.`),
      h("p", {class: "actions"}, button("Keep it", () => close()), button("Discard", () => close(true), {class: "danger"}))])
    if (!sure) return
    keep(scope, null)
    await load()
  }

  // Publishing it

  const problems = error => state("error", error.message, error.violations?.length
    ? h("ul", null, error.violations.slice(0, 20).map(one => h("li", null, h("code", null, given(one.field, 120)), " ",
      given(one.description, 300)))) : null)

  const query = more => { const text = String(new URLSearchParams(more)); return text && `?${text}` }
  const check = more => api("PUT", path(scope, query({validateOnly: "true", ...more})), {body: draft, headers: {"If-Match": etag}})

  async function validate() {
    await dialog("Validate", close => {
      const box = h("div", null, state("loading", "The daemon checks it."))
      check().then(() => replace(box, state("good", "The draft is valid.")),
        error => replace(box, error.isConflict ? state("error",
        "Valid or not, another version was published meanwhile: review it to bring the two together.") : problems(error)))
      return [box, h("p", {class: "actions"}, button("Close", () => close()))]
    })
  }

  async function review() {
    const outcome = await dialog("Publish", close => {
      const validity = h("div", null, state("loading", "The daemon checks it.")), audience = h("div")
      const about = h("input", {type: "text", maxlength: 1000, value: ""})
      const urgent = h("input", {type: "checkbox"})
      // Empty is now; else a proposal that publishes itself.
      const at = h("input", {type: "datetime-local"})
      const propose = h("button", {type: scope.needsApproval ? "submit" : "button", class: scope.needsApproval ? "main" : null,
        disabled: true, ...(scope.needsApproval ? {} : {onclick: () => send(true)})}, "Propose")
      const publish = h("button", {type: "submit", class: "main", disabled: true}, "Publish")
      const gone = changes().filter(change => change.kind === "parameter" && change.change === "removed").map(change => change.name)
      const agreed = h("input", {type: "checkbox", onchange: () => enable(isValid)})
      let isValid = false
      const offered = scope.needsApproval ? [propose] : proposals.known() ? [propose, publish] : [publish]
      const enable = isOn => { for (const one of offered) one.disabled = !isOn || (gone.length > 0 && !agreed.checked) }
      const release = scope.needsApproval || !releases.known() ? null : releases.choices(judge)
      let turn = 0
      function judge() {
        const mine = ++turn
        enable(isValid = false)
        check(release?.query()).then(() => {
          if (mine !== turn) return
          replace(validity, state("good", "Valid."))
          enable(isValid = true)
        }, error => {
          if (mine !== turn) return
          if (error.isConflict) return close("conflict")
          release?.refused(error)
          replace(validity, problems(error))
        })
      }
      judge()
      releases.showAudience(scope, audience).then(seen => release?.heard(seen))
      async function send(isProposal) {
        const busy = about.closest("dialog").dataset
        busy.busy = "yes"
        enable(false)
        replace(validity, state("loading", isProposal ? "Proposing." : "Publishing."))
        try {
          const body = about.value ? {...draft, version: {description: about.value}} : draft
          const isLater = at.value !== "" && !scope.needsApproval
          const manner = isLater ? {publishTime: new Date(at.value).toISOString()} : isProposal ? {propose: "true"} : release?.query()
          const {json} = await api("PUT", path(scope, query(manner)), {body,
            headers: {"If-Match": etag, ...(urgent.checked ? {"X-Stalecast-Urgent": "true"} : {})}})
          close(isLater ? {proposal: json.number, at: json.publishTime} : isProposal ? {proposal: json.number} : {version: json.version.versionNumber})
        } catch (error) {
          delete busy.busy
          if (error.isConflict) return close("conflict")
          release?.refused(error)
          replace(validity, error instanceof Refusal ? problems(error) : state("error",
            "No answer came: whether it was published is unknown. Reload the template before you publish again."))
          enable(true)
        }
      }
      return h("form", {onsubmit: event => {
        event.preventDefault()
        send(Boolean(scope.needsApproval))
      }}, field("What it is about", about), h("label", {class: "check"}, urgent,
        " urgent: clients fetch at once, whatever the herd window"), release?.element,
      scope.needsApproval || !proposals.known() ? null : field("Publish at", at, "Empty publishes it now. Else it waits as a proposal, which can be withdrawn."),
      validity, h("h3", null, "Who is told"), audience, h("h3", null, "What changes"), changeList(changes()),
      gone.length ? h("div", {class: "state error"}, h("p", null, `This removes ${gone.length} of ${
        plural(parameters(base).size, "parameter")}: `, given(gone.slice(0, 10).join(", "), 300), gone.length > 10 ? ", …" : "."),
        h("label", {class: "check"}, agreed, " remove them")) : null,
      scope.needsApproval ? h("p", {class: "quiet"}, "Two people publish here: another person has to approve it.") : null,
      h("p", {class: "actions"}, button("Cancel", () => close()), offered))
    }, {class: "wide"})
    if (outcome === "conflict") { await resolve(); return true }
    if (!outcome) return false
    keep(scope, null)
    say(outcome.at ? `Proposal ${outcome.proposal} publishes itself later.` : outcome.proposal ? `Proposal ${outcome.proposal} waits for another person.` : `Version ${outcome.version} is published.`)
    location.hash = context.link(outcome.proposal ? "versions" : "now").slice(1)
    return true
  }

  /** Another version was published meanwhile: both sides are laid on each other, parameter by parameter. */
  async function resolve() {
    const answer = await api("GET", path(scope))
    const theirs = content0(answer.json)
    const {merged, conflicts, kept, conditionsConflict} = rebase(base, draft, theirs)
    const choices = new Map(conflicts.map(name => [name, "mine"]))
    let conditionsOf = "mine"
    const outcome = await dialog("Another version was published meanwhile", close => {
      const [m, t] = [parameters(draft), parameters(theirs)]
      const side = entry => entry ? textOf(entry.parameter.defaultValue) ?? "" : "(deleted)"
      const pick = (name, label, mine, other, take) => h("fieldset", null, h("legend", null, label),
        ["mine", "theirs"].map(whose => h("label", {class: "check"},
          h("input", {type: "radio", name, value: whose, checked: whose === "mine", onchange: () => take(whose)}),
          whose === "mine" ? " yours: " : " theirs: ", h("code", null, given(whose === "mine" ? mine : other, 160)))))
      return [h("p", null, h("b", null, `Version ${answer.json.version?.versionNumber}`), " came in between",
        answer.json.version?.updateUser?.name ? [", by ", given(answer.json.version.updateUser.name)] : null,
        `. Your ${plural(kept.length, "changed parameter")} can go on top of it.`),
      h("h3", null, "What they changed"), changeList(difference(base, theirs)),
      conflicts.length || conditionsConflict ? h("h3", null, "Changed on both sides") : h("p", {class: "state good"},
        "Nothing was changed on both sides."),
      conflicts.map((name, index) => pick(`c${index}`, given(name, 80), side(m.get(name)), side(t.get(name)),
        whose => choices.set(name, whose))),
      conditionsConflict ? pick("cc", "the conditions", names(draft), names(theirs), whose => { conditionsOf = whose }) : null,
      h("p", {class: "actions"}, button("Not now", () => close()), button("Drop my draft", () => close("drop"), {class: "danger"}),
        button("Continue on their version", () => close("merge"), {class: "main"}))]
    }, {class: "wide"})
    if (outcome === "drop") { keep(scope, null); return load() }
    if (outcome !== "merge") return
    for (const [name, whose] of choices) if (whose === "theirs") place(merged, name, parameters(theirs).get(name))
    if (conditionsConflict && conditionsOf === "theirs") merged.conditions = theirs.conditions
    base = theirs
    etag = answer.etag
    version = answer.json.version
    draft = merged
    changed()
    if (changes().length) review()
  }

  const names = template => (template.conditions ?? []).map(condition => condition.name).join(", ") || "none"

  load().catch(error => replace(content, state("error", error.message)))
}
