//! Metrics in the text format of Prometheus, for those who do not read OpenMetrics.

/// The same metrics. What differs is what each is called where its type is told, and that there is no unit, no `info` and no
/// end.
pub(super) fn of(open_metrics: &str) -> String {
    let mut plain = String::with_capacity(open_metrics.len());
    // Help comes before the type, and both name the metric as its lines do.
    let mut help: Option<(&str, &str)> = None;
    for line in open_metrics.lines() {
        if let Some(said) = line.strip_prefix("# HELP ") {
            help = said.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|said| said.split_once(' ')) {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                other => ("", other),
            };
            if let Some((_, help)) = help.take().filter(|(of, _)| *of == name) {
                plain.push_str(&format!("# HELP {name}{suffix} {help}\n"));
            }
            plain.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
        } else if !line.starts_with("# UNIT ") && line != "# EOF" {
            plain.push_str(line);
            plain.push('\n');
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_a_metric_names_it_as_its_lines_do() {
        let open = "# HELP a Apples.\n# TYPE a counter\na_total{x=\"1\"} 2\n# HELP b Build.\n# TYPE b info\nb_info 1\n\
                    # HELP c_seconds Time.\n# TYPE c_seconds histogram\n# UNIT c_seconds seconds\nc_seconds_sum 1\n# EOF\n";
        let plain = "# HELP a_total Apples.\n# TYPE a_total counter\na_total{x=\"1\"} 2\n# HELP b_info Build.\n\
                     # TYPE b_info gauge\nb_info 1\n# HELP c_seconds Time.\n# TYPE c_seconds histogram\nc_seconds_sum 1\n";
        assert_eq!(of(open), plain);
    }
}
