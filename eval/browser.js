// The case browser of a report. Reads the JSON beside it; every text is set as text, never as HTML.
"use strict";
(function () {
  const data = JSON.parse(document.getElementById("case-data").textContent);
  const list = document.getElementById("case-list");
  const view = document.getElementById("case-view");
  const said = document.getElementById("case-count");
  const fields = ["outcome", "condition", "variant", "turns"];
  const selects = Object.fromEntries(fields.map((name) => [name, document.getElementById("by-" + name)]));
  const search = document.getElementById("by-text");
  const PAGE = 60;
  let shown = [];
  let first = 0;
  let current = 0;

  function make(tag, text, kind) {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (kind) node.className = kind;
    return node;
  }

  function option(select, value, text) {
    const node = make("option", text);
    node.value = value;
    select.append(node);
  }

  function fill() {
    data.outcomes.forEach((name, n) => {
      const here = data.cases.filter((one) => one.outcome === n).length;
      if (data.counts[n]) option(selects.outcome, String(n), name + " (" + here + " of " + data.counts[n].toLocaleString("en") + ")");
    });
    for (const name of ["condition", "variant", "turns"]) {
      const values = [...new Set(data.cases.map((one) => one[name]))];
      values.sort((a, b) => (typeof a === "number" ? a - b : a < b ? -1 : 1));
      for (const value of values) option(selects[name], String(value), String(value) + (name === "turns" ? " turns" : ""));
      selects[name].hidden = values.length < 2;
    }
    // What training won comes first, if there is any of it.
    const best = data.cases.length ? Math.min(...data.cases.map((one) => one.outcome)) : 0;
    if (best === 0) selects.outcome.value = "0";
  }

  function texts(one) {
    const asked = one.messages.concat(...one.answers.map((a) => a.asked));
    const held = asked.map((message) => message[1]).concat(one.right, one.answers.map((a) => a.text));
    return one.id + "\n" + held.map((n) => data.texts[n]).join("\n");
  }

  function filter() {
    const words = search.value.trim().toLowerCase();
    shown = data.cases.filter(
      (one) =>
        fields.every((name) => !selects[name].value || String(one[name]) === selects[name].value) &&
        (!words || texts(one).toLowerCase().includes(words)),
    );
    first = 0;
    current = 0;
    draw();
  }

  function draw() {
    const all = data.counts.reduce((sum, n) => sum + n, 0);
    said.textContent =
      shown.length.toLocaleString("en") + " match, of " + data.cases.length.toLocaleString("en") +
      " cases held here, of " + all.toLocaleString("en") + " in the evaluation";
    list.replaceChildren();
    for (let n = first; n < Math.min(first + PAGE, shown.length); n++) list.append(entry(n));
    document.getElementById("case-back").disabled = first === 0;
    document.getElementById("case-more").disabled = first + PAGE >= shown.length;
    open(current);
  }

  function entry(n) {
    const one = shown[n];
    const button = make("button", undefined, "case o" + one.outcome);
    button.type = "button";
    button.append(make("b", data.outcomes[one.outcome]));
    button.append(make("span", [one.condition, one.variant, one.holder, one.turns + " turns", "run " + one.run].filter(Boolean).join(" · ")));
    button.append(make("small", one.source));
    button.addEventListener("click", () => open(n));
    button.dataset.place = n;
    return button;
  }

  function open(n) {
    current = n;
    for (const node of list.children) node.setAttribute("aria-current", String(Number(node.dataset.place) === n));
    view.replaceChildren();
    if (!shown.length) return view.append(make("p", "No case here matches.", "sub"));
    const one = shown[n];
    view.append(make("h3", data.outcomes[one.outcome]));
    view.append(make("p", one.id + " · run " + one.run, "sub code"));
    if (one.lines.length) view.append(entries(one));
    const cards = make("div", undefined, "cards");
    one.answers.forEach((answer, who) => cards.append(card(data.systems[who], answer)));
    view.append(cards);
    view.append(folded("A right answer", data.texts[one.right], false));
    // Two settings of one request: what each was asked stands in its own column.
    const own = one.answers.some((answer) => answer.asked.length);
    if (!own) return view.append(...shownTo(one.messages));
    const asked = make("div", undefined, "cards");
    one.answers.forEach((answer, who) => {
      const box = make("section", undefined, "card asked");
      const messages = answer.asked.length ? answer.asked : one.messages;
      box.append(make("header", data.systems[who]), ...shownTo(messages));
      asked.append(box);
    });
    view.append(asked);
  }

  function shownTo(messages) {
    return messages.map(([role, text]) => folded("Shown as " + role, data.texts[text], role !== "system"));
  }

  function card(name, answer) {
    const node = make("section", undefined, "card");
    const head = make("header", name);
    head.append(make("span", answer.verdict));
    node.append(head, make("pre", data.texts[answer.text] || "(nothing)"));
    return node;
  }

  function folded(title, text, isOpen) {
    const node = make("details");
    node.open = isOpen;
    node.append(make("summary", title), make("pre", text));
    return node;
  }

  // One row for each line of an answer: what was right, then each system; wrong entries marked,
  // a bar where the systems differ.
  function entries(one) {
    const box = make("div", undefined, "wide");
    const table = make("table", undefined, "entries");
    const head = make("tr");
    ["", "right", ...data.systems].forEach((name) => head.append(make("th", name)));
    table.append(head);
    one.lines.forEach(([name, right], n) => {
      const row = make("tr");
      row.append(make("td", name), tokens(right, null));
      const said = one.answers.map((answer) => (answer.stated.length ? answer.stated[n] : null));
      said.forEach((line, who) => row.append(line ? tokens(line, one.answers[who].marks[n]) : make("td", "–", "muted")));
      const known = said.filter(Boolean).map((line) => line.join(" "));
      if (new Set(known).size > 1) row.className = "differs";
      table.append(row);
    });
    box.append(table);
    return box;
  }

  function tokens(line, marks) {
    const cell = make("td", undefined, "tokens");
    line.forEach((token, n) => {
      if (n) cell.append(" ");
      cell.append(make(marks && !marks[n] ? "b" : "span", token));
    });
    return cell;
  }

  fields.forEach((name) => selects[name].addEventListener("change", filter));
  search.addEventListener("input", filter);
  document.getElementById("case-back").addEventListener("click", () => { first -= PAGE; current = first; draw(); });
  document.getElementById("case-more").addEventListener("click", () => { first += PAGE; current = first; draw(); });
  for (const button of document.querySelectorAll("button[data-outcome]")) {
    button.addEventListener("click", () => {
      selects.outcome.value = String(data.keys.indexOf(button.dataset.outcome));
      const asked = button.dataset.condition;
      selects.condition.value = [...selects.condition.options].some((one) => one.value === asked) ? asked : "";
      filter();
      document.getElementById("cases").scrollIntoView();
    });
  }
  document.addEventListener("keydown", (event) => {
    if (/^(INPUT|SELECT)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey) return;
    const step = { j: 1, k: -1 }[event.key];
    if (step && shown[current + step]) {
      if (current + step < first || current + step >= first + PAGE) { first = Math.max(0, first + step * PAGE); current += step; draw(); } else open(current + step);
      list.querySelector("[aria-current=true]").scrollIntoView({ block: "nearest" });
    }
  });
  fill();
  filter();
})();
