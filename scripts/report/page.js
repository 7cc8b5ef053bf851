// Draws the figures, which are in the page as JSON, in the colours of the page.
'use strict';

const PRINT_WIDTH = 680;  // CSS pixels of an A4 page between its margins

function pageColors() {
  const style = getComputedStyle(document.documentElement);
  return { text: style.getPropertyValue('--text').trim(), line: style.getPropertyValue('--line').trim() };
}

// The page's colours as changes to a layout, by Plotly's paths.
function colorsOf(layout, colors = pageColors()) {
  const changes = { 'font.color': colors.text };
  for (const axis of Object.keys(layout).filter((key) => /^[xy]axis/.test(key))) {
    for (const part of ['gridcolor', 'linecolor', 'zerolinecolor']) changes[`${axis}.${part}`] = colors.line;
  }
  return changes;
}

const plots = () => [...document.querySelectorAll('.plot')];

async function draw(plot) {
  const figure = JSON.parse(document.getElementById(`${plot.id}-data`).textContent);
  await Plotly.newPlot(plot, figure.data, figure.layout, { responsive: true, displayModeBar: false });
  await Plotly.relayout(plot, colorsOf(figure.layout));
}

// One at a time, so that the page can be read and scrolled meanwhile.
async function drawAll() {
  for (const plot of plots()) {
    await draw(plot);
    await new Promise((resolve) => setTimeout(resolve));
  }
  document.documentElement.dataset.drawn = 'all';
}

const recolor = () => plots().filter((plot) => plot.layout).forEach((plot) => {
  Plotly.relayout(plot, colorsOf(plot.layout));
});

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolor);
addEventListener('beforeprint', () => {
  plots().filter((plot) => plot.layout).forEach((plot) => {
    Plotly.relayout(plot, { ...colorsOf(plot.layout, { text: '#000000', line: '#bbbbbb' }), width: PRINT_WIDTH });
  });
});
addEventListener('afterprint', () => {
  plots().filter((plot) => plot.layout).forEach((plot) => {
    Plotly.relayout(plot, { ...colorsOf(plot.layout), width: null, autosize: true });
  });
});
drawAll();
