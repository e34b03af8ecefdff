// Live proofs: the reader edits a cell and runs it in the page. Nothing is loaded before the
// first run; then worker.mjs loads Python, once for all cells of the page.
(() => {
  const SLOW = 20_000; // milliseconds after which a run is worth a word
  const KEYS = "Ctrl+Enter runs the cell. Tab indents; Escape leaves the field.";
  const HINT = matchMedia("(hover: none)").matches ? "" : KEYS; // a finger has no such keys
  const data = JSON.parse(document.getElementById("live-proofs").textContent);

  // ---- Python, one run at a time ----

  let worker = null;
  let current = null; // the run under way: {report, settle}

  function startWorker() {
    worker = new Worker(data.folder + "worker.mjs", { type: "module" });
    worker.onmessage = ({ data: message }) => {
      if (message.type === "done") finish(message.result);
      else if (message.type === "failed") giveUp(message.message);
      else current?.report(message);
    };
    worker.onerror = (event) => giveUp(event.message || "a file is missing on the server");
  }

  function finish(result) {
    current?.settle(result);
    current = null;
  }

  // There is no other way to interrupt Python: the next run starts a worker afresh.
  function stopWorker(result) {
    worker?.terminate();
    worker = null;
    finish(result);
  }

  function giveUp(reason) {
    stopWorker({ failed: `Python could not be loaded: ${reason}. Run tries again.` });
  }

  function run(prelude, source, report) {
    return new Promise((settle) => {
      current = { report, settle };
      if (!worker) startWorker();
      worker.postMessage({ prelude, source, macros: data.macros });
    });
  }

  // ---- a cell that is being edited ----

  function element(tag, properties = {}, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  function button(label, action, className = "") {
    return element("button", { type: "button", textContent: label, onclick: action, className });
  }

  // Like disabled, but the button keeps the focus.
  const enable = (which, on) => which.setAttribute("aria-disabled", String(!on));
  const isEnabled = (which) => which.getAttribute("aria-disabled") !== "true";

  class LiveCell {
    constructor(cell, place) {
      this.source = cell.source;
      this.prelude = cell.prelude;
      this.shortened = cell.shortened;
      this.place = place;
      this.input = place.querySelector(".cell_input");
      this.stored = place.querySelector(".cell_output");
      this.open = button("Edit and run", () => this.edit(), "live-open");
      this.input.append(this.open);
    }

    edit() {
      const first = !this.panel;
      if (first) this.build();
      this.say("");
      this.toggle(true);
      this.field.focus();
      if (first && !this.source.includes("...")) this.run(); // an exercise waits for its line
    }

    // Either the page as it was, or the field and what it gives.
    toggle(editing) {
      this.open.hidden = editing;
      this.panel.hidden = !editing;
      this.input.querySelector("[class^=highlight]").hidden = editing;
    }

    build() {
      const id = `live-${this.place.className.match(/\bcell-(\d+)/)[1]}`;
      this.field = element("textarea", {
        id, value: this.source, rows: this.source.split("\n").length + 1,
        spellcheck: false, autocapitalize: "off", autocomplete: "off", wrap: "off",
      });
      this.field.setAttribute("autocorrect", "off");
      this.field.setAttribute("aria-describedby", `${id}-hint`);
      this.field.addEventListener("keydown", (event) => this.key(event));
      this.runButton = button("Run", () => this.run(), "live-run");
      this.stopButton = button("Stop", () => this.stop());
      this.resetButton = button("Reset", () => this.reset());
      this.progress = element("progress", { hidden: true });
      this.progress.setAttribute("aria-label", "Loading Python");
      this.status = element("span", { className: "live-status" });
      this.status.setAttribute("role", "status");
      this.status.setAttribute("aria-live", "polite");
      this.output = element("div", { className: "live-output", hidden: true });
      this.panel = element("div", { className: "live-panel" },
        element("label", { htmlFor: id, className: "live-label", textContent: "Python, for you to edit" }),
        this.field,
        element("div", { className: "live-bar" },
          this.runButton, this.stopButton, this.resetButton, this.progress, this.status),
        element("p", { id: `${id}-hint`, className: "live-hint", textContent: HINT + this.remark() }));
      this.input.append(this.panel);
      this.input.after(this.output);
      this.idle();
    }

    remark() {
      return this.shortened
        ? " PyTorch does not run here; the lines that need it are left out."
        : " PyTorch does not run here.";
    }

    key(event) {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.run();
      else if (event.key === "Escape") this.runButton.focus();
      else if (event.key === "Tab" && !event.shiftKey) {
        this.field.setRangeText("    ", this.field.selectionStart, this.field.selectionEnd, "end");
      } else return;
      event.preventDefault();
    }

    say(text, loading = null) {
      this.status.textContent = text;
      this.progress.hidden = !loading;
      if (loading) Object.assign(this.progress, { max: loading.of, value: loading.step });
    }

    idle() {
      clearTimeout(this.slow);
      enable(this.runButton, true);
      enable(this.stopButton, false);
    }

    async run() {
      if (!isEnabled(this.runButton)) return;
      if (location.protocol === "file:") {
        return this.say("This page was opened as a file, where a browser runs no Python: "
          + "open it from a web server, such as the one that “python3 -m http.server” starts.");
      }
      if (current) return this.say("Another cell is running: wait for it, or stop it.");
      enable(this.runButton, false);
      enable(this.stopButton, true);
      this.say("Loading Python …");
      const result = await run(this.prelude, this.field.value, (message) => this.report(message));
      this.idle();
      if (result.stopped || result.failed) return this.say(result.stopped ?? result.failed);
      this.show(result);
      this.say(result.refusal ? "Refused." : result.error ? "There is an error." : "Done.");
    }

    report({ type, step, of }) {
      if (type === "loading") return this.say(`Loading Python (${step} of ${of}) …`, { step, of });
      this.say("Running …");
      this.slow = setTimeout(
        () => this.say("Running for 20 seconds now. Stop ends it."), SLOW);
    }

    stop() {
      if (!isEnabled(this.stopButton)) return;
      stopWorker({ stopped: "Stopped. The next run starts Python afresh." });
      this.runButton.focus();
    }

    reset() {
      this.stop();
      this.field.value = this.source;
      this.output.hidden = true;
      if (this.stored) this.stored.hidden = false;
      this.say("");
      this.toggle(false);
      this.open.focus();
    }

    show({ printed, formulas = [], text = [], refusal, error }) {
      const pre = (content, className) => element("pre", { textContent: content, className });
      this.output.replaceChildren();
      if (printed) this.output.append(pre(printed, "live-printed"));
      if (refusal) this.output.append(pre(refusal, "live-refusal"));
      if (error) this.output.append(pre(error, "live-error"));
      for (const shown of text) this.output.append(pre(shown, "live-printed"));
      this.output.hidden = false;
      if (this.stored) this.stored.hidden = true;
      this.output.append(...formulas.map((html) => element("div", { className: "math", innerHTML: html })));
      window.dispatchEvent(new Event("resize")); // fit the formulas
    }
  }

  for (const cell of data.cells) {
    const place = document.querySelector(`.cell.cell-${cell.index}`);
    if (place?.querySelector(".cell_input")) new LiveCell(cell, place);
  }
})();
