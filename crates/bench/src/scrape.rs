//! The samples of a server's `/metrics`.

/// One sample: a metric's name, its labels and its value.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The metric.
    pub name: &'a str,
    labels: &'a str,
    /// The value, as the page has it.
    pub value: f64,
}

impl<'a> Sample<'a> {
    /// The label of this name.
    pub fn label(&self, name: &str) -> Option<&'a str> {
        let rest = self.labels.split(&format!("{name}=\"")).nth(1)?;
        rest.split('"').next()
    }
}

/// All samples of a page. Lines whose value is no number are left out.
pub fn samples(page: &str) -> impl Iterator<Item = Sample<'_>> {
    page.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        Some(Sample { name, labels, value: value.parse().ok()? })
    })
}

/// The sum of all samples of `metric` that have these labels.
pub fn sum(page: &str, metric: &str, labels: &[(&str, &str)]) -> f64 {
    let has = |sample: &Sample<'_>| labels.iter().all(|(name, value)| sample.label(name) == Some(*value));
    samples(page).filter(|sample| sample.name == metric && has(sample)).map(|sample| sample.value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_found_by_name_and_labels() {
        let page = "# TYPE a gauge\na 5\nb_total{tenant=\"x\",class=\"log\"} 7\nb_total{tenant=\"y\",class=\"log\"} 1.5\nc{} NaN?\n";
        assert_eq!(sum(page, "a", &[]), 5.0);
        assert_eq!(sum(page, "b_total", &[("class", "log")]), 8.5);
        assert_eq!(sum(page, "b_total", &[("class", "log"), ("tenant", "x")]), 7.0);
        assert_eq!(sum(page, "c", &[]) + sum(page, "b", &[]), 0.0);
    }
}
