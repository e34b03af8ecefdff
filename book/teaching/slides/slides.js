/* Fit, then show: a slide is as large as it can be and never cut off. */

/* Sizes in pixels of a slide of 1280 × 720: the largest first, then the smallest. What a program
   reads or prints may be smaller than words: the book's lines of 88 columns must fit. */
const TEXT = [34, 24], WORDS_ONLY = 40, FORMULA = [40, 24], CODE = [34, 21], PRINT = 30
const FIGURE = 1.75 /* a figure of the book may grow so far before it blurs */

async function showSlides() {
  document.documentElement.classList.add("measuring")
  await Promise.all([...document.images].map(image => image.decode().catch(() => {})))
  await document.fonts.ready
  document.querySelectorAll("[data-steps]").forEach(stepByStep)
  document.querySelectorAll(".page").forEach(fit)
  document.documentElement.classList.remove("measuring")
  await Reveal.initialize({
    width: 1280, height: 720, margin: 0, center: false, display: "block",
    hash: true, slideNumber: "c/t", transition: "none", controlsTutorial: false,
    pdfSeparateFragments: false, pdfMaxPagesPerSlide: 1,
    plugins: [RevealNotes],
  })
  if (Reveal.isPrintView?.() || /print-pdf/.test(location.search)) await printed()
  window.slidesReady = true
}

function printed() {
  return new Promise(done => {
    if (document.querySelector(".pdf-page")) done()
    Reveal.on("pdf-ready", done)
  })
}

/* The rows of a derivation become fragments; data-steps holds the step of each row. KaTeX sets a
   table column by column, so a row is the same child of each column. */
function stepByStep(formula) {
  const columns = formula.querySelectorAll(".katex-html > .base > .mord > .mtable > [class^=col-align]")
  for (const column of columns) {
    const rows = column.querySelector(".vlist").children
    formula.dataset.steps.split(" ").forEach((step, row) => {
      if (step === "0") return
      rows[row].classList.add("fragment")
      rows[row].dataset.fragmentIndex = step - 1
    })
  }
}

function fit(page) {
  const room = page.querySelector(".room"), body = page.querySelector(".body")
  const each = (selector, act) => page.querySelectorAll(selector).forEach(act)
  const wordy = !body.querySelector(".formula, pre, .print, figure, table")
  for (let size = wordy ? WORDS_ONLY : TEXT[0]; size >= FORMULA[1] / 1.2; size--) {
    page.style.fontSize = `${Math.max(size, TEXT[1])}px`
    each(".formula", part => widen(part, ".katex-display > .katex", FORMULA, 1.2 * size))
    each("pre.code, .columns", part => widen(part, "code, .line span", CODE, size))
    each(".print:not(.columns)", part => part.style.fontSize = `${Math.max(TEXT[1], Math.min(PRINT, size))}px`)
    each("figure img", image => fitFigure(image, room, body))
    if (body.offsetHeight <= room.clientHeight) break
  }
  body.style.marginTop = `${Math.max(0, 0.3 * (room.clientHeight - body.offsetHeight))}px`
}

/* As large as the width allows, within its limits and no larger than wanted. */
function widen(part, inner, [largest, smallest], wanted) {
  const start = Math.max(smallest, Math.min(largest, wanted)), style = getComputedStyle(part)
  part.style.fontSize = `${start}px`
  const widths = [...part.querySelectorAll(inner)].map(one => one.getBoundingClientRect().width)
  const there = part.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight)
  const size = Math.floor(10 * start * Math.min(1, 0.995 * there / Math.max(...widths))) / 10
  part.style.fontSize = `${Math.max(smallest, size)}px`
}

/* A figure takes the height that the words beside it leave. */
function fitFigure(image, room, body) {
  image.style.height = "0px"
  const left = room.clientHeight - body.offsetHeight
  const widest = body.clientWidth / image.naturalWidth
  const scale = Math.min(FIGURE, widest, left / image.naturalHeight)
  image.style.height = `${Math.floor(Math.max(scale, 0.1) * image.naturalHeight)}px`
}
