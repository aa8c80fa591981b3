/* The log of a task: a stream of lines that can be followed, searched and copied. Screen readers hear the state, not the lines. */
(function () {
  "use strict";
  const MOST = 5000;
  const box = document.querySelector("[data-log]");
  if (!box || !window.EventSource) { return; }
  function part(name) { return box.querySelector("[data-log-" + name + "]"); }
  const view = part("view"), status = part("status"), jump = part("jump"), find = part("find"), hits = part("hits");
  const colours = new RegExp("\\u001b\\[[0-9;?]*[ -/]*[@-~]", "g");
  let source = null, follow = true, times = false, waiting = [], frame = 0, unseen = 0, at = -1, over = false, told = "";

  function tell(text) { if (status.textContent !== text) { status.textContent = text; } }

  function shown(text) { return text.replace(colours, "").replace(/\r+$/, "").split("\r").pop(); }

  function line(text, kind) {
    const row = document.createElement("div");
    row.className = kind;
    row.textContent = text;
    if (kind === "line" && matches(text)) { row.classList.add("hit"); }
    return row;
  }

  function matches(text) { return find.value !== "" && text.toLowerCase().includes(find.value.toLowerCase()); }

  function draw() {
    frame = 0;
    const rows = document.createDocumentFragment();
    waiting.slice(-MOST).forEach(function (row) { rows.append(row); });
    unseen += waiting.length;
    waiting = [];
    view.append(rows);
    let extra = view.children.length - MOST;
    if (extra > 0) {
      const top = view.scrollHeight;
      while (extra-- > 0) { view.firstElementChild.remove(); }
      view.prepend(line("Older lines are cut.", "note"));
      if (!follow) { view.scrollTop -= top - view.scrollHeight; }
    }
    if (follow) { toEnd(); }
    pill();
    count();
  }

  function add(row) {
    waiting.push(row);
    if (!frame) { frame = window.requestAnimationFrame(draw); }
  }

  function toEnd() { unseen = 0; view.scrollTop = view.scrollHeight; }

  function pill() {
    jump.hidden = follow;
    if (!follow) { jump.querySelector("span").textContent = unseen ? "Jump to end, " + unseen + " new" : "Jump to end"; }
  }

  function setFollow(on) {
    follow = on;
    part("follow").setAttribute("aria-pressed", String(on));
    if (on) { toEnd(); }
    if (!over) { tell(on ? "Following" : "Paused"); }
    pill();
  }

  function found() { return Array.from(view.querySelectorAll(".hit")); }

  function count() {
    const all = found();
    if (at >= all.length) { at = all.length - 1; }
    hits.textContent = find.value === "" ? "" : all.length ? (at < 0 ? all.length + (all.length === 1 ? " match" : " matches") : at + 1 + " of " + all.length) : "no match";
  }

  function mark() {
    view.querySelectorAll(".line").forEach(function (row) { row.classList.toggle("hit", matches(row.textContent)); row.classList.remove("at"); });
    at = -1;
    count();
  }

  function step(by) {
    const all = found();
    if (!all.length) { return; }
    if (all[at]) { all[at].classList.remove("at"); }
    at = at < 0 ? (by > 0 ? 0 : all.length - 1) : (at + by + all.length) % all.length;
    setFollow(false);
    all[at].classList.add("at");
    all[at].scrollIntoView({ block: "center" });
    count();
  }

  function open() {
    if (source) { source.close(); }
    over = false;
    told = "";
    tell("Connecting…");
    source = new EventSource(box.dataset.log + "&follow=true" + (times ? "&timestamps=true" : ""));
    source.addEventListener("message", function (event) {
      JSON.parse(event.data).forEach(function (text) { add(line(shown(text), "line")); });
      tell(follow ? "Following" : "Paused");
    });
    source.addEventListener("note", function (event) {
      const note = JSON.parse(event.data);
      if (note.code === "cut" || note.code === "kept") { add(line(note.text, "note")); } else { told = note.text; }
    });
    source.addEventListener("end", function (event) {
      if (JSON.parse(event.data).ended) {
        over = true;
        source.close();
        tell(told || "Complete");
        part("follow").hidden = true;
        if (told && !view.children.length && !waiting.length) { add(line(told, "note")); }
      } else if (told) {
        tell(told + " Trying again…");
      }
    });
    source.addEventListener("error", function () {
      if (source.readyState === EventSource.CLOSED) {
        over = true;
        tell("This log cannot be opened now. Load the page again.");
      } else if (!told) {
        tell("Reconnecting…");
      }
    });
  }

  function again() {
    view.replaceChildren();
    waiting = [];
    unseen = 0;
    open();
  }

  view.replaceChildren();
  part("tools").hidden = false;
  part("follow").addEventListener("click", function () { setFollow(!follow); });
  jump.addEventListener("click", function () { setFollow(true); view.focus(); });
  part("wrap").addEventListener("click", function (event) {
    const on = view.classList.toggle("wrap");
    event.currentTarget.setAttribute("aria-pressed", String(on));
  });
  part("times").addEventListener("click", function (event) {
    times = !times;
    event.currentTarget.setAttribute("aria-pressed", String(times));
    again();
  });
  part("copy").addEventListener("click", function (event) {
    const words = event.currentTarget.querySelector("span"), text = Array.from(view.querySelectorAll(".line"), function (row) { return row.textContent; }).join("\n");
    navigator.clipboard.writeText(text + "\n").then(function () {
      words.textContent = "Copied";
      window.setTimeout(function () { words.textContent = "Copy"; }, 1500);
    });
  });
  find.addEventListener("input", mark);
  find.addEventListener("keydown", function (event) {
    if (event.key === "Enter") { event.preventDefault(); step(event.shiftKey ? -1 : 1); }
  });
  box.querySelectorAll("[data-log-step]").forEach(function (button) {
    button.addEventListener("click", function () { step(Number(button.dataset.logStep)); });
  });
  view.addEventListener("scroll", function () {
    const atEnd = view.scrollHeight - view.scrollTop - view.clientHeight < 24;
    if (follow && !atEnd) { setFollow(false); } else if (!follow && atEnd && !over && at < 0) { setFollow(true); }
  });
  window.addEventListener("pagehide", function () { source.close(); });
  window.addEventListener("pageshow", function (event) { if (event.persisted) { again(); } });
  open();
})();
