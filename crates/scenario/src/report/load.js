// A load, and what became of it under each profile.
// A run without writes has no figures of them.
const wrote = o => o.normally_served.min < 1 || o.served_per_sec.some(n => n > 0);
const even = s => !data.even ? "" : !s ? "<td>-</td>".repeat(6) :
  `<td>${count(s.mean_per_sec)}</td><td>${count(s.tail_per_sec)}</td><td>${time(s.worst_write_p99_us)}</td><td>${time(s.worst_read_p99_us)}</td><td>${share(s.watermark_mean)}</td><td>${share(s.watermark_max)}</td>`;
const woken = w => !data.sleep ? "" : !w ? "<td>-</td>".repeat(8) :
  `<td>${w.awake_max}</td><td>${w.woken}</td><td>${share(w.asleep.in_time)}</td><td>${time(w.asleep.latency_us.p999)}</td><td>${share(w.awake.in_time)}</td><td>${time(w.awake.latency_us.p999)}</td><td>${bytes(w.memory_peak_bytes)}</td><td>${w.lost}</td>`;
const hue = x => x >= 1 ? css("good") : x >= .98 ? css("warn") : css("bad");
html(page, `<div class="scroll"><table><thead><tr><th>profile</th><th>normally served</th><th>worst partition</th><th>median</th><th>P99</th>
<th>P99.9</th><th>slowest</th><th>stalls</th><th>stalled</th><th>background / user byte</th><th>device busy</th><th>memory</th>${data.reads ? "<th>reads in time</th><th>read P99</th>" : ""}${data.after ? "<th>restored after</th>" : ""}${data.even ? "<th>operations a second</th><th>tail</th><th>worst write P99</th><th>worst read P99</th><th>watermark</th><th>at most</th>" : ""}${data.sleep ? "<th>awake at most</th><th>woken</th><th>first requests in 10 ms</th><th>P99.9</th><th>others in 10 ms</th><th>P99.9</th><th>bounded memory</th><th>items lost</th>" : ""}</tr></thead><tbody>` +
  runs.map(({ outcome: o }) => `<tr><td>${esc(o.profile)}</td>
  ${wrote(o) ? `<td><span class="bar"><i style="width:${o.normally_served.avg * 100}%;background:${hue(o.normally_served.avg)}"></i></span>${share(o.normally_served.avg)}</td>
  <td>${share(o.normally_served.min)}</td><td>${time(o.latency_us.p50)}</td><td>${time(o.latency_us.p99)}</td><td>${time(o.latency_us.p999)}</td>
  <td>${time(o.latency_us.max)}</td><td>${o.stalls.count}</td><td>${o.stalls.seconds.toFixed(0)} s</td><td>${o.background_amplification.toFixed(2)}</td>`
  : "<td>-</td>".repeat(9)}
  <td>${(o.device_utilisation * 100).toFixed(0)} %</td><td>${bytes(o.memory_peak_bytes)}</td>${data.reads ? `<td>${o.reads_in_time ? share(o.reads_in_time.avg) : "-"}</td><td>${time(o.read_latency_us.p99)}</td>` : ""}${data.after ? `<td>${o.after && o.after.restored_seconds != null ? o.after.restored_seconds + " s" : "not yet"}</td>` : ""}${even(o.steadiness)}${woken(o.waking)}</tr>`).join("") +
  `</tbody></table></div>`);

row("Served", "Writes done in each second. Late: more than 1 ms after they were to be sent.", [["good", "normally"], ["bad", "late"]],
  { unit: count }, r => ({ areas: [["good", r.normally], ["bad", r.served.map((s, i) => s - r.normally[i])]] }),
  (r, i) => `${r.normally[i]} normally, ${r.served[i] - r.normally[i]} late`);
