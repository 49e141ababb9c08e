//! A trace of a node's traffic: which share of the reads and writes that it bought each tenant asked for, step by step.
//!
//! # The generator
//!
//! The traces of the FlexEngine paper are not public. The generator draws traffic of the kind that the paper describes,
//! and does not reproduce it:
//!
//! - *Heavy-tailed*: tenants' usual shares of what they bought are lognormal (median 6 %, sigma 1): most are nearly
//!   idle, a few are not.
//! - *Diurnal*: each follows a sine of a day with a swing of 60 % of its usual share, and a peak drawn around 14:00
//!   (sigma 3 hours); at weekends the load is 70 %.
//! - *Bursty*: bursts come as a Poisson process, one in 6 hours on average, last 60 s to 30 min (Pareto, alpha 1.2) and
//!   ask for everything that was bought. One burst in four is a *season*: the tenants of its group (a quarter of all)
//!   burst together, which is what over-subscribes a node.
//! - Reads have three times the share of writes, up to all that was bought.
//!
//! # The file
//!
//! `second,tenant,writes,reads`, after a header: from that second on, the tenant (from 0) asks for these shares of what
//! it bought (0 to 1). Lines are in the order of seconds, which are multiples of one step.
//!
//! `# sold,tenant,writes,reads` says what the tenant bought, in capacity units a second, if that is known; the last
//! such line of a tenant counts. Other lines that begin with `#` are comments: `# name,tenant,NAME` says for whoever
//! reads the file which tenant has this number.

use weir_io::Rng;

/// Seconds of a generated step.
const STEP: u64 = 10;
const DAY: f64 = 86_400.0;

/// The traffic of all tenants, step by step.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Seconds of a step.
    pub step: u64,
    /// Shares of writes and of reads, by tenant and step.
    tenants: Vec<Vec<(f32, f32)>>,
    /// What each tenant bought, as far as that is known; it may be shorter than `tenants`.
    sold: Vec<Option<Sold>>,
}

/// What a tenant bought, in capacity units a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sold {
    /// Writes.
    pub writes: u64,
    /// Reads.
    pub reads: u64,
}

/// Changes that are made to a trace, in this order, before it is played.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Tenants to remove, by their numbers.
    pub removed: Vec<usize>,
    /// A factor for what all others ask for; nobody asks for more than it bought.
    pub factor: f64,
    /// How many tenants to add: each does what one of the others does, in their order, on another day and up to an hour
    /// later, so that they do not burst together.
    pub added: usize,
}

impl Trace {
    /// Draws a trace.
    pub fn generate(tenants: usize, seconds: u64, seed: u64) -> Self {
        let steps = seconds.div_ceil(STEP) as usize;
        let mut rng = Rng::new(seed ^ 0x7261_6365);
        let groups = tenants.div_ceil(4).max(1);
        let mut season_rng = rng.fork("seasons");
        let seasons: Vec<Vec<bool>> = (0..4).map(|_| bursts(&mut season_rng, steps, 24.0 * 3600.0)).collect();
        let tenants = (0..tenants).map(|tenant| {
            let mut rng = rng.fork("tenant");
            let usual = (0.06 * normal(&mut rng).exp()).min(0.5);
            let peak = (14.0 + 3.0 * normal(&mut rng)) * 3600.0;
            let own = bursts(&mut rng, steps, 8.0 * 3600.0);
            let season = &seasons[(tenant / groups).min(3)];
            let share = |step: usize| {
                let now = step as f64 * STEP as f64;
                let sine = 1.0 + 0.6 * ((now - peak) / DAY * std::f64::consts::TAU).cos();
                let weekend = if (now / DAY) as u64 % 7 >= 5 { 0.7 } else { 1.0 };
                let writes = if own[step] || season[step] { 1.0 } else { (usual * sine * weekend).min(1.0) };
                (writes as f32, (3.0 * writes).min(1.0) as f32)
            };
            (0..steps).map(share).collect()
        });
        Self { step: STEP, tenants: tenants.collect(), sold: Vec::new() }
    }

    /// A trace of what each tenant does in each step, of `step` seconds: shares of its writes and of its reads.
    pub fn of(step: u64, tenants: Vec<Vec<(f32, f32)>>) -> Self {
        Self { step, tenants, sold: Vec::new() }
    }

