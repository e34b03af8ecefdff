// How an exhibit is drawn: controls, a sentence that answers them, bars. An exhibit is an
// object { label, start, controls, plots(state), say(state) }; exhibits.js has all of them.
const parts = (() => {
  const signed = (x, digits = 1) => {
    const text = Math.abs(x).toFixed(digits);
    return (+text === 0 ? "" : x < 0 ? "−" : "+") + text;
  };
  const plain = (x, digits = 2) => signed(x, digits).replace("+", "");

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  let count = 0; // two exhibits on one page share no id

  function slider({ name, label, min, max, step, show = signed }, state, changed) {
    const id = `exhibit-${++count}`, shown = element("output", { for: id });
    const input = element("input", { type: "range", id, min, max, step });
    input.oninput = () => changed({ [name]: +input.value });
    const update = (now) => {
      input.value = now[name];
      shown.value = show(now[name]);
      input.setAttribute("aria-valuetext", show(now[name]));
    };
    return [element("div", { class: "row" }, element("label", { for: id }, label), input, shown), update];
  }

  function choice({ name, label, options }, state, changed) {
    const group = `exhibit-${++count}`, box = element("div", { class: "choice", role: "radiogroup", "aria-label": label });
    box.append(element("span", {}, label));
    for (const [value, text] of options) {
      const input = element("input", { type: "radio", name: group, value });
      input.onchange = () => changed({ [name]: value });
      box.append(element("label", {}, input, text));
    }
    return [box, (now) => box.querySelectorAll("input").forEach((input) => (input.checked = input.value === String(now[name])))];
  }

  // Tokens in a row: drag one, or move it with the arrow keys.
  function order({ name, label, colours }, state, changed) {
    const list = element("div", { class: "order", role: "group", "aria-label": label });
    const moved = (token, place) => {
      const rest = state()[name].filter((t) => t !== token);
      rest.splice(place, 0, token);
      changed({ [name]: rest });
      list.querySelector(`[data-token="${token}"]`).focus();
    };
    const placeAt = (x) => [...list.children].filter((chip) => {
      const box = chip.getBoundingClientRect();
      return x > box.left + box.width;
    }).length;
    function chip(token, place, size) {
      const made = element("button", { type: "button", class: "chip", "data-token": token, style: `--hue:${colours[token]}`,
        "aria-label": `token ${token + 1}, place ${place + 1} of ${size}; arrow keys move it` }, `${token + 1}`);
      made.onkeydown = ({ key }) => {
        const to = place + { ArrowLeft: -1, ArrowRight: 1 }[key];
        if (to >= 0 && to < size) moved(token, to);
      };
      made.onpointerdown = (event) => {
        made.setPointerCapture(event.pointerId);
        made.onpointermove = ({ clientX }) => (made.style.transform = `translateX(${clientX - event.clientX}px)`);
      };
      made.onpointerup = (event) => {
        made.onpointermove = made.style.transform = null;
        const to = Math.min(placeAt(event.clientX), size - 1);
        if (to !== place) moved(token, to);
      };
      return made;
    }
    return [list, (now) => list.replaceChildren(...now[name].map((token, place) => chip(token, place, now[name].length)))];
  }

  const CONTROLS = { slider, choice, order };

  function bar({ label, now, was, colour }, { low, high, show = plain }) {
    const at = (x) => (100 * (Math.min(Math.max(x, low), high) - low)) / (high - low);
    const mark = (kind, x) => element("i", { class: kind, style: `left:${Math.min(at(0), at(x))}%;width:${Math.abs(at(x) - at(0))}%` });
    const track = element("div", { class: "track", "aria-hidden": "true" }, mark("now", now));
    if (differ(now, was)) track.append(mark("was", was));
    track.append(element("b", { class: "zero", style: `left:${at(0)}%` }));
    const row = element("div", { class: "bar" }, element("span", {}, label), track, element("span", { class: "n" }, show(now)));
    if (colour) row.style.setProperty("--hue", colour);
    return row;
  }

  // Numbers that the exact formulas make equal differ by rounding only, far below this.
  const differ = (now, was) => was !== undefined && !(Math.abs(now - was) <= 1e-9);

  function plot({ title, bars, ...scale }) {
    const moved = bars.some(({ now, was }) => differ(now, was)), compared = bars.some(({ was }) => was !== undefined);
    const name = element("div", { class: "name" }, title, element("span", {}, !compared ? "" : moved ? "moved" : "unchanged"));
    return element("div", { class: moved ? "plot moved" : "plot" }, name, ...bars.map((each) => bar(each, scale)));
  }

  function draw(place, { label, start, controls, plots, say }) {
    let now = { ...start };
    const state = () => now;
    const changed = (part) => { now = { ...now, ...part }; update(); };
    const made = controls.map((control) => CONTROLS[control.kind](control, state, changed));
    const reset = element("button", { type: "button", class: "reset" }, "Reset");
    reset.onclick = () => changed(start);
    const drawn = element("div", { class: "plots" }), said = element("p", { class: "said", role: "status" });
    const update = () => {
      reset.disabled = Object.keys(start).every((name) => String(now[name]) === String(start[name]));
      made.forEach(([, refresh]) => refresh(now));
      drawn.replaceChildren(...plots(now).map(plot));
      said.textContent = say(now);
    };
    place.setAttribute("role", "group");
    place.setAttribute("aria-label", label);
    const instead = element("div", { class: "instead" }, ...place.childNodes); // on paper
    place.replaceChildren(instead, ...made.map(([part]) => part), element("div", { class: "answer" }, said, reset), drawn);
    update();
  }

  return { draw, plain, signed };
})();
