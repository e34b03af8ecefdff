// What tools/site/print_pdf.py does inside the page that it prints.
// It runs after everything is typeset and loaded, in the width of the paper.

const SMALLEST = 0.6 // a formula is never printed smaller than this part of its size

/** Everything a reader could open stands open. */
function open_all() {
  for (const details of document.querySelectorAll('details')) details.open = true
}

/** A formula is drawn from pieces that no screen reader can say: its source speaks for it.
    Chromium forgets a picture in the text that has no text of its own, so it gets a space. */
function name_formulas() {
  for (const formula of formulas()) {
    const source = formula.querySelector('annotation').textContent
    formula.querySelector('.katex-mathml').remove()
    formula.setAttribute('role', 'img')
    formula.setAttribute('aria-label', source.trim().replace(/\s+/g, ' '))
    formula.insertAdjacentHTML('beforeend', '<span class="for-readers">&nbsp;</span>')
  }
}

function formulas(inside = document) {
  return inside.querySelectorAll('.katex')
}

/** The headings as the outline names them. */
function headings() {
  return [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map(heading => {
    const copy = heading.cloneNode(true)
    for (const formula of formulas(copy))
      formula.replaceWith(formula.getAttribute('aria-label'))
    return copy.textContent.trim().replace(/\s+/g, ' ')
  })
}

/** The width that a formula has to itself. */
function room(formula) {
  let box = formula.parentElement
  while (getComputedStyle(box).display.startsWith('inline')) box = box.parentElement
  const style = getComputedStyle(box)
  return box.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight)
}

/** A formula in the text breaks between its pieces; a displayed one stays on one line. */
function width_of(formula) {
  const pieces = [...formula.querySelectorAll('.katex-html > .base')].map(piece => piece.getBoundingClientRect())
  if (!formula.closest('.katex-display')) return Math.max(...pieces.map(piece => piece.width))
  return Math.max(...pieces.map(piece => piece.right)) - Math.min(...pieces.map(piece => piece.left))
}

function size_of(element) {
  return parseFloat(getComputedStyle(element).fontSize)
}

/** Make each formula that is wider than its place as small as it needs. */
function fit_formulas() {
  for (const formula of formulas()) {
    const scale = room(formula) / width_of(formula)
    if (scale >= 1) continue
    const size = 100 * size_of(formula) / size_of(formula.parentElement)
    formula.style.setProperty('font-size', `${size * scale * 0.995}%`, 'important') // as the site's own rule
    formula.dataset.scale = scale.toFixed(2)
  }
}

/** A long name in a table breaks after a dot or an underscore, not in a word. */
function break_names() {
  for (const name of document.querySelectorAll(':is(td, th) code, :is(td, th) code *'))
    for (const text of [...name.childNodes].filter(node => node.nodeType === Node.TEXT_NODE)) {
      const pieces = text.data.split(/(?<=[._/(=])(?=\w)/)
      text.replaceWith(...pieces.flatMap((piece, i) => i ? [document.createElement('wbr'), piece] : [piece]))
    }
}

/** What is short is not torn apart: a cell with its output, or at least each of them. */
function keep_short_cells_whole() {
  for (const [boxes, height] of [['div.cell', 380], ['div.cell_input, div.cell_output', 200]])
    for (const box of document.querySelectorAll(boxes))
      box.classList.toggle('short', box.getBoundingClientRect().height < height)
}

function prepare() {
  open_all()
  name_formulas()
  break_names()
  fit_formulas()
  keep_short_cells_whole()
}

/** One line for everything that the paper would cut off, or that is not what it should be. */
function faults(height) {
  const found = []
  const report = (element, what) => {
    const where = element.closest('section')?.id ?? 'the page'
    const text = (element.getAttribute('aria-label') ?? element.textContent).trim()
    found.push(`${where}: ${element.localName} ${what}: ${text.slice(0, 80)}`)
  }
  const page = document.querySelector('main').getBoundingClientRect()
  for (const element of document.querySelectorAll('main *')) {
    if (element.closest('svg') || element.parentElement.closest('.katex')) continue
    const box = element.getBoundingClientRect()
    const sticks_out = () => Math.max(box.right - page.right, page.left - box.left,
      element.clientWidth && element.scrollWidth - element.clientWidth)
    const over = element.matches('.katex') ? width_of(element) - room(element) : sticks_out()
    if (over > 1.5) report(element, `is ${Math.ceil(over)} px wider than its place`)
    if (element.matches('img, .katex, .theorem-box, tr') && box.height > height)
      report(element, 'is taller than a page')
    if (element.dataset.scale < SMALLEST) report(element, `would be printed at ${element.dataset.scale} of its size`)
  }
  for (const link of document.querySelectorAll('a[href^="#"]'))
    if (!document.getElementById(decodeURIComponent(link.hash.slice(1)))) report(link, `leads nowhere, ${link.hash}`)
  return found
}

/** Write the pages into the contents. */
function number_contents(pages) {
  for (const link of document.querySelectorAll('.contents li a'))
    link.querySelector('.page-number').textContent = pages[decodeURIComponent(link.hash.slice(1))] ?? ''
}