    /// Shares of `tenant`'s reads or writes, step by step. Tenants beyond those of the trace follow the first ones.
    pub fn steps(&self, tenant: usize, reads: bool) -> impl Iterator<Item = f64> + '_ {
        let tenant = self.tenants.get(tenant % self.tenants.len().max(1)).map_or(&[][..], Vec::as_slice);
        tenant.iter().map(move |&(writes, read)| f64::from(if reads { read } else { writes }))
    }

    /// How many tenants there are.
    pub fn tenants(&self) -> usize {
        self.tenants.len()
    }

    /// Its length, in seconds.
    pub fn seconds(&self) -> u64 {
        self.tenants.iter().map(Vec::len).max().unwrap_or(0) as u64 * self.step
    }

    /// Whether the trace says of any tenant what it bought.
    pub fn says_what_was_sold(&self) -> bool {
        self.sold.iter().any(Option::is_some)
    }

    /// What `tenant` bought, if that is known. Tenants beyond those of the trace follow the first ones.
    pub fn sold(&self, tenant: usize) -> Option<Sold> {
        self.sold.get(tenant % self.tenants.len().max(1)).copied().flatten()
    }

    /// The `seconds` in which all tenants together write most, as a trace of their own; and the second in which they
    /// begin.
    pub fn busiest(&self, seconds: u64) -> (Self, u64) {
        let steps = self.tenants.iter().map(Vec::len).min().unwrap_or(0);
        let length = (seconds.div_ceil(self.step) as usize).min(steps);
        let written: Vec<f64> =
            (0..steps).map(|step| self.tenants.iter().map(|tenant| f64::from(tenant[step].0)).sum()).collect();
        let mut sum: f64 = written[..length].iter().sum();
        let mut best = (sum, 0);
        for from in 1..=steps - length {
            sum += written[from + length - 1] - written[from - 1];
            if sum > best.0 {
                best = (sum, from);
            }
        }
        let tenants = self.tenants.iter().map(|tenant| tenant[best.1..best.1 + length].to_vec()).collect();
        (Self { step: self.step, tenants, sold: self.sold.clone() }, best.1 as u64 * self.step)
    }

    /// The trace with `changes`; added tenants are late by times drawn from `seed`.
    ///
    /// # Errors
    /// A tenant that is to be removed is not there, or no tenant is left to copy.
    pub fn changed(&self, changes: &Changes, seed: u64) -> Result<Self, String> {
        if let Some(stranger) = changes.removed.iter().find(|&&tenant| tenant >= self.tenants.len()) {
            return Err(format!("there is no tenant {stranger}: the trace has {}, from 0", self.tenants.len()));
        }
        let stays = |tenant: &usize| !changes.removed.contains(tenant);
        let grown = |share: f32| (f64::from(share) * changes.factor).min(1.0) as f32;
        let grow =
            |steps: &Vec<(f32, f32)>| steps.iter().map(|&(writes, reads)| (grown(writes), grown(reads))).collect();
        let who: Vec<usize> = (0..self.tenants.len()).filter(stays).collect();
        let mut tenants: Vec<Vec<(f32, f32)>> = who.iter().map(|&tenant| grow(&self.tenants[tenant])).collect();
        let mut sold: Vec<Option<Sold>> = who.iter().map(|&tenant| self.sold(tenant)).collect();
        if tenants.is_empty() && changes.added > 0 {
            return Err("nobody is left whom those who come could be like".to_owned());
        }
        let mut rng = Rng::new(seed ^ 0x6164_6465);
        let day = (DAY as u64 / self.step) as usize;
        for number in 0..changes.added {
            let like = number % who.len();
            let mut steps = tenants[like].clone();
            let days = (steps.len() / day.max(1)).max(1) as u64;
            let later = rng.below(days) as usize * day + rng.below((3_600 / self.step).max(1)) as usize;
            let length = steps.len().max(1);
            steps.rotate_right(later % length);
            tenants.push(steps);
            sold.push(sold[like]);
        }
        Ok(Self { step: self.step, tenants, sold })
    }

    /// The share of writes as a mean over all tenants and steps, and the highest mean of any step: how busy the trace
    /// is.
    pub fn mean_and_peak(&self) -> (f64, f64) {
        let steps = self.tenants.iter().map(Vec::len).max().unwrap_or(0);
        let at = |step: usize| {
            let shares = self.tenants.iter().filter_map(|steps| steps.get(step));
            shares.map(|shares| f64::from(shares.0)).sum::<f64>() / self.tenants.len() as f64
        };
        let means: Vec<f64> = (0..steps).map(at).collect();
        (means.iter().sum::<f64>() / steps.max(1) as f64, means.iter().copied().fold(0.0, f64::max))
    }

    /// The trace as the text of a file.
    pub fn to_csv(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for (tenant, sold) in self.sold.iter().enumerate() {
            text += &sold.map(|sold| sold_line(tenant, sold)).unwrap_or_default();
        }
        let mut last = vec![(-1.0, -1.0); self.tenants.len()];
        let steps = self.tenants.iter().map(Vec::len).max().unwrap_or(0);
        for step in 0..steps {
            for (tenant, shares) in self.tenants.iter().enumerate() {
                if let Some(&now) = shares.get(step).filter(|now| step == 0 || last[tenant] != **now) {
                    last[tenant] = now;
                    text += &line(step as u64 * self.step, tenant, now);
                }
            }
        }
        text
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// The first line that is not understood.
    pub fn parse(text: &str) -> Result<Self, String> {
        let first_cell = text.lines().next().and_then(|line| line.split(',').next());
        if first_cell.is_some_and(|cell| cell.trim().parse::<u64>().is_ok()) {
            return Err(format!("line 1: the header `{HEADER}` is missing"));
        }
        let (mut changes, mut sold) = (Vec::new(), Vec::new());
        for (number, line) in text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty()) {
            let bad = || format!("line {}: `second,tenant,writes,reads` expected, shares between 0 and 1", number + 1);
            if let Some(said) = line.trim().strip_prefix('#') {
                if let Some(said) = said.trim().strip_prefix(SOLD) {
                    let (tenant, bought) = parse_sold(said).ok_or_else(|| {
                        format!("line {}: `# {SOLD}tenant,writes,reads` expected, whole numbers", number + 1)
                    })?;
                    sold.resize(sold.len().max(tenant + 1), None);
                    sold[tenant] = Some(bought);
                }
                continue;
            }
            let cells: Vec<&str> = line.split(',').map(str::trim).collect();
            let &[second, tenant, writes, reads] = &cells[..] else { return Err(bad()) };
            let share = |text: &str| text.parse().ok().filter(|share: &f32| (0.0..=1.0).contains(share));
            let (second, tenant) =
                (second.parse::<u64>().ok(), tenant.parse::<usize>().ok().filter(|&tenant| tenant < TENANTS_MAX));
            let (second, tenant) = second.zip(tenant).ok_or_else(bad)?;
            let shares = share(writes).zip(share(reads)).ok_or_else(bad)?;
            if changes.last().is_some_and(|&(last, _, _)| last > second) || second > SECONDS_MAX {
                return Err(format!("line {}: seconds must not go back, and end at {SECONDS_MAX}", number + 1));
            }
            changes.push((second, tenant, shares));
        }
        let step = changes.iter().fold(0, |step, &(second, _, _)| gcd(step, second)).max(1);
        let end = changes.last().map_or(0, |&(second, _, _)| second / step + 1) as usize;
        let tenants = changes.iter().map(|&(_, tenant, _)| tenant + 1).max().unwrap_or(0);
        if tenants.saturating_mul(end) > CELLS_MAX {
            return Err(format!(
                "{tenants} tenants in {end} steps of {step} s are too many: {CELLS_MAX} in all at most, so take longer steps"
            ));
        }
        let mut tenants = vec![Vec::new(); tenants];
        for (second, tenant, shares) in changes {
            let steps: &mut Vec<(f32, f32)> = &mut tenants[tenant];
            let last = steps.last().copied().unwrap_or_default();
            // A second line for one step takes the place of the first.
            steps.resize((second / step) as usize, last);
            steps.push(shares);
        }
        for steps in &mut tenants {
            let last = steps.last().copied().unwrap_or_default();
            steps.resize(end, last);
        }
        sold.truncate(tenants.len());
        Ok(Self { step, tenants, sold })
    }
}

