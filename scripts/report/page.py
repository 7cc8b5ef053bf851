"""The report of a sweep: its text, and what stands where."""

from html import escape

import shape_figures
import stage_figures
import thread_figures
from claims import claims_table
from detail_tables import errors_table, padding_table, simulation_table, stages_table, times_table
from document import Document
from heads_section import add_heads
from html_pieces import details, table
from sweep import total

# More time than this is called a cost; repetitions of one shape differ by about as much.
FREE = 0.1


def change_text(ratio):
    percent = round(100 * abs(ratio - 1))
    if percent == 0:
        return "the same time"
    return f"{percent} % {'more' if ratio > 1 else 'less'} time"


def answer(sweep):
    """What heads cost, in three sentences: the fused layer as it runs, and shares of the staged one."""
    stages = sweep.stages()
    fused = {row["h"]: row["real_time"]
             for row in sweep.find("layer", n=sweep.n, d_model=sweep.d_model, target=sweep.best_target,
                                   arena_threads=sweep.context["threads"][0])}
    wide = [h for h in stages if h in fused and not sweep.is_narrow(h)]
    if len(wide) < 2:
        return escape(sweep.json["headline"])
    first, last, most = wide[0], wide[-1], max(stages)

    def staged_share(h, stage):
        percent = 100 * stages[h][stage]["real_time"] / total(stages[h].values())
        return f"{percent:.1f} %" if percent < 2 else f"{percent:.0f} %"

    ratio = fused[last] / fused[first]
    free = "heads as such are free" if ratio <= 1 + FREE else "on this run heads as such were not quite free"
    narrow = ""
    if most in fused and most != last:
        narrow = (f", and {staged_share(most, 'softmax')} at h {most} (d_k {sweep.d_model // most}), where the layer "
                  f"takes {fused[most] / fused[first]:.1f} times as long as at h {first}")
    return (f"From h {first} to h {last} the layer keeps the same parameters and the same multiply-adds to the last "
            f"integer and takes {change_text(ratio)}: {free}. "
            f"What grows is the softmax, h n² exponentials: {staged_share(first, 'softmax')} of the stages' time at h "
            f"{first}, {staged_share(last, 'softmax')} at h {last}{narrow}. "
            f"The heads meet only in W_o, a product of n d_model² multiply-adds whatever h that takes "
            f"{staged_share(last, 'project_o')} at h {last}; concatenation costs nothing.")


def machine_line(sweep):
    context = sweep.context
    return (f'Measured on {context["processor"]} ({context["hardware_threads"]} threads, '
            f'{", ".join(context["targets"])}; {context["compiler"]}) at {context["date"]}: n {sweep.n}, d_model '
            f"{sweep.d_model}, fp32, one thread of {sweep.best_target} where nothing else is said.")


def machine_table(sweep):
    context = sweep.context
    rows = [
        ("Processor", f'{context["processor"]}, {context["hardware_threads"]} threads'),
        ("Instruction sets", ", ".join(context["targets"])),
        ("Compiler", context["compiler"]),
        ("headwise", f'{context["headwise_version"]}, revision {context["git_revision"]}'),
        ("Measured", context["date"]),
        ("Reading memory, one thread", f'{context["memory_read_gigabytes"]:.1f} GB/s'),
    ]
    for target, peaks in context["fma_peak_gflops"].items():
        rows.append((f"FMA peak, {target}",
                     ", ".join(f'{gflops:.1f} GFLOP/s on {threads} thread{"" if threads == "1" else "s"}'
                               for threads, gflops in peaks.items())))
        rows.append((f"exp2 peak, {target}", f"{sweep.exp_peak(target):.2f} Gexp/s on 1 thread"))
    return table(["", ""], [(escape(name), escape(str(value))) for name, value in rows], words=True)


def add_top(page, sweep):
    page.add("<h1>What heads cost</h1>")
    if sweep.failures:
        items = "".join(f"<li>{escape(failure)}</li>" for failure in sweep.failures)
        page.add(f'<div class="failed"><p class="bad">This run failed {len(sweep.failures)} of its checks. What '
                 f"follows cannot be relied on.</p><ul>{items}</ul></div>")
    page.add(f'<p class="lead">{answer(sweep)}</p>', f"<p>{escape(machine_line(sweep))}</p>",
             f'<p>{escape(sweep.json["headline"])}</p>', details("The machine", machine_table(sweep)))


