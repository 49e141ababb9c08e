// Ways to share: what each class of tenants got done, and how long each tenant waited for its share.
const hues = ["flush", "deep", "read", "l0", "good", "bad", "log"], hue = n => hues[n % hues.length];
const classes = runs[0].classes.map(c => c.class), key = classes.map((c, n) => [hue(n), c]);
const late = r => r.broken ? "not promised" : r.waits.every(w => w.delta_ms === null) ? "-" : r.waits.filter(w => w.late).length;
html(page, `<div class="scroll"><table><thead><tr><th>shares</th><th>bytes a second</th><th>tail</th>${classes.map(c => `<th>worst P99, ${esc(c)}</th>`).join("")}<th>late</th></tr></thead><tbody>` +
  runs.map(r => `<tr><td>${esc(r.name)}</td><td>${bytes(r.mean)}</td><td>${bytes(r.tail)}</td>${r.classes.map(c => `<td>${time(c.worst_p99_us)}</td>`).join("")}<td>${late(r)}</td></tr>`).join("") +
  `</tbody></table></div><p class="note">Tail: in the worst of a hundred seconds. Worst P99: of any one second. Late: shares that came later than promised.</p>`);

row("Throughput", "Bytes that clients read and wrote in each second, by class of tenants.", key,
  { unit: b => b ? bytes(b) : "0" }, r => ({ areas: r.classes.map((c, n) => [hue(n), c.bytes]) }),
  (r, i) => r.classes.filter(c => c.bytes[i] > 0).map(c => `${c.class} ${bytes(c.bytes[i])}`).join(", ") || "nothing");
row("P99 of each second", "The 99th percentile of the requests that were done in each second; at the bottom if none was, or if none waited.", key,
  { unit: time, log: true, min: 10 }, r => ({ lines: r.classes.map((c, n) => [hue(n), c.p99_us]) }),
  (r, i) => r.classes.filter(c => c.p99_us[i] > 0).map(c => `${c.class} ${time(c.p99_us[i])}`).join(", ") || "nobody waited");

const at = w => [w.tenant, w.class, w.resource].join(" "), shares = new Map(runs.flatMap(r => r.waits.map(w => [at(w), w])));
const cell = w => !w ? "<td>-</td>" : w.delta_ms === null ? `<td>${time(w.longest_ms * 1e3)}</td>` :
  `<td style="color:${css(w.late ? "bad" : "good")}">${time(w.longest_ms * 1e3)} of ${time(w.delta_ms * 1e3)}</td>`;
html(page, `<h2>Longest waits for a share</h2><p class="note">Of each tenant, and of how much was promised. Without a promise there is only the wait.</p>
<div class="scroll"><table><thead><tr><th>tenant</th><th>class</th><th>share of</th>${runs.map(r => `<th>${esc(r.name)}${r.broken ? " (not promised)" : ""}</th>`).join("")}</tr></thead><tbody>` +
  [...shares].map(([name, w]) => `<tr><td>${esc(w.tenant)}</td><td>${esc(w.class)}</td><td>${esc(w.resource.replaceAll("-", " "))}</td>${runs.map(r => cell(r.waits.find(w => at(w) === name))).join("")}</tr>`).join("") +
  `</tbody></table></div>`);
