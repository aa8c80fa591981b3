/* Small comforts on top of pages that work without them. */
(function () {
  "use strict";
  const root = document.documentElement;

  if (!root.dataset.theme && window.matchMedia("(prefers-color-scheme: dark)").matches) {
    document.querySelectorAll("[data-theme-form] button").forEach(function (button) {
      button.value = "light";
      button.querySelector("span").textContent = "Light";
    });
  }

  document.addEventListener("submit", function (event) {
    const form = event.target;
    if (form.matches("[data-theme-form]")) {
      event.preventDefault();
      const button = form.querySelector("button"), theme = button.value;
      root.dataset.theme = theme;
      document.cookie = "theme=" + theme + ";path=/;max-age=31536000;samesite=lax";
      button.value = theme === "dark" ? "light" : "dark";
      button.querySelector("span").textContent = theme === "dark" ? "Light" : "Dark";
    } else if (form.matches("[data-confirm]") && !window.confirm(form.dataset.confirm)) {
      event.preventDefault();
    }
  });

  document.addEventListener("click", function (event) {
    const menu = event.target.closest("[data-menu]");
    if (menu) {
      event.preventDefault();
      const open = document.getElementById("nav").classList.toggle("open");
      menu.setAttribute("aria-expanded", String(open));
    }
    const copy = event.target.closest("[data-copy]");
    if (copy && navigator.clipboard) {
      navigator.clipboard.writeText(copy.dataset.copy).then(function () {
        const words = copy.querySelector("span") || copy, before = words.textContent;
        words.textContent = "Copied";
        window.setTimeout(function () { words.textContent = before; }, 1500);
      });
    }
    const all = event.target.closest("[data-check-all]");
    if (all) {
      document.querySelectorAll('input[name="' + all.dataset.checkAll + '"]').forEach(function (box) { box.checked = all.checked; });
      count();
    }
    document.querySelectorAll("details.drop[open]").forEach(function (drop) {
      if (!drop.contains(event.target)) { drop.open = false; }
    });
  });

  /* The card beside a cell of the map, for the mouse and the keyboard alike. */
  let card = null;
  function explain(event) {
    const cell = event.target.closest("[data-cells] td"), tip = cell && cell.querySelector(".tip");
    if (card) { card.remove(); card = null; }
    if (!tip) { return; }
    card = document.createElement("div");
    card.className = "cell-card";
    card.setAttribute("aria-hidden", "true");
    card.append(...tip.cloneNode(true).childNodes);
    document.body.append(card);
    const at = cell.getBoundingClientRect(), width = card.offsetWidth, height = card.offsetHeight;
    card.style.left = Math.max(8, Math.min(at.left, window.innerWidth - width - 8)) + "px";
    card.style.top = (at.bottom + height + 12 > window.innerHeight ? at.top - height - 7 : at.bottom + 7) + "px";
  }
  ["mouseover", "focusin"].forEach(function (name) { document.addEventListener(name, explain); });
  document.addEventListener("scroll", function () { if (card) { card.remove(); card = null; } }, true);

  function count() {
    document.querySelectorAll("[data-count-of]").forEach(function (bar) {
      const n = document.querySelectorAll('input[name="' + bar.dataset.countOf + '"]:checked').length;
      bar.querySelector("[data-n]").textContent = n;
      bar.classList.toggle("some", n > 0);
    });
  }

  document.addEventListener("change", function (event) {
    if (event.target.matches("[data-submit]")) { event.target.form.requestSubmit(); }
    count();
  });

  /* Arrow keys in a grid of cells: one tab stop, left and right along a row, up and down between rows. */
  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape") {
      document.querySelectorAll("details.drop[open]").forEach(function (drop) { drop.open = false; drop.querySelector("summary").focus(); });
    }
    const cell = event.target.closest("[data-cells] td[tabindex]");
    if (cell && event.key === "Enter" && cell.querySelector("a")) { cell.querySelector("a").click(); return; }
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1, Home: 0, End: 0 }[event.key];
    if (!cell || step === undefined) { return; }
    const rows = Array.from(cell.closest("[data-cells]").querySelectorAll("tr")).map(function (row) { return Array.from(row.querySelectorAll("td[tabindex]")); }).filter(function (row) { return row.length; });
    const y = rows.findIndex(function (row) { return row.includes(cell); }), x = rows[y].indexOf(cell);
    let next = rows[y][x + step];
    if (event.key === "Home") { next = rows[y][0]; }
    if (event.key === "End") { next = rows[y][rows[y].length - 1]; }
    if (event.key === "ArrowUp" || event.key === "ArrowDown") { next = rows[y + step] && (rows[y + step][x] || rows[y + step][rows[y + step].length - 1]); }
    event.preventDefault();
    if (next) { cell.tabIndex = -1; next.tabIndex = 0; next.focus(); }
  });
})();