def threads_text(sweep):
    heads = (1, 4, 8, 12, 16)
    reached = [thread_figures.efficiency_of(sweep, 4096, h, 64) for h in heads]
    if None in reached:
        return ""
    return ("On 64 simulated workers at n 4096 the plan reaches "
            + ", ".join(f"{100 * efficiency:.0f} % (h {h})" for h, efficiency in zip(heads, reached))
            + "; 95 % is the goal.")


def noise_text(sweep):
    spreads = sorted((max(row["times"]) - min(row["times"])) / row["real_time"] for row in sweep.find("layer"))
    if not spreads:
        return ""
    return (f"Noise seen: between the least and the most of a layer's repetitions lie "
            f"{100 * spreads[len(spreads) // 2]:.0f} % of its median in the middle case and {100 * spreads[-1]:.0f} % "
            "in the worst. ")


def add_method(page, sweep):
    naive = ", ".join(f"n {n} for d_model {d}" for d, n in sorted(
        {(row["d_model"], row["n"]) for row in sweep.find("naive_layer")}))
    page.section("Method and bias")
    page.add(
        f'<p>Every benchmark was run {sweep.context["repetitions"]} times, repetitions of all of them interleaved at '
        "random so that a slow minute of the machine falls on all alike; times are medians. Intervals of 95 % come from "
        "drawing the repetitions anew a thousand times: they hold this run's noise, not another machine's. "
        f"{noise_text(sweep)}GFLOP/s count a multiply-add as two operations and an exponential as none.</p>"
        "<p>What the comparison favours: the stages were timed by passes over the whole layer on one thread, one stage "
        "after the other, with the scores of all heads in memory, so the softmax, scoring and blending pay for traffic "
        "that the fused layer has not. The naive loops are the reference in fp32 on one thread, built with -O3 by the "
        f"same compiler for the baseline instruction set; they were measured at {escape(naive)} and their GFLOP/s "
        "there stand for every n. Numbers in the inputs are random: no mask, no padding, dense rows. Simulated workers "
        "share no memory bandwidth, caches or clock rates; a task's time is the least processor time of a few rounds.</p>"
        '<p>All numbers: <a href="results.json">results.json</a>, in Google Benchmark\'s format. '
        "<code>scripts/compare.sh old.json new.json</code> compares two runs with its U test.</p>")
    page.add(*(f"<p class=soft>Left out: {escape(what)}.</p>" for what in sweep.context["left_out"]))
    for kind, title in (("layer", "All times of the layer"), ("operator", "All times of the operator")):
        page.add(details(title, times_table(sweep, kind)))
    page.add(details("All times of the stages", stages_table(sweep)),
             details("Errors against the reference in double", errors_table(sweep)),
             details("Padding: what kernels issued beyond the useful work", padding_table(sweep)),
             details("Simulated threads", simulation_table(sweep)))
    real = sweep.json["real_layer"]
    if real["run"]:
        page.add(details("A real layer (layer 3 of all-MiniLM-L6-v2), verified" if real["passed"] else
                         "A real layer: FAILED", "<pre>" + escape("\n".join(real["output"])) + "</pre>"))


def make_page(sweep, attention=None):
    """attention: what examples/python/attention_maps.py wrote, or None."""
    page = Document("headwise: what heads cost")
    add_top(page, sweep)
    staged = bool(sweep.stages())
    if staged:
        page.section("The claims", f"At n {sweep.n}, d_model {sweep.d_model}, d_k = d_model / h. Slopes are over h "
                     "where d_k is at least 32: 0 is a time that does not depend on h, 1 one that grows with it.")
        page.add(claims_table(sweep))
        page.section("Where the time goes as heads multiply")
        page.show(stage_figures.stages(sweep))
        page.show(stage_figures.stages_normalised(sweep))
        page.section("Narrow heads")
        page.show(stage_figures.exponential_share(sweep), stage_figures.narrow_heads(sweep))
    page.section("Fused, staged, naive")
    page.show(shape_figures.fused_over_staged(sweep), shape_figures.over_naive(sweep))
    page.section("Attention against projection, and memory")
    page.show(shape_figures.attention_over_projection(sweep), shape_figures.weights_memory(sweep))
    page.show(shape_figures.growth_over_n(sweep))
    page.section("Heads alone do not fill cores", threads_text(sweep))
    page.show(*(thread_figures.simulated_threads(sweep, n) for n in (512, 4096)))
    if staged:
        page.section("Against the roofs")
        page.show(stage_figures.roofline(sweep), stage_figures.exponential_roofline(sweep))
    if attention is not None:
        add_heads(page, attention)
    add_method(page, sweep)
    return page