if (data.even) {
  row("Throughput", "Reads and writes done in each second.", [["good", "done"]], { unit: count }, r => ({ areas: [["good", r.done]] }), (r, i) => `${r.done[i]} done`);
  row("Watermark", "How full what stalls writes is: write buffers, or level 0 up to 32 runs or as many memtables, the fuller of both.", [["flush", "watermark"]],
    { unit: share, max: 1, limits: [["aim", .5, "device"], ["high", .8]] }, r => ({ lines: [["flush", r.watermark]] }), (r, i) => share(r.watermark[i]));
  row("Limit of writes", "Bytes a second that writes may have; 0 where there is no limit.", [["deep", "limit"]],
    { unit: b => b ? bytes(b) : "0" }, r => ({ lines: [["deep", r.limit]] }), (r, i) => r.limit[i] ? bytes(r.limit[i]) : "no limit");
}
if (data.sleep) {
  row("Awake", "Partitions that are awake at the end of each second, of all.", [["good", "awake"]],
    { unit: count, limits: [["all", data.partitions]] }, r => ({ areas: [["good", r.awake]] }), (r, i) => `${r.awake[i]} awake`);
  row("Bounded memory", "Memtables, cached blocks, indexes and filters.", [["flush", "bytes"]], { unit: b => b ? bytes(b) : "0" },
    r => ({ areas: [["flush", r.held]], limits: r.outcome.waking ? [["limit", r.outcome.waking.memory_limit_bytes]] : [] }), (r, i) => bytes(r.held[i]));
}
row("Level 0", "Runs of each partition: median, and from the fewest to the most. From 20 on writes are slowed, at the upper line they stop.", [["l0", "median"]],
  { unit: count, limits: [["slowed", 20]], limitsFloat: true },
  r => ({ band: ["l0", r.l0.map(v => v[0]), r.l0.map(v => v[2])], lines: [["l0", r.l0.map(v => v[1])]], limits: [["stop", r.outcome.params.l0_stop || 36]] }),
  (r, i) => `${r.l0[i][0]} to ${r.l0[i][2]} runs, median ${r.l0[i][1]}`);
if (data.stages.length > 1) row("Stages of deferral", "Partitions in each.", data.stages.map((s, i) => ["s" + i, s]),
  { unit: count, max: data.partitions }, r => ({ areas: data.stages.map((_, s) => ["s" + s, r.stages.map(v => v[s] || 0)]) }),
  (r, i) => data.stages.map((s, n) => r.stages[i][n] ? `${r.stages[i][n]} ${s}` : "").filter(Boolean).join(", "));
const causes = ["log", "flush", "l0", "deep", "read", "other"];
row("The device", "Bytes a second by cause; the dotted line is all that the device can do.", [["log", "log"], ["flush", "flush"], ["l0", "level 0 → 0, 1"], ["deep", "deeper"], ["read", "reads"]],
  { unit: b => b ? bytes(b) : "0" }, r => ({ areas: causes.map(c => [c, r.bytes[c]]), limits: [["device", r.device, "device"]] }),
  (r, i) => causes.filter(c => r.bytes[c][i] > 0).map(c => `${c} ${bytes(r.bytes[c][i])}`).join(", "));
const percentiles = [["good", 0], ["warn", 1], ["bad", 2]], names = [["good", "median"], ["warn", "P99"], ["bad", "P99.9"]];
row("Latency of writes", "From the time at which a write was to be sent; in simulation the processor costs nothing.", names,
  { unit: time, log: true, min: 10 }, r => ({ lines: percentiles.map(([c, p]) => [c, r.write_us.map(v => v[p])]) }),
  (r, i) => r.write_us[i].map(time).join(" / "));
if (data.reads) row("Latency of reads", "From the time at which a read was to be sent.", names,
  { unit: time, log: true, min: 10 }, r => ({ lines: percentiles.map(([c, p]) => [c, r.read_us.map(v => v[p])]) }),
  (r, i) => r.read_us[i].map(time).join(" / "));
row("Memory", "Memtables, and levels 0 and 1, which the cache keeps.", [["flush", "bytes"]],
  { unit: b => b ? bytes(b) : "0" }, r => ({ areas: [["flush", r.memory]] }), (r, i) => bytes(r.memory[i]));

const changes = runs.flatMap(r => r.outcome.stages.map(s => [r.outcome.profile, s]));
if (changes.length) html(page, `<details><summary>${changes.length} changes of stage</summary><table><tr><th>profile</th><th>second</th><th>partition</th><th>change</th><th>why</th></tr>` +
  changes.slice(0, 2000).map(([p, s]) => `<tr><td>${esc(p)}</td><td>${s.t.toFixed(0)}</td><td>${s.partition}</td><td>${esc(s.from)} → ${esc(s.to)}</td><td>${esc(s.why)}</td></tr>`).join("") + `</table></details>`);