fn parse_sold(said: &str) -> Option<(usize, Sold)> {
    let cells: Vec<&str> = said.split(',').map(str::trim).collect();
    let &[tenant, writes, reads] = &cells[..] else { return None };
    let tenant = tenant.parse().ok().filter(|&tenant: &usize| tenant < TENANTS_MAX)?;
    Some((tenant, Sold { writes: writes.parse().ok()?, reads: reads.parse().ok()? }))
}

/// A line of a file, its end included.
pub fn line(second: u64, tenant: usize, (writes, reads): (f32, f32)) -> String {
    format!("{second},{tenant},{writes:.4},{reads:.4}\n")
}

/// A line that says what a tenant bought, its end included.
pub fn sold_line(tenant: usize, Sold { writes, reads }: Sold) -> String {
    format!("# {SOLD}{tenant},{writes},{reads}\n")
}

/// A comment that says what a tenant is called, its end included.
pub fn name_line(tenant: usize, name: &str) -> String {
    format!("# name,{tenant},{name}\n")
}

/// The beginning of a comment about a sale.
const SOLD: &str = "sold,";
/// The first line of a file.
pub const HEADER: &str = "second,tenant,writes,reads";
/// Tenants that a file may have at most.
pub const TENANTS_MAX: usize = 1024;
/// Seconds that a file may have at most: a month.
const SECONDS_MAX: u64 = 31 * 86_400;
/// Steps of all tenants together that a file may have at most: 512 tenants in steps of 10 s for a week.
const CELLS_MAX: usize = 32 << 20;

