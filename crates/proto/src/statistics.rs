//! Numbers as series, for charts.

use serde::{Deserialize, Serialize, Serializer};

use crate::Time;

/// Numbers as series: each has a value for each moment of `times`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({
    "from": "2026-11-18T09:00:00.000Z", "until": "2026-11-18T09:00:20.000Z", "step_ms": 10_000,
    "complete_until": "2026-11-18T09:00:10.000Z",
    "times": ["2026-11-18T09:00:00.000Z", "2026-11-18T09:00:10.000Z"],
    "series": [
        {"name": "completed", "values": [51, 12]},
        {"name": "ready", "namespace": "default", "queue": "mail", "values": [412, 415]},
    ],
})))]
pub struct Statistics {
    /// The first moment: a multiple of the step.
    pub from: Time,
    /// The end of the last step.
    pub until: Time,
    /// How long a step is.
    pub step_ms: u64,
    /// Values of steps that end at this moment or earlier are final. Later ones are still being filled, or other servers have not
    /// written down what they counted.
    pub complete_until: Time,
    /// The beginning of each step.
    pub times: Vec<Time>,
    /// The series. First the sums, then those of single queues or pools.
    pub series: Vec<Series>,
}

/// One number over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Series {
    /// What is counted: `submitted`, `failed.timeout`, `wait.p99_ms`, `ready` and others; docs/statistics.md has all.
    pub name: String,
    /// The namespace, where it is about one queue or pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The queue, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The runner pool, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// True where it is about all queues or pools together that are not listed by themselves.
    #[serde(default, skip_serializing_if = "is_false")]
    pub other: bool,
    /// A value for each moment. `null`: no server was up, nothing was measured (a quantile of nothing), or what was counted cannot
    /// be told from that of others.
    #[serde(serialize_with = "plain")]
    pub values: Vec<Option<f64>>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(is: &bool) -> bool {
    !is
}

/// Whole numbers are written as such.
fn plain<S: Serializer>(values: &[Option<f64>], to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Number {
        Whole(i64),
        Part(f64),
    }
    let number = |value: f64| match value.fract() == 0.0 && value.abs() < 9e15 {
        true => Number::Whole(value as i64),
        false => Number::Part(value),
    };
    to.collect_seq(values.iter().map(|value| value.map(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbers_as_people_write_them() {
        let series = Series {
            name: "ready".into(),
            namespace: None,
            queue: None,
            pool: None,
            other: false,
            values: vec![Some(412.0), None, Some(0.5), Some(0.0)],
        };
        let text = serde_json::to_string(&series).unwrap();
        assert_eq!(text, r#"{"name":"ready","values":[412,null,0.5,0]}"#);
        assert_eq!(serde_json::from_str::<Series>(&text).unwrap(), series);
    }
}
