/* Live pages: one stream of hints a page; a fragment that a hint concerns is fetched again, with a throttle, jitter and its ETag.
   When the stream is down, fragments poll and the page says so. A hidden tab asks nothing; a fragment in use is not replaced. */
(function () {
  "use strict";
  const POLL = 15000, THROTTLE = 1500, RETRY = 10000;
  const topics = document.body.dataset.live;
  if (!topics || !window.EventSource || !window.htmx) { return; }
  const stale = new Map();
  let source = null, poll = 0, retry = 0;

  function fragments() { return Array.from(document.querySelectorAll("[data-on]")); }

  function busy(fragment) {
    const focus = document.activeElement;
    const typing = fragment.contains(focus) && focus.matches("input, select, textarea, summary, [data-hold]");
    return typing || fragment.querySelector("details.drop[open], details[data-hold][open], input:checked:not([data-view])") !== null;
  }

  function pill(fragment, shown) {
    const hint = fragment.previousElementSibling;
    if (hint && hint.matches("[data-changes]")) { hint.hidden = !shown; }
  }

  function fetchAgain(fragment, force) {
    stale.delete(fragment);
    if (!document.contains(fragment)) { return; }
    if (document.hidden) { stale.set(fragment, 0); return; }
    if (!force && busy(fragment)) { stale.set(fragment, 0); pill(fragment, true); return; }
    pill(fragment, false);
    htmx.ajax("GET", fragment.dataset.url, { source: fragment, target: fragment, swap: "innerHTML" });
  }

  function soon(fragment) {
    if (stale.get(fragment)) { return; }
    stale.set(fragment, window.setTimeout(function () { fetchAgain(fragment); }, THROTTLE * (0.5 + Math.random())));
  }

  function hint(topic) {
    fragments().forEach(function (fragment) {
      if (fragment.dataset.on.split(" ").includes(topic)) { soon(fragment); }
    });
  }

  function all() { fragments().forEach(soon); }

  function down() {
    document.body.dataset.stream = "down";
    document.getElementById("offline").hidden = false;
    if (!poll) { poll = window.setInterval(function () { if (!document.hidden) { all(); } }, POLL); }
    if (source && source.readyState === EventSource.CLOSED && !retry) {
      retry = window.setTimeout(function () { retry = 0; connect(); }, RETRY * (0.7 + Math.random() * 0.6));
    }
  }

  function up() {
    document.body.dataset.stream = "open";
    document.getElementById("offline").hidden = true;
    if (poll) { window.clearInterval(poll); poll = 0; all(); }
  }

  function connect() {
    source = new EventSource("/live?topics=" + encodeURIComponent(topics) + "&since=" + document.body.dataset.since);
    source.onopen = up;
    source.onerror = down;
    source.onmessage = function (event) { hint(event.data); };
    source.addEventListener("bye", function () {
      source.close();
      document.getElementById("signed-out").hidden = false;
    });
  }

  document.body.addEventListener("htmx:configRequest", function (event) {
    const tag = event.detail.elt.dataset.etag;
    if (tag) { event.detail.headers["If-None-Match"] = tag; }
  });
  document.body.addEventListener("htmx:afterRequest", function (event) {
    const fragment = event.detail.elt, tag = event.detail.xhr.getResponseHeader("ETag");
    if (fragment.dataset.on && tag && event.detail.successful) { fragment.dataset.etag = tag; }
  });
  document.addEventListener("visibilitychange", function () {
    if (!document.hidden) { stale.forEach(function (timer, fragment) { if (!timer) { soon(fragment); } }); }
  });
  document.addEventListener("focusout", function () {
    window.setTimeout(function () { stale.forEach(function (timer, fragment) { if (!timer) { soon(fragment); } }); }, 300);
  });
  document.addEventListener("click", function (event) {
    const button = event.target.closest("[data-changes] button");
    if (button) { fetchAgain(button.closest("[data-changes]").nextElementSibling, true); }
  });
  window.addEventListener("pagehide", function () { if (source) { source.close(); } });
  window.addEventListener("pageshow", function (event) { if (event.persisted) { connect(); all(); } });
  window.setInterval(function () {
    fragments().forEach(function (fragment) { if (fragment.dataset.every && !poll) { fetchAgain(fragment); } });
  }, POLL);
  connect();
})();