/// Whether a file with steps of `step` seconds may have lines about `tenants` at `second`.
pub fn has_room(tenants: usize, second: u64, step: u64) -> bool {
    second <= SECONDS_MAX && tenants.saturating_mul((second / step + 1) as usize) <= CELLS_MAX
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Whether a burst is under way, by step; the mean time between bursts is `every` seconds.
fn bursts(rng: &mut Rng, steps: usize, every: f64) -> Vec<bool> {
    let mut busy = vec![false; steps];
    let mut at = 0.0;
    loop {
        at += -every * (1.0 - rng.unit()).ln();
        let begin = (at / STEP as f64) as usize;
        if begin >= steps {
            return busy;
        }
        let lasts = (60.0 * (1.0 - rng.unit()).powf(-1.0 / 1.2)).min(1_800.0);
        let end = steps.min(begin + (lasts / STEP as f64) as usize + 1);
        busy[begin..end].fill(true);
        at += lasts;
    }
}

/// A standard normal variable, by Box and Muller.
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.unit()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_week_is_what_the_module_says() {
        let week = Trace::generate(32, 7 * 86_400, 1);
        assert_eq!(week, Trace::generate(32, 7 * 86_400, 1));
        let (mean, peak) = week.mean_and_peak();
        assert!((0.05..0.25).contains(&mean), "mean share {mean}");
        assert!((0.3..1.0).contains(&peak), "peak share {peak}");
        let mut usual: Vec<f64> = (0..32)
            .map(|tenant| week.steps(tenant, false).filter(|&share| share < 1.0).sum::<f64>() / 60_480.0)
            .collect();
        usual.sort_by(f64::total_cmp);
        assert!(usual[31] > 4.0 * usual[16], "heavy-tailed: {usual:?}");
    }

    /// A trace of two tenants: the first writes `shares`, the second a tenth of them.
    fn of(shares: &[f32]) -> Trace {
        let first = shares.iter().map(|&share| (share, 0.0)).collect();
        Trace { step: 10, tenants: vec![first, vec![(0.1, 0.2); shares.len()]], sold: Vec::new() }
    }

    #[test]
    fn the_busiest_part_of_a_trace_is_found() {
        let shares = [0.1, 0.9, 0.2, 0.3, 0.8, 0.7, 0.1];
        let all = of(&shares);
        assert_eq!(all.busiest(10), (of(&shares[1..2]), 10));
        assert_eq!(all.busiest(30), (of(&shares[3..6]), 30));
        assert_eq!(all.busiest(1_000), (all.clone(), 0));
        assert_eq!(Trace { step: 1, tenants: Vec::new(), sold: Vec::new() }.busiest(5).0.tenants(), 0);
    }

    #[test]
    fn tenants_go_grow_and_come() {
        let all = Trace { sold: vec![Some(Sold { writes: 7, reads: 9 })], ..of(&[0.1, 0.9, 0.2]) };
        let changed = |removed: &[usize], factor, added| {
            all.changed(&Changes { removed: removed.to_vec(), factor, added }, 1).expect("it can be changed")
        };
        assert_eq!(changed(&[], 1.0, 0).tenants, all.tenants);
        assert_eq!(changed(&[0], 2.0, 0).tenants, [[(0.2, 0.4); 3]]);
        assert_eq!(changed(&[1], 2.0, 0).tenants, [[(0.2, 0.0), (1.0, 0.0), (0.4, 0.0)]]);
        let more = changed(&[], 1.0, 3);
        assert_eq!((more.tenants(), more.sold(2), more.sold(3)), (5, all.sold(0), None));
        // An added tenant is like the first: the same shares at another time.
        let sorted = |steps: &[(f32, f32)]| {
            let mut steps = steps.to_vec();
            steps.sort_by(|a, b| a.0.total_cmp(&b.0));
            steps
        };
        assert_eq!(sorted(&more.tenants[2]), sorted(&all.tenants[0]));
        assert!(all.changed(&Changes { removed: vec![2], factor: 1.0, added: 0 }, 1).is_err());
        assert!(all.changed(&Changes { removed: vec![0, 1], factor: 1.0, added: 1 }, 1).is_err());
    }

    #[test]
    fn who_comes_does_the_same_on_another_day() {
        let week = Trace::generate(1, 7 * 86_400, 4);
        let more = week.changed(&Changes { factor: 1.0, added: 20, ..Changes::default() }, 4).expect("more");
        let days: std::collections::BTreeSet<_> = more.tenants.iter().map(|steps| steps[0].0.to_bits()).collect();
        assert!(days.len() > 5, "they do not burst together");
    }

    #[test]
    fn what_was_sold_comes_back_from_a_file() {
        let text = "second,tenant,writes,reads\n# sold,1,3000,0\n0,0,0.5,0\n# a remark\n# sold,1,4000,5\n10,1,0.5,0\n";
        let trace = Trace::parse(text).expect("a trace");
        assert_eq!((trace.sold(0), trace.sold(1)), (None, Some(Sold { writes: 4000, reads: 5 })));
        assert_eq!(trace.sold(3), trace.sold(1), "who is beyond them follows the first ones");
        assert_eq!(Trace::parse(&trace.to_csv()).expect("what was written").sold(1), trace.sold(1));
        for bad in ["# sold,1,2", "# sold,a,1,1", "# sold,0,-1,0", "# sold,5000,1,1"] {
            let error = Trace::parse(&format!("{HEADER}\n{bad}\n")).expect_err("it is no sale");
            assert!(error.starts_with("line 2: `# sold,tenant"), "{error}");
        }
    }

    #[test]
    fn what_there_is_room_for_can_be_parsed() {
        let parses = |tenant: usize, second| {
            let text = format!("{HEADER}\n{}{}", line(10, 0, (0.5, 0.0)), line(second, tenant, (0.5, 0.0)));
            Trace::parse(&text).is_ok()
        };
        for (second, is_there) in [(SECONDS_MAX, true), (SECONDS_MAX + 10, false)] {
            assert_eq!((has_room(1, second, 10), parses(0, second)), (is_there, is_there), "{second}");
        }
        let last = (CELLS_MAX / TENANTS_MAX - 1) as u64 * 10;
        assert!(has_room(TENANTS_MAX, last, 10) && !has_room(TENANTS_MAX, last + 10, 10));
        assert!(!parses(TENANTS_MAX - 1, last + 10));
    }

    #[test]
    fn a_trace_comes_back_from_its_file() {
        let hour = Trace::generate(4, 3_600, 3);
        let back = Trace::parse(&hour.to_csv()).expect("what was written");
        for tenant in 0..4 {
            let (a, b): (Vec<_>, Vec<_>) = (hour.steps(tenant, false).collect(), back.steps(tenant, false).collect());
            assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-4) && !b.is_empty());
        }
        for bad in ["s,t,w,r\n1,2,3", "s,t,w,r\n1,0,2,0", "s,t,w,r\n-1,0,0,0", "s,t,w,r\n5,0,0,0\n4,0,0,0"] {
            assert!(Trace::parse(bad).is_err(), "{bad}");
        }
        assert!(Trace::parse("").is_ok());
        let headless = Trace::parse("0,0,0.5,0\n10,0,0.7,0").expect_err("its first line would be lost");
        assert!(headless.contains("line 1") && headless.contains(HEADER), "{headless}");
    }
}
