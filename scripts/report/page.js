// Draws the figures, which are in the page as JSON, in the colours of the page, over the pictures that stand for them.
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
  plot.replaceChildren();
  await Plotly.newPlot(plot, figure.data, figure.layout, { responsive: true, displayModeBar: false });
  await Plotly.relayout(plot, colorsOf(figure.layout));
}

// One at a time, so that the page can be read and scrolled meanwhile.
async function drawAll() {
  for (const plot of plots()) {
    await draw(plot);
    await new Promise((resolve) => setTimeout(resolve));
  }
  document.querySelectorAll('[data-maps]').forEach(connectChoices);
  document.documentElement.dataset.drawn = 'all';
}

// The large head of a sentence follows its two choices, and clicks on the grid of all heads.
function connectChoices(choices) {
  const name = choices.dataset.maps;
  const weights = JSON.parse(document.getElementById(`${name}-weights`).textContent);
  const [layer, head] = ['layer', 'head'].map((what) => document.getElementById(`${name}-${what}`));
  const show = () => Plotly.restyle(`${name}-head-plot`, { z: [weights[layer.value][head.value]] });
  layer.addEventListener('change', show);
  head.addEventListener('change', show);
  document.getElementById(`${name}-grid-plot`).on('plotly_click', ({ points: [point] }) => {
    const side = weights[0][0].length + 1;
    layer.value = Math.floor(point.y / side);
    head.value = Math.floor(point.x / side);
    show();
  });
}

const recolor = () => plots().filter((plot) => plot.layout).forEach((plot) => {
  Plotly.relayout(plot, colorsOf(plot.layout));
});

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolor);
addEventListener('beforeprint', () => {
  plots().filter((plot) => plot.layout).forEach((plot) => {
    const layout = { ...colorsOf(plot.layout, { text: '#000000', line: '#bbbbbb' }), width: PRINT_WIDTH };
    // Plotly makes room for a legend that has become higher in a second pass, and paper does not wait for it.
    Plotly.relayout(plot, layout);
    Plotly.relayout(plot, layout);
  });
});
addEventListener('afterprint', () => {
  plots().filter((plot) => plot.layout).forEach((plot) => {
    Plotly.relayout(plot, { ...colorsOf(plot.layout), width: null, autosize: true });
  });
});

// Plotly takes a second or two to be read and run, so it waits until the page, pictures and all, has been painted.
function startPlotly() {
  const script = document.createElement('script');
  script.textContent = document.getElementById('plotly').textContent;
  document.body.append(script);
  drawAll();
}
addEventListener('load', () => requestAnimationFrame(() => setTimeout(startPlotly)));
